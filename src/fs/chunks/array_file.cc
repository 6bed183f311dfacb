// Maps ranges to boxes, boxes to chunks, and chunks to contiguous runs.

#include "fs/chunks/array_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cstring>
#include <limits>

#include "fs/chunks/page_copies.h"
#include "model/fill.h"

namespace codecfs::fs {
namespace {

constexpr uint64_t kMaxFile = std::numeric_limits<int64_t>::max();
constexpr uint64_t kFillPattern = 4096;  // bytes of fill kept ready, at least

}  // namespace

Result<ArrayFile> ArrayFile::make(VariablePtr variable, const ArrayForm& form) {
  const ChunkGrid& grid = variable->grid;
  CODECFS_ASSIGN(std::string header, form.header(*variable));
  if (variable->unreadable && variable->unreadable->code == EOPNOTSUPP) return std::unexpected(*variable->unreadable);
  if (!variable->fill.empty() && variable->fill.size() != variable->type.size)
    return fail(EINVAL, "a fill of {} bytes for elements of {}", variable->fill.size(), variable->type.size);
  ArrayFile file;
  file.header_ = std::move(header);
  const uint64_t element = variable->type.size;
  // Test for a factor of 0 first: the product of the others may overflow.
  uint64_t size = std::ranges::find(grid.shape(), 0U) != grid.shape().end() ? 0 : element;
  bool fits = true;
  for (const uint64_t extent : grid.shape())
    fits = fits && !__builtin_mul_overflow(size, size == 0 ? 0 : extent, &size);
  fits = fits && size <= kMaxFile - file.header_.size();
  if (!fits || __builtin_mul_overflow(grid.elements_per_chunk(), element, &file.chunk_size_))
    return fail(EOPNOTSUPP, "an array of {} elements of {} bytes is larger than a file can be",
                fmt::join(grid.shape(), " x "), element);
  file.data_size_ = size;
  file.variable_ = std::move(variable);
  file.arrange();
  return file;
}

void ArrayFile::arrange() {
  const Bytes fill = variable_->fill;
  if (!is_all_zero(fill)) {
    fill_.resize(std::max<uint64_t>(kFillPattern / fill.size(), 1) * fill.size());
    repeat_element(fill, fill_);
  }
  if (data_size_ == 0) return;
  const ChunkGrid& grid = variable_->grid;
  const auto add = [&](uint64_t shape, uint64_t chunk, uint64_t cells) {
    if (!dimensions_.empty()) {
      Dimension& before = dimensions_.back();
      // Chunks contain this dimension completely, or the previous dimension has a single index.
      const bool whole = chunk == shape;
      if (whole || (before.shape == 1 && before.chunk == 1)) {
        before = {before.shape * shape, before.chunk * chunk, whole ? before.cells : cells};
        return;
      }
    }
    dimensions_.push_back({shape, chunk, cells});
  };
  for (size_t i = 0; i < grid.rank(); ++i) add(grid.shape()[i], grid.chunks()[i], grid.cells()[i]);
  add(variable_->type.size, variable_->type.size, 1);
  for (size_t i = dimensions_.size() - 1; i-- > 0;) {
    const Dimension& inner = dimensions_[i + 1];
    dimensions_[i].file_stride = inner.file_stride * inner.shape;
    dimensions_[i].chunk_stride = inner.chunk_stride * inner.chunk;
    dimensions_[i].cell_stride = inner.cell_stride * inner.cells;
  }
}

ArrayFile::Range ArrayFile::range_of_chunk(uint64_t number) const {
  uint64_t first = 0;
  uint64_t last = 0;
  for (const Dimension& dimension : dimensions_) {
    const uint64_t begin = number / dimension.cell_stride % dimension.cells * dimension.chunk;
    const uint64_t end = begin + std::min(dimension.chunk, dimension.shape - begin);
    first += begin * dimension.file_stride;
    last += (end - 1) * dimension.file_stride;
  }
  return {header_.size() + first, dimensions_.empty() ? 0 : last - first + 1};
}

std::optional<ArrayFile::Range> ArrayFile::stretch_of_chunk(uint64_t number) const {
  bool is_cut = false;  // a slower dimension has more than one index
  for (const Dimension& dimension : dimensions_) {
    const uint64_t begin = number / dimension.cell_stride % dimension.cells * dimension.chunk;
    const uint64_t present = std::min(dimension.chunk, dimension.shape - begin);
    if (is_cut && (present != dimension.shape || present != dimension.chunk)) return std::nullopt;
    is_cut = is_cut || present > 1;
  }
  if (dimensions_.empty()) return std::nullopt;
  return range_of_chunk(number);
}

/// Boxes in the order of the file: the remainders of the first row, plane, ...; then the complete middle; then the
/// beginnings of the last plane and row.
std::vector<ArrayFile::Box> ArrayFile::boxes_of(uint64_t begin, uint64_t end) const {
  const size_t rank = dimensions_.size();
  std::vector<uint64_t> from(rank);
  std::vector<uint64_t> to(rank);  // index of the last byte
  for (size_t i = 0; i < rank; ++i) {
    from[i] = begin / dimensions_[i].file_stride % dimensions_[i].shape;
    to[i] = (end - 1) / dimensions_[i].file_stride % dimensions_[i].shape;
  }
  // The first dimension in which both ends differ, and the last in which begin or end divides a row.
  size_t split = 0;
  while (split + 1 < rank && from[split] == to[split]) ++split;
  size_t head = rank - 1;
  while (head > split && from[head] == 0) --head;
  size_t tail = rank - 1;
  while (tail > split && to[tail] == dimensions_[tail].shape - 1) --tail;

  std::vector<Box> boxes;
  const auto add = [&](const std::vector<uint64_t>& fixed, size_t dimension, uint64_t first, uint64_t after) {
    if (first >= after) return;
    Box box(rank);
    for (size_t i = 0; i < rank; ++i) {
      if (i < dimension) box[i] = {fixed[i], fixed[i] + 1};
      if (i == dimension) box[i] = {first, after};
      if (i > dimension) box[i] = {0, dimensions_[i].shape};
    }
    boxes.push_back(std::move(box));
  };
  for (size_t i = head; i > split; --i) add(from, i, from[i] + (i < head ? 1 : 0), dimensions_[i].shape);
  add(from, split, from[split] + (head > split ? 1 : 0), to[split] + (tail > split ? 0 : 1));
  for (size_t i = split + 1; i <= tail; ++i) add(to, i, 0, to[i] + (i < tail ? 0 : 1));
  return boxes;
}

uint64_t ArrayFile::bytes_of_chunks(uint64_t offset, uint64_t size) const {
  const uint64_t begin = std::max<uint64_t>(offset, header_.size()) - header_.size();
  const uint64_t end = std::min(offset + size, this->size()) - header_.size();
  if (offset + size <= header_.size() || begin >= end) return 0;
  uint64_t most = 0;  // upper bound: boxes share many chunks
  for (const Box& box : boxes_of(begin, end)) {
    uint64_t chunks = 1;
    for (size_t i = 0; i < box.size(); ++i)
      chunks *= (box[i].end - 1) / dimensions_[i].chunk - box[i].begin / dimensions_[i].chunk + 1;
    most = std::max(most, chunks);
  }
  return most > kMaxFile / chunk_size_ ? kMaxFile : most * chunk_size_;
}

ArrayFile::Share ArrayFile::share_of(const std::vector<Box>& boxes, size_t first,
                                     const std::vector<uint64_t>& cell) const {
  const size_t rank = dimensions_.size();
  Share share;
  share.present = 1;
  for (size_t i = 0; i < rank; ++i) {
    share.number += cell[i] * dimensions_[i].cell_stride;
    share.present *= std::min(dimensions_[i].chunk, dimensions_[i].shape - cell[i] * dimensions_[i].chunk);
  }
  for (size_t b = first; b < boxes.size(); ++b) {
    Piece piece{Box(rank), 0, 0, 1};
    bool has_last = true;
    for (size_t i = 0; i < rank && piece.size > 0; ++i) {
      const Dimension& dimension = dimensions_[i];
      const uint64_t start = cell[i] * dimension.chunk;
      const uint64_t stop = start + std::min(dimension.chunk, dimension.shape - start);
      const Span common{std::max(start, boxes[b][i].begin), std::min(stop, boxes[b][i].end)};
      piece.box[i] = common;
      piece.size = common.begin < common.end ? piece.size * (common.end - common.begin) : 0;
      piece.file_at += common.begin * dimension.file_stride;
      piece.chunk_at += (common.begin - start) * dimension.chunk_stride;
      has_last = has_last && common.end == stop;
    }
    if (piece.size == 0) continue;
    share.size += piece.size;
    share.has_last = share.has_last || has_last;
    share.pieces.push_back(std::move(piece));
  }
  return share;
}

template <class Visit>
Result<> ArrayFile::visit_chunks(uint64_t begin, uint64_t end, Visit visit) const {
  const std::vector<Box> boxes = boxes_of(begin, end);
  const size_t rank = dimensions_.size();
  std::vector<uint64_t> cell(rank);
  for (size_t b = 0; b < boxes.size(); ++b) {
    Box cells(rank);
    uint64_t count = 1;
    for (size_t i = 0; i < rank; ++i) {
      cells[i] = {boxes[b][i].begin / dimensions_[i].chunk, (boxes[b][i].end - 1) / dimensions_[i].chunk + 1};
      cell[i] = cells[i].begin;
      count *= cells[i].end - cells[i].begin;
    }
    const auto is_in = [&](const Box& box) {
      for (size_t i = 0; i < rank; ++i) {
        const uint64_t first = cell[i] * dimensions_[i].chunk;
        if (box[i].end <= first || (box[i].begin > first && box[i].begin - first >= dimensions_[i].chunk)) return false;
      }
      return true;
    };
    for (; count > 0; --count) {
      // A chunk that an earlier box contains was visited with it.
      if (std::none_of(boxes.begin(), boxes.begin() + static_cast<ptrdiff_t>(b), is_in))
        CODECFS_TRY(visit(share_of(boxes, b, cell)));
      for (size_t i = rank; i-- > 0;) {
        if (++cell[i] < cells[i].end) break;
        cell[i] = cells[i].begin;
      }
    }
  }
  return {};
}

std::vector<uint64_t> ArrayFile::chunks_of(uint64_t offset, uint64_t size, size_t most) const {
  std::vector<uint64_t> numbers;
  const uint64_t end = std::min(this->size(), offset + size);
  if (end <= header_.size() || offset >= end) return numbers;
  (void)visit_chunks(std::max<uint64_t>(offset, header_.size()) - header_.size(), end - header_.size(),
                     [&](const Share& share) -> Result<> {
                       if (numbers.size() == most) return std::unexpected(Error{ECANCELED, {}});
                       numbers.push_back(share.number);
                       return {};
                     });
  return numbers;
}

uint64_t ArrayFile::end_of_chunks(uint64_t from, uint64_t to) const {
  if (to <= header_.size() || to >= size()) return to;
  const uint64_t at = to - header_.size();
  for (const Dimension& dimension : dimensions_) {
    // The chunks along a dimension begin anew with each index of the one before.
    const uint64_t row = dimension.file_stride * dimension.chunk;
    const uint64_t begin = at / (dimension.file_stride * dimension.shape) * (dimension.file_stride * dimension.shape);
    const uint64_t cell = (at - begin) / row;
    const uint64_t end = header_.size() + begin + cell * row;
    if (end >= from) return end;
    // What ends inside of a chunk that has several indices continues at the next one.
    if (std::min(dimension.chunk, dimension.shape - cell * dimension.chunk) > 1) break;
  }
  return to;
}

/// Calls copy(offset in the array, offset in the chunk, size) for each run that is contiguous in both.
template <class Copy>
void ArrayFile::for_each_run(const Piece& piece, Copy copy) const {
  const size_t rank = dimensions_.size();
  const uint64_t run = piece.box[rank - 1].end - piece.box[rank - 1].begin;
  uint64_t file_at = piece.file_at;
  uint64_t chunk_at = piece.chunk_at;
  if (rank == 1) return copy(file_at, chunk_at, run);
  const size_t inner = rank - 2;
  const Dimension rows = dimensions_[inner];
  const uint64_t row_count = piece.box[inner].end - piece.box[inner].begin;
  std::vector<uint64_t> index(inner, 0);
  for (;;) {
    uint64_t row_file = file_at;
    uint64_t row_chunk = chunk_at;
    for (uint64_t row = 0; row < row_count; ++row) {
      copy(row_file, row_chunk, run);
      row_file += rows.file_stride;
      row_chunk += rows.chunk_stride;
    }
    size_t i = inner;
    for (; i-- > 0;) {
      file_at += dimensions_[i].file_stride;
      chunk_at += dimensions_[i].chunk_stride;
      const uint64_t length = piece.box[i].end - piece.box[i].begin;
      if (++index[i] < length) break;
      file_at -= length * dimensions_[i].file_stride;
      chunk_at -= length * dimensions_[i].chunk_stride;
      index[i] = 0;
    }
    if (i == std::numeric_limits<size_t>::max()) return;
  }
}

void ArrayFile::put_fill(std::byte* to, uint64_t chunk_at, uint64_t size) const {
  if (fill_.empty()) {
    std::memset(to, 0, size);
    return;
  }
  uint64_t from = chunk_at % variable_->type.size;
  while (size > 0) {
    const uint64_t count = std::min(size, fill_.size() - from);
    std::memcpy(to, fill_.data() + from, count);
    to += count;
    size -= count;
    from = 0;  // the pattern has whole elements
  }
}

/// The smallest range of a chunk that contains all bytes of a share.
ArrayFile::Range ArrayFile::hull_in_chunk(const Share& share) const {
  uint64_t begin = UINT64_MAX;
  uint64_t end = 0;
  for (const Piece& piece : share.pieces) {
    uint64_t last = piece.chunk_at;
    for (size_t d = 0; d < dimensions_.size(); ++d)
      last += (piece.box[d].end - piece.box[d].begin - 1) * dimensions_[d].chunk_stride;
    begin = std::min(begin, piece.chunk_at);
    end = std::max(end, last + 1);
  }
  return {begin, end - begin};
}

Result<ArrayFile::Part> ArrayFile::read(uint64_t offset, uint64_t size, const ReadChunk& read_chunk,
                                        const ReadPart& read_part) const {
  if (offset >= this->size() || size == 0) return Part{};
  size = std::min(size, this->size() - offset);
  const uint64_t of_header = offset < header_.size() ? std::min<uint64_t>(size, header_.size() - offset) : 0;
  const uint64_t begin = offset + of_header - header_.size();
  const uint64_t end = offset + size - header_.size();

  // Allocated on first use.
  std::shared_ptr<Buffer> buffer;
  const auto make_buffer = [&]() -> Result<> {
    CODECFS_ASSIGN(Buffer fresh, Buffer::allocate(size));
    buffer = std::make_shared<Buffer>(std::move(fresh));
    if (of_header > 0) std::memcpy(buffer->data(), header_.data() + offset, of_header);
    return {};
  };
  Part direct;
  const auto visit = [&](const Share& share) -> Result<> {
    Part chunk;
    Range held{0, chunk_size_};  // of the chunk
    if (read_part) {
      constexpr uint64_t kMaxSurplus = 4;
      const Range hull = hull_in_chunk(share);
      if (hull.size / kMaxSurplus <= share.size) {
        CODECFS_ASSIGN(chunk, read_part(share.number, hull.offset, hull.size));
      }
      if (chunk.owner != nullptr) held = hull;
    }
    if (chunk.owner == nullptr) {
      uint64_t wanted = share.size;
      if (share.present < chunk_size_) {
        // Scale by the chunk's part in the file, so that an edge chunk that is read completely counts as a whole one.
        const double part = static_cast<double>(share.size) / static_cast<double>(share.present);
        wanted = static_cast<uint64_t>(part * static_cast<double>(chunk_size_)) + 1;
      }
      CODECFS_ASSIGN(chunk, read_chunk(share.number, wanted));
    }
    const bool stored = chunk.owner != nullptr;
    if (stored && chunk.bytes.size() < held.size)
      return fail(EIO, "a chunk of {} bytes instead of {}", chunk.bytes.size(), held.size);
    const Piece& piece = share.pieces.front();
    const bool one_run = piece.size == piece.box.back().end - piece.box.back().begin;
    if (stored && one_run && piece.size == size) {
      direct = {chunk.bytes.subspan(piece.chunk_at - held.offset, size), std::move(chunk.owner)};
      return {};
    }
    if (buffer == nullptr) CODECFS_TRY(make_buffer());
    std::byte* const to = buffer->data() + of_header;
    for (const Piece& each : share.pieces)
      for_each_run(each, [&](uint64_t file_at, uint64_t chunk_at, uint64_t run) {
        if (stored)
          std::memcpy(to + (file_at - begin), chunk.bytes.data() + (chunk_at - held.offset), run);
        else
          put_fill(to + (file_at - begin), chunk_at, run);
      });
    return {};
  };
  if (of_header < size) CODECFS_TRY(visit_chunks(begin, end, visit));
  if (direct.owner != nullptr) return direct;
  if (buffer == nullptr) CODECFS_TRY(make_buffer());
  const Bytes bytes = buffer->bytes();
  return Part{bytes, std::move(buffer)};
}

Result<> ArrayFile::check_header(uint64_t offset, Bytes bytes) const {
  if (std::memcmp(header_.data() + offset, bytes.data(), bytes.size()) == 0) return {};
  const std::string_view text(header_);
  return fail(EINVAL,
              "this header is of an array of another shape, type or order; numpy.save here an array that has {} (or "
              "assign to numpy.load(..., mmap_mode='r+')[...])",
              text.substr(text.find('{'), text.rfind('}') + 1 - text.find('{')));
}

Result<uint64_t> ArrayFile::write(uint64_t offset, Bytes bytes, const ChangeChunk& change_chunk, Bytes mask) const {
  if (bytes.empty()) return uint64_t{0};
  if (offset >= size()) return fail(EFBIG, "the array ends at byte {} of its file", size());
  bytes = bytes.first(std::min<uint64_t>(bytes.size(), size() - offset));
  const uint64_t taken = bytes.size();
  if (offset < header_.size()) {
    const uint64_t of_header = std::min<uint64_t>(taken, header_.size() - offset);
    CODECFS_TRY(check_header(offset, bytes.first(of_header)));
    bytes = bytes.subspan(of_header);
    if (!mask.empty()) mask = mask.subspan(of_header);
    offset += of_header;
    if (bytes.empty()) return taken;
  }
  const uint64_t begin = offset - header_.size();
  const auto is_written = [&](const Share& share) {
    bool any = mask.empty();
    for (const Piece& piece : share.pieces)
      if (!any)
        for_each_run(piece, [&](uint64_t file_at, uint64_t, uint64_t run) {
          any = any || !is_all_zero(mask.subspan(file_at - begin, run));
        });
    return any;
  };
  const auto visit = [&](const Share& share) -> Result<> {
    const bool whole = mask.empty() && share.size == chunk_size_;
    return change_chunk({share.number, whole, share.has_last, is_written(share), [&](MutableBytes chunk) {
                           for (const Piece& piece : share.pieces)
                             for_each_run(piece, [&](uint64_t file_at, uint64_t chunk_at, uint64_t run) {
                               std::byte* const to = chunk.data() + chunk_at;
                               const uint64_t from = file_at - begin;
                               if (mask.empty())
                                 std::memcpy(to, bytes.data() + from, run);
                               else
                                 copy_masked(to, bytes.data() + from, mask.data() + from, run);
                             });
                         }});
  };
  CODECFS_TRY(visit_chunks(begin, begin + bytes.size(), visit));
  return taken;
}

}  // namespace codecfs::fs
