#pragma once
// A Zarr store, of v2 (including NCZarr) or v3, in a directory, in a zip archive or in an object store.

#include <memory>
#include <optional>
#include <string>

#include "backends/api/source.h"
#include "base/file_io.h"
#include "base/result.h"
#include "remote/object_client.h"
#include "remote/object_file.h"

namespace codecfs {

/// Opens the store in a directory. EINVAL if it is not a store. All changes go through `io`, which must outlive the
/// Source.
Result<std::unique_ptr<Source>> open_zarr(const std::string& path, bool may_write = false, FileIo& io = real_file_io());

/// As open_zarr(), for the store in a zip archive; errors of ZipArchive::open() too.
Result<std::unique_ptr<Source>> open_zarr_zip(const std::string& path, bool may_write = false,
                                              FileIo& io = real_file_io());

/// Opens the store in a zip archive that is in an object store, only to be read.
Result<std::unique_ptr<Source>> open_zarr_zip(std::shared_ptr<remote::ObjectFile> object);

/// Opens the store at `key` of an object store. `name`: for messages. `unwritable`: why it is only read.
Result<std::unique_ptr<Source>> open_zarr_objects(std::shared_ptr<remote::ObjectClient> client, const std::string& key,
                                                  const std::string& name, std::optional<Error> unwritable);

/// See compact_source() of backends/open.
Result<std::string> compact_zarr_zip(const std::string& path);

/// See SourceOpener::create().
Result<> create_zarr(const std::string& path);
Result<> create_zarr3(const std::string& path);
Result<> create_nczarr(const std::string& path);
Result<bool> create_nczarr_objects(remote::ObjectClient& client, const std::string& key);
Result<> create_zarr_zip(const std::string& path);
/// Creates a store of v2 or v3 at `key` of an object store. False if there is one already.
Result<bool> create_zarr_objects(remote::ObjectClient& client, const std::string& key, bool is_v3);

/// Whether a directory has a metadata file of a Zarr group or array.
bool looks_like_zarr(int directory_fd);
/// Whether it is one, and which: reads the zarr.json of v3.
std::optional<EntryKind> zarr_root_kind(int directory_fd);

}  // namespace codecfs
