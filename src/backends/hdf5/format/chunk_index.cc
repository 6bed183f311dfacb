// Locates chunks by capturing libhdf5's reads, and lists them.
//
// libhdf5 before 1.14 cannot iterate over an index (H5Dget_chunk_info scans it from the start for each chunk). H5Ddebug
// scans it once, but prints the result to `stdout`. That is an assignable variable (glibc manual, "Standard Streams"),
// so during the call it is a stream of ours that parses the lines. The LibraryLock is held meanwhile; output of other
// threads to stdout is lost (we log to stderr).
//
// Only B-trees store the coordinates of their chunks. For other indexes libhdf5 counts coordinates while it iterates,
// and for an extensible array whose unlimited dimension is not the first it counts in the wrong order (at least in
// 1.10; H5Dget_chunk_info, H5Dchunk_iter and H5Ocopy do the same). So coordinates from such a scan are used only if a
// lookup of each chunk confirms them.

#include "backends/hdf5/format/chunk_index.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <exception>
#include <string_view>

#include "backends/hdf5/library/captured_reads.h"
#include "backends/hdf5/library/failure_report.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"

namespace codecfs::hdf5 {
namespace {

using Offset = std::array<hsize_t, H5S_MAX_RANK>;

Offset library_offset(std::span<const uint64_t> offset) {
  Offset converted{};
  std::ranges::copy(offset, converted.begin());
  return converted;
}

// Stored bytes of a chunk; 0 if it is not stored. If libhdf5 reports absence as an error, other errors of the lookup
// come from inner functions.
Result<uint64_t> stored_size(hid_t dataset, const Offset& offset) {
  hsize_t size = 0;
  if (H5Dget_chunk_storage_size(dataset, offset.data(), &size) >= 0) return size;
  const LibraryFailure failure = latest_failure();
  if (reports_absence(failure.function)) return uint64_t{0};
  return fail(EIO, "the chunk cannot be looked up: {}", failure.reason);
}

// The order of chunks in an index, if it differs from the order of coordinates.
struct ArrayOrder {
  size_t unlimited = 0;          // the slowest varying dimension in the index
  std::vector<uint64_t> limits;  // maximum number of chunks in each dimension

  // Corrects coordinates that libhdf5 counted, in which dimensions before the unlimited one are 0.
  [[nodiscard]] bool correct(std::span<uint64_t> walked) const {
    uint64_t position = 0;
    for (size_t d = 0; d < walked.size(); ++d) {
      if (d < unlimited && walked[d] != 0) return false;
      const uint64_t factor = d > unlimited ? limits[d] : 1;
      if (__builtin_mul_overflow(position, factor, &position) || __builtin_add_overflow(position, walked[d], &position))
        return false;
    }
    for (size_t d = walked.size(); d-- > 0;) {
      if (d == unlimited) continue;
      walked[d] = position % limits[d];
      position /= limits[d];
    }
    walked[unlimited] = position;
    return true;
  }
};

// Converts offsets in elements to chunk numbers.
class ChunkCollector {
 public:
  ChunkCollector(const ChunkGrid& grid, size_t rank, const ArrayOrder* order)
      : grid_(grid), rank_(rank), order_(order), coordinates_(grid.rank()) {}

  void add(std::span<const uint64_t> offset) {
    ++seen_;
    for (size_t d = 0; d < rank_; ++d) coordinates_[d] = offset[d] / grid_.chunks()[d];
    if (order_ != nullptr && !order_->correct(std::span(coordinates_).first(rank_))) return;
    for (size_t d = 0; d < rank_; ++d)
      if (coordinates_[d] >= grid_.cells()[d]) return;  // beyond the current extent
    numbers_.push_back(grid_.number_of(coordinates_));
  }

  [[nodiscard]] size_t rank() const { return rank_; }
  [[nodiscard]] uint64_t seen() const { return seen_; }
  void set_failed() { failed_ = true; }
  [[nodiscard]] bool failed() const { return failed_; }
  std::vector<uint64_t> take() {
    std::ranges::sort(numbers_);
    return std::move(numbers_);
  }

 private:
  const ChunkGrid& grid_;
  size_t rank_;
  const ArrayOrder* order_;
  std::vector<uint64_t> coordinates_;
  std::vector<uint64_t> numbers_;
  uint64_t seen_ = 0;
  bool failed_ = false;
};

#if H5_VERSION_GE(1, 14, 0)

int visit_chunk(const hsize_t* offset, unsigned, haddr_t, hsize_t, void* data) {
  auto& collector = *static_cast<ChunkCollector*>(data);
  try {
    std::array<uint64_t, H5S_MAX_RANK> converted{};
    std::copy_n(offset, collector.rank(), converted.begin());
    collector.add({converted.data(), collector.rank()});
    return H5_ITER_CONT;
  } catch (const std::exception&) {
    collector.set_failed();
    return H5_ITER_ERROR;
  }
}

Result<> walk_index(hid_t dataset, ChunkCollector& collector) {
  if (H5Dchunk_iter(dataset, H5P_DEFAULT, visit_chunk, &collector) >= 0) return {};
  if (collector.failed()) return fail(ENOMEM, "no memory for the list of stored chunks");
  return fail_library(EIO, "the chunk index cannot be walked");
}

#else

// Parses H5Ddebug's output: one line per chunk, with one number per dimension and one for the element's bytes:
//   "        0x00000000       16       8296 [10, 7, 0]"
class LineReader {
 public:
  explicit LineReader(ChunkCollector& collector) : collector_(collector), offset_(collector.rank() + 1) {}

  void read(std::string_view text) {
    while (!text.empty()) {
      const size_t end = text.find('\n');
      if (end == std::string_view::npos) {
        rest_.append(text.substr(0, kMaxLine - std::min(rest_.size(), kMaxLine)));
        return;
      }
      rest_.append(text.substr(0, std::min(end, kMaxLine)));
      line(rest_);
      rest_.clear();
      text.remove_prefix(end + 1);
    }
  }

  static ssize_t write_callback(void* cookie, const char* text, size_t size) {
    auto& reader = *static_cast<LineReader*>(cookie);
    try {
      reader.read({text, size});
    } catch (const std::exception&) {
      reader.collector_.set_failed();
    }
    return static_cast<ssize_t>(size);
  }

 private:
  static constexpr size_t kMaxLine = 4096;

  void line(std::string_view text) {
    const size_t open = text.find('[');
    if (open == std::string_view::npos || !text.ends_with(']')) return;
    const char* at = text.data() + open + 1;
    const char* const end = text.data() + text.size() - 1;
    for (uint64_t& number : offset_) {
      while (at < end && (*at == ' ' || *at == ',')) ++at;
      const auto [next, error] = std::from_chars(at, end, number);
      if (error != std::errc()) return;
      at = next;
    }
    collector_.add({offset_.data(), collector_.rank()});
  }

  ChunkCollector& collector_;
  std::vector<uint64_t> offset_;
  std::string rest_;
};

// Replaces stdout during its lifetime.
class StdoutReplaced {
 public:
  explicit StdoutReplaced(LineReader& reader)
      : stream_(fopencookie(&reader, "w", {nullptr, LineReader::write_callback, nullptr, nullptr})), stdout_(stdout) {
    if (stream_ == nullptr) return;
    setvbuf(stream_, nullptr, _IOFBF, size_t{64} << 10);
    stdout = stream_;
  }
  ~StdoutReplaced() {
    if (stream_ == nullptr) return;
    stdout = stdout_;
    fclose(stream_);  // flushes the last lines
  }
  StdoutReplaced(const StdoutReplaced&) = delete;
  StdoutReplaced& operator=(const StdoutReplaced&) = delete;
  explicit operator bool() const { return stream_ != nullptr; }

 private:
  FILE* stream_;
  FILE* stdout_;
};

Result<> walk_index(hid_t dataset, ChunkCollector& collector) {
  LineReader reader(collector);
  {
    const StdoutReplaced replaced(reader);
    if (!replaced) return fail(ENOMEM, "no memory for the list of stored chunks");
    if (H5Ddebug(dataset) < 0) return fail_library(EIO, "the chunk index cannot be walked");
  }
  if (collector.failed()) return fail(ENOMEM, "no memory for the list of stored chunks");
  return {};
}

#endif

Result<std::vector<uint64_t>> walked_chunks(hid_t dataset, const ChunkGrid& grid, size_t rank, uint64_t count,
                                            const ArrayOrder* order) {
  ChunkCollector collector(grid, rank, order);
  CODECFS_TRY(walk_index(dataset, collector));
  if (collector.seen() != count)
    return fail(EIO, "the chunk index holds {} chunks but lists {}", count, collector.seen());
  return collector.take();
}

Result<ArrayOrder> order_of(hid_t dataset, const ChunkGrid& grid, size_t rank) {
  std::array<hsize_t, H5S_MAX_RANK> limits{};
  const Handle space(H5Dget_space(dataset));
  if (H5Sget_simple_extent_dims(space.get(), nullptr, limits.data()) != static_cast<int>(rank))
    return fail_library(EIO, "the shape");
  ArrayOrder order;
  for (size_t d = 0; d < rank; ++d) {
    if (limits[d] == H5S_UNLIMITED) order.unlimited = d;
    const uint64_t chunk = grid.chunks()[d];
    order.limits.push_back(std::max<uint64_t>(limits[d] / chunk + (limits[d] % chunk != 0 ? 1 : 0), 1));
  }
  return order;
}

Result<bool> is_number_stored(hid_t dataset, const ChunkGrid& grid, size_t rank, uint64_t number) {
  std::array<uint64_t, ChunkGrid::kMaxRank> coordinates{};
  const auto at = std::span(coordinates).first(grid.rank());
  grid.coordinates_of(number, at);
  for (size_t d = 0; d < rank; ++d) at[d] *= grid.chunks()[d];
  return is_chunk_stored(dataset, at.first(rank));
}

// Whether the numbers are distinct, as many as there are stored chunks, and each is found by a lookup.
Result<bool> are_all_stored(hid_t dataset, const ChunkGrid& grid, size_t rank, std::span<const uint64_t> numbers,
                            uint64_t count) {
  if (numbers.size() != count || std::ranges::adjacent_find(numbers) != numbers.end()) return false;
  for (const uint64_t number : numbers) {
    CODECFS_ASSIGN(const bool stored, is_number_stored(dataset, grid, rank, number));
    if (!stored) return false;
  }
  return true;
}

// Lists the chunks by a lookup of each cell of the grid.
Result<std::vector<uint64_t>> looked_up_chunks(hid_t dataset, const ChunkGrid& grid, size_t rank) {
  constexpr uint64_t kMaxLookups = uint64_t{1} << 22;
  if (grid.count() > kMaxLookups)
    return fail(EIO,
                "the chunk index lists chunks that are not where it lists them, and the grid of {} chunks is too "
                "large to look for each",
                grid.count());
  std::vector<uint64_t> numbers;
  for (uint64_t number = 0; number < grid.count(); ++number) {
    CODECFS_ASSIGN(const bool stored, is_number_stored(dataset, grid, rank, number));
    if (stored) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

Result<StoredChunk> locate_chunk(hid_t dataset, std::span<const uint64_t> offset) {
  const Offset at = library_offset(offset);
  CODECFS_ASSIGN(const uint64_t size, stored_size(dataset, at));
  if (size == 0) return StoredChunk{};
  CapturedReads capture;
  StoredChunk chunk{true, 0, size, 0};
  std::byte untouched{};  // the driver writes nothing while it captures
  if (read_raw_chunk(dataset, at.data(), chunk.filter_mask, &untouched, size) < 0)
    return fail_library(EIO, "the chunk cannot be looked up");
  // Without filters, libhdf5 says that a chunk has the size of all others, and reads what was stored of it.
  if (capture.seen().reads != 1 || capture.seen().size == 0 || capture.seen().size > size)
    return fail(EIO, "libhdf5 does not read the chunk in one piece");
  chunk.size = capture.seen().size;
  chunk.address = capture.seen().address;
  return chunk;
}

Result<bool> is_chunk_stored(hid_t dataset, std::span<const uint64_t> offset) {
  CODECFS_ASSIGN(const uint64_t size, stored_size(dataset, library_offset(offset)));
  return size != 0;
}

Result<uint64_t> count_stored_chunks(hid_t dataset) {
  const Handle space(H5Dget_space(dataset));  // 1.10 does not accept H5S_ALL here
  hsize_t count = 0;
  if (H5Dget_num_chunks(dataset, space.get(), &count) < 0) return fail_library(EIO, "the chunk index cannot be walked");
  return count;
}

Result<std::vector<uint64_t>> list_stored_chunks(hid_t dataset, const ChunkGrid& grid, size_t rank) {
  CODECFS_ASSIGN(const uint64_t count, count_stored_chunks(dataset));
  if (count == 0) return std::vector<uint64_t>();  // H5Ddebug of 1.10 crashes if the dataset has no index yet
  H5D_chunk_index_t index{};
  if (H5Dget_chunk_index_type(dataset, &index) < 0) return fail_library(EIO, "the kind of the chunk index");
  if (index == H5D_CHUNK_IDX_BTREE || index == H5D_CHUNK_IDX_BT2)
    return walked_chunks(dataset, grid, rank, count, nullptr);
  if (index == H5D_CHUNK_IDX_EARRAY) {
    CODECFS_ASSIGN(const ArrayOrder order, order_of(dataset, grid, rank));
    if (order.unlimited > 0) {
      CODECFS_ASSIGN(std::vector<uint64_t> numbers, walked_chunks(dataset, grid, rank, count, &order));
      CODECFS_ASSIGN(const bool right, are_all_stored(dataset, grid, rank, numbers, count));
      if (right) return numbers;
    }
  }
  CODECFS_ASSIGN(std::vector<uint64_t> numbers, walked_chunks(dataset, grid, rank, count, nullptr));
  CODECFS_ASSIGN(const bool right, are_all_stored(dataset, grid, rank, numbers, count));
  if (right) return numbers;
  return looked_up_chunks(dataset, grid, rank);
}

Result<bool> walk_is_right(hid_t dataset) {
  H5D_chunk_index_t index{};
  if (H5Dget_chunk_index_type(dataset, &index) < 0) return fail_library(EIO, "the kind of the chunk index");
  if (index != H5D_CHUNK_IDX_EARRAY) return true;
  std::array<hsize_t, H5S_MAX_RANK> limits{};
  const Handle space(H5Dget_space(dataset));
  if (H5Sget_simple_extent_dims(space.get(), nullptr, limits.data()) < 1) return fail_library(EIO, "the shape");
  return limits[0] == H5S_UNLIMITED;
}

}  // namespace codecfs::hdf5
