// Detects the format of a source by its content and opens it with the backend that supports it.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <string_view>

#include "backends/api/source.h"
#include "backends/api/source_copy.h"
#include "backends/api/source_format.h"
#include "backends/api/unsupported_format.h"
#include "backends/folder/bucket_files.h"
#include "backends/folder/folder_source.h"
#include "backends/hdf5/hdf5_source.h"
#include "backends/worker/chunk_index.h"
#include "backends/worker/isolated_hdf5.h"
#include "backends/zarr/source/zarr_source.h"
#include "backends/zarr/store/zip_archive.h"
#include "base/file_io.h"
#include "base/unique_fd.h"
#include "remote/object_file.h"

namespace codecfs {
namespace {

using std::string_view_literals::operator""sv;

/// A format that is recognised but not supported.
struct UnsupportedFormat {
  std::string_view signature;  // the first bytes of the file
  const char* what;            // the name of the format and what to do
};

constexpr size_t kDataFormats = 5;  // those of scientific data come first
constexpr UnsupportedFormat kStrangers[] = {
    {"CDF\001"sv, "a netCDF-3 classic file; make it a netCDF-4 file with: nccopy -k nc4 FILE NEW.nc"},
    {"CDF\002"sv, "a netCDF-3 file with 64-bit offsets; make it a netCDF-4 file with: nccopy -k nc4 FILE NEW.nc"},
    {"CDF\005"sv, "a netCDF-3 CDF-5 file; make it a netCDF-4 file with: nccopy -k nc4 FILE NEW.nc"},
    {"GRIB"sv, "a GRIB file; make it a netCDF-4 file, for instance with: cdo -f nc4 copy FILE NEW.nc"},
    {"\016\003\023\001"sv, "an HDF4 file; make it an HDF5 file with: h4toh5convert FILE NEW.h5"},
    {"\x93NUMPY"sv, "a NumPy array file; np.load(FILE, mmap_mode=\"r\") reads it as it is"},
    {"\x1F\x8B"sv, "a file compressed with gzip; unpack it with gunzip"},
    {"BZh"sv, "a file compressed with bzip2; unpack it with bunzip2"},
    {"\x28\xB5\x2F\xFD"sv, "a file compressed with zstd; unpack it with unzstd"},
    {"\xFD"
     "7zXZ"sv,
     "a file compressed with xz; unpack it with unxz"},
};

std::unexpected<Error> refuse(const std::string& path, const char* what) {
  return fail(EINVAL, "{}: is {}", path, what);
}

Hdf5Options& hdf5_options() {
  static Hdf5Options options;
  return options;
}

std::shared_ptr<worker::ChunkRanges>& chunk_ranges() {
  static auto ranges = std::make_shared<worker::ChunkRanges>(hdf5_options().index_bytes);
  return ranges;
}

// How names of HDF5 and netCDF files end.
constexpr std::string_view kFileNames[] = {".h5",   ".hdf5", ".he5", ".nc",   ".nc4",   ".h5ad", ".h5mu",
                                           ".loom", ".nxs",  ".nwb", ".cool", ".mcool", ".fast5"};

// Bytes of a folder's file that are searched for HDF5's signature. User blocks are smaller.
constexpr uint64_t kLookedAt = uint64_t{64} << 10;

bool has(int directory_fd, const char* name) { return ::faccessat(directory_fd, name, F_OK, 0) == 0; }

Result<std::unique_ptr<Source>> open_directory_of_arrays(const std::string& path, int fd, bool may_write) {
  if (looks_like_zarr(fd)) return open_zarr(path, may_write);
  if (has(fd, "attributes.json")) return refuse(path, "an N5 store, and of directories only Zarr is read");
  if (has(fd, ".zmetadata"))
    return fail(EINVAL, "{}: has .zmetadata but neither .zgroup nor .zarray: copy the whole of the Zarr store", path);
  return open_folder(path, may_write);
}

Result<std::unique_ptr<Source>> open_file(const std::string& path, int fd, off_t size, bool may_write) {
  if (size == 0) return fail(EINVAL, "{}: is empty", path);
  if (looks_like_hdf5(fd)) {
    const Hdf5Options& options = hdf5_options();
    if (!options.isolated) return open_hdf5(path, may_write, real_file_io(), options.latest);
    return open_hdf5_in_worker(path, may_write, chunk_ranges(), options.latest);
  }
  char start[8] = {};
  const ssize_t count = ::pread(fd, start, sizeof start, 0);
  if (count < 0) return fail_errno(errno, "{}", path);
  const std::string_view begin(start, static_cast<size_t>(count));
  for (const UnsupportedFormat& stranger : kStrangers)
    if (begin.starts_with(stranger.signature)) return refuse(path, stranger.what);
  if (zarr::looks_like_zip(fd, static_cast<uint64_t>(size))) return open_zarr_zip(path, may_write);
  if (begin.starts_with("PK\003\004")) return refuse(path, "a zip archive whose end is missing: it is truncated");
  return fail(EINVAL,
              "{}: is neither HDF5 nor netCDF-4 (no HDF5 signature) nor a zip archive; a Zarr store is named by its "
              "directory",
              path);
}

}  // namespace

namespace {

remote::ObjectOptions& object_options() {
  static remote::ObjectOptions options;
  return options;
}

/// Of all URLs that were opened.
remote::RequestStatistics& statistics() {
  static remote::RequestStatistics all;
  return all;
}
std::atomic<bool> has_opened_url = false;

Result<std::shared_ptr<remote::ObjectClient>> client_of(const remote::ObjectUrl& url) {
  remote::ObjectOptions options = object_options();
  options.statistics = {&statistics(), [](auto*) {}};
  has_opened_url = true;
  return remote::ObjectClient::make(url, options);
}

Result<std::unique_ptr<remote::ObjectFile>> open_object_file(std::shared_ptr<remote::ObjectClient> client,
                                                             const std::string& key, const std::string& name) {
  std::shared_ptr<remote::DiskCache> cache;
  if (const auto& directory = object_options().cache_directory; !directory.empty()) {
    auto opened = remote::DiskCache::open(directory, object_options().cache_bytes);
    // ENOENT would mean that there is no such object, and EINVAL in a folder that it is no dataset.
    if (!opened) return fail(EIO, "-o cache_dir: {}", opened.error().reason);
    cache = *std::move(opened);
  }
  return remote::ObjectFile::open(std::move(client), key, name, object_options().connections, std::move(cache));
}

/// Opens the object with the key itself. Null if there is none.
Result<std::unique_ptr<Source>> open_object(std::shared_ptr<remote::ObjectClient> client, const std::string& key,
                                            const std::string& name) {
  if (key.empty() || key.ends_with('/')) return nullptr;
  auto opened = open_object_file(std::move(client), key, name);
  if (!opened && opened.error().code == ENOENT) return nullptr;
  if (!opened) return pass_on(opened);
  const std::shared_ptr<remote::ObjectFile> object = *std::move(opened);
  if (object->size() == 0) return fail(EINVAL, "{}: is empty", name);
  const int fd = object->mirror().content().get();
  if (looks_like_hdf5(fd, kLookedAt)) return open_remote_hdf5(object, chunk_ranges());
  char start[8] = {};
  const ssize_t count = ::pread(fd, start, sizeof start, 0);
  const std::string_view begin(start, static_cast<size_t>(std::max<ssize_t>(count, 0)));
  for (const UnsupportedFormat& stranger : kStrangers)
    if (begin.starts_with(stranger.signature)) return refuse(name, stranger.what);
  if (begin.starts_with("PK\003\004")) return open_zarr_zip(object);
  return fail(EINVAL, "{}: is a single object, and neither HDF5 nor netCDF-4 nor a zip archive", name);
}

/// Null if no key begins with this one and a "/".
Result<std::unique_ptr<Source>> open_bucket_folder(const std::shared_ptr<remote::ObjectClient>& client,
                                                   const std::string& key, std::string name) {
  std::string prefix = key;
  if (!prefix.empty() && !prefix.ends_with('/')) prefix += '/';
  while (name.ends_with('/')) name.pop_back();
  const Error only_read{EROFS,
                        fmt::format("{}: a folder of a bucket is only read; mount the store itself to write it", name)};
  const auto open = [client, name, prefix, only_read](const std::string& wanted,
                                                      bool is_store) -> Result<std::unique_ptr<Source>> {
    const std::string shown = name + "/" + wanted.substr(prefix.size());
    if (is_store) return open_zarr_objects(client, wanted, shown, only_read);
    CODECFS_ASSIGN(auto object, open_object(client, wanted, shown));
    if (!object) return fail(ENOENT, "{}: there is no such object", shown);
    return object;
  };
  auto files = std::make_unique<folder::BucketFiles>(
      folder::BucketFiles::Place{client, prefix, name, object_options().connections}, open);
  CODECFS_ASSIGN(const bool has_any, files->has_any());
  if (!has_any) return nullptr;
  return open_folder(std::move(files), false);
}

/// Why a store at this URL is only read.
std::optional<Error> unwritable(const remote::ObjectUrl& url, const std::string& name, bool may_write) {
  if (!may_write) return Error{EROFS, fmt::format("{}: was opened only to be read", name)};
  if (!url.is_s3) return Error{EROFS, fmt::format("{}: a web server is only read; s3:// can be written", name)};
  if (object_options().anonymous) return Error{EROFS, fmt::format("{}: is only read with -o anon", name)};
  return std::nullopt;
}

Result<std::unique_ptr<Source>> open_url(const std::string& text, bool may_write) {
  CODECFS_ASSIGN(const remote::ObjectUrl url, remote::parse_object_url(text));
  const std::string name = remote::shown_url(text);
  CODECFS_ASSIGN(const std::shared_ptr<remote::ObjectClient> client, client_of(url));
  // What the name says is tried first, because each try costs requests.
  const bool is_file_name = url.key.ends_with(".zip") || has_hdf5_name(url.key);
  if (is_file_name) {
    CODECFS_ASSIGN(auto object, open_object(client, url.key, name));
    if (object) return object;
  }
  auto store = open_zarr_objects(client, url.key, name, unwritable(url, name, may_write));
  if (store || store.error().code != EINVAL || is_file_name) return store;
  CODECFS_ASSIGN(auto object, open_object(client, url.key, name));
  if (object) return object;
  if (!url.is_s3) return store;
  CODECFS_ASSIGN(auto folder, open_bucket_folder(client, url.key, name));
  if (folder) return folder;
  return store;
}

}  // namespace

Result<> copy_object(const std::string& text, const std::string& to, const std::function<bool()>& cancelled) {
  CODECFS_ASSIGN(const remote::ObjectUrl url, remote::parse_object_url(text));
  CODECFS_ASSIGN(std::shared_ptr<remote::ObjectClient> client, client_of(url));
  CODECFS_ASSIGN(const auto object, open_object_file(std::move(client), url.key, remote::shown_url(text)));
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

bool has_hdf5_name(std::string_view name) {
  return std::ranges::any_of(kFileNames, [&](std::string_view end) { return name.ends_with(end); });
}

std::string object_counters() { return has_opened_url ? statistics().print() : std::string(); }

bool is_source_url(std::string_view path) { return remote::is_object_url(path); }

std::string shown_source(const std::string& path) { return remote::shown_url(path); }

void set_object_options(const remote::ObjectOptions& options) { object_options() = options; }

Result<std::unique_ptr<Source>> open_source(const std::string& path, bool may_write) {
  if (is_source_url(path)) return open_url(path, may_write);
  if (path.contains("://") && ::access(path.c_str(), F_OK) != 0)
    return fail(EINVAL, "{}: URLs begin with s3://, https:// or http://", path);
  // O_NONBLOCK, because opening a FIFO would wait for a writer.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return fail_errno(errno, "{}", path);
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) return fail_errno(errno, "{}", path);
  if (S_ISDIR(status.st_mode)) return open_directory_of_arrays(path, fd.get(), may_write);
  if (S_ISREG(status.st_mode)) return open_file(path, fd.get(), status.st_size, may_write);
  return fail(EINVAL, "{}: is neither a file nor a directory", path);
}

void set_hdf5_options(const Hdf5Options& options) {
  hdf5_options() = options;
  chunk_ranges() = std::make_shared<worker::ChunkRanges>(options.index_bytes);
}

std::optional<std::string> unsupported_format(int fd, std::string_view name) {
  char start[8] = {};
  const ssize_t count = ::pread(fd, start, sizeof start, 0);
  if (count < 0 || looks_like_hdf5(fd, kLookedAt)) return std::nullopt;
  const std::string_view begin(start, static_cast<size_t>(count));
  for (const UnsupportedFormat& stranger : std::span(kStrangers).first(kDataFormats))
    if (begin.starts_with(stranger.signature)) return fmt::format("is {}", stranger.what);
  if (std::ranges::none_of(kFileNames, [&](std::string_view end) { return name.ends_with(end); })) return std::nullopt;
  if (begin.empty()) return "has the name of an HDF5 or netCDF file, and is empty";
  return "has the name of an HDF5 or netCDF file, but no HDF5 signature: it is damaged or of another format";
}

std::optional<EntryKind> dataset_kind(int fd, const struct stat& status) {
  if (S_ISDIR(status.st_mode)) return zarr_root_kind(fd);
  if (S_ISREG(status.st_mode) && looks_like_hdf5(fd, kLookedAt)) return EntryKind::group;
  return std::nullopt;
}

namespace {

bool is_directory(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// Whether this is a Zarr archive, by its content as in open_source(). False if the file cannot be opened: the caller's
/// next step reports that.
bool is_zip(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status;
  return fd && ::fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode) && !looks_like_hdf5(fd.get()) &&
         zarr::looks_like_zip(fd.get(), static_cast<uint64_t>(status.st_size));
}

constexpr const char* kNoLog = "{}: a Zarr store has no log: each chunk is old or new at any time";
constexpr const char* kNoObjectLog =
    "{}: a URL has no log: HDF5 files and archives are not changed there, and each object of a Zarr store is old or "
    "new at any time";
constexpr const char* kNoZipLog = "{}: a zip archive has no log: it is the old or the new one at any time";

}  // namespace

Result<SourceFormat> source_format_of(const std::string& path) {
  if (is_source_url(path)) return SourceFormat::object_store;
  if (is_directory(path)) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd && !looks_like_zarr(fd.get()))
      return fail(EINVAL,
                  "{}: is a folder (a Zarr store has .zgroup, .zarray or zarr.json at its top); name a dataset in it",
                  path);
    return SourceFormat::zarr_directory;
  }
  return is_zip(path) ? SourceFormat::zarr_zip : SourceFormat::hdf5;
}

Result<SourceCheck> check_source(const std::string& path) {
  CODECFS_ASSIGN(const SourceFormat format, source_format_of(path));
  if (format == SourceFormat::object_store) return SourceCheck{.text = fmt::format(kNoObjectLog, shown_source(path))};
  if (format == SourceFormat::zarr_directory) return SourceCheck{.text = fmt::format(kNoLog, path)};
  if (format == SourceFormat::zarr_zip) return SourceCheck{.text = fmt::format(kNoZipLog, path)};
  return check_hdf5_log(path);
}

Result<std::string> recover_source(const std::string& path) {
  CODECFS_ASSIGN(const SourceFormat format, source_format_of(path));
  if (format == SourceFormat::object_store) return fail(EOPNOTSUPP, kNoObjectLog, shown_source(path));
  if (format == SourceFormat::zarr_directory) return fmt::format(kNoLog, path);
  if (format == SourceFormat::zarr_zip) return fmt::format(kNoZipLog, path);
  return recover_hdf5_log(path);
}

Result<bool> create_remote_source(const std::string& text, std::string_view format) {
  if (format != "zarr" && format != "zarr3" && format != "nczarr")
    return fail(EROFS, "{}: only zarr, zarr3 and nczarr can be created in an object store, not {}",
                remote::shown_url(text), format);
  CODECFS_ASSIGN(const ObjectPlace place, object_to_write(text));
  if (format == "nczarr") return create_nczarr_objects(*place.client, place.key);
  return create_zarr_objects(*place.client, place.key, format == "zarr3");
}

Result<ObjectPlace> object_to_write(const std::string& text) {
  CODECFS_ASSIGN(const remote::ObjectUrl url, remote::parse_object_url(text));
  if (const auto why = unwritable(url, remote::shown_url(text), true)) return std::unexpected(*why);
  CODECFS_ASSIGN(std::shared_ptr<remote::ObjectClient> client, client_of(url));
  return ObjectPlace{std::move(client), url.key};
}

Result<> create_source(const std::string& path, std::string_view format, bool as_netcdf) {
  if (format == "hdf5") return create_hdf5(path, as_netcdf, hdf5_options().latest);
  if (format == "zarr") return create_zarr(path);
  if (format == "zarr3") return create_zarr3(path);
  if (format == "zip") return create_zarr_zip(path);
  if (format == "nczarr") return create_nczarr(path);
  return fail(EINVAL, "\"{}\" is not a format in which a source can be created; use hdf5, zarr, zarr3, zip or nczarr",
              format);
}

}  // namespace codecfs
