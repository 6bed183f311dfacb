// packbits of Zarr v3: zarr-extensions "packbits". Stores the bits [first_bit, last_bit] of each element, or of each
// part of a complex one, without gaps: the first element in the lowest bits of the first byte. (numcodecs' codec of
// this name begins with the highest bit.)
//
//   padding? | bits ... | padding?              the number of unused bits in the last byte, by "padding_encoding"
//
//   {"id": "zarr3:packbits", "padding_encoding": "first_byte", "first_bit": 0, "last_bit": 3}           all optional

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/endian.h"
#include "filters/codecs/number_types.h"
#include "filters/core/codec_fields.h"
#include "filters/core/encoded_type.h"
#include "filters/core/filter.h"
#include "filters/core/output_buffer.h"
#include "model/json.h"
#include "model/small_float.h"

namespace codecfs::filters::codecs::zarr3_packbits {
namespace {

enum class Padding { none, first_byte, last_byte };

/// Numbers of which the elements consist: one, or two of a complex element.
struct Parts {
  size_t bytes = 0;    // that a part takes in a decoded chunk
  unsigned bits = 0;   // that it has; at most bytes * 8
  unsigned count = 1;  // in an element
  bool is_signed = false;
};

struct Packing {
  Parts parts;
  unsigned first = 0;  // bit
  unsigned kept = 0;   // bits
  Padding padding = Padding::none;
  bool is_foreign = false;  // decoded elements are not in native byte order

  /// Stored bits of `size` decoded bytes.
  [[nodiscard]] uint64_t packed_bits(uint64_t size) const { return size / parts.bytes * kept; }
  [[nodiscard]] uint64_t packed_bytes(uint64_t size) const {
    return packed_bits(size) / 8 + (packed_bits(size) % 8 != 0 ? 1 : 0) + (padding != Padding::none ? 1 : 0);
  }
  [[nodiscard]] uint8_t padding_bits(uint64_t size) const {
    return static_cast<uint8_t>((8 - packed_bits(size) % 8) % 8);
  }
  /// Where the bits are in the stored bytes.
  [[nodiscard]] size_t start() const { return padding == Padding::first_byte ? 1 : 0; }
  [[nodiscard]] std::optional<size_t> padding_at(size_t stored) const {
    if (padding == Padding::none) return std::nullopt;
    return padding == Padding::first_byte ? 0 : stored - 1;
  }
};

unsigned bits_of(const SmallFloat& format) { return format.exponent + format.mantissa + (format.is_signed ? 1U : 0U); }

Result<Parts> parts_of(const DataType& type, const std::string& name) {
  if (const SmallInt* small = small_int_named(name))
    return Parts{.bytes = 1, .bits = small->bits(), .is_signed = small->is_signed};
  if (const SmallFloat* small = small_float_named(name)) return Parts{.bytes = small->bytes, .bits = bits_of(*small)};
  if (const SmallFloat* small = small_complex_part(name))
    return Parts{.bytes = small->bytes, .bits = bits_of(*small), .count = 2};
  if (name == "complex_float16") return Parts{.bytes = 2, .bits = 16, .count = 2};
  const auto bits = static_cast<unsigned>(type.size * 8);
  switch (type.kind) {
    case TypeKind::boolean: return Parts{.bytes = 1, .bits = 1};
    case TypeKind::signed_int: return Parts{.bytes = type.size, .bits = bits, .is_signed = true};
    case TypeKind::unsigned_int: return Parts{.bytes = type.size, .bits = bits};
    case TypeKind::floating:
      if (type.size <= 8) return Parts{.bytes = type.size, .bits = bits};
      break;
    case TypeKind::complex:
      if (type.size <= 16) return Parts{.bytes = type.size / 2, .bits = bits / 2, .count = 2};
      break;
    default: break;
  }
  return fail(EINVAL, "does not work on elements of data type {}", name.empty() ? print_json(print_dtype(type)) : name);
}

Result<Packing> parse_packing(const StageContext& context) {
  const Json& codec = context.stage.codec;
  for (const auto& [key, value] : codec.items())
    if (key != "id" && key != "padding_encoding" && key != "first_bit" && key != "last_bit")
      return fail(EINVAL, "\"{}\" is not known", key);
  Packing packing;
  CODECFS_ASSIGN(packing.parts, parts_of(context.chunk.type, context.chunk.type_name));
  packing.is_foreign = is_foreign_order(context.chunk.type);
  CODECFS_ASSIGN(const std::string padding, text_field(codec, "padding_encoding", "none"));
  if (padding == "first_byte")
    packing.padding = Padding::first_byte;
  else if (padding == "last_byte")
    packing.padding = Padding::last_byte;
  else if (padding != "none")
    return fail(EINVAL, "\"padding_encoding\": \"{}\" is not known", padding);
  const int64_t highest = packing.parts.bits - 1;
  CODECFS_ASSIGN(const int64_t first, integer_field(codec, "first_bit", 0, 0, highest));
  CODECFS_ASSIGN(const int64_t last, integer_field(codec, "last_bit", highest, 0, highest));
  if (last < first) return fail(EINVAL, "\"last_bit\" {} is less than \"first_bit\" {}", last, first);
  packing.first = static_cast<unsigned>(first);
  packing.kept = static_cast<unsigned>(last - first + 1);
  return packing;
}

uint64_t mask_of(unsigned bits) { return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }

uint64_t load_part(const std::byte* from, const Packing& packing) {
  std::byte bytes[8] = {};
  const size_t size = packing.parts.bytes;
  std::memcpy(bytes, from, size);
  const bool is_big = packing.is_foreign == (std::endian::native == std::endian::little);
  if (is_big && size > 1) std::reverse(bytes, bytes + size);
  return load_le<uint64_t>(bytes);
}

void store_part(std::byte* to, uint64_t value, const Packing& packing) {
  std::byte bytes[8];
  const size_t size = packing.parts.bytes;
  store_le(bytes, value);
  const bool is_big = packing.is_foreign == (std::endian::native == std::endian::little);
  if (is_big && size > 1) std::reverse(bytes, bytes + size);
  std::memcpy(to, bytes, size);
}

/// The part that has these bits.
uint64_t extended(uint64_t bits, const Packing& packing) {
  uint64_t value = bits << packing.first;
  const unsigned end = packing.first + packing.kept;
  if (packing.parts.is_signed && (value >> (end - 1) & 1) != 0) value |= ~mask_of(end);
  return value & mask_of(static_cast<unsigned>(packing.parts.bytes * 8));
}

/// The decoded size, which the number of unused bits tells too.
Result<uint64_t> decoded_size(const Buffer& in, const SizeBound& bound, const Packing& packing) {
  if (bound.exact) return *bound.exact;
  const auto at = packing.padding_at(in.size());
  if (!at || in.empty()) return fail(EIO, "the number of elements is not known");
  const uint64_t bits = (in.size() - 1) * 8;
  const auto unused = static_cast<uint8_t>(in.data()[*at]);
  const uint64_t size = unused > bits ? 0 : (bits - unused) / packing.kept * packing.parts.bytes;
  if (size > bound.max) return too_large(bound);
  return size;
}

Result<Buffer> decode(Buffer in, const SizeBound& bound, const Packing& packing) {
  CODECFS_ASSIGN(const uint64_t size, decoded_size(in, bound, packing));
  if (size % packing.parts.bytes != 0) return fail(EIO, "{} bytes are not a whole number of elements", size);
  if (in.size() != packing.packed_bytes(size))
    return fail(EIO, "{} bytes, where {} are due", in.size(), packing.packed_bytes(size));
  if (const auto at = packing.padding_at(in.size()))
    if (static_cast<uint8_t>(in.data()[*at]) != packing.padding_bits(size))
      return fail(EIO, "{} unused bits, where {} are due", static_cast<uint8_t>(in.data()[*at]),
                  packing.padding_bits(size));
  CODECFS_ASSIGN(Buffer out, Buffer::allocate(size));
  const std::byte* next = in.data() + packing.start();
  uint64_t held = 0;   // bits of the byte that is used in part
  unsigned count = 0;  // how many
  for (size_t at = 0; at < size; at += packing.parts.bytes) {
    uint64_t bits = 0;
    for (unsigned done = 0; done < packing.kept;) {
      if (count == 0) {
        held = static_cast<uint8_t>(*next++);
        count = 8;
      }
      const unsigned taken = std::min(count, packing.kept - done);
      bits |= (held & mask_of(taken)) << done;
      held >>= taken;
      count -= taken;
      done += taken;
    }
    store_part(out.data() + at, extended(bits, packing), packing);
  }
  return out;
}

Result<Buffer> encode(Bytes in, const Packing& packing) {
  if (in.size() % (packing.parts.bytes * packing.parts.count) != 0)
    return fail(EINVAL, "{} bytes are not a whole number of elements", in.size());
  CODECFS_ASSIGN(Buffer out, Buffer::allocate(packing.packed_bytes(in.size())));
  if (const auto at = packing.padding_at(out.size())) out.data()[*at] = std::byte{packing.padding_bits(in.size())};
  std::byte* next = out.data() + packing.start();
  uint64_t held = 0;
  unsigned count = 0;
  const bool is_bool = packing.parts.bits == 1;
  for (size_t at = 0; at < in.size(); at += packing.parts.bytes) {
    uint64_t value = load_part(in.data() + at, packing);
    if (is_bool) value = value != 0 ? 1 : 0;
    const uint64_t bits = value >> packing.first & mask_of(packing.kept);
    // Low bits may be dropped, as by rounding. High ones change the value.
    if (extended(bits, packing) != (value & ~mask_of(packing.first)))
      return fail(EINVAL, "element {} does not fit in its {} bits", at / packing.parts.bytes / packing.parts.count,
                  packing.kept);
    for (unsigned done = 0; done < packing.kept;) {
      const unsigned put = std::min(8 - count, packing.kept - done);
      held |= (bits >> done & mask_of(put)) << count;
      count += put;
      done += put;
      if (count == 8) {
        *next++ = static_cast<std::byte>(held);
        held = 0;
        count = 0;
      }
    }
  }
  if (count > 0) *next = static_cast<std::byte>(held);
  return out;
}

}  // namespace

Filter make_filter() {
  return {
      .name = "zarr3-packbits",
      .codec = std::string(kPackbits),
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        CODECFS_ASSIGN(const Packing packing, parse_packing(context));
        return Coder{
            .decode = [packing](Buffer in, const SizeBound& out) { return decode(std::move(in), out, packing); },
            .encode = [packing](Bytes in) { return encode(in, packing); },
            .encoded = [packing](const SizeBound& decoded) -> SizeBound {
              if (decoded.exact) return SizeBound::exactly(packing.packed_bytes(*decoded.exact));
              return {.max = packing.packed_bytes(decoded.max), .exact = std::nullopt};
            },
            .encoded_chunk = {}};
      },
  };
}

}  // namespace codecfs::filters::codecs::zarr3_packbits
