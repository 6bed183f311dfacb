#pragma once
// What will be read soon of an array in one file, if its source waits for a network. Thread-safe.
//
// A sequential reader gets ahead the more of it the longer it reads. Of a random reader, only the chunks of one request
// are read together.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/mutex.h"
#include "fs/chunks/array_file.h"

namespace codecfs::fs {

class ArrayAhead {
 public:
  /// `growth`: how many times what was read in order is read ahead.
  explicit ArrayAhead(uint64_t growth) : growth_(growth) {}

  struct Range {
    uint64_t offset = 0;  // bytes of the file
    uint64_t size = 0;
    bool operator==(const Range&) const = default;
  };

  /// What to begin to read now that a request has come. `in_order`: it continues the one before. `most`: bytes ahead.
  /// None if enough is on its way. Divides no chunks where they are small beside what is read ahead.
  std::optional<Range> note(uint64_t offset, uint64_t size, bool in_order, const ArrayFile& file, uint64_t most) {
    const LockGuard lock(mutex_);
    if (!in_order) {
      in_row_ = 0;
      until_ = 0;
      return Range{offset, size};
    }
    in_row_ += size;
    until_ = std::max(until_, offset);
    const uint64_t ahead = std::min(std::max(in_row_ * growth_, kLeast), most);
    const uint64_t limit = std::min(file.size(), offset + size + ahead);
    if (limit <= until_) return std::nullopt;
    const uint64_t end = file.end_of_chunks(std::max(until_, limit - std::min(limit, ahead / 2)), limit);
    // In large steps, so that requests can be joined.
    if (end <= until_ || (end != file.size() && end - until_ < ahead / 2)) return std::nullopt;
    const Range range{until_, end - until_};
    until_ = end;
    return range;
  }

 private:
  static constexpr uint64_t kLeast = uint64_t{4} << 20;

  const uint64_t growth_;
  Mutex mutex_;
  uint64_t in_row_ CODECFS_GUARDED_BY(mutex_) = 0;  // bytes that were read in order
  uint64_t until_ CODECFS_GUARDED_BY(mutex_) = 0;   // to here it is on its way
};

}  // namespace codecfs::fs
