#pragma once
// A variable as one file: a header (of numpy, or none) and the whole array in C order.
//
// This class only maps offsets: the caller reads and changes chunks. A request accesses each chunk at most once,
// whatever the shapes are. Each run that is contiguous in the file and in a chunk is one copy; a read that is a single
// such run is not copied.
//
// Algorithm: dimensions that chunks contain completely are merged with the previous one, and the bytes of an element
// with the last one; the result is an array of bytes with as few dimensions as chunks divide. A range of the file is
// then a set of at most 2 * dimensions - 1 disjoint boxes, and its part of a chunk is the intersection with each box.
// All offsets and sizes are bytes.
//
// Immutable and thread-safe.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "fs/nodes/view.h"
#include "model/variable.h"

namespace codecfs::fs {

class ArrayFile {
 public:
  /// EOPNOTSUPP if the array cannot be shown as one file: elements without fixed size, more bytes than a file can have,
  /// or a variable that is unreadable for one of these reasons.
  static Result<ArrayFile> make(VariablePtr variable, const ArrayForm& form);

  [[nodiscard]] const Variable& variable() const { return *variable_; }
  [[nodiscard]] uint64_t size() const { return header_.size() + data_size_; }
  [[nodiscard]] uint64_t header_size() const { return header_.size(); }

  struct Range {
    uint64_t offset = 0;
    uint64_t size = 0;
  };
  /// The smallest range of the file that contains all of a chunk (number < grid.count()).
  [[nodiscard]] Range range_of_chunk(uint64_t number) const;

  /// range_of_chunk(), if the range contains nothing else, with the chunk's bytes in order from its beginning.
  [[nodiscard]] std::optional<Range> stretch_of_chunk(uint64_t number) const;

  /// The numbers of the chunks that a request touches, the first `most` of them.
  [[nodiscard]] std::vector<uint64_t> chunks_of(uint64_t offset, uint64_t size, size_t most) const;

  /// An offset in [from, to] that divides no chunk: the last at which the longest row of chunks ends that ends there at
  /// all. `to` if there is none. from <= to.
  [[nodiscard]] uint64_t end_of_chunks(uint64_t from, uint64_t to) const;

  /// Approximate total size of the chunks that a request touches.
  [[nodiscard]] uint64_t bytes_of_chunks(uint64_t offset, uint64_t size) const;

  /// Bytes, and the owner that keeps them alive and unchanged.
  struct Part {
    Bytes bytes;
    std::shared_ptr<const void> owner;
  };
  /// Returns a whole decoded chunk, or no bytes if it is not stored and reads as fill. `share`: how much of it this
  /// request needs, in bytes; the shares of a complete read sum up to at least the chunk's size, even for an edge
  /// chunk, part of which is not in the file.
  using ReadChunk = std::function<Result<Part>(uint64_t number, uint64_t share)>;
  /// Returns a part of a decoded chunk, `size` bytes from `offset` on; without owner: read_chunk() must be called.
  using ReadPart = std::function<Result<Part>(uint64_t number, uint64_t offset, uint64_t size)>;
  /// At most `size` bytes from `offset` on, fewer at the end. `read_part` is called, if it is given, where not much
  /// more than the wanted bytes lies between them in the chunk. The errors of both functions; ENOMEM.
  Result<Part> read(uint64_t offset, uint64_t size, const ReadChunk& read_chunk, const ReadPart& read_part = {}) const;

  /// A change of one chunk.
  struct ChunkChange {
    uint64_t number = 0;
    bool whole = false;  // the write covers all of its bytes
    bool last = false;   // the write covers its last byte in the file: a sequential writer is done with the chunk
    bool any = true;     // the mask selects at least one of its bytes
    /// Copies the written bytes to their places in the whole chunk.
    std::function<void(MutableBytes chunk)> apply;
  };
  using ChangeChunk = std::function<Result<>(const ChunkChange& change)>;
  /// Returns how many bytes were written: fewer at the end of the file. EFBIG beyond its end; EINVAL for a header that
  /// is not this array's; the errors of `change_chunk`, after which earlier chunks are changed already. `mask` selects
  /// the bytes to write (copy_masked()); empty: all.
  Result<uint64_t> write(uint64_t offset, Bytes bytes, const ChangeChunk& change_chunk, Bytes mask = {}) const;

 private:
  struct Dimension {
    uint64_t shape = 1;
    uint64_t chunk = 1;         // extent of a chunk
    uint64_t cells = 1;         // chunks along it
    uint64_t file_stride = 1;   // stride of an index in the array
    uint64_t chunk_stride = 1;  // stride in a chunk
    uint64_t cell_stride = 1;   // stride in chunk numbers
  };
  struct Span {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  using Box = std::vector<Span>;  // one range of indices per dimension; never empty
  /// The intersection of a box and a chunk.
  struct Piece {
    Box box;
    uint64_t file_at = 0;   // offset of its first byte in the array
    uint64_t chunk_at = 0;  // offset of its first byte in the chunk
    uint64_t size = 0;
  };
  struct Share {
    uint64_t number = 0;
    std::vector<Piece> pieces;
    uint64_t size = 0;      // total bytes of the pieces
    uint64_t present = 0;   // bytes of the chunk that are in the file
    bool has_last = false;  // the last of these bytes is in a piece
  };

  ArrayFile() = default;
  void arrange();
  [[nodiscard]] std::vector<Box> boxes_of(uint64_t begin, uint64_t end) const;
  [[nodiscard]] Range hull_in_chunk(const Share& share) const;
  [[nodiscard]] Share share_of(const std::vector<Box>& boxes, size_t first, const std::vector<uint64_t>& cell) const;
  /// Calls `visit` once for each chunk that has bytes in [begin, end) of the array; in the order of the file if rows
  /// are not divided between chunks.
  template <class Visit>
  Result<> visit_chunks(uint64_t begin, uint64_t end, Visit visit) const;
  template <class Copy>
  void for_each_run(const Piece& piece, Copy copy) const;
  [[nodiscard]] Result<> check_header(uint64_t offset, Bytes bytes) const;
  void put_fill(std::byte* to, uint64_t chunk_at, uint64_t size) const;

  VariablePtr variable_;
  std::string header_;
  uint64_t data_size_ = 0;
  uint64_t chunk_size_ = 0;
  std::vector<Dimension> dimensions_;  // after merging; at least one if there is data
  std::vector<std::byte> fill_;        // repeated fill elements; empty: zeros
};

}  // namespace codecfs::fs
