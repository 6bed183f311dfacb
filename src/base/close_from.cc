#include "base/close_from.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>

namespace codecfs {
namespace {

// Closes what is listed from `first` on, but not `list` itself; how many that were, or -1 if the list cannot be read.
// Not opendir(), which allocates: another thread may have held malloc's lock when this process was forked.
long close_listed(int list, unsigned first) {
  alignas(dirent64) std::array<char, 4096> entries;
  long closed = 0;
  for (;;) {
    const long size = ::syscall(SYS_getdents64, list, entries.data(), entries.size());
    if (size <= 0) return size < 0 ? size : closed;
    for (long at = 0; at < size;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(entries.data() + at);
      at += entry->d_reclen;
      unsigned fd = 0;
      const char* const end = entry->d_name + std::strlen(entry->d_name);
      if (std::from_chars(entry->d_name, end, fd).ptr != end || fd < first || fd == static_cast<unsigned>(list))
        continue;
      ::close(static_cast<int>(fd));
      ++closed;
    }
  }
}

}  // namespace

void close_from(unsigned first) {
  // Not glibc's function, which is there since 2.34; Linux has the call since 5.9.
  if (::syscall(SYS_close_range, first, ~0U, 0U) != 0) close_each_from(first);
}

void close_each_from(unsigned first) {
  const int list = ::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  long closed = -1;
  if (list >= 0) {
    // Until a whole list has none: what is closed while it is read may hide others.
    while ((closed = close_listed(list, first)) > 0) ::lseek(list, 0, SEEK_SET);
    ::close(list);
  }
  if (closed == 0) return;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  for (rlim_t i = first; i < limit.rlim_cur; ++i) ::close(static_cast<int>(i));
}

}  // namespace codecfs
