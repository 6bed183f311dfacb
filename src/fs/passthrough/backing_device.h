#pragma once
// Backing files: ordinary files that the kernel reads and maps in place of a file of the mount (FUSE passthrough).
// Their readers send no requests. See docs/transport.md.

#include <cstdint>
#include <memory>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::fs {

/// Gives backing files to the kernel. Thread-safe.
class BackingDevice {
 public:
  BackingDevice() = default;
  BackingDevice(const BackingDevice&) = delete;
  BackingDevice& operator=(const BackingDevice&) = delete;
  virtual ~BackingDevice() = default;

  /// Makes a backing file of these bytes, and returns its id, which is positive. The memory is that of the file alone.
  /// ENOSPC: there is no room; other errors: the kernel refuses it.
  virtual Result<int32_t> store(Bytes content) = 0;
  /// Makes a file a backing file, and returns its id. The descriptor can be closed. ELOOP: it is on a filesystem that
  /// is stacked on another one.
  virtual Result<int32_t> open(int file) = 0;
  /// The kernel forgets the id. The file ends with the last open file and mapping that uses it.
  virtual void close(int32_t id) = 0;
};

/// A backing file, which has its id at least as long as this object exists.
class Backing {
 public:
  explicit Backing(int32_t id) : id_(id) {}
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;
  virtual ~Backing() = default;

  [[nodiscard]] int32_t id() const { return id_; }
  /// Whether it is a file of the source, on any filesystem.
  [[nodiscard]] virtual bool is_of_source() const { return false; }

 private:
  const int32_t id_;
};
using BackingPtr = std::shared_ptr<const Backing>;

}  // namespace codecfs::fs
