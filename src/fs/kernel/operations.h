#pragma once
// The FUSE operations: each takes a request apart, asks the Tree, and replies. This is the boundary where errors become
// errno; nothing below knows FUSE, nothing above sees an exception.

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>

#include "fs/kernel/fuse_version.h"
#include "fs/kernel/kernel_notices.h"
#include "fs/kernel/unmount_notifier.h"
#include "fs/namespace/tree.h"

namespace codecfs::fs {

/// What the kernel holds open: it gives the pointer back with every request (fi->fh). When the mount ends under open
/// files the kernel releases nothing, so what is left goes with the mount.
template <class T>
class OpenHandles {
 public:
  OpenHandles() = default;
  OpenHandles(const OpenHandles&) = delete;
  OpenHandles& operator=(const OpenHandles&) = delete;
  ~OpenHandles() {
    for (T* handle : open_) delete handle;
  }
  uint64_t add(std::unique_ptr<T> handle) {
    const std::lock_guard lock(mutex_);
    open_.insert(handle.get());
    return reinterpret_cast<uint64_t>(handle.release());
  }
  static T* at(uint64_t number) { return reinterpret_cast<T*>(number); }
  void close(uint64_t number) {
    {
      const std::lock_guard lock(mutex_);
      open_.erase(at(number));
    }
    delete at(number);
  }
  bool any() {
    const std::lock_guard lock(mutex_);
    return !open_.empty();
  }

 private:
  std::mutex mutex_;  // guards open_; the handles are used without it
  std::unordered_set<T*> open_;
};

/// What the operations work on: the `userdata` of the session.
struct Mount {
  Tree& tree;
  std::string mountpoint;  // absolute
  UnmountNotifier& unmount_notifier;
  KernelNotices notices{};
  OpenHandles<OpenFile> files{};
  OpenHandles<OpenDirectory> directories{};
  std::atomic<bool> ending = false;           // the requests that are under way are the last
  alignas(64) std::atomic<bool> used = true;  // a request came since this was false; read by each
};

const fuse_lowlevel_ops& operations();

/// Largest read that we ask the kernel to send, bytes.
inline constexpr unsigned kMaxRead = 1 << 20;

}  // namespace codecfs::fs
