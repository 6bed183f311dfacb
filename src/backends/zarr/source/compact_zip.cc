#include <cstdint>

#include "backends/zarr/source/zarr_source.h"
#include "backends/zarr/store/zip_store.h"
#include "backends/zarr/store/zip_writer.h"
#include "base/file_io.h"
#include "base/mutex.h"

namespace codecfs {

Result<std::string> compact_zarr_zip(const std::string& path) {
  CODECFS_ASSIGN(const auto store, zarr::ZipStore::open(path));
  const uint64_t before = static_cast<uint64_t>(store->status().st_size);
  zarr::ZipWriter writer(*store, path, real_file_io());
  CODECFS_ASSIGN(const bool is_smaller, writer.compact());
  if (!is_smaller) return fmt::format("{}: {} bytes, cannot become smaller; unchanged", path, before);
  const SharedLock lock(store->tree().mutex);
  const uint64_t after = static_cast<uint64_t>(store->tree().archive->status().st_size);
  return fmt::format("{}: {} bytes became {}", path, before, after);
}

}  // namespace codecfs
