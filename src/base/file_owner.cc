#include "base/file_owner.h"

#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

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

constexpr const char* kAccessList = "system.posix_acl_access";
constexpr const char* kDefaultList = "system.posix_acl_default";

/// The value of an access control list in its extended attribute (linux/posix_acl_xattr.h): a version and these.
struct ListEntry {
  uint16_t tag, permissions;
  uint32_t id;
};
constexpr size_t kListHead = 4;  // bytes
constexpr uint16_t kOwningGroup = 0x04;
constexpr uint16_t kOthers = 0x20;

/// The file has another group than the one that the list means: it gets no more than all other users.
void restrict_group(std::string& list) {
  uint16_t others = 0;
  const auto for_each = [&](const auto& use) {
    for (size_t at = kListHead; at + sizeof(ListEntry) <= list.size(); at += sizeof(ListEntry)) {
      ListEntry entry{};
      std::memcpy(&entry, &list[at], sizeof entry);
      use(entry);
      std::memcpy(&list[at], &entry, sizeof entry);
    }
  };
  for_each([&](const ListEntry& entry) { others = entry.tag == kOthers ? entry.permissions : others; });
  for_each([&](ListEntry& entry) {
    if (entry.tag == kOwningGroup) entry.permissions = static_cast<uint16_t>(entry.permissions & others);
  });
}

/// The names of all extended attributes.
std::vector<std::string> attributes_of(int file) {
  std::vector<std::string> all;
  const ssize_t most = ::flistxattr(file, nullptr, 0);
  if (most <= 0) return all;  // the usual case; or the filesystem has none
  std::string names(static_cast<size_t>(most), '\0');
  const ssize_t length = ::flistxattr(file, names.data(), names.size());
  // Fewer than announced on overlayfs, which leaves out its own.
  names.resize(static_cast<size_t>(std::max<ssize_t>(length, 0)));
  for (size_t at = 0; at < names.size(); at += all.back().size() + 1) all.emplace_back(names.c_str() + at);
  return all;
}

bool read_attribute(int file, const std::string& name, std::string& value) {
  const ssize_t size = ::fgetxattr(file, name.c_str(), nullptr, 0);
  value.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
  return size >= 0 && ::fgetxattr(file, name.c_str(), value.data(), value.size()) == size;
}

}  // namespace

Result<> make_like(int file, int other, Attributes attributes) {
  struct stat status{};
  struct stat own{};
  if (::fstat(other, &status) != 0) return fail_errno(errno, "the file that is replaced");
  for (const char* list : {kAccessList, kDefaultList}) {
    if (list == kDefaultList && !S_ISDIR(status.st_mode)) continue;
    if (::fgetxattr(file, list, nullptr, 0) >= 0 && ::fremovexattr(file, list) != 0 && errno != ENODATA)
      return fail_errno(errno, "its access control list");
  }
  status.st_mode &= S_ISDIR(status.st_mode) ? 07777 : 0777;
  const std::vector<std::string> names = attributes_of(other);
  // While the list is missing, the group's bits of the mode, which are its mask, could give the group too much.
  const bool has_list = std::ranges::find(names, kAccessList) != names.end();
  struct stat first = status;
  if (has_list) first.st_mode &= ~mode_t{S_IRWXG | S_IRWXO};
  CODECFS_TRY(make_like(file, first));
  if (::fstat(file, &own) != 0) return fail_errno(errno, "its mode");
  for (const std::string& name : names) {
    const bool is_list = name == kAccessList || name == kDefaultList;
    if (name.starts_with("user.codecfs.") || (!is_list && attributes == Attributes::none)) continue;
    std::string value;
    bool copied = read_attribute(other, name, value);
    if (name == kAccessList && own.st_gid != status.st_gid) restrict_group(value);
    copied = copied && ::fsetxattr(file, name.c_str(), value.data(), value.size(), 0) == 0;
    // Others are set by the system.
    if (!copied && (is_list || name.starts_with("user.")))
      return fail_errno(EOPNOTSUPP, "its extended attribute {} cannot be copied", name);
  }
  return {};
}

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
