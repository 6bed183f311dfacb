#pragma once
// The HDF5 halves of plugins, as libhdf5 is lent them: by itself it loads none (backends/hdf5/filter_registration.h).

#include <H5PLextern.h>

#include <cstdint>
#include <optional>

namespace codecfs::filters {

/// The one in use for this id; none where no plugin has it.
std::optional<H5Z_class2_t> plugin_class(uint32_t id);

}  // namespace codecfs::filters
