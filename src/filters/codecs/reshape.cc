// reshape: zarr-extensions "reshape". Gives a chunk other dimensions; its bytes stay, as both are in C order.
//
//   {"id": "zarr3:reshape", "shape": [[0, 1], 3, -1]}
//
// A dimension of the result is a length, the product of dimensions of the chunk, or (-1) what is left.

#include <optional>
#include <utility>
#include <vector>

#include "filters/core/encoded_type.h"
#include "filters/core/filter.h"
#include "model/json.h"

namespace codecfs::filters::codecs::reshape {
namespace {

/// The product of lengths [first, last); saturates.
uint64_t product(const std::vector<uint64_t>& lengths, size_t first, size_t last) {
  uint64_t result = 1;
  for (size_t i = first; i < last; ++i)
    if (__builtin_mul_overflow(result, lengths[i], &result)) return UINT64_MAX;
  return result;
}

/// Dimensions of the chunk whose product is a dimension of the result.
struct Source {
  size_t at;  // in the result
  std::vector<size_t> dimensions;
};

Result<std::vector<uint64_t>> reshaped(const Json& codec, const std::vector<uint64_t>& chunk) {
  const auto given = codec.find("shape");
  if (codec.size() != 2 || given == codec.end() || !given->is_array())
    return fail(EINVAL, "its configuration is not a list \"shape\" alone");
  const auto refuse = [&] {
    return fail(EINVAL, "\"shape\" {} cannot be the shape of a chunk of {}", print_json(*given), print_json(chunk));
  };
  std::vector<uint64_t> shape;
  std::vector<Source> sources;
  std::optional<size_t> rest;
  std::optional<size_t> last;  // dimension of the chunk that was named
  for (const Json& item : *given) {
    const size_t at = shape.size();
    shape.push_back(1);
    if (item == -1 && !rest) {
      rest = at;
    } else if (item.is_number_unsigned() && item != 0) {
      shape[at] = item.get<uint64_t>();
    } else if (item.is_array()) {
      Source source{at, {}};
      for (const Json& dimension : item) {
        if (!dimension.is_number_unsigned() || dimension.get<uint64_t>() >= chunk.size()) return refuse();
        const auto axis = dimension.get<size_t>();
        if (last && axis <= *last) return refuse();
        last = axis;
        source.dimensions.push_back(axis);
        if (__builtin_mul_overflow(shape[at], chunk[axis], &shape[at])) return refuse();
      }
      sources.push_back(std::move(source));
    } else {
      return refuse();
    }
  }
  const uint64_t total = product(chunk, 0, chunk.size());
  const uint64_t known = product(shape, 0, shape.size());
  if (rest && known != 0 && total % known == 0) shape[*rest] = total / known;
  if (product(shape, 0, shape.size()) != total) return refuse();
  for (const auto& [at, dimensions] : sources) {
    if (dimensions.empty()) continue;
    const bool is_raveled = product(shape, 0, at) == product(chunk, 0, dimensions.front()) &&
                            product(shape, at + 1, shape.size()) == product(chunk, dimensions.back() + 1, chunk.size());
    if (!is_raveled) return refuse();
  }
  return shape;
}

}  // namespace

Filter make_filter() {
  return {
      .name = "reshape",
      .codec = std::string(kReshape),
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        CODECFS_ASSIGN(auto shape, reshaped(context.stage.codec, context.chunk.chunks));
        ChunkShape chunk = context.chunk;
        chunk.shape = chunk.chunks = std::move(shape);
        return Coder{.decode = [](Buffer in, const SizeBound&) -> Result<Buffer> { return in; },
                     .encode = Buffer::copy_of,
                     .encoded = {},
                     .encoded_chunk = std::move(chunk)};
      },
  };
}

}  // namespace codecfs::filters::codecs::reshape
