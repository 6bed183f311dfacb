#pragma once
// A set of the bytes of a buffer, such as those that were written. Not thread-safe.

#include <cstdint>
#include <vector>

#include "base/buffer.h"

namespace codecfs {

class ByteSet {
 public:
  /// Adds `size` bytes from `offset` on. `mask`: only those with 0xff, instead of 0, at their place in it; empty: all.
  /// std::bad_alloc.
  void add(uint64_t offset, uint64_t size, Bytes mask = {});
  /// The next add() needs no memory for bytes below `end`. std::bad_alloc.
  void make_room(uint64_t end);
  /// Adds all bytes from 0 on, however many the buffer has.
  void add_all() {
    has_all_ = true;
    words_.clear();
  }
  /// std::bad_alloc.
  void add(const ByteSet& other);

  [[nodiscard]] bool is_empty() const { return !has_all_ && words_.empty(); }
  [[nodiscard]] bool has(uint64_t offset) const;
  /// Whether it has the first `size` bytes.
  [[nodiscard]] bool has_first(uint64_t size) const;
  /// Copies the bytes of the set. `to` and `from` have the same size.
  void copy(Bytes from, MutableBytes to) const;

 private:
  static constexpr uint64_t kWord = 64;  // bytes for which a word stands

  bool has_all_ = false;
  std::vector<uint64_t> words_;  // a bit for each byte
};

}  // namespace codecfs
