#pragma once
// Sees to it that a killed daemon is no end without end for its clients.
//
// The kernel answers all requests with errors when the last thread of a daemon is gone. But a thread that has given the
// kernel a notice may wait in there, beyond the reach of any signal, for a lock that a client holds who waits for the
// daemon: then that never happens, and both wait for ever. So a child process waits for the death of our main thread
// and has the connection ended then (/sys/fs/fuse/connections/N/abort).

#include <sys/types.h>

#include <string>

#include "base/unique_fd.h"

namespace codecfs::fs {

class Guardian {
 public:
  /// By the thread that lives as long as the mount serves. Without what it needs (the kernel's directory of FUSE
  /// connections), there is none, and a line in the log.
  explicit Guardian(const std::string& mountpoint);
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

 private:
  pid_t child_ = -1;
};

}  // namespace codecfs::fs
