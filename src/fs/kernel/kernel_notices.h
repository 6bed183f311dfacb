#pragma once
// What the kernel is told to forget: contents that changed under another inode number, and names that mean another
// inode now. Threads of its own tell it, which hold no lock: from inside a request the kernel may be holding what it
// would wait for. It is the directory's lock that names need, so these have a thread apart from the contents.
//
// A notice may take requests: the kernel first has its dirty pages written, and waits for requests that hold a page or
// the directory. Who awaits a notice in such a request would wait in a circle; so nobody waits while the kernel is
// being told of the inode that his own request is about, and the last of the workers hardly waits.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fs/kernel/fuse_version.h"
#include "fs/kernel/invalidator.h"
#include "fs/namespace/known_inodes.h"
#include "fs/namespace/nodes.h"

namespace codecfs::fs {

class KernelNotices final : public Invalidator {
 public:
  KernelNotices() = default;
  ~KernelNotices() override { stop(); }
  KernelNotices(const KernelNotices&) = delete;
  KernelNotices& operator=(const KernelNotices&) = delete;

  /// To be called before the session serves requests. `workers`: how many requests are served at a time.
  void start(fuse_session* session, unsigned workers);
  /// Nothing more is told from now on; returns when nothing is. While requests are still answered, or none will come:
  /// and before the session is destroyed.
  void stop();

  /// While it lives, this thread serves a request about this inode.
  class Request {
   public:
    explicit Request(Ino ino) : before_(std::exchange(served_, ino)) {}
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;
    ~Request() { served_ = before_; }

   private:
    const Ino before_;
  };

  /// To be called of each inode before the kernel gets to know it.
  void note_known(Ino ino) { known_.add(ino); }

  void content_changed(Ino ino, bool wait) override;
  void part_changed(Ino ino, uint64_t offset, uint64_t size, bool wait) override;
  void contents_changed(Ino first, uint64_t count, bool wait) override;
  void attributes_changed(Ino first, uint64_t count, bool wait) override;
  void name_changed(Ino parent, std::string name, bool wait) override;
  void names_changed(Ino parent, std::vector<std::string> names) override;
  void drop_pages(Ino ino, uint64_t offset, uint64_t size) override;
  bool store_pages(Ino ino, uint64_t offset, Bytes content) override;
  /// Waits until the kernel has done what came by content_changed(), part_changed() and names_changed(), at most a
  /// second for each.
  void await_all();

 private:
  using Clock = std::chrono::steady_clock;
  struct Notice {
    Ino ino = 0;
    std::string name;         // empty: the inode itself
    uint64_t count = 1;       // of so many inodes from this one on
    bool attributes = false;  // these alone
    uint64_t offset = 0;
    uint64_t size = 0;  // of the content that is meant; 0: all from `offset` on
  };
  struct Lane {
    std::deque<Notice> notices;
    uint64_t last = 0;  // notices that ever came
    uint64_t done = 0;
    Ino told = 0;             // what the kernel is being told of; 0: nothing
    Clock::time_point since;  // the same; of many inodes, since it has got on
    std::jthread thread;
  };
  void add(Lane& lane, Notice notice, bool wait);
  /// `held`: an inode whose notices may wait for this request; 0: none.
  void await(const Lane& lane, uint64_t number, Ino held, std::unique_lock<std::mutex>& lock);
  void run(Lane& lane, const std::stop_token& stop);
  void tell(const Notice& notice, const std::stop_token& stop);
  void tell_range(const Notice& notice, const std::stop_token& stop);

  static thread_local Ino served_;  // 0: no request

  std::mutex mutex_;  // guards the lanes but for their threads, and waiting_
  std::condition_variable_any changed_;
  fuse_session* session_ = nullptr;
  unsigned workers_ = 0;
  unsigned waiting_ = 0;  // requests that wait for a notice
  bool stopped_ = false;
  KnownInodes known_;
  Lane inodes_;
  Lane ranges_;  // those who changed one inode do not wait behind millions
  Lane names_;
  Lane awaited_names_;  // not behind those that wait for a directory
};

}  // namespace codecfs::fs
