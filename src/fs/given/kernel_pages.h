#pragma once
// Stores content in the kernel's page cache before it is requested (FUSE_NOTIFY_STORE), so that a reader finds it
// there, decoded and copied on another core.
//
// The kernel overwrites existing pages with it, including dirty pages of mapped files. So nothing is pushed while a
// file is open for writing, and an open for writing is answered only after the running push has ended. That wait must
// not block a thread: the kernel may in turn be waiting for the answer to a read.

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "fs/nodes/nodes.h"

namespace codecfs::fs {

class KernelPages {
 public:
  KernelPages() = default;
  KernelPages(const KernelPages&) = delete;
  KernelPages& operator=(const KernelPages&) = delete;

  /// Prevents pushes to an inode during its lifetime.
  class Writer {
   public:
    Writer() = default;
    Writer(KernelPages& pages, Ino ino) : pages_(&pages), ino_(ino) { pages.add_writer(ino); }
    Writer(Writer&& other) noexcept : pages_(std::exchange(other.pages_, nullptr)), ino_(other.ino_) {}
    Writer& operator=(Writer&& other) noexcept {
      std::swap(pages_, other.pages_);
      std::swap(ino_, other.ino_);
      return *this;
    }
    ~Writer() {
      if (pages_ != nullptr) pages_->remove_writer(ino_);
    }

   private:
    KernelPages* pages_ = nullptr;
    Ino ino_ = 0;
  };

  /// Calls `store`, which stores content of the inode in the kernel's page cache and may block, unless there is a
  /// writer or a running push. Returns its result, or false if it was not called.
  bool push_pages(Ino ino, const std::function<bool()>& store);
  /// Calls `then` when no push to the inode is running: now, or soon from another thread, which logs what it throws.
  void after_pushes(Ino ino, std::function<void()> then);
  /// Returns when pushes to `count` consecutive inodes that were already running have ended, or after a second, because
  /// the kernel may be waiting for the answer to a request. Code that changes a chunk must call it, and then invalidate
  /// the chunk's pages, before it reports success.
  void await_quiet(Ino first, uint64_t count = 1);
  /// Prevents further pushes, and returns when none is running. Must be called while requests are still answered, or
  /// when no more can arrive.
  void stop();

 private:
  struct State {
    unsigned writers = 0;
    uint64_t giving = 0;  // number of the running push; 0: none
    std::vector<std::function<void()>> waiting;
  };
  class Push;
  void end_push(Ino ino) noexcept;
  void add_writer(Ino ino);
  void remove_writer(Ino ino);

  Mutex mutex_;
  ConditionVariable changed_;
  std::unordered_map<Ino, State> states_ CODECFS_GUARDED_BY(mutex_);  // of inodes with writers or a running push
  unsigned giving_ CODECFS_GUARDED_BY(mutex_) = 0;                    // inodes with a running push
  uint64_t pushes_ CODECFS_GUARDED_BY(mutex_) = 0;                    // number of pushes ever begun
  bool stopped_ CODECFS_GUARDED_BY(mutex_) = false;
};

}  // namespace codecfs::fs
