#include "backends/api/written_sources.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "base/mutex.h"

namespace codecfs {
namespace {

Mutex observer_mutex{LockRank::writing_observer};
WritingObserver* observer CODECFS_GUARDED_BY(observer_mutex) = nullptr;
std::atomic<uint64_t> last_id = 0;

}  // namespace

void observe_writing(WritingObserver* next) {
  const LockGuard lock(observer_mutex);
  observer = next;
}

WrittenSource::WrittenSource(int source)
    : id_(++last_id), source_(::open(fmt::format("/proc/self/fd/{}", source).c_str(), O_PATH | O_CLOEXEC)) {
  notify_observer();
}

void WrittenSource::has_log(UniqueFd log) {
  log_ = std::move(log);
  notify_observer();
}

void WrittenSource::notify_observer() const {
  const LockGuard lock(observer_mutex);
  if (observer != nullptr && source_) observer->began(id_, source_.get(), log_ ? log_.get() : -1);
}

void WrittenSource::end() {
  const LockGuard lock(observer_mutex);
  if (observer != nullptr && source_) observer->ended(id_);
}

}  // namespace codecfs
