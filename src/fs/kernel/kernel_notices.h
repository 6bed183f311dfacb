#pragma once
// Invalidates the kernel's caches: content that has changed through another inode, and directory entries that refer to
// another inode now. Separate threads without locks send the notifications, because the kernel may hold, during a
// request, a lock that the notification needs. Invalidating an entry needs the directory's lock, so entries have other
// threads than content.
//
// A notification may cause requests: the kernel first writes back dirty pages, and waits for requests that hold a page
// or the directory. A request that waited for such a notification would deadlock. So a request does not wait while a
// notification about its own inode is being sent, and the last free worker waits only briefly.
//
// A notification about an inode that the kernel does not know yet has no effect, although the reply that tells the
// kernel of it may be on its way with old attributes. So a reply is not to be kept by the kernel when there were
// notifications since its request began (is_outdated()), and one that the kernel may not have processed makes the
// notification wait.

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "fs/given/invalidator.h"
#include "fs/nodes/known_inodes.h"
#include "fs/nodes/nodes.h"
#include "fs/passthrough/fuse_version.h"

namespace codecfs::fs {

class KernelNotices final : public Invalidator {
 public:
  KernelNotices() = default;
  ~KernelNotices() override { stop(); }
  [[nodiscard]] bool has_kernel() const override { return true; }
  KernelNotices(const KernelNotices&) = delete;
  KernelNotices& operator=(const KernelNotices&) = delete;

  /// Must be called before the session serves requests. `workers`: number of concurrent requests. The errors of
  /// start_thread().
  Result<> start(fuse_session* session, unsigned workers);
  /// Sends no more notifications, and returns when none is being sent. Must be called before the session is destroyed,
  /// while requests are still answered or when no more can arrive.
  void stop();

  /// Marks this thread, during the lifetime of the object, as serving a request about this inode.
  class Request {
   public:
    Request(const KernelNotices& notices, Ino ino)
        : before_(std::exchange(served_, ino)), count_before_(std::exchange(count_at_begin_, notices.count_)) {}
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;
    ~Request() {
      served_ = before_;
      count_at_begin_ = count_before_;
    }

   private:
    const Ino before_;
    const uint64_t count_before_;
  };

  /// Must be called before an inode is returned to the kernel, each time: the kernel may have forgotten it.
  void note_returned(Ino ino);
  /// The kernel has forgotten an inode.
  void note_forgotten(Ino ino);
  /// Whether there were notifications since the request of this thread began: what was read for its reply may be
  /// outdated. Must be called after note_returned().
  [[nodiscard]] bool is_outdated() const { return count_ != count_at_begin_; }

  void content_changed(Ino ino, bool wait) override;
  void part_changed(Ino ino, uint64_t offset, uint64_t size, bool wait) override;
  void contents_changed(Ino first, uint64_t count, bool wait) override;
  void attributes_changed(Ino first, uint64_t count, bool wait) override;
  void name_changed(Ino parent, std::string name, bool wait) override;
  void names_changed(Ino parent, std::vector<std::string> names) override;
  void drop_pages(Ino ino, uint64_t offset, uint64_t size) override;
  bool store_pages(Ino ino, uint64_t offset, Bytes content) override;
  /// Invalidates the pages and attributes of all inodes that the kernel may know. False if there are too many, or no
  /// more notifications are sent. As drop_pages(), not for threads that serve requests.
  bool drop_all_pages();
  /// Waits until all invalidations queued by content_changed(), part_changed() and names_changed() are done, at most a
  /// second; 20 ms for names.
  void await_all();

 private:
  using Clock = std::chrono::steady_clock;
  struct Notice {
    Ino ino = 0;
    std::string name;         // empty: invalidate the inode itself
    uint64_t count = 1;       // number of consecutive inodes
    bool attributes = false;  // attributes only
    uint64_t offset = 0;
    uint64_t size = 0;  // of the changed content; 0: to the end
  };
  struct Lane {
    std::deque<Notice> notices;
    uint64_t last = 0;  // number of notices ever queued
    uint64_t done = 0;
    Ino sending = 0;          // the inode of the notification being sent; 0: none
    Clock::time_point since;  // when it began; for many inodes, when it last made progress
    std::jthread thread;
  };
  void add(Lane& lane, Notice notice, bool wait);
  /// `held`: the inode of this request, whose notifications may be waiting for it; 0: none.
  void await(const Lane& lane, uint64_t number, Ino held, Clock::duration timeout, UniqueLock<Mutex>& lock)
      CODECFS_REQUIRES(mutex_);
  void run(Lane& lane, const std::stop_token& stop);
  void send(const Notice& notice, const std::stop_token& stop);
  /// Invalidates one inode: `offset` < 0: the attributes alone. Tries again while the kernel may be about to learn of
  /// it.
  void invalidate(Ino ino, off_t offset, off_t size, const std::stop_token& stop);
  [[nodiscard]] bool is_just_returned(Ino ino);
  void send_range(const Notice& notice, const std::stop_token& stop);

  /// An inode that was returned to the kernel, and when. Each has one of a fixed number of places, which the last
  /// takes.
  struct Returned {
    std::atomic<Ino> ino = 0;
    std::atomic<Clock::rep> when = 0;
  };
  static constexpr unsigned kReturnedBits = 12;
  /// By all bits of the number (Fibonacci hashing): the numbers of the files of nodes differ in the upper ones.
  [[nodiscard]] Returned& returned(Ino ino) { return returned_[(ino * 0x9E3779B97F4A7C15) >> (64 - kReturnedBits)]; }

  static thread_local Ino served_;               // inode of this thread's request; 0: none
  static thread_local uint64_t count_at_begin_;  // count_ when the request began

  std::atomic<bool> stopped_now_ = false;  // as stopped_, without the mutex
  std::atomic<uint64_t> count_ = 0;        // of notifications, also of those that need not be sent
  std::array<Returned, size_t{1} << kReturnedBits> returned_;

  Mutex mutex_{LockRank::kernel_notices};  // also guards the lanes, except for their threads
  std::condition_variable_any changed_;
  fuse_session* session_ = nullptr;
  unsigned workers_ = 0;
  unsigned waiting_ CODECFS_GUARDED_BY(mutex_) = 0;  // requests that wait for a notification
  bool stopped_ CODECFS_GUARDED_BY(mutex_) = false;
  KnownInodes known_;
  Lane inodes_;
  Lane ranges_;  // separate, so that single inodes do not wait behind millions
  Lane names_;
  Lane awaited_names_;  // separate from entries that may wait for a directory's lock
  Lane chunk_names_;    // apart: chunks are created all the time, and requests hold their directories meanwhile
};

}  // namespace codecfs::fs
