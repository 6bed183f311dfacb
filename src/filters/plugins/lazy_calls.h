#pragma once
// Calls of a plugin in this process, which loads the library when it is first needed. For worker processes: the library
// was loaded and accepted in another one, but it may still crash or hang here. Its calls have limits of time, which end
// the process (base/worker_process.h, LibraryCode).

#include <H5PLextern.h>

#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "filters/plugins/direct_calls.h"

namespace codecfs::filters {

class LazyCalls final : public PluginCalls {
 public:
  /// `path`: absolute, without links; `shown`: its name in messages.
  LazyCalls(std::string path, std::string shown) : path_(std::move(path)), shown_(std::move(shown)) {}

  /// The class of its HDF5 filter for libhdf5, whose functions have the same limits. ENOEXEC if the library cannot be
  /// loaded, ENOENT if it has no filter now, EOPNOTSUPP for too many plugins.
  Result<H5Z_class2_t> hdf5_class();

  Result<Buffer> filter(unsigned flags, std::span<const uint32_t> parameters, Bytes in, uint64_t most) override;
  Result<std::vector<uint32_t>> parameters_of(size_t codec, const std::string& json) override;
  Result<std::string> codec_of(size_t codec, std::span<const uint32_t> parameters) override;
  Result<ModifiedParameters> modified_parameters(size_t codec, std::span<const uint32_t> parameters,
                                                 const ChunkShape& chunk) override;
  void finalize() override;

 private:
  /// ENOEXEC with the loader's reason.
  Result<DirectCalls*> loaded();
  /// As loaded(), with at least so many codecs.
  Result<DirectCalls*> loaded_with(size_t codec);

  const std::string path_;
  const std::string shown_;
  Mutex mutex_{LockRank::plugin_loading};                          // held while the library is loaded
  std::unique_ptr<DirectCalls> calls_ CODECFS_GUARDED_BY(mutex_);  // stays when it is set
  std::optional<Error> failure_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace codecfs::filters
