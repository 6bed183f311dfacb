#include "backends/worker/file_policy.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>

#include "backends/hdf5/wal/write_log_format.h"
#include "backends/hdf5/wal/write_log_rescue.h"
#include "backends/hdf5/wal/write_log_search.h"
#include "base/file_name.h"

namespace codecfs::worker {
namespace {

constexpr size_t kMaxPlaces = 64;
constexpr const char* kProcessors = "/sys/devices/system/cpu/online";  // which the C library reads to count them

std::unexpected<Error> refused(int code) { return std::unexpected(Error{code, {}}); }

std::string path_of(int fd) {
  std::string path(PATH_MAX, '\0');
  const ssize_t length = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), path.data(), path.size());
  path.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return path;
}

/// "/a/b" -> "/a", "b". The directory of "b" is empty.
std::pair<std::string, std::string> split(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return {"", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

bool is_beneath(const std::string& path, const std::string& directory) {
  if (directory.empty()) return false;
  if (path == directory || directory == "/") return true;
  return path.size() > directory.size() && path.starts_with(directory) && path[directory.size()] == '/';
}

bool has_dots(const std::string& path) {
  return path.find("/../") != path.npos || path.ends_with("/..") || path.find("/./") != path.npos;
}

/// Files there show or control processes and the kernel.
bool is_of_kernel(int fd) {
  constexpr std::array<int64_t, 9> kTypes{PROC_SUPER_MAGIC,    SYSFS_MAGIC,      DEBUGFS_MAGIC,
                                          TRACEFS_MAGIC,       SECURITYFS_MAGIC, CGROUP_SUPER_MAGIC,
                                          CGROUP2_SUPER_MAGIC, BPF_FS_MAGIC,     EFIVARFS_MAGIC};
  struct statfs filesystem{};
  return ::fstatfs(fd, &filesystem) != 0 || std::ranges::find(kTypes, filesystem.f_type) != kTypes.end();
}

Result<UniqueFd> open_path(int directory, const std::string& path, bool follows_links) {
  const int flags = O_PATH | O_CLOEXEC | (follows_links ? 0 : O_NOFOLLOW);
  UniqueFd fd(::openat(directory, path.c_str(), flags));
  if (!fd) return refused(errno);
  return fd;
}

}  // namespace

FilePolicy::FilePolicy(FileRules rules, UniqueFd source) : rules_(std::move(rules)), source_(std::move(source)) {
  (void)::fstat(source_.get(), &status_);
  const LockGuard lock(mutex_);
  note_present_place();
  add_marked_place();
}

// --- the places of logs

void FilePolicy::add_place(const std::string& directory, const std::string& log) {
  struct stat status{};
  if (::stat(directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return;
  const auto is_same = [&](const LogPlace& place) {
    return place.device == status.st_dev && place.inode == status.st_ino && place.name == log &&
           place.directory == directory;
  };
  if (std::ranges::any_of(places_, is_same)) return;
  if (places_.size() >= kMaxPlaces) places_.erase(places_.begin());
  places_.push_back({directory, status.st_dev, status.st_ino, log});
}

// The source may be moved at any time; its log is then moved after it.
void FilePolicy::note_present_place() {
  const std::string path = path_of(source_.get());
  struct stat status{};
  if (path.empty() || ::lstat(path.c_str(), &status) != 0 || !is_source(status)) return;
  const auto [directory, name] = split(path);
  add_place(directory, hdf5::log_name_for(name));
}

// Read once, before the process can set the attribute.
void FilePolicy::add_marked_place() {
  const std::string path = hdf5::marked_log(source_.get());
  if (path.empty()) return;
  const auto [directory, name] = split(path);
  add_place(directory, name);
  add_place(split(rules_.source).first, name);
}

bool FilePolicy::is_source(const struct stat& status) const {
  return status.st_dev == status_.st_dev && status.st_ino == status_.st_ino;
}

bool FilePolicy::is_log(const Place& place) {
  struct stat status{};
  if (::fstat(place.directory.get(), &status) != 0) return false;
  const LockGuard lock(mutex_);
  note_present_place();
  const auto in_directory = [&](const LogPlace& log) {
    return log.device == status.st_dev && log.inode == status.st_ino;
  };
  const auto is_own = [&](const LogPlace& log) {
    return log.name == place.name ||
           (hdf5::rescue_draft_for(log.name) == place.name && hdf5::has_no_name(source_.get()));
  };
  if (std::ranges::any_of(places_, [&](const LogPlace& log) { return in_directory(log) && is_own(log); })) return true;
  // The log of an earlier name of the source, and not that of another file.
  const std::string namesake = hdf5::source_name_for(place.name);
  if (namesake.empty() || !std::ranges::any_of(places_, in_directory)) return false;
  struct stat other{};
  if (::fstatat(place.directory.get(), namesake.c_str(), &other, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT;
  return is_source(other);
}

bool FilePolicy::may_be_log(const std::string& path) {
  const LockGuard lock(mutex_);
  note_present_place();
  const std::string name = split(path).second;
  return std::ranges::any_of(places_, [&](const LogPlace& log) { return log.name == name; });
}

bool FilePolicy::may_own(uint32_t user, uint32_t group) const {
  struct stat directory{};
  if (::stat(split(path_of(source_.get())).first.c_str(), &directory) != 0) directory = status_;
  return (user == UINT32_MAX || user == status_.st_uid || user == directory.st_uid) &&
         (group == UINT32_MAX || group == status_.st_gid || group == directory.st_gid);
}

bool FilePolicy::may_be_rescued_as(const Place& draft, const Place& place) {
  struct stat status{};
  struct stat there{};
  if (!rules_.may_write || !hdf5::has_no_name(source_.get())) return false;
  if (::fstat(draft.directory.get(), &status) != 0 || ::fstat(place.directory.get(), &there) != 0) return false;
  if (status.st_dev != there.st_dev || status.st_ino != there.st_ino) return false;
  const LockGuard lock(mutex_);
  return std::ranges::any_of(places_, [&](const LogPlace& log) {
    if (log.device != status.st_dev || log.inode != status.st_ino) return false;
    if (hdf5::rescue_draft_for(log.name) != draft.name) return false;
    for (unsigned number = 0; number < kMaxRescues; ++number)
      if (rescued_name(hdf5::rescue_stem_for(log.name), number) == place.name) return true;
    return false;
  });
}

Result<FilePolicy::Place> FilePolicy::place_of(const Path& path) const {
  auto [directory, name] = split(path.text);
  if (name.empty() || name == "." || name == "..") return fail(EACCES, "{} is not to be written", absolute(path));
  if (directory.empty()) directory.push_back('.');
  const std::string base =
      path.directory || directory.starts_with('/') ? directory : rules_.working_directory + "/" + directory;
  constexpr int kFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  const int at = directory.starts_with('/') ? AT_FDCWD : path.directory ? path.directory.get() : AT_FDCWD;
  Place place{UniqueFd(::openat(at, base.c_str(), kFlags)), name};
  if (!place.directory) return refused(errno);
  return place;
}

Result<FilePolicy::Place> FilePolicy::find_written(const Path& path) {
  const auto refuse = [&](int code) { return fail(code, "{} is not to be written", absolute(path)); };
  if (!rules_.may_write) return refuse(EROFS);
  CODECFS_ASSIGN(Place place, place_of(path));
  struct stat status{};
  const bool exists = ::fstatat(place.directory.get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  if ((exists && is_source(status)) || is_log(place)) return place;
  return refuse(EACCES);
}

// --- reading

std::string FilePolicy::absolute(const Path& path) const {
  if (path.text.starts_with('/')) return path.text;
  const std::string base = path.directory ? path_of(path.directory.get()) : rules_.working_directory;
  if (path.text.empty() || path.text == ".") return base;
  return (base == "/" ? "" : base) + "/" + path.text;
}

std::string FilePolicy::root() const {
  if (!rules_.references.folder.empty() && is_beneath(rules_.source, rules_.references.folder))
    return rules_.references.folder;
  const std::string path = path_of(source_.get());
  return split(path.empty() ? rules_.source : path).first;
}

bool FilePolicy::is_library(const std::string& path, Use use) const {
  const auto matches = [&](const std::string& known) {
    return is_beneath(path, known) || (use == Use::look && is_beneath(known, path));
  };
  return !has_dots(path) && (path == kProcessors || std::ranges::any_of(rules_.libraries, matches));
}

// Whether an exact path is one of the few outside the root that the process needs.
bool FilePolicy::is_visible(const std::string& path, Use use) {
  if (has_dots(path)) return false;
  if (is_library(path, use)) return true;
  if (use == Use::look && is_beneath(root(), path)) return true;
  const auto [directory, name] = split(path);
  const LockGuard lock(mutex_);
  note_present_place();
  return std::ranges::any_of(places_, [&](const LogPlace& log) {
    if (path == log.directory || (use == Use::look && is_beneath(log.directory, path))) return true;
    return directory == log.directory && (name == log.name || name == hdf5::source_name_for(log.name));
  });
}

Result<UniqueFd> FilePolicy::open_beneath(const std::string& path, bool follows_links) const {
  const std::string top = root();
  if (!is_beneath(path, top)) return refused(EXDEV);
  const UniqueFd directory(::open(top.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return refused(errno);
  const size_t from = path.find_first_not_of('/', top.size());
  const std::string rest = from == path.npos ? "." : path.substr(from);
  open_how how{};
  how.flags = static_cast<uint64_t>(O_PATH | O_CLOEXEC | (follows_links ? 0 : O_NOFOLLOW));
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  constexpr int kTries = 16;  // EAGAIN: something was renamed meanwhile
  for (int i = 0;; ++i) {
    UniqueFd fd(static_cast<int>(::syscall(SYS_openat2, directory.get(), rest.c_str(), &how, sizeof how)));
    if (fd) return fd;
    if (errno != EAGAIN || i == kTries) return refused(errno);
  }
}

Result<FilePolicy::Found> FilePolicy::find(const Path& path, Use use, bool follows_links) {
  if (path.text.empty()) return refused(ENOENT);
  const std::string whole = absolute(path);
  const std::string& mountpoint = rules_.references.mountpoint;
  if (is_beneath(whole, mountpoint) && !is_beneath(rules_.source, mountpoint))
    return fail(EACCES, "{} is in the mount itself", whole);
  if (rules_.references.follow == Follow::none && !is_library(whole, use))
    return fail(EACCES, "{} is outside of {}", path.text, rules_.source);
  const bool is_everywhere = rules_.references.follow == Follow::all || is_visible(whole, use);
  Result<UniqueFd> opened = !is_everywhere   ? open_beneath(whole, follows_links)
                            : path.directory ? open_path(path.directory.get(), path.text, follows_links)
                                             : open_path(AT_FDCWD, whole, follows_links);
  if (!opened && opened.error().code == EXDEV) return fail(EACCES, "{} is outside of {}", whole, root());
  if (!opened) return pass_on(opened);
  Found found{*std::move(opened), {}};
  if (::fstat(found.fd.get(), &found.status) != 0) return refused(errno);
  if (use == Use::look) return found;
  if (S_ISLNK(found.status.st_mode)) return refused(ELOOP);
  if (!S_ISREG(found.status.st_mode) && !S_ISDIR(found.status.st_mode))
    return fail(ENXIO, "{} is not a regular file", whole);
  if (whole != kProcessors && is_of_kernel(found.fd.get())) return fail(EACCES, "{} is a file of the kernel", whole);
  return found;
}

}  // namespace codecfs::worker
