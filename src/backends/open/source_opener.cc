#include "backends/open/source_opener.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/folder/resting_source.h"
#include "backends/open/formats.h"
#include "backends/open/unsupported_format.h"
#include "base/unique_fd.h"
#include "remote/object_url.h"

namespace codecfs {

SourceOpener::SourceOpener(SourceOptions options) : state_(std::make_shared<const State>(std::move(options))) {}

Result<std::unique_ptr<Source>> SourceOpener::open(const std::string& path, bool may_write) const {
  if (is_source_url(path)) return open_url(*this, path, may_write);
  if (path.contains("://") && ::access(path.c_str(), F_OK) != 0)
    return fail(EINVAL, "{}: URLs begin with s3://, gs://, az://, abfss://, https:// or http://", path);
  // O_NONBLOCK, because opening a FIFO would wait for a writer.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return fail_errno(errno, "{}", path);
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) return fail_errno(errno, "{}", path);
  const bool is_directory = S_ISDIR(status.st_mode);
  if (!is_directory && !S_ISREG(status.st_mode)) return fail(EINVAL, "{}: is neither a file nor a directory", path);
  if (!is_directory && status.st_size == 0) return fail(EINVAL, "{}: is empty", path);
  auto look = look_at(fd.get(), is_directory, static_cast<uint64_t>(status.st_size));
  if (!look) return fail(look.error().code, "{}: {}", path, look.error().reason);
  if (const Format* format = format_of(*look)) return format->open(*this, path, may_write);
  if (const auto what = unsupported_start(look->start, path)) return fail(EINVAL, "{}: is {}", path, *what);
  if (look->start.starts_with("PK\003\004"))
    return fail(EINVAL, "{}: is a zip archive whose end is missing: it is truncated", path);
  return fail(EINVAL,
              "{}: is neither HDF5 nor netCDF-4 (no HDF5 signature) nor a zip archive; a Zarr store is named by its "
              "directory",
              path);
}

std::unique_ptr<Source> SourceOpener::make_resting(std::unique_ptr<Source> source, const std::string& path,
                                                   bool may_write) const {
  if (is_source_url(path)) return source;
  return codecfs::make_resting(
      std::move(source), path, may_write,
      [opener = *this](const std::string& again, bool writes) { return opener.open(again, writes); });
}

Result<> SourceOpener::create(const std::string& path, std::string_view format, bool as_netcdf) const {
  CODECFS_ASSIGN(const NewSource* kind, new_source_named(format));
  return kind->make(path, as_netcdf, state_->options.hdf5);
}

std::string SourceOpener::counters() const {
  return state_->has_opened_url ? state_->statistics->print() : std::string();
}

bool is_source_url(std::string_view path) { return remote::is_object_url(path); }

std::string shown_source(const std::string& path) { return remote::shown_url(path); }

Result<SourceCheck> check_source(const std::string& path) { return format_at(path).check(path); }

Result<std::string> recover_source(const std::string& path) { return format_at(path).recover(path); }

Result<std::string> compact_source(const std::string& path, const std::function<bool()>& cancelled) {
  return format_at(path).compact(path, cancelled);
}

}  // namespace codecfs
