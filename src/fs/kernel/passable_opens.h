#pragma once
// Answers opens of chunk files that the kernel can read from backing files.
//
// If the backing file is there, the answer names it. If it is being made, or the reader is expected to read the chunk,
// the open waits until it is there. A signal ends the wait: then the open is answered as cached, and the chunk is read
// by READ requests, which the kernel lets signals end by itself. An open never fails because its chunk cannot be
// decoded.

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/mutex.h"
#include "fs/handles/file_handle.h"
#include "fs/nodes/nodes.h"
#include "fs/passthrough/fuse_version.h"

namespace codecfs::fs {

struct Mount;

/// Thread-safe.
class PassableOpens {
 public:
  /// `mount`: outlives this object; its filesystem has a Passthrough.
  explicit PassableOpens(Mount& mount) : mount_(mount) {}
  PassableOpens(const PassableOpens&) = delete;
  PassableOpens& operator=(const PassableOpens&) = delete;

  /// `file` has a PassableChunk. `info`: the reply for an open without a backing file, but for the handle.
  void answer(fuse_req_t request, Ino ino, const fuse_file_info& info, std::unique_ptr<FileHandle> file);

 private:
  struct Waiting {
    fuse_req_t request = nullptr;
    Ino ino = 0;
    fuse_file_info info{};
    std::unique_ptr<FileHandle> file;
  };
  /// Called by libfuse when a signal interrupts the request. `number`: of the waiting open.
  static void interrupted(fuse_req_t request, void* number);

  void reply(Waiting open, BackingPtr backing);
  uint64_t add(Waiting open);
  /// None if another thread has taken it, and answers or has answered it.
  std::optional<Waiting> take(uint64_t number);

  Mount& mount_;
  Mutex mutex_;
  std::unordered_map<uint64_t, Waiting> waiting_ CODECFS_GUARDED_BY(mutex_);
  uint64_t last_ CODECFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace codecfs::fs
