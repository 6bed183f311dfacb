#pragma once
// Bytes that wait for a commit, in a file of no name beside the archive: it goes with the process, however that ends.
//
//   CODECFS_ASSIGN(const SpilledPtr bytes, spill.append(chunk));      // ENOSPC
//   CODECFS_ASSIGN(const Buffer again, bytes->read());
//
// The room of what nobody holds any more is given back to the filesystem at once. Safe from all threads.

#include <cstdint>
#include <memory>
#include <mutex>

#include "base/buffer.h"
#include "base/file_io.h"
#include "base/result.h"

namespace codecfs::zarr {

class SpillFile;

/// Bytes in a spill file.
class Spilled {
 public:
  Spilled(std::shared_ptr<SpillFile> file, uint64_t offset, uint64_t size, uint32_t crc)
      : file_(std::move(file)), offset_(offset), size_(size), crc_(crc) {}
  Spilled(const Spilled&) = delete;
  ~Spilled();

  [[nodiscard]] uint64_t size() const { return size_; }
  [[nodiscard]] uint32_t crc() const { return crc_; }
  /// Fills `to` from the byte `from` on. EIO.
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
  /// Makes the file in `directory` under `temporary_name`, and takes that away again. EEXIST.
  static Result<std::shared_ptr<SpillFile>> make(FileIo& io, const File& directory, const std::string& temporary_name);

  /// ENOSPC and all else that the system says, with nothing of it left.
  Result<SpilledPtr> append(Bytes bytes);
  /// Bytes that are held now.
  [[nodiscard]] uint64_t memory_estimate() const;

 private:
  friend class Spilled;
  SpillFile(FileIo& io, File file) : io_(io), file_(std::move(file)) {}
  void give_back(uint64_t offset, uint64_t size);

  FileIo& io_;
  File file_;
  mutable std::mutex mutex_;  // guards what follows; not held while bytes are written
  uint64_t end_ = 0;          // the next bytes go there
  uint64_t held_ = 0;         // bytes
  uint64_t pieces_ = 0;       // that are held, or being written
};

}  // namespace codecfs::zarr
