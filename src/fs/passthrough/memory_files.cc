#include "fs/passthrough/memory_files.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

namespace codecfs::fs {
namespace {

// Older versions of glibc lack these functions.
int open_filesystem(const char* type) { return static_cast<int>(syscall(SYS_fsopen, type, FSOPEN_CLOEXEC)); }
long configure(int context, unsigned command, const char* key, const char* value) {
  return syscall(SYS_fsconfig, context, command, key, value, 0);
}
int mount_detached(int context) {
  return static_cast<int>(syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV));
}

/// Whether Linux is at least 6.14.
bool is_recent() {
  utsname name{};
  int major = 0;
  int minor = 0;
  if (uname(&name) != 0 || std::sscanf(name.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 6 || (major == 6 && minor >= 14);
}

std::optional<uint64_t> read_entry(const char* path, uint64_t index) {
  uint64_t entry = 0;
  const UniqueFd file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file || pread(file.get(), &entry, sizeof entry, static_cast<off_t>(index * sizeof entry)) != sizeof entry)
    return std::nullopt;
  return entry;
}

/// Whether a mapped page is a part of a large folio; none if that cannot be found out. See pagemap.rst of the kernel.
std::optional<bool> is_in_large_folio(const volatile char* page, size_t page_size) {
  constexpr uint64_t kPresent = uint64_t{1} << 63;
  constexpr uint64_t kFrame = (uint64_t{1} << 55) - 1;
  constexpr uint64_t kCompound = uint64_t{1} << 15 | uint64_t{1} << 16;  // head, tail
  (void)*page;                                                           // so that it is present
  const auto entry = read_entry("/proc/self/pagemap", reinterpret_cast<uintptr_t>(page) / page_size);
  if (!entry || (*entry & kPresent) == 0 || (*entry & kFrame) == 0) return std::nullopt;
  const auto flags = read_entry("/proc/kpageflags", *entry & kFrame);
  if (!flags) return std::nullopt;
  return (*flags & kCompound) != 0;
}

}  // namespace

Result<MemoryFiles> MemoryFiles::create(uint64_t limit) {
  const UniqueFd context(open_filesystem("tmpfs"));
  if (!context) return fail_errno(errno, "cannot make a tmpfs");
  // within_size: a file gets no more memory than its size needs. Kernels without huge pages refuse the option.
  (void)configure(context.get(), FSCONFIG_SET_STRING, "huge", "within_size");
  const std::string bytes = std::to_string(limit);
  if (configure(context.get(), FSCONFIG_SET_STRING, "size", bytes.c_str()) != 0 ||
      configure(context.get(), FSCONFIG_SET_STRING, "mode", "0700") != 0 ||
      configure(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr) != 0)
    return fail_errno(errno, "cannot configure a tmpfs");
  UniqueFd root(mount_detached(context.get()));
  if (!root) return fail_errno(errno, "cannot mount a tmpfs");
  return MemoryFiles(std::move(root));
}

Result<UniqueFd> MemoryFiles::make(Bytes content) const {
  UniqueFd file(openat(root_.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) return fail_errno(errno, "cannot make a file in memory");
  // Its size is set first, so that within_size permits large folios.
  if (ftruncate(file.get(), static_cast<off_t>(content.size())) != 0)
    return fail_errno(errno, "cannot make a file of {} bytes in memory", content.size());
  for (size_t done = 0; done < content.size();) {
    const ssize_t written = pwrite(file.get(), content.data() + done, content.size() - done, static_cast<off_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      return fail_errno(written == 0 ? ENOSPC : errno, "cannot write {} bytes to a file in memory", content.size());
    done += static_cast<size_t>(written);
  }
  return file;
}

Result<bool> MemoryFiles::has_large_folios(size_t bytes) const {
  CODECFS_ASSIGN(Buffer content, Buffer::allocate(bytes));
  std::memset(content.data(), 1, content.size());
  CODECFS_ASSIGN(const UniqueFd file, make(content.bytes()));
  void* const mapping = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapping == MAP_FAILED) return fail_errno(errno, "cannot map a file in memory");
  const auto page_size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const std::optional<bool> is_large =
      is_in_large_folio(static_cast<const volatile char*>(mapping) + bytes / 2 / page_size * page_size, page_size);
  munmap(mapping, bytes);
  return is_large.value_or(is_recent());
}

}  // namespace codecfs::fs
