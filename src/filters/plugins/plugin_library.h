#pragma once
// One plugin library: what it says of itself. Three interfaces are known, and a library may have any of them:
//
//   H5PLget_plugin_type, H5PLget_plugin_info    HDF5's filter API (H5Zpublic.h, H5PLextern.h): one HDF5 half
//   NCZ_get_codec_info                          netCDF's codec API: one codec half, for the HDF5 half of the same id
//   NCZ_codec_info_defaults                     the same, several, for filters that no other library has a codec for
//
// A loaded library is never unloaded.

#include <H5PLextern.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
extern "C" {
#include "codecfs/nczarr_codec.h"
}

namespace codecfs::filters {

struct PluginLibrary {
  std::string path;
  std::optional<H5Z_class2_t> hdf5;   // checked: version, id, a filter function
  std::vector<NCZ_codec_t> codecs;    // checked: version, id, both conversions
  std::vector<NCZ_codec_t> defaults;  // the same
  std::vector<std::string> problems;  // what of it cannot be used, and why
  /// Held while a function of the library runs: one call at a time. Null where it says that it is re-entrant.
  std::shared_ptr<std::mutex> turn;
};

/// Whether the file names one of the interfaces at all. Nothing is loaded, so that a directory full of other libraries
/// costs nothing but a look.
bool names_a_plugin_interface(const std::string& path);

/// Loads the library and asks it. `path`: absolute, without links (plugin_trust.h); `shown`: what it is called in
/// messages. ENOEXEC with the loader's reason where it cannot be loaded. May crash where the library is bad: see
/// plugin_probe.h.
Result<PluginLibrary> open_plugin(const std::string& path, const std::string& shown);

}  // namespace codecfs::filters
