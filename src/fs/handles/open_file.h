#pragma once
// Open files and directories: what the kernel's file handles stand for. Plain data; the Tree works on them.

#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "base/buffer.h"
#include "base/unique_fd.h"
#include "fs/chunks/page_copies.h"
#include "fs/chunks/write_back.h"
#include "fs/kernel/kernel_pages.h"
#include "fs/namespace/nodes.h"
#include "fs/namespace/staged_files.h"
#include "fs/views/array_file.h"
#include "fs/views/dataset.h"

namespace codecfs::fs {

/// An open file of the npy or raw view.
struct OpenArray {
  Ino ino = 0;
  VariableViewPtr variable;  // as it was at open
  ArrayFile file;
  // Opened with O_TRUNC: gaps before the end of what was written become zeros, as in any file; the rest stays.
  bool truncated = false;
  std::mutex mutex;                             // held during a write to a truncated array
  uint64_t end = 0;                             // bytes, of what was written; guarded by mutex
  mutable std::atomic<uint64_t> next_read = 0;  // offset at which a sequential reader continues
};

/// Bytes for a reader, and what keeps them alive.
struct Slice {
  Bytes bytes;
  std::shared_ptr<const void> owner;
};

/// The content of a file that is produced as a whole. All parts that a reader gets belong to one state, unless the file
/// changes between its requests; the kernel serves other readers from the same pages.
struct Snapshot {
  Ino ino = 0;
  std::mutex mutex;                 // guards the following members
  std::optional<uint64_t> changes;  // Tree::changes() when `held` was produced; none: not produced yet
  Slice held;
};

/// An open file. Which members are set says what it is: a snapshot, a staged file, a file of a folder, a chunk, an
/// array or a scratch file.
struct OpenFile {
  std::shared_ptr<Snapshot> snapshot;  // metadata files, and chunks whose size only decoding or encoding determines
  std::shared_ptr<StagedFile> staged;
  // Produced at each open, bypassing the page cache: control files, files under -o coherent, and metadata that is
  // changing, which the kernel would cut to its former length.
  bool live = false;
  bool outside = false;  // other programs may have changed it: pages from before this open are invalid
  UniqueFd plain;        // of a file of a folder
  ChunkPlace chunk;      // of the decoded view; variable is null if the file is no chunk
  std::shared_ptr<OpenArray> array;
  Ino scratch = 0;  // of a scratch file, which may become a chunk while it is open
  bool writer = false;
  KernelPages::Writer pages;  // if it is open for writing
  PageCopies::Writer copies;  // if it is a chunk or an array that may be mapped for writing
  bool direct = false;        // writes bypass the page cache
};

/// An open directory. The entries of a group are read at open; chunks are looked up as the reader proceeds.
struct OpenDirectory {
  Place place;
  std::vector<Entry> entries;      // of a group or folder
  std::vector<std::string> names;  // the names in this view, if they differ from those of the entries
  uint64_t changes = 0;            // Dataset::changes() when the entries were read
  VariableViewPtr variable;        // of a variable
};

/// One name that a directory shows.
struct DirectoryItem {
  std::string name;
  off_t next = 0;   // position of the next item
  mode_t type = 0;  // S_IFREG, S_IFDIR or S_IFLNK
  Ino ino = 0;      // 0 if it has no inode number yet
  /// Its attributes; empty if they are expensive.
  std::function<Result<struct stat>()> attributes;
};

}  // namespace codecfs::fs
