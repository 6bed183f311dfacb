#pragma once
// The HDF5 filter classes of plugins, to be registered with libhdf5, which does not load plugins itself
// (backends/hdf5/filter_registration.h).

#include <H5PLextern.h>

#include <cstdint>
#include <optional>

namespace codecfs::filters {

/// The class that is used for this id; none if no plugin has it. Its functions are the plugin's if this process has
/// loaded it; else they call the codec workers.
std::optional<H5Z_class2_t> plugin_class(uint32_t id);

}  // namespace codecfs::filters
