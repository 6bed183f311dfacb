#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "base/exceptions.h"
#include "base/fail_points.h"
#include "base/interruption.h"
#include "base/mutex.h"
#include "base/threads.h"
#include "base/worker_process.h"

namespace codecfs {
namespace {

using Next = std::function<Result<std::optional<uint64_t>>()>;
using Work = std::function<Result<>(uint64_t)>;

/// Lives until the last helper has looked at it, which may be after the loop has returned. What it refers to lives
/// until then only.
class ParallelLoop {
 public:
  /// `next`: null for the numbers below `count`.
  ParallelLoop(uint64_t count, const Next* next, const ParallelOptions& options, const Work& work)
      : count_(count), next_(next), options_(options), work_(work) {}

  /// Calls `work` until no number is left. Of each thread.
  void take_part() noexcept {
    {
      const LockGuard lock(mutex_);
      if (is_closed_) return;
      ++taking_part_;
    }
    Result<> done;
    {
      const LocksOfCaller::Borrowed locks(locks_);
      const Interruption::Scope interruption(interruption_);
      const JoinedStep joined(step_);
      try {
        done = work_on_numbers();
      } catch (...) {
        done = std::unexpected(error_of_exception(options_.memory_reason));
      }
    }
    if (!done) is_ended_ = true;
    const LockGuard lock(mutex_);
    if (!done && !failure_) failure_ = std::move(done.error());
    if (--taking_part_ == 0) changed_.notify_all();
  }

  /// Waits for all threads that take part. Of the calling thread, after its own part.
  Result<> finish() noexcept {
    UniqueLock lock(mutex_);
    is_closed_ = true;
    changed_.wait(lock, [&]() CODECFS_REQUIRES(mutex_) { return taking_part_ == 0; });
    if (failure_) return std::unexpected(*std::move(failure_));
    return {};
  }

 private:
  Result<> work_on_numbers() {
    while (!is_ended_) {
      CODECFS_ASSIGN(const auto number, take());
      if (!number) break;
      CODECFS_TRY(work_(*number));
    }
    return {};
  }

  /// None: nothing is left.
  Result<std::optional<uint64_t>> take() {
    if (next_ == nullptr) {
      const uint64_t number = taken_++;
      if (number >= count_) return std::nullopt;
      CODECFS_TRY(check_cancelled());
      return number;
    }
    const LockGuard lock(next_mutex_);
    if (is_ended_ || !has_next_) return std::nullopt;
    CODECFS_TRY(check_cancelled());
    has_next_ = false;  // nor after an error or an exception
    CODECFS_ASSIGN(const auto number, (*next_)());
    has_next_ = number.has_value();
    return number;
  }

  Result<> check_cancelled() {
    if (options_.cancelled && options_.cancelled()) return fail(ECANCELED, "{}", options_.cancelled_reason);
    return {};
  }

  const uint64_t count_;
  const Next* const next_;
  const ParallelOptions& options_;
  const Work& work_;
  // Of the calling thread.
  const LocksOfCaller locks_;
  const Interruption::Check* const interruption_ = Interruption::current();
  const uint32_t step_ = current_step();

  std::atomic<uint64_t> taken_ = 0;
  std::atomic<bool> is_ended_ = false;
  Mutex next_mutex_{LockRank::local};  // held during calls of `next` and, before them, of `cancelled`
  bool has_next_ CODECFS_GUARDED_BY(next_mutex_) = true;
  Mutex mutex_;
  ConditionVariable changed_;
  size_t taking_part_ CODECFS_GUARDED_BY(mutex_) = 0;  // threads
  bool is_closed_ CODECFS_GUARDED_BY(mutex_) = false;
  std::optional<Error> failure_ CODECFS_GUARDED_BY(mutex_);  // the first
};

class NewThreads : public Helpers {
 public:
  void help(size_t count, const std::function<void()>& work) override {
    threads_.reserve(count);  // a thread that was started is never lost
    while (threads_.size() < count) {
      Result<std::jthread> started = start_thread([work](const std::stop_token&) { work(); });
      if (!started) return;
      threads_.push_back(*std::move(started));
    }
  }

 private:
  std::vector<std::jthread> threads_;
};

/// How many threads beside the calling one.
size_t others_for(uint64_t count, const ParallelOptions& options) {
  uint64_t threads = options.threads;
  if (threads == 0) threads = options.helpers != nullptr ? SIZE_MAX : core_count();
  if (options.call_bytes != 0) threads = std::min(threads, kParallelMemory / options.call_bytes);
  threads = std::min(threads, count);
  return static_cast<size_t>(std::max<uint64_t>(threads, 1) - 1);
}

Result<> run_alone(uint64_t count, const Next* next, const ParallelOptions& options, const Work& work) {
  ParallelLoop loop(count, next, options, work);
  loop.take_part();
  return loop.finish();
}

Result<> run(uint64_t count, const Next* next, const ParallelOptions& options, const Work& work) {
  const size_t others = others_for(count, options);
  if (others == 0) return run_alone(count, next, options, work);
  std::shared_ptr<ParallelLoop> loop;
  try {
    FailPoints::allocate();
    loop = std::make_shared<ParallelLoop>(count, next, options, work);
  } catch (const std::bad_alloc&) {
    return run_alone(count, next, options, work);
  }
  NewThreads new_threads;
  Helpers& helpers = options.helpers != nullptr ? *options.helpers : new_threads;
  try {
    helpers.help(others, [loop] { loop->take_part(); });
  } catch (const std::exception&) {  // those that were asked before, and this thread, do it
  }
  loop->take_part();
  return loop->finish();
}

}  // namespace

Result<> parallel_for(uint64_t count, const ParallelOptions& options, const Work& work) {
  return run(count, nullptr, options, work);
}

Result<> parallel_for_each(const Next& next, const ParallelOptions& options, const Work& work) {
  return run(UINT64_MAX, &next, options, work);
}

}  // namespace codecfs
