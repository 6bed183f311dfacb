#include "base/file_owner.h"

#include <unistd.h>

namespace codecfs {
namespace {

/// Sets owner (only as root) and group, and returns the mode that is safe with the result. Some filesystems have no
/// ownership and refuse; then only the mode is set.
mode_t set_owner(int file, uid_t user, gid_t group, mode_t mode) {
  struct stat status{};
  if (::fstat(file, &status) != 0) return mode & 0700;
  if (status.st_uid == user && status.st_gid == group) return mode;
  if (::geteuid() == 0 && ::fchown(file, user, group) == 0) return mode;
  if (status.st_gid == group || ::fchown(file, static_cast<uid_t>(-1), group) == 0) return mode;
  return (mode & ~mode_t{S_ISGID | S_IRWXG}) | (mode & (mode & S_IRWXO) << 3 & S_IRWXG);
}

}  // namespace

Result<> make_like(int file, const struct stat& other) {
  const mode_t mode = set_owner(file, other.st_uid, other.st_gid, other.st_mode & 07777);
  if (::fchmod(file, mode) != 0) return fail_errno(errno, "its mode");
  return {};
}

Result<> make_in_directory(int file, int directory, mode_t mode) {
  struct stat status{};
  if (::fstat(directory, &status) != 0) return fail_errno(errno, "its directory");
  if (::fchmod(file, set_owner(file, status.st_uid, status.st_gid, mode)) != 0) return fail_errno(errno, "its mode");
  return {};
}

}  // namespace codecfs
