// Sources at the URLs of object stores and web servers.

#include <fcntl.h>

#include <algorithm>
#include <vector>

#include "backends/api/file_names.h"
#include "backends/folder/bucket_files.h"
#include "backends/folder/folder_source.h"
#include "backends/open/formats.h"
#include "backends/open/unsupported_format.h"
#include "backends/zarr/source/zarr_source.h"
#include "base/file_io.h"
#include "base/unique_fd.h"
#include "remote/cached_client.h"
#include "remote/disk_cache.h"
#include "remote/object_url.h"

namespace codecfs {
namespace {

Result<std::shared_ptr<remote::ObjectClient>> client_of(const SourceOpener& opener, const remote::ObjectUrl& url) {
  remote::ObjectOptions options = opener.state().options.objects;
  options.statistics = opener.state().statistics;
  opener.state().has_opened_url = true;
  return remote::ObjectClient::make(url, options);
}

/// Null if there is none.
Result<std::shared_ptr<remote::DiskCache>> disk_cache_of(const SourceOpener& opener) {
  const remote::ObjectOptions& options = opener.state().options.objects;
  if (options.cache_directory.empty()) return nullptr;
  const LockGuard lock(opener.state().cache_mutex);
  if (opener.state().cache) return opener.state().cache;
  auto opened = remote::DiskCache::open(options.cache_directory, options.cache_bytes);
  // ENOENT would mean that there is no such object, and EINVAL in a folder that it is no dataset.
  if (!opened) return fail(EIO, "-o cache_dir: {}", opened.error().reason);
  opener.state().cache = *opened;
  return opened;
}

Result<std::unique_ptr<remote::ObjectFile>> open_object_file(const SourceOpener& opener,
                                                             std::shared_ptr<remote::ObjectClient> client,
                                                             const std::string& key, const std::string& name) {
  CODECFS_ASSIGN(auto cache, disk_cache_of(opener));
  return remote::ObjectFile::open(std::move(client), key, name, opener.state().options.objects.connections,
                                  std::move(cache));
}

Result<std::unique_ptr<Source>> open_store(const SourceOpener& opener, std::shared_ptr<remote::ObjectClient> client,
                                           const std::string& key, const std::string& name,
                                           std::optional<Error> unwritable) {
  CODECFS_ASSIGN(auto cache, disk_cache_of(opener));
  if (cache) client = remote::with_disk_cache(std::move(client), std::move(cache));
  return open_zarr_objects(std::move(client), key, name, std::move(unwritable));
}

/// Opens the object with the key itself. Null if there is none. `is_empty`: set if it is refused because it is empty.
Result<std::unique_ptr<Source>> open_object(const SourceOpener& opener, std::shared_ptr<remote::ObjectClient> client,
                                            const std::string& key, const std::string& name, bool* is_empty = nullptr) {
  if (key.empty() || key.ends_with('/')) return nullptr;
  auto opened = open_object_file(opener, std::move(client), key, name);
  if (!opened && opened.error().code == ENOENT) return nullptr;
  if (!opened) return pass_on(opened);
  const std::shared_ptr<remote::ObjectFile> object = *std::move(opened);
  if (object->size() == 0) {
    if (is_empty != nullptr) *is_empty = true;
    return fail(EINVAL, "{}: is empty", name);
  }
  const Result<Look> look = look_at(*object);
  if (!look) return fail(look.error().code, "{}: {}", name, look.error().reason);
  const Format* const format = format_of(*look);
  if (format != nullptr && format->open_object != nullptr) return format->open_object(object, opener);
  if (is_tar(look->fd)) return fail(EINVAL, "{}: is {}", name, kTarArchive);
  if (const auto what = unsupported_start(look->start, name)) return fail(EINVAL, "{}: is {}", name, *what);
  return fail(EINVAL, "{}: is a single object, and neither HDF5 nor netCDF-4 nor a zip archive", name);
}

/// Null if no key begins with this one and a "/".
Result<std::unique_ptr<Source>> open_bucket_folder(const SourceOpener& opener,
                                                   const std::shared_ptr<remote::ObjectClient>& client,
                                                   const std::string& key, std::string name) {
  std::string prefix = key;
  if (!prefix.empty() && !prefix.ends_with('/')) prefix += '/';
  while (name.ends_with('/')) name.pop_back();
  const Error only_read{EROFS,
                        fmt::format("{}: a folder of a bucket is only read; mount the store itself to write it", name)};
  const auto open = [opener, client, name, prefix, only_read](const std::string& wanted,
                                                              bool is_store) -> Result<std::unique_ptr<Source>> {
    const std::string shown = name + "/" + wanted.substr(prefix.size());
    if (is_store) return open_store(opener, client, wanted, shown, only_read);
    CODECFS_ASSIGN(auto object, open_object(opener, client, wanted, shown));
    if (!object) return fail(ENOENT, "{}: there is no such object", shown);
    return object;
  };
  auto files = std::make_unique<folder::BucketFiles>(
      folder::BucketFiles::Place{client, prefix, name, opener.state().options.objects.connections}, open);
  CODECFS_ASSIGN(const bool has_any, files->has_any());
  if (!has_any) return nullptr;
  return open_folder(std::move(files), false);
}

/// Why a store at this URL is only read.
std::optional<Error> unwritable(const SourceOpener& opener, const remote::ObjectUrl& url, const std::string& name,
                                bool may_write) {
  if (!may_write) return Error{EROFS, fmt::format("{}: was opened only to be read", name)};
  if (!url.is_bucket())
    return Error{EROFS, fmt::format("{}: a web server is only read; s3://, gs:// and az:// can be written", name)};
  if (remote::is_anonymous(url, opener.state().options.objects))
    return Error{EROFS, fmt::format("{}: is only read without credentials (-o anon, AWS_NO_SIGN_REQUEST)", name)};
  return std::nullopt;
}

/// `error`: why there is no store of objects.
std::unexpected<Error> no_such_object(const std::string& name, const Error& error) {
  const std::string nothing = name + ": no Zarr store (";
  if (!error.reason.starts_with(nothing)) return std::unexpected(error);
  return fail(error.code, "{}: there is no such object, and no Zarr store ({}", name,
              error.reason.substr(nothing.size()));
}

}  // namespace

Result<std::unique_ptr<Source>> open_url(const SourceOpener& opener, const std::string& text, bool may_write) {
  CODECFS_ASSIGN(const remote::ObjectUrl url, remote::parse_object_url(text));
  const std::string name = remote::shown_url(text);
  CODECFS_ASSIGN(const std::shared_ptr<remote::ObjectClient> client, client_of(opener, url));
  // What the name says is tried first, because each try costs requests.
  const bool is_file_name = url.key.ends_with(".zip") || has_hdf5_name(url.key);
  if (is_file_name) {
    CODECFS_ASSIGN(auto object, open_object(opener, client, url.key, name));
    if (object) return object;
  }
  auto store = open_store(opener, client, url.key, name, unwritable(opener, url, name, may_write));
  if (store || store.error().code != EINVAL) return store;
  if (is_file_name) return no_such_object(name, store.error());
  // An empty object may be the mark of a directory, as Azure has them.
  bool is_empty = false;
  auto object = open_object(opener, client, url.key, name, &is_empty);
  if (object ? *object != nullptr : !is_empty) return object;
  if (url.is_bucket()) {
    CODECFS_ASSIGN(auto folder, open_bucket_folder(opener, client, url.key, name));
    if (folder) return folder;
  }
  return object ? no_such_object(name, store.error()) : std::move(object);
}

Result<> SourceOpener::copy_object(const std::string& text, const std::string& to,
                                   const std::function<bool()>& cancelled) const {
  CODECFS_ASSIGN(const remote::ObjectUrl url, remote::parse_object_url(text));
  CODECFS_ASSIGN(std::shared_ptr<remote::ObjectClient> client, client_of(*this, url));
  CODECFS_ASSIGN(const auto object, open_object_file(*this, std::move(client), url.key, remote::shown_url(text)));
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const File copy{.fd = UniqueFd(::open(to.c_str(), kFlags, 0600)), .path = to};
  if (!copy.fd) return fail_errno(errno, "{}", to);
  constexpr uint64_t kPiece = uint64_t{8} << 20;
  constexpr uint64_t kAhead = 8;  // pieces that are requested at a time
  for (uint64_t at = 0; at < object->size(); at += kPiece) {
    if (cancelled()) return fail(ECANCELED, "interrupted");
    std::vector<remote::ByteRange> next;
    for (uint64_t piece = at; piece < std::min(object->size(), at + kAhead * kPiece); piece += kPiece)
      next.push_back({piece, std::min(kPiece, object->size() - piece)});
    object->expect(next);
    CODECFS_ASSIGN(const Buffer bytes, object->read(next[0].offset, next[0].size));
    CODECFS_TRY(real_file_io().write(copy, at, bytes.bytes()));
  }
  return real_file_io().sync(copy);
}

Result<bool> SourceOpener::create_remote(const std::string& text, std::string_view format) const {
  const Result<const NewSource*> kind = new_source_named(format);
  if (!kind || (*kind)->make_objects == nullptr)
    return fail(EROFS, "{}: only zarr, zarr3 and nczarr can be created in an object store, not {}",
                remote::shown_url(text), format);
  CODECFS_ASSIGN(const ObjectPlace place, place_to_write(text));
  return (*kind)->make_objects(*place.client, place.key);
}

Result<ObjectPlace> SourceOpener::place_to_write(const std::string& text) const {
  CODECFS_ASSIGN(const remote::ObjectUrl url, remote::parse_object_url(text));
  if (const auto why = unwritable(*this, url, remote::shown_url(text), true)) return std::unexpected(*why);
  CODECFS_ASSIGN(std::shared_ptr<remote::ObjectClient> client, client_of(*this, url));
  return ObjectPlace{std::move(client), url.key};
}

}  // namespace codecfs
