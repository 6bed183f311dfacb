#include "filters/core/parameter_limits.h"

#include <algorithm>

#include "filters/core/filter.h"
#include "filters/core/filter_sources.h"
#include "model/json.h"

namespace codecfs::filters {

Result<> at_most(const FilterStage& stage, size_t count, std::string_view what) {
  if (stage.parameters.size() <= count) return {};
  if (count == 0) return fail(EINVAL, "takes no parameters, not {}", stage.parameters.size());
  return fail(EINVAL, "takes at most {} parameter{} ({}), not {}", count, count == 1 ? "" : "s", what,
              stage.parameters.size());
}

Result<> in_range(const FilterStage& stage, size_t index, std::string_view what, int64_t low, int64_t high) {
  if (index >= stage.parameters.size()) return {};
  const auto value = static_cast<int32_t>(stage.parameters[index]);
  if (value >= low && value <= high) return {};
  return fail(EINVAL, "{} must be from {} to {}, not {}", what, low, high, value);
}

Result<> check_new_chain(std::span<const FilterStage> chain, uint64_t item_size, std::span<const FilterStage> stored) {
  for (const FilterStage& stage : chain) {
    const bool is_stored = std::ranges::any_of(stored, [&](const FilterStage& other) {
      return other.id == stage.id && other.parameters == stage.parameters && other.codec == stage.codec;
    });
    if (is_stored) continue;
    const FilterPtr filter = find_for(stage);
    if (filter == nullptr)
      return fail(ENOENT, "no filter or plugin provides {}: {}",
                  stage.codec.is_null() ? fmt::format("filter {}", stage.id) : print_json(stage.codec),
                  where_searched(stage.id));
    if (!filter->make_coder && !filter->in_libhdf5)
      return fail(ENOENT, "{}: {} has its codec, but no library its HDF5 filter {}: {}", filter->name,
                  filter->codec_library, filter->id, where_searched(filter->id));
    if (!filter->encodes && !filter->in_libhdf5)
      return fail(EINVAL, "{}: {} can only decode it", filter->name, filter->hdf5_library);
    // A plugin checks its parameters when the pipeline is made.
    if (!filter->check_new) continue;
    if (const Result<> checked = filter->check_new(stage, item_size); !checked)
      return fail(checked.error().code, "{}: {}", filter->name, checked.error().reason);
  }
  return {};
}

}  // namespace codecfs::filters
