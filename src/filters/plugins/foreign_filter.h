#pragma once
// Adapters for filters of plugins, which are called as HDF5 and netCDF call them.

#include <string>

#include "filters/core/filter.h"
#include "filters/plugins/plugin_library.h"

namespace codecfs::filters {

/// Sets the encoder and decoder of `filter` to those of the plugin with the same id.
void add_hdf5_half(Filter& filter, const PluginLibrary& plugin);

/// Sets the codec id and the mapping of `filter` to those of a codec of the plugin.
void add_codec_half(Filter& filter, const PluginLibrary& plugin, const NCZ_codec_t& codec);

/// A name for messages and tables: one line of at most 64 printable characters.
std::string shown_name(const char* name);

}  // namespace codecfs::filters
