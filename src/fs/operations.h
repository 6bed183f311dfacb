#pragma once
// The FUSE operations: each takes a request apart, asks the Tree, and replies. This is the boundary where errors become
// errno; nothing below knows FUSE, nothing above sees an exception.

#include <string>

#include "fs/fuse_version.h"
#include "fs/tree.h"

namespace codecfs::fs {

/// What the operations work on: the `userdata` of the session.
struct Mount {
  Tree& tree;
  std::string mountpoint;  // absolute
};

const fuse_lowlevel_ops& operations();

/// Largest read that we ask the kernel to send, bytes.
inline constexpr unsigned kMaxRead = 1 << 20;

}  // namespace codecfs::fs
