#include "backends/worker/file_broker.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <optional>
#include <string_view>

#include "backends/hdf5/wal/write_log_search.h"
#include "base/log.h"

namespace codecfs::worker {
namespace {

using Kind = FileCall::Kind;
using Use = FilePolicy::Use;

constexpr std::string_view kAttributes = "user.codecfs.";
constexpr std::string_view kUserAttributes = "user.";
constexpr std::string_view kAccessList = "system.posix_acl_access";
constexpr size_t kMaxMade = 256;
constexpr size_t kMaxLogged = 100;
constexpr size_t kMaxRefusals = 256;

std::unexpected<Error> plain(int code) { return std::unexpected(Error{code, {}}); }

FileAnswer number(int64_t value) { return {.value = value}; }

/// Whether an attribute of the source is copied to a file that is made like it (base/file_owner.h).
bool is_copied(std::string_view attribute) {
  return attribute == kAccessList || (attribute.starts_with(kUserAttributes) && !attribute.starts_with(kAttributes));
}

/// As renameat2(2) with RENAME_NOREPLACE, also where the filesystem does not support that.
int rename_new(const FilePolicy::Place& from, const FilePolicy::Place& to) {
  struct stat status{};
  const int source = from.directory.get();
  const int target = to.directory.get();
  if (::renameat2(source, from.name.c_str(), target, to.name.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) return -1;
  if (::fstatat(target, to.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
    errno = EEXIST;
    return -1;
  }
  return ::renameat(source, from.name.c_str(), target, to.name.c_str());
}

/// The result of a system call.
Result<FileAnswer> outcome(int64_t status) {
  if (status < 0) return plain(errno);
  return number(status);
}

std::string link_to(const UniqueFd& fd) { return fmt::format("/proc/self/fd/{}", fd.get()); }

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// The number of the descriptor that "/proc/self/fd/7" means to the process.
std::optional<int> own_descriptor(const std::string& path) {
  constexpr std::string_view kPrefix = "/proc/self/fd/";
  int number = -1;
  if (!path.starts_with(kPrefix)) return std::nullopt;
  const char* const end = path.data() + path.size();
  const auto [at, error] = std::from_chars(path.data() + kPrefix.size(), end, number);
  if (error != std::errc{} || at != end) return std::nullopt;
  return number;
}

}  // namespace

FileAnswer FileBroker::execute(const FileCalls& calls, const FileCall& call) {
  Result<FileAnswer> answer = dispatch(calls, call);
  if (answer) return *std::move(answer);
  if (!answer.error().reason.empty()) note_refusal(call, answer.error().reason);
  return {.error = answer.error().code};
}

Result<FileAnswer> FileBroker::dispatch(const FileCalls& calls, const FileCall& call) {
  switch (call.kind) {
    case Kind::open: return open(calls, call);
    case Kind::status:
    case Kind::status_x:
    case Kind::access: return describe(call);
    case Kind::read_link: return read_link(calls, call);
    case Kind::unlink: {
      if (call.flags != 0) return plain(EACCES);
      CODECFS_ASSIGN(const FilePolicy::Place place, policy_.find_written({call.at, call.path}));
      struct stat status{};
      if (::fstatat(place.directory.get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
          policy_.is_source(status))
        return fail(EACCES, "the source is not to be removed");
      {
        const LockGuard guard(mutex_);
        made_.erase({status.st_dev, status.st_ino});
      }
      return outcome(::unlinkat(place.directory.get(), place.name.c_str(), 0));
    }
    case Kind::rename: return rename(call);
    case Kind::get_attribute: return get_attribute(call);
    case Kind::set_attribute:
    case Kind::remove_attribute: return change_attribute(call);
    case Kind::set_mode:
    case Kind::set_owner: return change_owner(call);
    case Kind::lock: return lock(calls, call);
  }
  return plain(ENOSYS);
}

// --- opening

Result<FileAnswer> FileBroker::open(const FileCalls& calls, const FileCall& call) {
  const bool is_path_only = (call.flags & O_PATH) != 0;
  if (!is_path_only && ((call.flags & O_ACCMODE) != O_RDONLY || (call.flags & (O_CREAT | O_TRUNC)) != 0))
    return open_for_writing(call);
  const auto own = own_descriptor(call.path);
  // The kernel does not pass O_PATH descriptors to another process this way. If the path changes meanwhile, the process
  // gets one of another file, with which it cannot do anything.
  if (is_path_only) return own ? Result<FileAnswer>(FileAnswer{.is_continued = true}) : fail(EACCES, "{}", call.path);
  if (own) return fail(EACCES, "{}", calls.path_of(*own));  // it is open already, but possibly for less
  CODECFS_ASSIGN(const FilePolicy::Found found,
                 policy_.find({call.at, call.path}, Use::read, (call.flags & O_NOFOLLOW) == 0));
  if ((call.flags & O_DIRECTORY) != 0 && !S_ISDIR(found.status.st_mode)) return plain(ENOTDIR);
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  UniqueFd fd(::open(link_to(found.fd).c_str(), flags));
  if (!fd) return plain(errno);
  return FileAnswer{.fd = std::move(fd)};
}

Result<FileAnswer> FileBroker::open_for_writing(const FileCall& call) {
  CODECFS_ASSIGN(const FilePolicy::Place place, policy_.find_written({call.at, call.path}));
  constexpr int kPassedOn = O_ACCMODE | O_CREAT | O_EXCL | O_NONBLOCK;
  const int flags = static_cast<int>(call.flags & kPassedOn) | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY;
  const LockGuard guard(mutex_);
  UniqueFd fd(::openat(place.directory.get(), place.name.c_str(), flags, call.mode & 0700));
  struct stat status{};
  if (!fd || ::fstat(fd.get(), &status) != 0) return plain(errno);
  if (!S_ISREG(status.st_mode)) return fail(EACCES, "{} is not a regular file", place.name);
  const bool is_source = policy_.is_source(status);
  if ((call.flags & O_TRUNC) != 0 && (is_source || ::ftruncate(fd.get(), 0) != 0)) return plain(EACCES);
  if ((call.flags & O_EXCL) != 0) {
    if (made_.size() >= kMaxMade) made_.clear();
    made_.emplace(status.st_dev, status.st_ino);
  }
  if (is_source) {
    if (!holds_lock_) locked_ = std::move(fd);
    fd = UniqueFd(::fcntl(locked_.get(), F_DUPFD_CLOEXEC, 0));
    if (!fd) return plain(errno);
  }
  return FileAnswer{.fd = std::move(fd)};
}

// --- questions

Result<FileAnswer> FileBroker::describe(const FileCall& call) {
  const bool follows_links = (call.flags & AT_SYMLINK_NOFOLLOW) == 0;
  CODECFS_ASSIGN(const FilePolicy::Found found, policy_.find({call.at, call.path}, Use::look, follows_links));
  if (call.kind == Kind::status) return FileAnswer{.bytes = bytes_of(found.status)};
  if (call.kind == Kind::access)
    return outcome(::faccessat(AT_FDCWD, link_to(found.fd).c_str(), static_cast<int>(call.mode),
                               static_cast<int>(call.flags & AT_EACCESS)));
  struct statx status{};
  constexpr uint32_t kSync = AT_STATX_SYNC_TYPE;
  if (::statx(found.fd.get(), "", static_cast<int>(AT_EMPTY_PATH | (call.flags & kSync)), call.mask, &status) != 0)
    return plain(errno);
  return FileAnswer{.bytes = bytes_of(status)};
}

Result<FileAnswer> FileBroker::read_link(const FileCalls& calls, const FileCall& call) {
  std::string target;
  if (const auto own = own_descriptor(call.path)) {
    target = calls.path_of(*own);
    if (target.empty()) return plain(ENOENT);
  } else {
    CODECFS_ASSIGN(const FilePolicy::Found found, policy_.find({call.at, call.path}, Use::look, false));
    if (!S_ISLNK(found.status.st_mode)) return plain(EINVAL);
    target.resize(PATH_MAX);
    const ssize_t length = ::readlinkat(found.fd.get(), "", target.data(), target.size());
    if (length < 0) return plain(errno);
    target.resize(static_cast<size_t>(length));
  }
  target.resize(std::min<size_t>(target.size(), call.size));
  const auto length = static_cast<int64_t>(target.size());
  return FileAnswer{.value = length, .bytes = std::move(target)};
}

Result<FileAnswer> FileBroker::get_attribute(const FileCall& call) {
  if (!call.path.starts_with(kAttributes) && !is_copied(call.path)) return plain(ENODATA);
  std::string value(std::min<size_t>(call.size, XATTR_SIZE_MAX), '\0');
  const ssize_t size = ::getxattr(link_to(call.at).c_str(), call.path.c_str(), value.data(), value.size());
  if (size < 0) return plain(errno);
  if (value.empty()) return number(size);
  value.resize(static_cast<size_t>(size));
  return FileAnswer{.value = size, .bytes = std::move(value)};
}

// --- changes

Result<FileAnswer> FileBroker::rename(const FileCall& call) {
  CODECFS_ASSIGN(const FilePolicy::Place from, policy_.find_written({call.at, call.path}));
  const FilePolicy::Path target{call.to_directory, call.to_path};
  CODECFS_ASSIGN(FilePolicy::Place to, policy_.place_of(target));
  if (policy_.may_be_rescued_as(from, to))  // which never replaces a file
    return outcome(rename_new(from, to));
  CODECFS_ASSIGN(to, policy_.find_written(target));
  for (const FilePolicy::Place* place : {&from, static_cast<const FilePolicy::Place*>(&to)}) {
    struct stat status{};
    if (::fstatat(place->directory.get(), place->name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        policy_.is_source(status))
      return fail(EACCES, "the source is not to be renamed or replaced");
  }
  return outcome(::renameat2(from.directory.get(), from.name.c_str(), to.directory.get(), to.name.c_str(), call.flags));
}

Result<FileAnswer> FileBroker::change_attribute(const FileCall& call) {
  struct stat status{};
  if (::fstat(call.at.get(), &status) != 0) return plain(errno);
  bool is_made = false;
  {
    const LockGuard guard(mutex_);
    is_made = made_.contains({status.st_dev, status.st_ino});
  }
  const bool may_change =
      is_made ? is_copied(call.path) : policy_.is_source(status) && call.path.starts_with(kAttributes);
  if (!may_change) return fail(EACCES, "the attribute {} is not to be changed", call.path);
  const std::string path = link_to(call.at);
  if (call.kind == Kind::remove_attribute) return outcome(::removexattr(path.c_str(), call.path.c_str()));
  if (call.path == hdf5::kLogMark && !policy_.may_be_log(call.value.substr(std::min(call.value.size(), size_t{17}))))
    return fail(EACCES, "the attribute {} is not to be this", call.path);
  return outcome(
      ::setxattr(path.c_str(), call.path.c_str(), call.value.data(), call.value.size(), static_cast<int>(call.flags)));
}

Result<FileAnswer> FileBroker::change_owner(const FileCall& call) {
  struct stat status{};
  if (::fstat(call.at.get(), &status) != 0) return plain(errno);
  {
    const LockGuard guard(mutex_);
    if (!made_.contains({status.st_dev, status.st_ino})) return fail(EACCES, "owner and mode are not to be changed");
  }
  if (call.kind == Kind::set_mode) {
    if ((call.mode & ~mode_t{0777}) != 0) return fail(EACCES, "this mode is not to be set");
    return outcome(::chmod(link_to(call.at).c_str(), call.mode));
  }
  if (!policy_.may_own(call.user, call.group)) return fail(EPERM, "this owner is not to be set");
  return outcome(::fchownat(call.at.get(), "", call.user, call.group, AT_EMPTY_PATH));
}

// A lock belongs to the description of an open file. That of the source for writing is ours, too; the process has
// others for reading, which the lock for writing must not refuse.
Result<FileAnswer> FileBroker::lock(const FileCalls& calls, const FileCall& call) {
  struct stat status{};
  if (::fstat(call.at.get(), &status) != 0) return plain(errno);
  if (!policy_.is_source(status)) return FileAnswer{.is_continued = true};
  const LockGuard guard(mutex_);
  const bool is_ours = locked_ && calls.access_of(call.at_number) == O_RDWR;
  if (!is_ours && !holds_lock_) return FileAnswer{.is_continued = true};
  if (!is_ours) return (call.mode & LOCK_EX) != 0 ? Result<FileAnswer>(plain(EWOULDBLOCK)) : number(0);
  const int operation = static_cast<int>(call.mode);
  if (::flock(locked_.get(), operation | LOCK_NB) != 0) return plain(errno);
  holds_lock_ = (operation & LOCK_UN) == 0;
  if (!holds_lock_) locked_.reset();
  return number(0);
}

bool FileBroker::is_source(const UniqueFd& fd) const {
  struct stat status{};
  return ::fstat(fd.get(), &status) == 0 && policy_.is_source(status);
}

bool FileBroker::holds_lock() {
  const LockGuard guard(mutex_);
  return holds_lock_;
}

// --- refusals

void FileBroker::note_refusal(const FileCall& call, const std::string& reason) {
  const bool is_reference = (call.kind == Kind::open || call.kind == Kind::status) &&
                            reason.find(" is outside of ") != reason.npos && !reason.starts_with("/proc/") &&
                            !reason.starts_with("/sys/");
  const char* const why = policy_.followed() == Follow::none
                              ? ", and a file in an object store is read alone"
                              : ", so it is not read on a mount for other users; -o follow=all allows it";
  const std::string text = is_reference ? reason + why : reason;
  const LockGuard guard(mutex_);
  if (refusals_.size() >= kMaxRefusals) refusals_.clear();  // of threads that have ended
  if (is_reference) refusals_.emplace(call.thread, text);
  if (call.kind == Kind::read_link || logged_.size() >= kMaxLogged || !logged_.insert(text).second) return;
  if (is_reference)
    log::warning("{}", text);
  else
    log::debug("the process that runs libhdf5 is refused a file: {}", text);
}

std::string FileBroker::take_refusal(uint32_t thread) {
  const LockGuard guard(mutex_);
  const auto found = refusals_.find(thread);
  if (found == refusals_.end()) return {};
  std::string reason = std::move(found->second);
  refusals_.erase(found);
  return reason;
}

}  // namespace codecfs::worker
