#pragma once
// Passthrough of decoded chunks: what a mount needs for it, in one object. docs/transport.md describes it.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "base/unique_fd.h"
#include "fs/nodes/stats.h"
#include "fs/passthrough/backing_files.h"
#include "fs/passthrough/inode_modes.h"
#include "fs/passthrough/memory_budget.h"
#include "fs/passthrough/memory_pressure.h"

namespace codecfs::fs {

/// The chunk of an open file that can be read from a backing file.
struct PassableChunk {
  ChunkKey key = 0;
  uint64_t bytes = 0;  // its size
  /// The reader is expected to read all of it, so that it is worth decoding before it is asked for.
  bool is_expected = false;
  /// Null: only `open_source` can give its bytes.
  BackingFiles::Produce produce;
  /// Opens the file of the source that has these bytes; none if there is none. Null: there cannot be one.
  std::function<Result<std::optional<UniqueFd>>()> open_source;
};

/// Thread-safe.
class Passthrough {
 public:
  /// Smaller chunks are not passed through: for them, opening and closing the file takes most of the time.
  static constexpr uint64_t kLeastChunk = uint64_t{256} << 10;  // bytes

  /// `budget`: bytes of memory for backing files.
  Passthrough(std::unique_ptr<BackingDevice> device, uint64_t budget, Stats& stats,
              BackingFiles::Policy policy = BackingFiles::Policy::always)
      : device_(std::move(device)),
        files_(
            *device_, budget,
            [this] {
              watch();
              return available_memory();
            },
            stats, policy) {}
  Passthrough(const Passthrough&) = delete;
  Passthrough& operator=(const Passthrough&) = delete;

  [[nodiscard]] bool suits(uint64_t chunk_bytes) const {
    return chunk_bytes >= kLeastChunk && chunk_bytes <= files_.max_chunk_bytes();
  }
  /// For files of the source, which take no memory.
  [[nodiscard]] bool suits_source(uint64_t bytes) const { return bytes >= kLeastChunk && !refuses_sources_; }
  /// The source's own file for a chunk; null if there is none that the kernel accepts.
  BackingPtr open_source(const PassableChunk& chunk);
  BackingFiles& files() { return files_; }
  InodeModes& modes() { return modes_; }

  /// See BackingFiles::stop().
  void stop() {
    pressure_.reset();
    files_.stop();
    stopped_ = true;
  }

 private:
  class SourceFile;

  /// Watches the memory of the system, in a thread, from the first call on. Most mounts never have so many files that
  /// it matters, and ending it takes some 50 ms.
  void watch() {
    std::call_once(watching_, [this] { pressure_.emplace([this] { files_.shrink(); }); });
  }

  const std::unique_ptr<BackingDevice> device_;
  BackingFiles files_;
  std::atomic<bool> refuses_sources_ = false;  // the kernel, because of their filesystem
  std::atomic<bool> stopped_ = false;
  InodeModes modes_;
  std::once_flag watching_;
  std::optional<MemoryPressure> pressure_;  // its thread uses the members above
};

}  // namespace codecfs::fs
