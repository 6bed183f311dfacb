#pragma once
// What the kernel is told to forget: contents that changed under another inode number, and names that mean another
// inode now. A thread of its own tells it, which holds no lock: from inside a request the kernel may be holding what it
// would wait for.

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "fs/fuse_version.h"
#include "fs/nodes.h"

namespace codecfs::fs {

class KernelNotices {
 public:
  KernelNotices() = default;
  ~KernelNotices() { stop(); }
  KernelNotices(const KernelNotices&) = delete;
  KernelNotices& operator=(const KernelNotices&) = delete;

  /// To be called before the session serves requests, and stop() before it is destroyed.
  void start(fuse_session* session);
  void stop();

  /// The pages and attributes of an inode. `wait`: until the kernel has done so, at most a second.
  void content_changed(Ino ino, bool wait);
  /// The attributes alone, of `count` inodes in a row.
  void attributes_changed(Ino first, uint64_t count);
  /// A name in a directory, and all names below it. `wait`: as above; not in a request that changes this directory.
  void name_changed(Ino parent, std::string name, bool wait = false);

 private:
  struct Notice {
    Ino ino = 0;
    std::string name;         // empty: the inode itself
    uint64_t attributes = 0;  // of so many inodes from this one on; 0: the content
    uint64_t number = 0;
  };
  void run(const std::stop_token& stop);
  uint64_t add(Notice notice);
  void wait_for(std::unique_lock<std::mutex>& lock, uint64_t number);

  std::mutex mutex_;  // guards all below but the thread
  std::condition_variable_any changed_;
  std::deque<Notice> notices_;
  uint64_t last_ = 0;
  uint64_t done_ = 0;
  fuse_session* session_ = nullptr;
  std::jthread thread_;
};

}  // namespace codecfs::fs
