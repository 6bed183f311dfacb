#pragma once
// The common part of numcodecs' 32-bit checksums: four bytes, little-endian, before or after the data.
//
//   location "start"   checksum | data              location "end"   data | checksum

#include <cstring>
#include <string>

#include "base/endian.h"
#include "filters/core/codec_fields.h"
#include "filters/core/filter.h"

namespace codecfs::filters::codecs {

/// `sum(const void*, size_t) -> uint32_t`; `location` is the default if the codec's JSON has none. EINVAL.
template <class Sum>
Result<Coder> make_checksum_coder(const StageContext& context, const char* location, Sum sum) {
  CODECFS_ASSIGN(const std::string where, text_field(context.stage.codec, "location", location));
  if (where != "start" && where != "end") return fail(EINVAL, "\"location\": \"{}\" is not start or end", where);
  const bool at_start = where == "start";
  return Coder{.decode = [at_start, sum](Buffer in, const SizeBound&) -> Result<Buffer> {
                 if (in.size() < 4) return fail(EIO, "{} bytes have no room for the checksum", in.size());
                 const size_t size = in.size() - 4;
                 const auto stored = load_le<uint32_t>(in.data() + (at_start ? 0 : size));
                 at_start ? in.drop_front(4) : in.truncate(size);
                 const uint32_t computed = sum(in.data(), in.size());
                 if (stored != computed)
                   return fail(EIO, "the checksum of the data is {:08x}, not {:08x} as stored: the chunk is damaged",
                               computed, stored);
                 return in;
               },
               .encode = [at_start, sum](Bytes in) -> Result<Buffer> {
                 CODECFS_ASSIGN(Buffer out, Buffer::allocate(in.size() + 4));
                 if (!in.empty()) std::memcpy(out.data() + (at_start ? 4 : 0), in.data(), in.size());
                 store_le(out.data() + (at_start ? 0 : in.size()), uint32_t{sum(in.data(), in.size())});
                 return out;
               },
               .encoded = adds_bytes(4)};
}

}  // namespace codecfs::filters::codecs
