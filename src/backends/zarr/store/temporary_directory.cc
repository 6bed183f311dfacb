#include "backends/zarr/store/temporary_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "base/file_owner.h"
#include "base/log.h"

namespace codecfs::zarr {
namespace {

constexpr int kMaxDepth = 128;  // levels when deleting recursively: each takes a descriptor

Result<> remove_tree_within(FileIo& io, const File& parent, const std::string& name, int depth) {
  struct stat status;
  if (::fstatat(parent.fd.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return {};
    return fail_errno(errno, "{}/{}", parent.path, name);
  }
  if (!S_ISDIR(status.st_mode)) return io.unlink(parent, name);
  if (depth == kMaxDepth) return fail(ELOOP, "{}/{}: is nested too deeply to be deleted", parent.path, name);
  {
    CODECFS_ASSIGN(const File directory, open_directory(parent, name));
    CODECFS_ASSIGN(const auto names, names_in(directory));
    for (const std::string& below : names) CODECFS_TRY(remove_tree_within(io, directory, below, depth + 1));
  }
  return io.remove_directory(parent, name);
}

/// "0/1/2" -> "0/1" and "2"; "0.1" -> "" and "0.1".
std::pair<std::string, std::string> split(const std::string& name) {
  const size_t slash = name.rfind('/');
  if (slash == std::string::npos) return {"", name};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

/// Opens each component without following links: the owner of the store could create a link at any time.
Result<File> open_below(const File& directory, const std::string& name) {
  if (name.empty()) {
    CODECFS_ASSIGN(File same, open_directory(directory, "."));
    same.path = directory.path;
    return same;
  }
  const auto [holder, last] = split(name);
  CODECFS_ASSIGN(const File parent, open_below(directory, holder));
  return open_directory(parent, last);
}

}  // namespace

Result<std::vector<std::string>> names_in(const File& directory) try {
  UniqueFd fd(::openat(directory.fd.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail_errno(errno, "{}", directory.path);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd.get()), ::closedir);
  if (!stream) return fail_errno(errno, "{}", directory.path);
  (void)fd.release();  // closedir closes it
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
      names.emplace_back(entry->d_name);
  }
  if (errno != 0) return fail_errno(errno, "{}", directory.path);
  return names;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to list it", directory.path);
}

Result<> remove_tree(FileIo& io, const File& parent, const std::string& name) try {
  return remove_tree_within(io, parent, name, 0);
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}/{}: no memory to delete it", parent.path, name);
}

Result<> make_like_existing(const File& made, const File& directory, const std::string& name) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  const UniqueFd existing(::openat(directory.fd.get(), name.c_str(), kFlags));
  struct stat status;
  struct stat own;
  if (!existing) {
    // A link is replaced by a file.
    if (errno != EACCES || ::fstatat(directory.fd.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return {};
    status.st_mode &= S_IRWXU;  // its list cannot be read
    return make_like(made.fd.get(), status);
  }
  if (::fstat(existing.get(), &status) != 0 || ::fstat(made.fd.get(), &own) != 0)
    return fail_errno(errno, "{}/{}", directory.path, name);
  if ((status.st_mode & S_IFMT) != (own.st_mode & S_IFMT)) return {};
  if (const Result<> given = make_like(made.fd.get(), existing.get(), Attributes::user); !given)
    return fail(given.error().code, "{}: {}", made.path, given.error().reason);
  return {};
}

Result<> sync_names(FileIo& io, const File& directory) {
  Result<> synced = io.sync(directory);
  // Some network filesystems persist names themselves and do not support fsync of a directory.
  if (!synced && synced.error().code == EINVAL) return {};
  return synced;
}

Result<TemporaryDirectory> TemporaryDirectory::make(FileIo& io, File parent, std::string temporary_name, mode_t mode) {
  CODECFS_TRY(io.make_directory(parent, temporary_name, mode));
  auto directory = open_directory(parent, temporary_name);
  if (!directory) {
    (void)io.remove_directory(parent, temporary_name);
    return pass_on(directory);
  }
  return TemporaryDirectory(io, std::move(parent), std::move(*directory), std::move(temporary_name), mode);
}

TemporaryDirectory::TemporaryDirectory(FileIo& io, File parent, File directory, std::string temporary_name, mode_t mode)
    : io_(&io),
      parent_(std::move(parent)),
      directory_(std::move(directory)),
      temporary_name_(std::move(temporary_name)),
      mode_(mode) {}

TemporaryDirectory::TemporaryDirectory(TemporaryDirectory&& other) noexcept
    : io_(other.io_),
      parent_(std::move(other.parent_)),
      directory_(std::move(other.directory_)),
      temporary_name_(std::exchange(other.temporary_name_, {})),
      mode_(other.mode_),
      replaced_(std::move(other.replaced_)),
      directories_(std::move(other.directories_)) {}

Result<> TemporaryDirectory::make_like(File replaced) {
  if (const Result<> given = codecfs::make_like(directory_.fd.get(), replaced.fd.get(), Attributes::user); !given)
    return fail(given.error().code, "{}: {}", directory_.path, given.error().reason);
  replaced_ = std::move(replaced);
  return {};
}

Result<> TemporaryDirectory::make_like_replaced(const File& made, const std::string& name) const {
  if (!replaced_.fd) return {};
  const auto [holder, last] = split(name);
  const auto directory = open_below(replaced_, holder);
  return directory ? make_like_existing(made, *directory, last) : Result<>();
}

TemporaryDirectory TemporaryDirectory::of_removed(FileIo& io, File parent, std::string temporary_name) {
  return {io, std::move(parent), File{}, std::move(temporary_name), 0};
}

TemporaryDirectory::~TemporaryDirectory() {
  if (temporary_name_.empty()) return;
  if (const auto removed = remove_tree(*io_, parent_, temporary_name_); !removed)
    log::warning("{}/{} was left behind: {}", parent_.path, temporary_name_, removed.error().reason);
}

Result<> TemporaryDirectory::make_directory(const std::string& name, mode_t mode) {
  const LockGuard lock(mutex_);
  for (size_t end = 0; end < name.size(); ++end) {
    end = std::min(name.find('/', end), name.size());
    const std::string path = name.substr(0, end);
    if (directories_.contains(path)) continue;
    const auto [holder, last] = split(path);
    CODECFS_ASSIGN(const File parent, open_below(directory_, holder));
    CODECFS_TRY(io_->make_directory(parent, last, mode));
    if (replaced_.fd) {
      CODECFS_ASSIGN(const File made, open_directory(parent, last));
      CODECFS_TRY(make_like_replaced(made, path));
    }
    directories_.insert(path);
  }
  return {};
}

Result<> TemporaryDirectory::write(const std::string& name, Bytes bytes, mode_t mode) try {
  if (const size_t slash = name.rfind('/'); slash != std::string::npos)
    CODECFS_TRY(make_directory(name.substr(0, slash), mode_));
  const auto [holder, last] = split(name);
  CODECFS_ASSIGN(const File parent, open_below(directory_, holder));
  CODECFS_ASSIGN(const File file, io_->create(parent, last, mode));
  CODECFS_TRY(make_like_replaced(file, name));
  CODECFS_TRY(io_->write(file, 0, bytes));
  return io_->sync(file);
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}/{}: no memory to write it", directory_.path, name);
}

Result<struct stat> TemporaryDirectory::parent_status() const {
  struct stat status;
  if (::fstat(parent_.fd.get(), &status) != 0) return fail_errno(errno, "{}", parent_.path);
  return status;
}

Result<> TemporaryDirectory::sync_all() {
  const LockGuard lock(mutex_);
  for (const std::string& name : directories_) {
    CODECFS_ASSIGN(const File below, open_below(directory_, name));
    CODECFS_TRY(sync_names(*io_, below));
  }
  return sync_names(*io_, directory_);
}

Result<> TemporaryDirectory::place(const std::string& name) {
  CODECFS_TRY(sync_all());
  CODECFS_TRY(check_name(parent_, temporary_name_, directory_));
  CODECFS_TRY(io_->move(parent_, temporary_name_, parent_, name));
  temporary_name_.clear();
  return {};
}

Result<> TemporaryDirectory::exchange(const std::string& name) {
  CODECFS_TRY(sync_all());
  CODECFS_TRY(io_->exchange(parent_, temporary_name_, name));
  Result<> synced = sync_names(*io_, parent_);
  if (synced) return {};
  // It is unknown which state a power failure would leave, so undo the exchange.
  if (const auto back = io_->exchange(parent_, temporary_name_, name); !back) {
    log::warning("{}/{} holds what {} was: {}", parent_.path, temporary_name_, name, back.error().reason);
    temporary_name_.clear();
  }
  return synced;
}

}  // namespace codecfs::zarr
