#include "backends/hdf5/wal/log_directories.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>

#include <algorithm>
#include <deque>
#include <memory>

#include "backends/hdf5/wal/write_log_search.h"
#include "base/mutex.h"
#include "base/unique_fd.h"

namespace codecfs::hdf5 {
namespace {

class WithoutLogs {
 public:
  static WithoutLogs& instance() {
    static WithoutLogs all;
    return all;
  }
  bool contains(const DirectoryState& state) {
    const LockGuard lock(mutex_);
    return std::ranges::find(states_, state) != states_.end();
  }
  void add(const DirectoryState& state) {
    constexpr size_t kMaxStates = 16;
    const LockGuard lock(mutex_);
    if (std::ranges::find(states_, state) != states_.end()) return;
    states_.push_back(state);
    if (states_.size() > kMaxStates) states_.pop_front();
  }

 private:
  Mutex mutex_;
  std::deque<DirectoryState> states_ CODECFS_GUARDED_BY(mutex_);  // oldest first
};

/// Unknown if names may change without a change of it: the clock of filesystems has steps.
DirectoryState state_of(const File& directory) {
  constexpr time_t kSettled = 2;  // seconds
  struct stat status{};
  struct timespec now{};
  if (::fstat(directory.fd.get(), &status) != 0 || ::clock_gettime(CLOCK_REALTIME, &now) != 0) return {};
  if (status.st_ctim.tv_sec > now.tv_sec - kSettled) return {};
  return {status.st_dev, status.st_ino, status.st_ctim.tv_sec, status.st_ctim.tv_nsec};
}

struct Listed {
  std::vector<std::string> logs;
  bool is_complete = false;  // not ended by an error
};

/// `but`: the name of a log that is left out.
Listed list_logs(const File& directory, const std::string& but) {
  Listed listed;
  UniqueFd fd(::openat(directory.fd.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct Close {
    void operator()(DIR* stream) const { ::closedir(stream); }
  };
  const std::unique_ptr<DIR, Close> stream(fd ? ::fdopendir(fd.get()) : nullptr);
  if (!stream) return listed;
  (void)fd.release();
  for (size_t count = 0; count < kMaxEntries && listed.logs.size() < kMaxCandidates; ++count) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr && errno != 0) return listed;
    if (entry == nullptr) break;
    if (is_log_name(entry->d_name) && entry->d_name != but) listed.logs.emplace_back(entry->d_name);
  }
  listed.is_complete = true;
  return listed;
}

}  // namespace

std::vector<std::string> logs_in(const File& directory, const std::string& but, bool may_know) {
  if (may_know && WithoutLogs::instance().contains(state_of(directory))) return {};
  return list_logs(directory, but).logs;
}

DirectoryState state_without_logs(const std::string& directory) {
  const auto opened = open_directory(directory);
  if (!opened) return {};
  const DirectoryState state = state_of(*opened);
  if (state == DirectoryState() || WithoutLogs::instance().contains(state)) return state;
  if (::fgetxattr(opened->fd.get(), kLogMark, nullptr, 0) < 0 && errno == EOPNOTSUPP) return {};
  const Listed listed = list_logs(*opened, "");
  if (!listed.is_complete || !listed.logs.empty()) return {};
  WithoutLogs::instance().add(state);
  return state;
}

void note_without_logs(const DirectoryState& state) {
  if (state != DirectoryState()) WithoutLogs::instance().add(state);
}

}  // namespace codecfs::hdf5
