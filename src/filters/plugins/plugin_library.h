#pragma once
// One plugin library and the filters that it declares. A library may have any of three interfaces:
//
//   H5PLget_plugin_type, H5PLget_plugin_info    HDF5's filter API (H5Zpublic.h, H5PLextern.h): one HDF5 filter
//   NCZ_get_codec_info                          netCDF's codec API: one codec, for the HDF5 filter of the same id
//   NCZ_codec_info_defaults                     the same, several, for filters that no other library has a codec for
//
// A loaded library is never unloaded.

#include <H5PLextern.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "filters/plugins/plugin_calls.h"
extern "C" {
#include "codecfs/nczarr_codec.h"
}

namespace codecfs::filters {

struct PluginLibrary {
  std::string path;
  std::optional<H5Z_class2_t> hdf5;   // checked: version, id, a filter function
  std::vector<NCZ_codec_t> codecs;    // checked: version, id, both conversions
  size_t defaults_from = 0;           // the codecs from this index on are those of NCZ_codec_info_defaults
  std::vector<std::string> problems;  // what cannot be used of the library, and why
  /// Held during calls of the library's functions: one at a time. Null if the library declares that it is re-entrant.
  std::shared_ptr<Mutex> turn;
};

/// Whether the file's symbol table contains one of the interfaces. Does not load it, so that a directory full of
/// unrelated libraries costs little.
bool names_a_plugin_interface(const std::string& path);

/// Loads the library and queries it. `path`: absolute, without links (plugin_trust.h); `shown`: its name in messages.
/// ENOEXEC with the loader's reason if it cannot be loaded. A bad library may crash or end the process, or never
/// return.
Result<PluginLibrary> open_plugin(const std::string& path, const std::string& shown);

PluginDescription describe(const PluginLibrary& library);

/// A name for messages and tables: one line of at most 64 printable characters.
std::string shown_name(std::string_view name);

}  // namespace codecfs::filters
