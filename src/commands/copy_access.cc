#include "commands/copy_access.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>

#include "backends/api/source.h"
#include "backends/open/source_opener.h"
#include "base/file_owner.h"
#include "base/unique_fd.h"

namespace codecfs::commands {
namespace {

constexpr mode_t kGroup = S_IRWXG;
constexpr mode_t kOthers = S_IRWXO;
constexpr const char* kAccessList = "system.posix_acl_access";

mode_t current_umask() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mask;
}

/// What all files and directories that were added give their group and other users.
class Common {
 public:
  Result<> add(const std::string& path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) return fail_errno(errno, "{}", path);
    mode_t mode = status.st_mode & (kGroup | kOthers);
    if (S_ISDIR(status.st_mode)) {
      // Reading its files needs the right to search the directory.
      if ((mode & S_IXGRP) == 0) mode &= ~kGroup;
      if ((mode & S_IXOTH) == 0) mode &= ~kOthers;
    } else {
      // A directory that is made of it can be searched by its readers.
      mode = (mode & ~mode_t{S_IXGRP | S_IXOTH}) | (mode & (S_IRGRP | S_IROTH)) >> 2;
    }
    if (::getxattr(path.c_str(), kAccessList, nullptr, 0) >= 0) mode = 0;
    if (is_first_) group_ = status.st_gid;
    is_first_ = false;
    if (status.st_gid != group_) mode &= kOthers | (mode & kOthers) << 3;
    mode_ &= mode;
    return {};
  }
  /// Other users have no more than the group.
  [[nodiscard]] mode_t mode() const { return mode_ & (kGroup | (mode_ & kGroup) >> 3); }
  [[nodiscard]] gid_t group() const { return group_; }

 private:
  bool is_first_ = true;
  mode_t mode_ = kGroup | kOthers;
  gid_t group_ = 0;
};

Result<Common> common_access(const std::string& source) {
  namespace files = std::filesystem;
  Common common;
  CODECFS_TRY(common.add(source));
  std::error_code error;
  if (!files::is_directory(source, error)) return common;
  for (files::recursive_directory_iterator at(source, files::directory_options::skip_permission_denied, error), end;
       !error && at != end && common.mode() != 0; at.increment(error)) {
    if (at->is_symlink(error) && !files::exists(at->path(), error)) continue;
    CODECFS_TRY(common.add(at->path().string()));
  }
  if (error) return fail(error.value(), "{}: {}", source, error.message());
  return common;
}

}  // namespace

Result<CopyUmask> CopyUmask::of(const std::string& source) {
  if (is_source_url(source)) return CopyUmask(kGroup | kOthers);
  CODECFS_ASSIGN(const Common common, common_access(source));
  // What is made has the group of the process: only others' rights would let the group of the source, which the copy's
  // directory gets, read it.
  const bool is_of_other_group = (common.mode() & kGroup) != 0 && common.group() != ::getegid();
  return CopyUmask(is_of_other_group ? kGroup | kOthers : common.mode());
}

CopyUmask::CopyUmask(mode_t allowed) : before_(current_umask()) { ::umask(before_ | ((kGroup | kOthers) & ~allowed)); }

CopyUmask::~CopyUmask() {
  if (is_set_) ::umask(before_);
}

Result<> open_to_readers(const std::string& copy, const std::string& source) {
  const UniqueFd file(::open(copy.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat like{};
  if (!file || ::fstat(file.get(), &like) != 0) return fail_errno(errno, "{}", copy);
  const mode_t all = (S_ISDIR(like.st_mode) ? 0777 : 0666) & ~current_umask();
  if (is_source_url(source)) {
    like.st_mode = (like.st_mode & ~mode_t{0777}) | all;
  } else {
    CODECFS_ASSIGN(const Common common, common_access(source));
    // Its directory may have given it a list with other users.
    if ((common.mode() & S_IROTH) == 0)
      for (const char* list : {kAccessList, "system.posix_acl_default"}) (void)::fremovexattr(file.get(), list);
    like.st_gid = common.group();
    like.st_mode = (like.st_mode & ~mode_t{0777}) | (all & (S_IRWXU | common.mode()));
  }
  if (const Result<> given = make_like(file.get(), like); !given)
    return fail(given.error().code, "{}: {}", copy, given.error().reason);
  return {};
}

}  // namespace codecfs::commands
