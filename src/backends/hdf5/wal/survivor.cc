#include "backends/hdf5/wal/survivor.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <cstdlib>
#include <memory>
#include <thread>

#include "backends/hdf5/wal/write_log_format.h"

namespace codecfs::hdf5 {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongest{60};
constexpr std::chrono::milliseconds kPause{20};
constexpr off_t kMark = 0;  // locked bytes of a log
constexpr off_t kAtWork = 1;

/// The current path of an open file.
std::string path_of(int fd) {
  std::string path(PATH_MAX, '\0');
  const ssize_t length = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), path.data(), path.size());
  path.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return path;
}

UniqueFd open_log_of(const std::string& source, int flags) {
  const size_t slash = source.rfind('/');
  if (slash == std::string::npos) return {};
  const std::string log = source.substr(0, slash + 1) + log_name_for(source.substr(slash + 1));
  return UniqueFd(::open(log.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

struct flock byte_of_log(off_t byte, short kind) {
  struct flock range{};
  range.l_type = kind;
  range.l_whence = SEEK_SET;
  range.l_start = byte;
  range.l_len = 1;
  return range;
}

bool lock(int log, off_t byte, short kind) {
  struct flock range = byte_of_log(byte, kind);
  return ::fcntl(log, F_OFD_SETLK, &range) == 0;
}

bool is_locked(const UniqueFd& log, off_t byte) {
  struct flock range = byte_of_log(byte, F_WRLCK);
  return ::fcntl(log.get(), F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

bool has_writer(const std::string& source) {
  const UniqueFd fd(::open(source.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return fd && ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// The process that wrote the file has to end, too; until then other programs cannot open the file.
void await_writer(int source) {
  constexpr std::chrono::seconds kLongestEnd{5};
  for (const auto until = Clock::now() + kLongestEnd; Clock::now() < until && has_writer(path_of(source));)
    std::this_thread::sleep_for(kPause);
}

}  // namespace

UniqueFd mark_log(int source) {
  UniqueFd log = open_log_of(path_of(source), O_RDWR);
  if (log && !lock(log.get(), kMark, F_RDLCK)) log.reset();
  return log;
}

void await_survivor(const std::string& path) {
  bool has_waited = false;
  for (const auto until = Clock::now() + kLongest; Clock::now() < until; std::this_thread::sleep_for(kPause)) {
    const UniqueFd log = open_log_of(path, O_RDONLY);
    if (!log && !(has_waited && has_writer(path))) return;
    has_waited = true;
    if (!log) continue;  // it is removed before the file is unlocked
    if (is_locked(log, kAtWork)) continue;
    if (!is_locked(log, kMark) || has_writer(path)) return;
  }
}

Result<LogRecovery> recover_as_survivor(int source, int log) {
  if (log >= 0) (void)lock(log, kAtWork, F_WRLCK);
  for (const auto until = Clock::now() + kLongest;;) {
    struct stat status{};
    if (::fstat(source, &status) == 0 && status.st_nlink == 0) return LogRecovery();
    auto recovered = recover_log(path_of(source));
    if (recovered || recovered.error().code != EBUSY || Clock::now() > until) {
      if (log >= 0) (void)lock(log, kAtWork, F_UNLCK);
      await_writer(source);
      return recovered;
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace codecfs::hdf5
