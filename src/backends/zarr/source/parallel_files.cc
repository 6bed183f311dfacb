#include "backends/zarr/source/parallel_files.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/threads.h"

namespace codecfs::zarr {
namespace {

class ParallelWork {
 public:
  ParallelWork(size_t count, const std::function<Result<>(size_t)>& make) : count_(count), make_(make) {}

  Result<> run(size_t threads) {
    run_in_threads(threads, [this] { work(); });
    const LockGuard lock(mutex_);
    if (failure_) return std::unexpected(*failure_);
    return {};
  }

 private:
  /// The work of a thread: until nothing is left or an error occurs.
  void work() {
    while (!stopped_) {
      const size_t i = next_++;
      if (i >= count_) return;
      Result<> done;
      try {
        done = make_(i);
      } catch (const std::bad_alloc&) {
        done = fail(ENOMEM, "out of memory");
      }
      if (done) continue;
      const LockGuard lock(mutex_);
      if (!failure_) failure_ = std::move(done.error());
      stopped_ = true;
    }
  }

  const size_t count_;
  const std::function<Result<>(size_t)>& make_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
  Mutex mutex_;
  std::optional<Error> failure_ CODECFS_GUARDED_BY(mutex_);  // the first one
};

}  // namespace

Result<> make_in_parallel(size_t count, uint64_t memory, const std::function<Result<>(size_t)>& make) {
  const uint64_t bounded = std::max<uint64_t>(kParallelMemory / std::max<uint64_t>(memory, 1), 1);
  const uint64_t cores = std::max(std::thread::hardware_concurrency(), 1U);
  const uint64_t threads = std::min({bounded, cores, std::max<uint64_t>(count, 1)});
  return ParallelWork(count, make).run(static_cast<size_t>(threads));
}

Result<> make_at_once(size_t count, size_t threads, const std::function<Result<>(size_t)>& make) {
  return ParallelWork(count, make).run(std::min(threads, std::max<size_t>(count, 1)));
}

}  // namespace codecfs::zarr
