#pragma once
// A FileIo whose syncs wait until the test lets them continue, to look at what other threads can do meanwhile.

#include <condition_variable>
#include <mutex>

#include "support/crash_simulator.h"

namespace codecfs::crash_testing {

class BlockingSync : public UnsyncedIo {
 public:
  /// Of a log.
  Result<> sync_data(const File&) override { return sync_if(blocks_); }
  /// Of a source, in a checkpoint.
  Result<> sync(const File&) override { return sync_if(blocks_sources_); }
  /// The next calls wait until resume().
  void block() { set(blocks_, true); }
  void block_sources() { set(blocks_sources_, true); }
  void resume() {
    set(blocks_, false);
    set(blocks_sources_, false);
  }
  void fail_syncs(bool fails) { set(fails_, fails); }
  /// Returns when a call waits.
  void await_sync() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waits_; });
  }

 private:
  Result<> sync_if(const bool& blocks) {
    std::unique_lock lock(mutex_);
    if (blocks) {
      waits_ = true;
      changed_.notify_all();
      changed_.wait(lock, [&] { return !blocks; });
    }
    if (fails_) return fail_errno(EIO, "injected");
    return {};
  }
  void set(bool& member, bool value) {
    const std::lock_guard lock(mutex_);
    member = value;
    changed_.notify_all();
  }

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool blocks_ = false;
  bool blocks_sources_ = false;
  bool waits_ = false;
  bool fails_ = false;
};

}  // namespace codecfs::crash_testing
