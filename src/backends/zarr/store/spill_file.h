#pragma once
// Stores bytes until a commit, in an unlinked file beside the archive, which disappears with the process.
//
//   CODECFS_ASSIGN(const SpilledPtr bytes, spill.append(chunk));      // ENOSPC
//   CODECFS_ASSIGN(const Buffer again, bytes->read());
//
// Space of released bytes is returned to the filesystem at once. Thread-safe.

#include <cstdint>
#include <memory>

#include "base/buffer.h"
#include "base/file_io.h"
#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::zarr {

class SpillFile;

/// A range of bytes in a spill file.
class Spilled {
 public:
  Spilled(std::shared_ptr<SpillFile> file, uint64_t offset, uint64_t size, uint32_t crc)
      : file_(std::move(file)), offset_(offset), size_(size), crc_(crc) {}
  Spilled(const Spilled&) = delete;
  ~Spilled();

  [[nodiscard]] uint64_t size() const { return size_; }
  [[nodiscard]] uint32_t crc() const { return crc_; }
  /// Fills `to` from byte `from` on. EIO.
  [[nodiscard]] Result<> read(uint64_t from, MutableBytes to) const;

 private:
  std::shared_ptr<SpillFile> file_;
  uint64_t offset_;
  uint64_t size_;
  uint32_t crc_;
};

using SpilledPtr = std::shared_ptr<const Spilled>;

class SpillFile : public std::enable_shared_from_this<SpillFile> {
 public:
  /// Creates the file in `directory` under `temporary_name`, and unlinks it. EEXIST.
  static Result<std::shared_ptr<SpillFile>> make(FileIo& io, const File& directory, const std::string& temporary_name);

  /// ENOSPC and other system errors; then nothing is stored.
  Result<SpilledPtr> append(Bytes bytes);
  /// Bytes currently stored.
  [[nodiscard]] uint64_t stored_bytes() const;

 private:
  friend class Spilled;
  SpillFile(FileIo& io, File file) : io_(io), file_(std::move(file)) {}
  void release(uint64_t offset, uint64_t size);

  FileIo& io_;
  File file_;
  mutable Mutex mutex_;                             // not held while bytes are written
  uint64_t end_ CODECFS_GUARDED_BY(mutex_) = 0;     // where the next bytes are written
  uint64_t held_ CODECFS_GUARDED_BY(mutex_) = 0;    // bytes
  uint64_t pieces_ CODECFS_GUARDED_BY(mutex_) = 0;  // number of ranges stored or being written
};

}  // namespace codecfs::zarr
