#pragma once
// The formats that codecfs reads and writes, a row each.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backends/api/source.h"
#include "backends/api/source_check.h"
#include "backends/open/opener_state.h"
#include "base/result.h"
#include "remote/object_client.h"
#include "remote/object_file.h"

namespace codecfs {

/// What a format is recognised by.
struct Look {
  int fd = -1;          // a file, a directory, or what was read of an object
  std::string start;    // the first bytes of a file, at most 8
  uint64_t size = 0;    // of a file
  uint64_t within = 0;  // bytes of a file that may lie before HDF5's signature
  bool is_directory = false;
  bool is_object = false;  // of an object store: only the start of it was read
};
/// EIO and others if the file cannot be read.
Result<Look> look_at(int fd, bool is_directory, uint64_t size);
Result<Look> look_at(const remote::ObjectFile& object);

/// A new source in a format.
struct NewSource {
  std::string_view name;  // that -o create= takes
  Result<> (*make)(const std::string& path, bool as_netcdf, const Hdf5Options& options);
  /// At a key of an object store. False if there is a store already. Null: not there.
  Result<bool> (*make_objects)(remote::ObjectClient& client, const std::string& key) = nullptr;
};

struct Format {
  bool (*recognises)(const Look&);
  Result<std::unique_ptr<Source>> (*open)(const SourceOpener& opener, const std::string& path, bool may_write);
  /// A single object of an object store. Null: not there.
  Result<std::unique_ptr<Source>> (*open_object)(std::shared_ptr<remote::ObjectFile> object,
                                                 const SourceOpener& opener) = nullptr;
  /// The kind of its root where a folder shows it as a dataset; `fd` may be an O_PATH descriptor for a directory. Null:
  /// folders show the file itself.
  std::optional<EntryKind> (*kind_in_folder)(int fd) = nullptr;
  std::span<const NewSource> new_sources = {};
  /// See source_opener.h.
  Result<SourceCheck> (*check)(const std::string& path);
  Result<std::string> (*recover)(const std::string& path);
  Result<std::string> (*compact)(const std::string& path, const std::function<bool()>& cancelled);
};

/// The first format of the table that recognises a source; null if none does.
const Format* format_of(const Look& look);
/// The format of what is at a path or URL. A file of no known format, or one that cannot be opened, counts as HDF5: the
/// caller's next step reports the error.
const Format& format_at(const std::string& path);
/// The one with this name of -o create=. EINVAL.
Result<const NewSource*> new_source_named(std::string_view name);

/// The kind of the root of what a folder shows as a dataset; none: it shows the file or directory itself. Reads only
/// what is needed to recognise the format. `fd` may be an O_PATH descriptor for a directory.
std::optional<EntryKind> dataset_kind(int fd, const struct stat& status);

// urls.cc
Result<std::unique_ptr<Source>> open_url(const SourceOpener& opener, const std::string& url, bool may_write);

}  // namespace codecfs
