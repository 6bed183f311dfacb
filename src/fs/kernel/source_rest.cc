#include "fs/kernel/source_rest.h"

#include <malloc.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "fs/kernel/operations.h"

namespace codecfs::fs {

double SourceRest::most_remembered() const { return std::chrono::duration<double>(after_).count() / 2; }

Result<> SourceRest::use(Use& held) {
  for (;;) {
    held = Use(lock_);
    // Test before writing, to avoid contention on the cache line.
    if (!used_.load(std::memory_order_relaxed)) used_ = true;
    if (!resting_) return {};
    held.unlock();
    const LockGuard lock(lock_);
    if (resting_) CODECFS_TRY(wake());
  }
}

Result<> SourceRest::wake() {
  CODECFS_ASSIGN(const bool is_same, mount_.filesystem.context().dataset.source().wake());
  if (!is_same) {
    log::warning("the source was changed by another program while it was not used: what is open is stale");
    outdate_all();
    mount_.filesystem.source_replaced();
  }
  resting_ = false;
  return {};
}

/// Makes open files outdated. Their pages were dropped before the source was closed; what was read since then has been
/// of the former source.
void SourceRest::outdate_all() {
  mount_.files.for_each([](FileHandle& file) { file.outdated = true; });
  mount_.directories.for_each([](OpenDirectory& directory) { directory.outdated = true; });
}

bool SourceRest::is_written() {
  MountContext& context = mount_.filesystem.context();
  if (context.chunks.write_back.has_unstored() || !context.chunks.write_back.open_writers().empty()) return true;
  bool has_writer = false;
  mount_.files.for_each([&](const FileHandle& file) { has_writer |= file.is_writer(); });
  return has_writer;
}

SourceRest::Outcome SourceRest::try_to_rest() {
  if (resting_) return Outcome::rests;
  if (const Result<> stored = mount_.filesystem.sync_all(); !stored) {
    log::warning("the mount is idle, but not all data could be stored: {}", stored.error().reason);
    return Outcome::failed;
  }
  Source& source = mount_.filesystem.context().dataset.source();
  if (source.can_rest()) {
    if (is_written() || !mount_.notices.drop_all_pages()) return Outcome::in_use;
    if (const Outcome closed = try_to_close(); closed != Outcome::rests) return closed;
    // What was pushed to the kernel without a request since then.
    (void)mount_.notices.drop_all_pages();
  } else {
    source.release_idle(std::chrono::seconds(0));
    mount_.filesystem.drop_caches();
  }
  malloc_trim(0);
  return Outcome::rests;
}

SourceRest::Outcome SourceRest::try_to_close() {
  const std::unique_lock<SharedMutex> lock(lock_, std::try_to_lock);
  if (!lock || used_ || is_written()) return Outcome::in_use;
  if (!mount_.filesystem.context().dataset.source().close_idle()) return Outcome::in_use;
  mount_.filesystem.source_rests();
  resting_ = true;
  log::info("the source was closed, as it was not used; the next use opens it again");
  return Outcome::rests;
}

void SourceRest::run(const std::stop_token& stop) {
  using Clock = std::chrono::steady_clock;
  const auto interval =
      std::min<std::chrono::milliseconds>(std::chrono::milliseconds(after_) / 4, std::chrono::seconds(5));
  auto used = Clock::now();
  bool rests = false;  // and has not been used since
  while (!stop.stop_requested()) {
    uint64_t request = 0;
    bool is_requested = false;
    {
      UniqueLock lock(requests_mutex_);
      is_requested = requested_.wait_for(lock, stop, interval,
                                         [&]() CODECFS_REQUIRES(requests_mutex_) { return requests_ != answered_; });
      request = requests_;
    }
    if (stop.stop_requested()) return;
    if (used_.exchange(false)) {
      used = Clock::now();
      rests = false;
    }
    if (is_requested || (!rests && Clock::now() - used >= after_)) {
      Outcome outcome = try_to_rest();
      // The kernel reports the last close() of a file after that call has returned.
      for (int tries = 0; is_requested && outcome == Outcome::in_use && tries < 50 && !stop.stop_requested(); ++tries) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        used_ = false;
        outcome = try_to_rest();
      }
      rests = outcome == Outcome::rests;
      if (outcome == Outcome::failed) used = Clock::now();  // try again after the same time
    }
    const LockGuard lock(requests_mutex_);
    answered_ = request;
    rests_ = rests;
    requested_.notify_all();
  }
}

Result<> SourceRest::request_now() {
  constexpr std::chrono::seconds kMaxWait{10};
  UniqueLock lock(requests_mutex_);
  const uint64_t own = ++requests_;
  requested_.notify_all();
  const bool is_answered =
      requested_.wait_for(lock, kMaxWait, [&]() CODECFS_REQUIRES(requests_mutex_) { return answered_ >= own; });
  if (is_answered && rests_) return {};
  return fail(EBUSY, "the source is in use, or not everything can be stored");
}

}  // namespace codecfs::fs
