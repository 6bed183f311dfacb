#pragma once
// Files in memory for decoded chunks: on a tmpfs of our own that is mounted nowhere, so that it can have large folios
// without a setting of the system, and a limit. Only descriptors lead to the files.
//
// Large folios make such a file three times cheaper than small ones: writing 1 MiB takes one allocation instead of 256.
// Linux has them for files below 2 MiB since 6.14, when they are written in one piece.

#include <cstdint>

#include "base/buffer.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::fs {

/// Thread-safe.
class MemoryFiles {
 public:
  /// `limit`: bytes of all files together. EPERM without CAP_SYS_ADMIN.
  static Result<MemoryFiles> create(uint64_t limit);

  /// A new file with this content. ENOSPC at the limit; ENOMEM.
  [[nodiscard]] Result<UniqueFd> make(Bytes content) const;
  /// Whether the kernel uses large folios for files of `bytes`, which is found out by making one. Where the pages of a
  /// process cannot be examined, by the version of the kernel.
  [[nodiscard]] Result<bool> has_large_folios(size_t bytes) const;

 private:
  explicit MemoryFiles(UniqueFd root) : root_(std::move(root)) {}

  UniqueFd root_;  // its root directory
};

}  // namespace codecfs::fs
