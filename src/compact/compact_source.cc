#include "compact/compact_source.h"

#include <cstdint>

#include "backends/api/source.h"
#include "backends/api/source_format.h"
#include "backends/zarr/store/zip_store.h"
#include "backends/zarr/store/zip_writer.h"
#include "base/file_io.h"
#include "base/mutex.h"
#include "compact/hdf5/compact_file.h"

namespace codecfs {
namespace {

Result<std::string> compact_zip(const std::string& path) {
  CODECFS_ASSIGN(const auto store, zarr::ZipStore::open(path));
  const uint64_t before = static_cast<uint64_t>(store->status().st_size);
  zarr::ZipWriter writer(*store, path, real_file_io());
  CODECFS_ASSIGN(const bool is_smaller, writer.compact());
  if (!is_smaller) return fmt::format("{}: {} bytes, cannot become smaller; unchanged", path, before);
  const SharedLock lock(store->tree().mutex);
  const uint64_t after = static_cast<uint64_t>(store->tree().archive->status().st_size);
  return fmt::format("{}: {} bytes became {}", path, before, after);
}

}  // namespace

Result<std::string> compact_source(const std::string& path, const std::function<bool()>& cancelled) {
  CODECFS_ASSIGN(const SourceFormat format, source_format_of(path));
  switch (format) {
    case SourceFormat::object_store:
      return fail(EOPNOTSUPP,
                  "{}: files at a URL are not changed, and a Zarr store there has no unused space: to make a file "
                  "smaller, copy it here and compact the copy",
                  shown_source(path));
    case SourceFormat::zarr_directory: return fmt::format("{}: a Zarr directory has no unused space", path);
    case SourceFormat::zarr_zip: return compact_zip(path);
    case SourceFormat::hdf5: break;
  }
  return hdf5::compact_file(path, real_file_io(), cancelled);
}

}  // namespace codecfs
