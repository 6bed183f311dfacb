#pragma once
// Open files: what the kernel's file handles stand for. Each kind of file is a subclass; callers do not know which.
// All functions are safe from all threads, as the kernel sends requests for one handle concurrently.

#include <sys/stat.h>

#include <atomic>
#include <optional>

#include "base/result.h"
#include "fs/chunks/page_copies.h"
#include "fs/context/mount_context.h"
#include "fs/given/kernel_pages.h"
#include "fs/nodes/slice.h"
#include "fs/nodes/stats.h"
#include "fs/passthrough/passthrough.h"

namespace codecfs::fs {

/// How the kernel may cache what it reads and writes through a handle. Constant after the open was answered.
struct Caching {
  // Produced at each open, bypassing the page cache: control files, files under -o coherent, and metadata that is
  // changing, which the kernel would cut to its former length.
  bool live = false;
  bool outside = false;   // other programs may have changed it: pages from before this open are invalid
  bool whole = false;     // it is stored as a whole at close, so writes must not bypass the page cache
  bool mappable = false;  // a chunk or an array: may be mapped for writing
  bool direct = false;    // writes bypass the page cache; set when the open is answered
};

class FileHandle {
 public:
  FileHandle() = default;
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  virtual ~FileHandle() = default;

  /// At most `size` bytes: fewer at the end of the file.
  virtual Result<Slice> read(uint64_t offset, size_t size) = 0;
  /// Returns the bytes written. `written_back`: the bytes are pages that a mapping wrote back, and this is any open
  /// file of the inode; only the bytes that changed are stored. EINTR: cancelled, and nothing has changed. EBADF, and
  /// the errors of WriteBack::write().
  virtual Result<size_t> write(uint64_t offset, Bytes bytes, const PageCopies::WrittenBack* written_back,
                               const Cancelled& cancelled);
  /// The file got this size through this handle, bytes.
  virtual Result<> extended(uint64_t /*size*/, const Cancelled& /*cancelled*/) { return {}; }
  /// close(2): applies a metadata file that was written, and reports errors of chunks.
  virtual Result<> flush(const Cancelled& /*cancelled*/ = {}) { return {}; }
  virtual Result<> sync(const Cancelled& /*cancelled*/ = {}) { return {}; }
  /// The last close. True if the length of the file changes with it, so that the kernel's attributes are invalid.
  virtual bool close() { return false; }
  /// The attributes of a file that was removed since its open. ENOENT for files that have none.
  virtual Result<struct stat> attributes_of_removed(Ino ino);

  /// Whether it counts as a writer, so that close and fsync wait for the kernel's notifications.
  [[nodiscard]] bool is_writer() const { return is_writer_; }

  /// Whether another program has replaced the source since it was opened.
  std::atomic<bool> outdated = false;

  Caching caching;
  KernelPages::Writer pages;              // if it is open for writing
  PageCopies::Writer copies;              // if it may be mapped for writing
  std::optional<PassableChunk> passable;  // until the open is answered, if the kernel may read it from a backing file
  InodeModes::Open opened;                // from then on, if there was a `passable`

 protected:
  explicit FileHandle(bool is_writer) : is_writer_(is_writer) {}

 private:
  const bool is_writer_ = false;
};

/// The part of a file that was asked for; counts its bytes as read.
Slice part_of(Stats& stats, const Slice& whole, uint64_t offset, size_t size);

/// Logs an error that no program can be told, because the file is closed.
void log_unreported(const Result<>& result);

}  // namespace codecfs::fs
