#pragma once
// Filters of plugins, called as HDF5 and netCDF call them.

#include <string>

#include "filters/core/filter.h"
#include "filters/plugins/plugin_library.h"

namespace codecfs::filters {

/// Gives `filter` (with the plugin's id) the plugin's encoder and decoder.
void add_hdf5_half(Filter& filter, const PluginLibrary& plugin);

/// Gives it the codec id and the mapping of a codec of the plugin.
void add_codec_half(Filter& filter, const PluginLibrary& plugin, const NCZ_codec_t& codec);

/// A name as messages and tables show it: one line of at most 64 printable characters.
std::string shown_name(const char* name);

}  // namespace codecfs::filters
