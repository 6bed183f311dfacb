#pragma once
// What a file looks like from above a log: which range of it lies in the log and which still in the source.
//
//   source     |aaaaaaaaaaaaaaaaaaaaaaaa|          base_end(): the source counts up to here
//   extents        |xx|      |yyyyyy|      |zz|    later writes split and hide earlier ones
//   shown      |aaaxxaaaaaaaayyyyyyaaaa00000zz000| size(): what nobody wrote beyond base_end() reads as zeros
//
// Plain data: no I/O, no locks. All numbers are bytes.

#include <cstdint>
#include <map>

namespace codecfs::hdf5 {

class Overlay {
 public:
  /// Where the bytes of a range are.
  enum class Origin : uint8_t { source, zeros, log, aside };

  struct Extent {
    uint64_t end = 0;       // in the shown file, exclusive
    uint64_t position = 0;  // of its first byte in its origin
    Origin origin = Origin::log;
  };
  using Extents = std::map<uint64_t, Extent>;  // by first byte in the shown file; never empty, never overlapping

  struct Piece {
    Origin origin = Origin::zeros;
    uint64_t position = 0;  // in its origin; nothing for zeros
    uint64_t length = 0;
  };

  explicit Overlay(uint64_t source_size = 0) : base_end_(source_size), size_(source_size) {}

  /// From now on [offset, offset + length) is at `position` of `origin`. The file grows where need be.
  void write(uint64_t offset, uint64_t length, Origin origin, uint64_t position);
  /// Cuts the file or adds zeros. What was cut does not come back when it grows again.
  void set_size(uint64_t size);

  /// The longest piece that begins at `offset` (less than size()) and comes from one place.
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
