#pragma once
// The FUSE operations: each decodes a request, calls the Filesystem, and replies. Errors are converted to errno here:
// code below does not know FUSE, and exceptions do not leave it.

#include <atomic>
#include <memory>
#include <new>
#include <string>
#include <unordered_set>

#include "base/mutex.h"
#include "fs/filesystem.h"
#include "fs/kernel/kernel_notices.h"
#include "fs/kernel/parked_requests.h"
#include "fs/kernel/passable_opens.h"
#include "fs/kernel/source_rest.h"
#include "fs/kernel/unmount_notifier.h"
#include "fs/passthrough/fuse_version.h"

namespace codecfs::fs {

/// Objects that the kernel holds open: it passes the pointer with every request (fi->fh). If the mount ends with open
/// files, the kernel sends no RELEASE, so they are destroyed with the mount.
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
    const LockGuard lock(mutex_);
    try {
      open_.insert(handle.get());
    } catch (const std::bad_alloc&) {
      if constexpr (requires { handle->close(); }) (void)handle->close();
      throw;
    }
    return reinterpret_cast<uint64_t>(handle.release());
  }
  static T* at(uint64_t number) { return reinterpret_cast<T*>(number); }
  void close(uint64_t number) {
    {
      const LockGuard lock(mutex_);
      open_.erase(at(number));
    }
    delete at(number);
  }
  bool any() {
    const LockGuard lock(mutex_);
    return !open_.empty();
  }
  /// Calls `visit` with each, under the lock.
  template <class Visit>
  void for_each(Visit visit) {
    const LockGuard lock(mutex_);
    for (T* handle : open_) visit(*handle);
  }

 private:
  Mutex mutex_;
  std::unordered_set<T*> open_ CODECFS_GUARDED_BY(mutex_);  // handles are used without the mutex
};

/// The state of the operations: the `userdata` of the session.
struct Mount {
  Filesystem& filesystem;
  std::string mountpoint;  // absolute
  UnmountNotifier& unmount_notifier;
  KernelNotices notices{};
  OpenHandles<FileHandle> files{};
  OpenHandles<OpenDirectory> directories{};
  PassableOpens passable_opens{*this};
  ParkedRequests parked{};
  bool offers_passthrough = false;             // set before the first request
  std::atomic<bool> is_initialised = false;    // INIT was answered
  std::atomic<bool> ending = false;            // no new requests are accepted
  std::atomic<bool> is_terminating = false;    // re-encodings are cancelled
  std::atomic<bool> stops_waiting = false;     // readers do not wait for an object store any more
  int device = -1;                             // of /dev/fuse, if readers may wait for an object store
  std::atomic<Ino> looked_up_in = 0;           // the directory of the last LOOKUP, until it is listed further
  std::unique_ptr<SourceRest> rest = nullptr;  // -o idle=; set before the first request
};

const fuse_lowlevel_ops& operations();

/// Largest READ request, in bytes.
inline constexpr unsigned kMaxRead = 1 << 20;

}  // namespace codecfs::fs
