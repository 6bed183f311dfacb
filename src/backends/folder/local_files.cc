#include "backends/folder/local_files.h"

#include <dirent.h>
#include <fcntl.h>

#include <climits>
#include <cstdlib>
#include <memory>

#include "backends/zarr/store/directory_writer.h"
#include "base/directory_stream.h"

namespace codecfs::folder {
namespace {

constexpr int kDirectory = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/// Whether the name is that of an auxiliary file, which codecfs creates beside a dataset while it writes it and removes
/// afterwards.
bool is_our_own(std::string_view name) {
  return zarr::is_temporary_name(name) || (name.starts_with('.') && name.ends_with(".codecfs-wal"));
}

Result<std::string> read_link(int directory, const std::string& name) {
  std::string target(PATH_MAX, '\0');
  const ssize_t length = ::readlinkat(directory, name.c_str(), target.data(), target.size());
  if (length < 0) return fail_errno(errno, "{}", name);
  target.resize(static_cast<size_t>(length));
  return target;
}

/// Maps d_type to a kind; none: not shown.
std::optional<EntryKind> kind_of_type(unsigned char type) {
  switch (type) {
    case DT_DIR: return EntryKind::folder;
    case DT_REG:
    case DT_UNKNOWN: return EntryKind::file;
    default: return std::nullopt;
  }
}

std::pair<std::string_view, std::string> split(std::string_view key) {
  const size_t slash = key.rfind('/');
  if (slash == key.npos) return {{}, std::string(key)};
  return {key.substr(0, slash), std::string(key.substr(slash + 1))};
}

}  // namespace

std::string join(const std::string& directory, std::string_view name) {
  return directory.empty() ? std::string(name) : fmt::format("{}/{}", directory, name);
}

Result<std::unique_ptr<LocalFiles>> LocalFiles::open(const std::string& path, DatasetOpener opener) {
  std::unique_ptr<LocalFiles> files(new LocalFiles(std::move(opener)));
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
  if (!real) return fail_errno(errno, "{}", path);
  files->path_ = real.get();
  files->root_ = UniqueFd(::open(real.get(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!files->root_ || ::fstat(files->root_.get(), &files->status_) != 0) return fail_errno(errno, "{}", path);
  return files;
}

struct statvfs LocalFiles::filesystem() const {
  struct statvfs numbers{};
  if (::fstatvfs(root_.get(), &numbers) != 0) numbers = {};
  return numbers;
}

std::string LocalFiles::path_of(const std::string& key) const {
  return path_ == "/" || key.empty() ? path_ + key : path_ + "/" + key;
}

std::optional<std::string> LocalFiles::key_of(const std::string& path) const {
  if (path == path_) return "";
  const std::string start = path_ == "/" ? path_ : path_ + "/";
  if (!path.starts_with(start)) return std::nullopt;
  return path.substr(start.size());
}

/// Opens a directory in the folder component by component. `flags`: O_PATH, or O_RDONLY to list it.
Result<UniqueFd> LocalFiles::directory(std::string_view key, int flags) const {
  UniqueFd at(::openat(root_.get(), ".", O_PATH | kDirectory));
  while (at && !key.empty()) {
    const std::string part(key.substr(0, key.find('/')));
    key.remove_prefix(std::min(part.size() + 1, key.size()));
    at = UniqueFd(::openat(at.get(), part.c_str(), O_PATH | kDirectory));
  }
  if (at && flags != O_PATH) at = UniqueFd(::openat(at.get(), ".", flags | kDirectory));
  if (!at) return std::unexpected(Error{errno == ELOOP ? ENOTDIR : errno, std::strerror(errno)});
  return at;
}

Result<std::optional<Found>> LocalFiles::look_in(int directory, const std::string& name) const {
  Found found;
  if (is_our_own(name)) return std::optional<Found>();
  if (::fstatat(directory, name.c_str(), &found.status, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG) return std::optional<Found>();
    return fail_errno(errno, "{}", name);
  }
  if (S_ISLNK(found.status.st_mode)) {
    found.kind = EntryKind::symlink;
    CODECFS_ASSIGN(found.target, read_link(directory, name));
    return found;
  }
  const bool is_directory = S_ISDIR(found.status.st_mode);
  if (!is_directory && !S_ISREG(found.status.st_mode)) return std::optional<Found>();
  found.kind = is_directory ? EntryKind::folder : EntryKind::file;
  // A file that may not be opened is still listed; opening it gives the error.
  const UniqueFd fd(::openat(directory, name.c_str(),
                             is_directory ? O_PATH | kDirectory : O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (fd) found.kind = opener_.kind(fd.get(), found.status).value_or(found.kind);
  return found;
}

Result<std::optional<struct stat>> LocalFiles::stat(const std::string& key) const {
  const auto [holder, name] = split(key);
  const auto directory = this->directory(holder, O_PATH);
  struct stat status;
  const int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (key.empty() ? AT_EMPTY_PATH : 0);
  int code = directory ? 0 : directory.error().code;
  if (directory && ::fstatat(directory->get(), name.c_str(), &status, flags) != 0) code = errno;
  if (code == ENOENT || code == ENOTDIR) return std::optional<struct stat>();
  if (code != 0) return fail_errno(code, "{}", path_of(key));
  return status;
}

Result<std::optional<Found>> LocalFiles::look(const std::string& key) const {
  const auto [holder, name] = split(key);
  auto directory = this->directory(holder, O_PATH);
  if (!directory && (directory.error().code == ENOENT || directory.error().code == ENOTDIR))
    return std::optional<Found>();
  if (!directory) return fail(directory.error().code, "{}: {}", path_of(key), directory.error().reason);
  auto found = look_in(directory->get(), name);
  if (!found) return fail(found.error().code, "{}: {}", path_of(std::string(holder)), found.error().reason);
  return found;
}

Result<FolderFiles::Names> LocalFiles::list(const std::string& key, const std::optional<std::string>& except) const {
  auto fd = this->directory(key, O_RDONLY);
  if (!fd) return fail(fd.error().code, "{}: {}", path_of(key), fd.error().reason);
  const DirectoryStream stream(::fdopendir(fd->get()));
  if (!stream) return fail_errno(errno, "{}", path_of(key));
  (void)fd->release();  // fclose or closedir closes it
  Names entries;
  for (errno = 0; const dirent* const entry = ::readdir(stream.get()); errno = 0) {
    std::string name = entry->d_name;
    if (name == "." || name == ".." || (except && join(key, name) == *except)) continue;
    const auto found = look_in(::dirfd(stream.get()), name);
    if (found && *found) entries.emplace_back(std::move(name), **found);
    if (found) continue;
    if (const auto kind = kind_of_type(entry->d_type)) entries.emplace_back(std::move(name), Found{*kind, {}, {}});
  }
  if (errno != 0) return fail_errno(errno, "{}", path_of(key));
  return entries;
}

Result<UniqueFd> LocalFiles::open_file(const std::string& key) const {
  const auto [holder, name] = split(key);
  auto directory = this->directory(holder, O_PATH);
  if (!directory) return fail(directory.error().code, "{}: {}", path_of(key), directory.error().reason);
  // O_NONBLOCK, because the file may have become a FIFO.
  UniqueFd fd(::openat(directory->get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return fail_errno(errno == ELOOP ? ESTALE : errno, "{}", path_of(key));
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) return fail_errno(errno, "{}", path_of(key));
  if (!S_ISREG(status.st_mode)) return fail(ESTALE, "{}: is no longer a file", path_of(key));
  return fd;
}

Result<std::shared_ptr<Source>> LocalFiles::open_dataset(const std::string& key, const Found& expected,
                                                         bool may_write) const {
  CODECFS_ASSIGN(std::shared_ptr<Source> source, opener_.open(path_of(key), may_write));
  // The path may refer to another file by now, also through a link.
  if (!is_same_file(source->status(), expected.status) || source->root().kind != expected.kind)
    return fail(ESTALE, "{}: is another file now", path_of(key));
  return source;
}

}  // namespace codecfs::folder
