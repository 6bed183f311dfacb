// shuffle: HDF5 filter 2, numcodecs "shuffle". Stores the bytes of elements as planes (see byte_planes.h); trailing
// bytes that are not a whole element are unchanged. Elements of one byte and chunks of less than two elements are
// unchanged.
//
//   plane 0 | plane 1 | ... | plane size-1 | length % size bytes           parameters [bytes of an element]
//
// A missing or zero element size means that of the dtype, as netcdf-c writes it.

#include <cstring>

#include "filters/codecs/byte_planes.h"
#include "filters/core/codec_fields.h"
#include "filters/core/filter.h"
#include "filters/core/parameter_limits.h"
#include "model/json.h"

namespace codecfs::filters::codecs::shuffle {
namespace {

Result<Buffer> unshuffle(Buffer in, size_t size) {
  const size_t count = size > 1 ? in.size() / size : 0;
  if (count < 2) return in;
  CODECFS_ASSIGN(Buffer out, Buffer::allocate(in.size()));
  join_byte_planes(in.bytes(), out.data(), size);
  return out;
}

Result<Buffer> shuffle_bytes(Bytes in, size_t size) {
  const size_t count = size > 1 ? in.size() / size : 0;
  if (count < 2) return Buffer::copy_of(in);
  CODECFS_ASSIGN(Buffer out, Buffer::allocate(in.size()));
  split_byte_planes(in.data(), out.data(), count, size);
  const size_t whole = count * size;
  std::memcpy(out.data() + whole, in.data() + whole, in.size() - whole);
  return out;
}

/// As HDF5's set_local: sets the element size; replaces also the 0 that netcdf-c writes to Zarr.
Result<std::vector<uint32_t>> working_parameters(const StageContext& context) {
  const auto& given = context.stage.parameters;
  if (!given.empty() && given[0] != 0) return given;
  if (context.chunk.type.size > UINT32_MAX)
    return fail(EINVAL, "elements of {} bytes cannot be shuffled", context.chunk.type.size);
  return std::vector{static_cast<uint32_t>(context.chunk.type.size)};
}

}  // namespace

Filter make_filter() {
  return {
      .id = 2,
      .name = "shuffle",
      .codec = "shuffle",
      .parameters_of = [](const Json& codec, uint64_t item_size) -> Result<std::vector<uint32_t>> {
        CODECFS_ASSIGN(int64_t size, integer_field(codec, "elementsize", 0, 0, UINT32_MAX));
        if (size == 0) size = static_cast<int64_t>(std::min<uint64_t>(item_size, UINT32_MAX));
        return std::vector{static_cast<uint32_t>(size)};
      },
      .codec_of = [](std::span<const uint32_t> parameters) -> Json {
        return {{"id", "shuffle"}, {"elementsize", parameters.empty() ? 0 : parameters[0]}};
      },
      .working_parameters = working_parameters,
      .check_new = [](const FilterStage& stage, uint64_t) { return at_most(stage, 1, "the bytes of an element"); },
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        CODECFS_ASSIGN(const std::vector<uint32_t> parameters, working_parameters(context));
        const size_t size = parameters[0];
        return Coder{.decode = [size](Buffer in, const SizeBound&) { return unshuffle(std::move(in), size); },
                     .encode = [size](Bytes in) { return shuffle_bytes(in, size); },
                     .encoded = {}};
      },
  };
}

}  // namespace codecfs::filters::codecs::shuffle
