#pragma once
// A variable as one file: numpy's header (or none) and the whole array in C order.
//
// The file is an arrangement only: bytes come from chunks that the caller reads and go to chunks that the caller
// changes. A request asks for each chunk that it touches once, whatever the shapes are, and what it costs beyond that
// are copies: one for each stretch that is contiguous in the file and in a chunk, and none at all for a read that is
// one such stretch.
//
// How it works. Dimensions that chunks hold whole are merged with the one before them, and the bytes of an element are
// merged with the last: what is left is an array of bytes with as few dimensions as chunks cut. A range of the file is
// then a handful of boxes (at most 2 * dimensions - 1), which share no byte, and a chunk takes part in it by what it
// has in common with each of them. All offsets and sizes are bytes.
//
// Never changes once it is made, so it may be used from all threads.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "model/variable.h"

namespace codecfs::fs {

class ArrayFile {
 public:
  /// EOPNOTSUPP where the array has no such file: elements without fixed size, more bytes than a file can have,
  /// or an unreadable variable for the same reason.
  static Result<ArrayFile> make(VariablePtr variable, bool with_header);

  [[nodiscard]] const Variable& variable() const { return *variable_; }
  [[nodiscard]] uint64_t size() const { return header_.size() + data_size_; }
  [[nodiscard]] uint64_t header_size() const { return header_.size(); }

  struct Range {
    uint64_t offset = 0;
    uint64_t size = 0;
  };
  /// The shortest stretch of the file that has all of a chunk (number < grid.count()) in it.
  [[nodiscard]] Range range_of_chunk(uint64_t number) const;

  /// The same where it has nothing else in it, in the order that the chunk has from its beginning on.
  [[nodiscard]] std::optional<Range> stretch_of_chunk(uint64_t number) const;

  /// About how many bytes the chunks have together that a request touches.
  [[nodiscard]] uint64_t bytes_of_chunks(uint64_t offset, uint64_t size) const;

  /// Bytes, and what keeps them alive and as they are.
  struct Part {
    Bytes bytes;
    std::shared_ptr<const void> owner;
  };
  /// A whole chunk, decoded; no bytes where it is not stored, and reads as fill. `share`: how much of it is wanted, in
  /// bytes; all that are wanted of a chunk are together at least its size, though an edge chunk has bytes that are in
  /// no file.
  using ReadChunk = std::function<Result<Part>(uint64_t number, uint64_t share)>;
  /// What there is from `offset` on, at most `size` bytes; nothing beyond the end. The errors of `read_chunk`; ENOMEM.
  Result<Part> read(uint64_t offset, uint64_t size, const ReadChunk& read_chunk) const;

  /// A change of one chunk.
  struct ChunkChange {
    uint64_t number = 0;
    bool whole = false;  // all of its bytes are written
    bool last = false;   // so is the last that it has in the file: a writer from front to back is done with the chunk
    bool any = true;     // the mask selects some of its bytes
    /// Puts what is written where it belongs in the whole chunk.
    std::function<void(MutableBytes chunk)> apply;
  };
  using ChangeChunk = std::function<Result<>(const ChunkChange& change)>;
  /// How much was taken: less than given where the file ends. EFBIG at its end; EINVAL for a header that is not this
  /// array's; the errors of `change_chunk`, where chunks before the one that failed are changed already.
  /// `mask`: of the bytes, those that are written (copy_masked()); empty: all.
  Result<uint64_t> write(uint64_t offset, Bytes bytes, const ChangeChunk& change_chunk, Bytes mask = {}) const;

 private:
  struct Dimension {
    uint64_t shape = 1;
    uint64_t chunk = 1;         // of a chunk
    uint64_t cells = 1;         // chunks along it
    uint64_t file_stride = 1;   // from one index to the next, in the array
    uint64_t chunk_stride = 1;  // the same in a chunk
    uint64_t cell_stride = 1;   // in chunk numbers
  };
  struct Span {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  using Box = std::vector<Span>;  // of indices, one a dimension; never empty
  /// What a box and a chunk have in common.
  struct Piece {
    Box box;
    uint64_t file_at = 0;   // of its first byte
    uint64_t chunk_at = 0;  // the same
    uint64_t size = 0;
  };
  struct Share {
    uint64_t number = 0;
    std::vector<Piece> pieces;
    uint64_t size = 0;      // of the pieces
    uint64_t present = 0;   // bytes of the chunk that are in the file
    bool has_last = false;  // the last of these is in a piece
  };

  ArrayFile() = default;
  void arrange();
  [[nodiscard]] std::vector<Box> boxes_of(uint64_t begin, uint64_t end) const;
  [[nodiscard]] Share share_of(const std::vector<Box>& boxes, size_t first, const std::vector<uint64_t>& cell) const;
  /// Calls `visit` with each chunk that has bytes in [begin, end) of the array, once; in the order of the file where
  /// no row is cut.
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
  std::vector<Dimension> dimensions_;  // merged; at least one where there is data
  std::vector<std::byte> fill_;        // elements of it; empty: zeros
};

}  // namespace codecfs::fs
