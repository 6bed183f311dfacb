#pragma once
// Maps ranges of a file to their origin: the log, the source, or neither.
//
//   source     |aaaaaaaaaaaaaaaaaaaaaaaa|          base_end(): the source's bytes are used up to here
//   extents        |xx|      |yyyyyy|      |zz|    later writes split and hide earlier ones
//   shown      |aaaxxaaaaaaaayyyyyyaaaa00000zz000| size(): unwritten bytes beyond base_end() read as zeros
//
// Plain data: no I/O, no locks. All numbers are bytes.

#include <cstdint>
#include <map>

namespace codecfs::hdf5 {

class Overlay {
 public:
  /// The origin of a range's bytes.
  enum class Origin : uint8_t { source, zeros, log, memory };

  struct Extent {
    uint64_t end = 0;       // in the shown file, exclusive
    uint64_t position = 0;  // of its first byte in its origin
    Origin origin = Origin::log;
  };
  // keyed by the first byte in the shown file; never empty, never overlapping
  using Extents = std::map<uint64_t, Extent>;

  struct Piece {
    Origin origin = Origin::zeros;
    uint64_t position = 0;  // in its origin; undefined for zeros
    uint64_t length = 0;
  };

  explicit Overlay(uint64_t source_size = 0) : base_end_(source_size), size_(source_size) {}

  /// Maps [offset, offset + length) to `position` of `origin`. The file grows if needed.
  void write(uint64_t offset, uint64_t length, Origin origin, uint64_t position);
  /// Truncates the file or extends it with zeros. Truncated bytes do not reappear when it grows again.
  void set_size(uint64_t size);

  /// The longest range that begins at `offset` (less than size()) and has a single origin.
  [[nodiscard]] Piece piece_at(uint64_t offset) const;
  [[nodiscard]] uint64_t size() const { return size_; }
  [[nodiscard]] uint64_t base_end() const { return base_end_; }
  [[nodiscard]] const Extents& extents() const { return extents_; }

 private:
  void cut(uint64_t from, uint64_t until);

  Extents extents_;
  uint64_t base_end_;  // <= size_
  uint64_t size_;
};

}  // namespace codecfs::hdf5
