// Functions of the C library and of codecfs_base, which the linker takes from here instead.

#include "support/fake_mounts.h"

#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include <cstring>
#include <ranges>

namespace codecfs {
namespace {

ssize_t answer(std::string_view text, void* value, size_t room) {
  if (room == 0) return static_cast<ssize_t>(text.size());
  if (room < text.size()) {
    errno = ERANGE;
    return -1;
  }
  std::memcpy(value, text.data(), text.size());
  return static_cast<ssize_t>(text.size());
}

ssize_t no_attribute() {
  errno = ENODATA;
  return -1;
}

}  // namespace

FakeMounts*& FakeMounts::current() {
  static FakeMounts* mounts = nullptr;
  return mounts;
}

std::vector<MountEntry> mount_table() {
  return FakeMounts::current() == nullptr ? std::vector<MountEntry>() : FakeMounts::current()->table;
}

std::optional<MountEntry> mount_at(const std::string& path) {
  const std::vector<MountEntry> entries = mount_table();
  for (const MountEntry& entry : entries | std::views::reverse)
    if (entry.path == path) return entry;
  return std::nullopt;
}

}  // namespace codecfs

using codecfs::FakeMounts;

extern "C" int statvfs(const char* path, struct statvfs* numbers) noexcept {
  std::memset(numbers, 0, sizeof *numbers);
  if (const FakeMounts* mounts = FakeMounts::current()) {
    if (const auto found = mounts->statvfs.find(path); found != mounts->statvfs.end()) {
      errno = found->second();
      return errno == 0 ? 0 : -1;
    }
  }
  struct statfs status{};
  return ::statfs(path, &status);
}

extern "C" ssize_t getxattr(const char* path, const char* name, void* value, size_t room) noexcept {
  const FakeMounts* mounts = FakeMounts::current();
  if (mounts == nullptr) return ::syscall(SYS_getxattr, path, name, value, room);
  if (!mounts->attribute) return codecfs::no_attribute();
  const std::optional<std::string> text = mounts->attribute(path, name);
  return text ? codecfs::answer(*text, value, room) : codecfs::no_attribute();
}

extern "C" ssize_t fgetxattr(int fd, const char* name, void* value, size_t room) noexcept {
  const FakeMounts* mounts = FakeMounts::current();
  if (mounts == nullptr) return ::syscall(SYS_fgetxattr, fd, name, value, room);
  if (mounts->error_text.empty() || std::string_view(name) != "user._Error") return codecfs::no_attribute();
  return codecfs::answer(mounts->error_text, value, room);
}

extern "C" int syncfs(int fd) noexcept {
  FakeMounts* const mounts = FakeMounts::current();
  if (mounts == nullptr) return static_cast<int>(::syscall(SYS_syncfs, fd));
  ++mounts->syncs;
  errno = mounts->sync_error;
  return errno == 0 ? 0 : -1;
}
