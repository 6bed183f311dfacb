#pragma once
// The chunks that were removed in a mount and not written since. Not thread-safe.
//
// They are kept as ranges, so that memory grows with the number of gaps between removed chunks, not with the number of
// chunks: a variable that was emptied takes one range, in whatever order its chunks were removed.

#include <cstdint>
#include <map>
#include <set>

#include "backends/api/source.h"
#include "fs/chunks/chunk_cache.h"

namespace codecfs::fs {

/// A set of numbers. A function that throws std::bad_alloc has changed nothing.
class NumberRanges {
 public:
  /// Takes memory for a number that does not touch others.
  void insert(uint64_t number);
  /// Removes the numbers from `first` to `last`, both included. Takes memory for the numbers after them if those before
  /// them were in the same range.
  void erase(uint64_t first, uint64_t last);
  [[nodiscard]] bool contains(uint64_t number) const;
  /// The last number of each range by its first. Ranges do not touch each other.
  [[nodiscard]] const std::map<uint64_t, uint64_t>& ranges() const { return ranges_; }

 private:
  void set_first(std::map<uint64_t, uint64_t>::iterator range, uint64_t first);

  std::map<uint64_t, uint64_t> ranges_;
};

/// A function that throws std::bad_alloc has changed nothing.
class RemovedChunks {
 public:
  void insert(ObjectId variable, ChunkKey key, uint64_t number);
  void erase(ObjectId variable, ChunkKey key, uint64_t number);
  /// Removes all chunks of a variable. Takes no memory.
  void erase(ObjectId variable);
  [[nodiscard]] bool contains(ChunkKey key) const { return keys_.contains(key); }
  /// The numbers of a variable's removed chunks.
  [[nodiscard]] std::set<uint64_t> of(ObjectId variable) const;

 private:
  NumberRanges keys_;
  // By variable and the key of its chunk 0: the keys of a variable's chunks are consecutive.
  std::map<ObjectId, std::map<ChunkKey, NumberRanges>> numbers_;
};

}  // namespace codecfs::fs
