#pragma once
// Adapters for filters of plugins, which are called as HDF5 and netCDF call them.

#include <memory>

#include "filters/core/filter.h"
#include "filters/plugins/plugin_calls.h"

namespace codecfs::filters {

/// A library that the search has found, and how its functions are called.
struct Plugin {
  PluginDescription description;
  std::shared_ptr<PluginCalls> calls;
};

/// Sets the encoder and decoder of `filter` to those of the plugin with the same id.
void add_hdf5_half(Filter& filter, const Plugin& plugin);

/// Sets the codec id and the mapping of `filter` to those of a codec of the plugin.
void add_codec_half(Filter& filter, const Plugin& plugin, size_t codec);

}  // namespace codecfs::filters
