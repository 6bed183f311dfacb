#pragma once
// The HDF5 filter classes of plugins, to be registered with libhdf5, which does not load plugins itself
// (backends/hdf5/filter_registration.h).

#include <H5PLextern.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/buffer.h"

namespace codecfs::filters {

/// The class that is used for this id; none if no plugin has it. Its functions call the plugin in this process if it
/// may (use_plugins_in_process()), else the codec workers.
std::optional<H5Z_class2_t> plugin_class(uint32_t id);

/// The end of an H5Z_func_t: replaces its buffer, which is libhdf5's, by a copy of `out`. Returns the new size; 0 if
/// there is no memory, with nothing changed.
size_t give_to_library(Bytes out, size_t* room, void** buffer);

}  // namespace codecfs::filters
