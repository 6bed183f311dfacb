#pragma once
// Passthrough of decoded chunks: what a mount needs for it, in one object. docs/transport.md describes it.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "fs/chunks/stats.h"
#include "fs/kernel/backing_files.h"
#include "fs/kernel/inode_modes.h"
#include "fs/kernel/memory_budget.h"
#include "fs/kernel/memory_pressure.h"

namespace codecfs::fs {

/// The chunk of an open file that can be read from a backing file.
struct PassableChunk {
  ChunkKey key = 0;
  uint64_t bytes = 0;  // its size
  /// The reader is expected to read all of it, so that it is worth decoding before it is asked for.
  bool is_expected = false;
  BackingFiles::Produce produce;
};

/// Thread-safe.
class Passthrough {
 public:
  /// Smaller chunks are not passed through: for them, opening and closing the file takes most of the time.
  static constexpr uint64_t kLeastChunk = uint64_t{256} << 10;  // bytes

  /// `budget`: bytes of memory for backing files.
  Passthrough(std::unique_ptr<BackingDevice> device, uint64_t budget, Stats& stats,
              BackingFiles::Policy policy = BackingFiles::Policy::always)
      : device_(std::move(device)), files_(*device_, budget, [] { return available_memory(); }, stats, policy) {}
  Passthrough(const Passthrough&) = delete;
  Passthrough& operator=(const Passthrough&) = delete;

  [[nodiscard]] bool suits(uint64_t chunk_bytes) const {
    return chunk_bytes >= kLeastChunk && chunk_bytes <= files_.max_chunk_bytes();
  }
  BackingFiles& files() { return files_; }
  InodeModes& modes() { return modes_; }

  /// Starts to watch the memory of the system, in a thread.
  void start() {
    pressure_.emplace([this] { files_.shrink(); });
  }
  /// See BackingFiles::stop().
  void stop() {
    pressure_.reset();
    files_.stop();
  }

 private:
  const std::unique_ptr<BackingDevice> device_;
  BackingFiles files_;
  InodeModes modes_;
  std::optional<MemoryPressure> pressure_;  // its thread uses the members above
};

}  // namespace codecfs::fs
