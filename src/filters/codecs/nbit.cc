// n-bit: HDF5 filter 5. Its parameters describe the layout of a datatype recursively; only libhdf5 implements it.

#include "filters/core/filter.h"

namespace codecfs::filters::codecs::nbit {

Filter make_filter() {
  return {.id = 5,
          .name = "nbit",
          .aliases = {"n-bit"},
          .in_libhdf5 = true,
          .check_new = [](const FilterStage& stage, uint64_t) -> Result<> {
            constexpr size_t kStored = 5;  // minimum
            if (stage.parameters.empty() || stage.parameters.size() >= kStored) return {};
            return fail(EINVAL, "takes no parameters, or those that it stores, not {}", stage.parameters.size());
          }};
}

}  // namespace codecfs::filters::codecs::nbit
