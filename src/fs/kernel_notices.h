#pragma once
// What the kernel is told to forget: contents that changed under another inode number, and names that mean another
// inode now. Threads of its own tell it, which hold no lock: from inside a request the kernel may be holding what it
// would wait for. It is the directory's lock that names need, so these have a thread apart from the contents.

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
  /// The same of a part of its content, in bytes (at least one).
  void part_changed(Ino ino, uint64_t offset, uint64_t size, bool wait);
  /// The attributes alone, of `count` inodes in a row.
  void attributes_changed(Ino first, uint64_t count);
  /// A name in a directory, and all names below it. `wait`: as above; not in a request that changes this directory.
  void name_changed(Ino parent, std::string name, bool wait = false);

 private:
  struct Notice {
    Ino ino = 0;
    std::string name;         // empty: the inode itself
    uint64_t attributes = 0;  // of so many inodes from this one on; 0: the content
    uint64_t offset = 0;
    uint64_t size = 0;  // of the content that is meant; 0: all from `offset` on
  };
  struct Lane {
    std::deque<Notice> notices;
    uint64_t last = 0;  // notices that ever came
    uint64_t done = 0;
    std::jthread thread;
  };
  void add(Lane& lane, Notice notice, bool wait);
  void run(Lane& lane, const std::stop_token& stop);
  void tell(const Notice& notice, const std::stop_token& stop);

  std::mutex mutex_;  // guards the lanes but for their threads
  std::condition_variable_any changed_;
  fuse_session* session_ = nullptr;
  Lane inodes_;
  Lane names_;
  Lane awaited_names_;  // not behind those that wait for a directory
};

}  // namespace codecfs::fs
