#include "backends/open/formats.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "backends/folder/folder_source.h"
#include "backends/hdf5/compact/compact_file.h"
#include "backends/hdf5/hdf5_source.h"
#include "backends/open/unsupported_format.h"
#include "backends/worker/isolated_hdf5.h"
#include "backends/zarr/source/zarr_source.h"
#include "backends/zarr/store/zip_archive.h"
#include "base/file_io.h"
#include "base/unique_fd.h"

namespace codecfs {
namespace {

using SourceResult = Result<std::unique_ptr<Source>>;
using Cancelled = std::function<bool()>;

// --- HDF5 and netCDF-4 files

constexpr NewSource kNewFiles[] = {
    {.name = "hdf5", .make = [](const std::string& path, bool as_netcdf, const Hdf5Options& options) {
       return create_hdf5(path, as_netcdf, options.latest);
     }}};

constexpr Format kHdf5 = {
    .recognises =
        [](const Look& look) {
          return !look.is_directory && looks_like_hdf5(look.fd, look.within) && !is_tar(look.fd);
        },
    .open = [](const SourceOpener& opener, const std::string& path, bool may_write) -> SourceResult {
      const Hdf5Options& options = opener.state().options.hdf5;
      if (!options.isolated) return open_hdf5(path, may_write, real_file_io(), options.latest);
      return open_hdf5_in_worker(path, may_write, opener.state().ranges, options.latest);
    },
    .open_object =
        [](std::shared_ptr<remote::ObjectFile> object, const SourceOpener& opener) {
          return open_remote_hdf5(std::move(object), opener.state().ranges);
        },
    .kind_in_folder = [](int) { return std::optional(EntryKind::group); },
    .new_sources = kNewFiles,
    .check = check_hdf5_log,
    .recover = recover_hdf5_log,
    .compact = [](const std::string& path,
                  const Cancelled& cancelled) { return hdf5::compact_file(path, real_file_io(), cancelled); }};

// --- Directories of Zarr

constexpr const char* kNoLog = "{}: a Zarr store has no log: each chunk is old or new at any time";

constexpr NewSource kNewStores[] = {
    {.name = "zarr",
     .make = [](const std::string& path, bool, const Hdf5Options&) { return create_zarr(path); },
     .make_objects = [](remote::ObjectClient& client,
                        const std::string& key) { return create_zarr_objects(client, key, false); }},
    {.name = "zarr3",
     .make = [](const std::string& path, bool, const Hdf5Options&) { return create_zarr3(path); },
     .make_objects = [](remote::ObjectClient& client,
                        const std::string& key) { return create_zarr_objects(client, key, true); }},
    {.name = "nczarr",
     .make = [](const std::string& path, bool, const Hdf5Options&) { return create_nczarr(path); },
     .make_objects = create_nczarr_objects}};

constexpr Format kZarrDirectory = {
    .recognises = [](const Look& look) { return look.is_directory && looks_like_zarr(look.fd); },
    .open = [](const SourceOpener&, const std::string& path, bool may_write) { return open_zarr(path, may_write); },
    .kind_in_folder = zarr_root_kind,
    .new_sources = kNewStores,
    .check = [](const std::string& path) -> Result<SourceCheck> {
      return SourceCheck{.text = fmt::format(kNoLog, path)};
    },
    .recover = [](const std::string& path) -> Result<std::string> { return fmt::format(kNoLog, path); },
    .compact = [](const std::string& path, const Cancelled&) -> Result<std::string> {
      return fmt::format("{}: a Zarr directory has no unused space", path);
    }};

// --- Archives of Zarr

constexpr const char* kNoZipLog = "{}: a zip archive has no log: it is the old or the new one at any time";

constexpr NewSource kNewArchives[] = {
    {.name = "zip", .make = [](const std::string& path, bool, const Hdf5Options&) { return create_zarr_zip(path); }}};

constexpr Format kZarrZip = {
    .recognises =
        [](const Look& look) {
          if (look.is_directory || unsupported_start(look.start) != nullptr) return false;
          return look.is_object ? look.start.starts_with("PK\003\004") : zarr::looks_like_zip(look.fd, look.size);
        },
    .open = [](const SourceOpener&, const std::string& path, bool may_write) { return open_zarr_zip(path, may_write); },
    .open_object = [](std::shared_ptr<remote::ObjectFile> object,
                      const SourceOpener&) { return open_zarr_zip(std::move(object)); },
    .new_sources = kNewArchives,
    .check = [](const std::string& path) -> Result<SourceCheck> {
      return SourceCheck{.text = fmt::format(kNoZipLog, path)};
    },
    .recover = [](const std::string& path) -> Result<std::string> { return fmt::format(kNoZipLog, path); },
    .compact = [](const std::string& path, const Cancelled&) { return compact_zarr_zip(path); }};

// --- Folders of datasets

bool has(int directory, const char* name) { return ::faccessat(directory, name, F_OK, 0) == 0; }

SourceResult open_folder_at(const SourceOpener& opener, const std::string& path, bool may_write) {
  const UniqueFd fd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail_errno(errno, "{}", path);
  if (has(fd.get(), "attributes.json"))
    return fail(EINVAL, "{}: is an N5 store, and of directories only Zarr is read", path);
  if (has(fd.get(), ".zmetadata"))
    return fail(EINVAL, "{}: has .zmetadata but neither .zgroup nor .zarray: copy the whole of the Zarr store", path);
  // Format 1 has a file for each branch, 2 one for all.
  if (has(fd.get(), "snapshots") &&
      (has(fd.get(), "refs/branch.main") || (has(fd.get(), "repo") && has(fd.get(), "transactions"))))
    return fail(EINVAL, "{}: {}", path, folder::kIcechunk);
  const auto open = [opener](const std::string& dataset, bool writes) { return opener.open(dataset, writes); };
  return open_folder(path, {.kind = dataset_kind, .open = open}, may_write);
}

std::unexpected<Error> no_dataset(const std::string& path) {
  return fail(EINVAL,
              "{}: is a folder (a Zarr store has .zgroup, .zarray or zarr.json at its top); name a dataset in it",
              path);
}

constexpr Format kFolder = {
    .recognises = [](const Look& look) { return look.is_directory; },
    .open = open_folder_at,
    .check = [](const std::string& path) -> Result<SourceCheck> { return no_dataset(path); },
    .recover = [](const std::string& path) -> Result<std::string> { return no_dataset(path); },
    .compact = [](const std::string& path, const Cancelled&) -> Result<std::string> { return no_dataset(path); }};

// --- Archives that are only recognised: HDF5 files and zip archives in them must not be taken for them

std::unexpected<Error> no_source(const std::string& path) { return fail(EINVAL, "{}: is {}", path, kTarArchive); }

constexpr Format kTar = {
    .recognises = [](const Look& look) { return !look.is_directory && is_tar(look.fd); },
    .open = [](const SourceOpener&, const std::string& path, bool) -> SourceResult { return no_source(path); },
    .check = [](const std::string& path) -> Result<SourceCheck> { return no_source(path); },
    .recover = [](const std::string& path) -> Result<std::string> { return no_source(path); },
    .compact = [](const std::string& path, const Cancelled&) -> Result<std::string> { return no_source(path); }};

// --- URLs

constexpr const char* kNoObjectLog =
    "{}: a URL has no log: HDF5 files and archives are not changed there, and each object of a Zarr store is old or "
    "new at any time";

constexpr Format kUrl = {
    .recognises = [](const Look&) { return false; },
    .open = [](const SourceOpener& opener, const std::string& url,
               bool may_write) { return open_url(opener, url, may_write); },
    .check = [](const std::string& url) -> Result<SourceCheck> {
      return SourceCheck{.text = fmt::format(kNoObjectLog, shown_source(url))};
    },
    .recover = [](const std::string& url) -> Result<std::string> {
      return fail(EOPNOTSUPP, kNoObjectLog, shown_source(url));
    },
    .compact = [](const std::string& url, const Cancelled&) -> Result<std::string> {
      return fail(EOPNOTSUPP,
                  "{}: files at a URL are not changed, and a Zarr store there has no unused space: to make a file "
                  "smaller, copy it here and compact the copy",
                  shown_source(url));
    }};

constexpr const Format* kFormats[] = {&kTar, &kHdf5, &kZarrDirectory, &kZarrZip, &kFolder, &kUrl};

// Bytes of a folder's file, and of an object, that are searched for HDF5's signature. User blocks are smaller.
constexpr uint64_t kLookedAt = uint64_t{64} << 10;

Result<std::string> start_of(int fd) {
  char start[8] = {};
  const ssize_t count = ::pread(fd, start, sizeof start, 0);
  if (count < 0) return std::unexpected(Error{errno, std::strerror(errno)});
  return std::string(start, static_cast<size_t>(count));
}

}  // namespace

Result<Look> look_at(int fd, bool is_directory, uint64_t size) {
  Look look{.fd = fd, .start = {}, .size = size, .within = UINT64_MAX, .is_directory = is_directory};
  if (!is_directory) {
    CODECFS_ASSIGN(look.start, start_of(fd));
  }
  return look;
}

Result<Look> look_at(const remote::ObjectFile& object) {
  const int fd = object.mirror().content().get();
  CODECFS_ASSIGN(std::string start, start_of(fd));
  return Look{.fd = fd, .start = std::move(start), .size = object.size(), .within = kLookedAt, .is_object = true};
}

const Format* format_of(const Look& look) {
  const auto found = std::ranges::find_if(kFormats, [&](const Format* format) { return format->recognises(look); });
  return found == std::ranges::end(kFormats) ? nullptr : *found;
}

const Format& format_at(const std::string& path) {
  if (is_source_url(path)) return kUrl;
  // O_NONBLOCK, because opening a FIFO would wait for a writer.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status;
  if (!fd || ::fstat(fd.get(), &status) != 0) return kHdf5;
  if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode)) return kHdf5;
  auto look = look_at(fd.get(), S_ISDIR(status.st_mode), static_cast<uint64_t>(status.st_size));
  if (look) look->start.clear();  // an archive with other content before it is only not opened
  const Format* const format = look ? format_of(*look) : nullptr;
  return format == nullptr ? kHdf5 : *format;
}

std::vector<std::string_view> formats_of_new_sources() {
  std::vector<std::string_view> names;
  for (const Format* format : kFormats)
    for (const NewSource& kind : format->new_sources) names.push_back(kind.name);
  return names;
}

Result<const NewSource*> new_source_named(std::string_view name) {
  for (const Format* format : kFormats)
    for (const NewSource& kind : format->new_sources)
      if (kind.name == name) return &kind;
  return fail(EINVAL, "\"{}\" is not a format in which a source can be created; use one of {}", name,
              fmt::join(formats_of_new_sources(), ", "));
}

std::optional<EntryKind> dataset_kind(int fd, const struct stat& status) {
  const Look look{.fd = fd, .start = {}, .within = kLookedAt, .is_directory = S_ISDIR(status.st_mode)};
  if (!look.is_directory && !S_ISREG(status.st_mode)) return std::nullopt;
  for (const Format* format : kFormats)
    if (format->kind_in_folder != nullptr && format->recognises(look)) return format->kind_in_folder(fd);
  return std::nullopt;
}

}  // namespace codecfs
