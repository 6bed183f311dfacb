#include "base/helpers.h"

#include <atomic>
#include <exception>
#include <memory>
#include <utility>

#include "base/mutex.h"

namespace codecfs {
namespace {

/// Lives until the last helper has looked at it, which may be after the work has ended.
class Division {
 public:
  Division(size_t count, const std::function<void(size_t)>& work) : count_(count), work_(work) {}

  void take_part() {
    // A number that is taken keeps finish() waiting, and with it what `work_` refers to.
    for (size_t number = next_++; number < count_; number = next_++) {
      std::exception_ptr thrown;
      try {
        work_(number);
      } catch (...) {
        thrown = std::current_exception();
      }
      const LockGuard lock(mutex_);
      if (thrown) thrown_ = std::move(thrown);
      if (++done_ == count_) changed_.notify_all();
    }
  }

  void finish() {
    UniqueLock lock(mutex_);
    changed_.wait(lock, [&]() CODECFS_REQUIRES(mutex_) { return done_ == count_; });
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  const size_t count_;
  const std::function<void(size_t)>& work_;
  std::atomic<size_t> next_ = 0;
  Mutex mutex_;
  ConditionVariable changed_;
  size_t done_ CODECFS_GUARDED_BY(mutex_) = 0;
  std::exception_ptr thrown_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace

void for_each_with_help(size_t count, const std::function<void(size_t number)>& work) {
  if (Helpers* const helpers = Helpers::current(); helpers != nullptr && count > 1) {
    const auto division = std::make_shared<Division>(count, work);
    helpers->help(count - 1, [division] { division->take_part(); });
    division->take_part();
    division->finish();
    return;
  }
  for (size_t number = 0; number < count; ++number) work(number);
}

}  // namespace codecfs
