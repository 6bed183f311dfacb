// scale-offset: HDF5 filter 6. Only libhdf5 implements it. Unrelated to numcodecs' fixedscaleoffset.

#include "filters/core/filter.h"
#include "filters/core/parameter_limits.h"

namespace codecfs::filters::codecs::scaleoffset {

namespace {

Result<> check_new(const FilterStage& stage, uint64_t item_size) {
  constexpr size_t kStored = 20;
  constexpr int64_t kIntegers = 2;
  const size_t count = stage.parameters.size();
  if (count != 2 && count != kStored)
    return fail(EINVAL, "takes two parameters (the type of scaling and its factor) or the {} that it stores, not {}",
                kStored, count);
  if (stage.parameters[0] != 0 && stage.parameters[0] != kIntegers)
    return fail(EINVAL, "the type of scaling must be 0 (floats) or 2 (integers), not {}", stage.parameters[0]);
  if (stage.parameters[0] != kIntegers) return {};
  return in_range(stage, 1, "the bits of an integer", 0, static_cast<int64_t>(item_size == 0 ? 64 : 8 * item_size));
}

}  // namespace

Filter make_filter() {
  return {.id = 6, .name = "scaleoffset", .aliases = {"scale-offset"}, .in_libhdf5 = true, .check_new = check_new};
}

}  // namespace codecfs::filters::codecs::scaleoffset
