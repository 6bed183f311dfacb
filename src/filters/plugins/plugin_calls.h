#pragma once
// What a plugin library declares, and calls of its functions. Calls run in a codec worker (codec_workers.h) or in this
// process (direct_calls.h).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "filters/core/filter.h"

namespace codecfs::filters {

/// What a library declares. Names are printable and short (plugin_library.h).
struct PluginDescription {
  struct Hdf5Filter {
    uint32_t id = 0;
    std::string name;
    bool encodes = false;
    bool decodes = false;
    bool has_can_apply = false;
    bool has_set_local = false;
  };
  struct Codec {
    std::string id;
    uint32_t hdf5_id = 0;
    bool has_modify_parameters = false;
    bool is_default = false;  // of NCZ_codec_info_defaults: used if no other library has a codec for the filter
  };

  std::string path;  // as users see it
  std::optional<Hdf5Filter> hdf5;
  std::vector<Codec> codecs;          // calls name them by their index
  std::vector<std::string> problems;  // what cannot be used of the library, and why
};

/// What NCZ_modify_parameters makes of the parameters of a codec's JSON: those to store, and those for its HDF5 filter.
struct ModifiedParameters {
  std::vector<uint32_t> visible;
  std::vector<uint32_t> working;
};

/// The functions of one library. Thread-safe. All fail with EIO if the plugin crashes, hangs or exhausts memory in a
/// worker; the reason then names the library and the cause.
class PluginCalls {
 public:
  virtual ~PluginCalls() = default;

  /// The HDF5 filter: `flags` are those of H5Z_func_t. EIO if the plugin returns more than `most` bytes. If its
  /// function returns 0: EIO from a decoder, EINVAL from an encoder.
  virtual Result<Buffer> filter(unsigned flags, std::span<const uint32_t> parameters, Bytes in, uint64_t most) = 0;
  /// NCZ_codec_to_hdf5. EINVAL.
  virtual Result<std::vector<uint32_t>> parameters_of(size_t codec, const std::string& json) = 0;
  /// NCZ_hdf5_to_codec: a text that may not be JSON. EINVAL.
  virtual Result<std::string> codec_of(size_t codec, std::span<const uint32_t> parameters) = 0;
  /// NCZ_modify_parameters. EINVAL.
  virtual Result<ModifiedParameters> modified_parameters(size_t codec, std::span<const uint32_t> parameters,
                                                         const ChunkShape& chunk) = 0;
  /// Calls NCZ_codec_finalize. After that the library must not be used.
  virtual void finalize() = 0;
  /// One line about its workers for .codecfs/filters; empty if there are none.
  [[nodiscard]] virtual std::string state() const { return {}; }
};

}  // namespace codecfs::filters
