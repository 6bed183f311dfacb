#include "backends/zarr/source/shard_reader.h"

#include <algorithm>
#include <array>
#include <map>
#include <new>
#include <utility>

#include "backends/zarr/source/hierarchy.h"
#include "base/parallel.h"
#include "model/limits.h"

namespace codecfs::zarr {

/// A part of a shard's file, or of a decoded shard in memory.
class ShardReader::Range {
 public:
  explicit Range(std::shared_ptr<const StoredFile> file, std::string key)
      : file_(std::move(file)), key_(std::move(key)), size_(file_->size()) {}

  [[nodiscard]] uint64_t offset() const { return offset_; }
  [[nodiscard]] uint64_t size() const { return size_; }
  [[nodiscard]] bool is_in_memory() const { return memory_ != nullptr; }
  [[nodiscard]] const std::string& key() const { return key_; }
  /// Identifies the range among all with the same version of the file.
  [[nodiscard]] std::string name() const { return fmt::format("{}@{}", key_, path_); }

  [[nodiscard]] Result<Buffer> read(uint64_t offset, uint64_t size) const {
    if (offset > size_ || size > size_ - offset)
      return fail(EIO, "{}: has {} bytes, too few for {} at {}: the shard is damaged", key_, size_, size, offset);
    if (!memory_) return file_->read(offset_ + offset, size);
    return Buffer::copy_of(memory_->bytes().subspan(offset_ + offset, size));
  }
  /// `entry` must be in the range.
  [[nodiscard]] Range part(const ShardEntry& entry, uint64_t position) const {
    Range part = *this;
    part.offset_ += entry.offset;
    part.size_ = entry.size;
    part.path_ += fmt::format("/{}", position);
    return part;
  }
  /// The content of the range in its decoded form.
  [[nodiscard]] Range decoded(std::shared_ptr<const Buffer> memory) const {
    Range range = *this;
    range.offset_ = 0;
    range.size_ = memory->size();
    range.memory_ = std::move(memory);
    return range;
  }

 private:
  std::shared_ptr<const StoredFile> file_;
  std::shared_ptr<const Buffer> memory_;  // null: the bytes are in the file
  std::string key_;
  std::string path_;  // positions of the shards that hold it
  uint64_t offset_ = 0;
  uint64_t size_ = 0;
};

/// What is known of one shard.
struct ShardReader::Index {
  std::string version;  // of its file
  std::vector<ShardEntry> entries;
  std::shared_ptr<const Buffer> memory;  // the decoded shard, if it is encoded as a whole
};

namespace {

constexpr size_t kIndexesAtOnce = 32;  // whose indexes are requested
constexpr size_t kIndexesAhead = 8;    // that are requested before chunks of their shards are expected

using Coordinates = std::array<uint64_t, ChunkGrid::kMaxRank>;

/// Divides the coordinates of a chunk into those of the shard of each level, and finds the positions in their indexes.
struct ChunkPath {
  Coordinates shard{};
  std::vector<uint64_t> positions;  // one for each level

  ChunkPath(const Array& array, uint64_t number) {
    const ChunkGrid& grid = array.variable.grid;
    const ShardLayout& layout = *array.shards;
    const size_t rank = grid.rank();
    const std::span<uint64_t> at = std::span(shard).first(rank);
    grid.coordinates_of(number, at);
    positions.resize(layout.levels.size());
    Coordinates inner{};
    for (size_t i = layout.levels.size(); i-- > 0;) {
      const ShardLevel& level = layout.levels[i];
      for (size_t axis = 0; axis < rank; ++axis) {
        inner.at(axis) = at[axis] % level.cells[axis];
        at[axis] /= level.cells[axis];
      }
      positions[i] = level.position_of(std::span(inner).first(rank));
    }
  }
};

}  // namespace

std::vector<uint64_t> positions_of(const Array& array, uint64_t number) {
  return std::move(ChunkPath(array, number).positions);
}

uint64_t shard_of(const Array& array, uint64_t number) {
  const ChunkPath path(array, number);
  const ChunkGrid& grid = array.shards->grid;
  return grid.number_of(std::span(path.shard).first(grid.rank()));
}

std::string shard_key(const OpenArray& array, uint64_t shard) {
  return join_key(array.key, array.array.keys.name_of(array.array.shards->grid, shard));
}

Result<ShardReader::IndexPtr> ShardReader::index_of(const OpenArray& array, size_t at, const Range& range,
                                                    const std::string& version) {
  const std::string name = range.name();
  if (IndexPtr known = indexes_.get(name); known && known->version == version) return known;

  const ShardLevel& level = array.array.shards->levels[at];
  auto index = std::make_shared<Index>();
  index->version = version;
  Range shard = range;
  if (!level.stages.empty()) {
    CODECFS_ASSIGN(const auto pipeline, filters::Pipeline::make(level.stages, {}));
    if (range.size() > max_chunk_bytes())
      return fail(EIO, "{}: a shard of {} bytes that is encoded as a whole is over {}", range.key(), range.size(),
                  max_chunk_text());
    CODECFS_ASSIGN(Buffer stored, range.read(0, range.size()));
    auto decoded = pipeline.decode(std::move(stored));
    if (!decoded) return in_file(range.key(), decoded.error());
    index->memory = std::make_shared<const Buffer>(std::move(*decoded));
    shard = range.decoded(index->memory);
  }
  const uint64_t bytes = level.index_bytes();
  if (shard.size() < bytes)
    return fail(EIO, "{}: has {} bytes, too few for the index of {}: the shard is damaged", range.key(), shard.size(),
                bytes);
  CODECFS_ASSIGN(const Buffer stored, shard.read(level.index.is_at_start ? 0 : shard.size() - bytes, bytes));
  auto entries = decode_shard_index(level, stored.bytes(), shard.size());
  if (!entries) return in_file(range.key(), entries.error());
  index->entries = std::move(*entries);
  const uint64_t weight = index->entries.size() * sizeof(ShardEntry) + (index->memory ? index->memory->size() : 0);
  indexes_.put(name, index, weight + name.size() + version.size());
  return index;
}

/// Where the chunk is stored; none if it is not.
Result<std::optional<ShardReader::Range>> ShardReader::find(const OpenArray& array, uint64_t number) {
  const std::string key = shard_key(array, shard_of(array.array, number));
  CODECFS_ASSIGN(auto file, files_.open_file(key));
  if (!file) return std::nullopt;
  auto found = find_in(array, number, std::move(file));
  if (found || found.error().code != ESTALE) return found;
  CODECFS_ASSIGN(file, files_.reopen_file(key));
  if (!file) return std::nullopt;
  return find_in(array, number, std::move(file));
}

Result<std::optional<ShardReader::Range>> ShardReader::find_in(const OpenArray& array, uint64_t number,
                                                               std::shared_ptr<const StoredFile> file) {
  const ChunkPath path(array.array, number);
  const ShardLayout& layout = *array.array.shards;
  const std::string key = shard_key(array, layout.grid.number_of(std::span(path.shard).first(layout.grid.rank())));
  const std::string version = file->version();
  Range range(std::move(file), key);
  for (size_t i = 0; i < layout.levels.size(); ++i) {
    CODECFS_ASSIGN(const IndexPtr index, index_of(array, i, range, version));
    if (index->memory) range = range.decoded(index->memory);
    const ShardEntry& entry = index->entries[path.positions[i]];
    if (!entry.is_stored()) return std::nullopt;
    range = range.part(entry, path.positions[i]);
  }
  return range;
}

Result<std::optional<ShardReader::Place>> ShardReader::locate(const OpenArray& array, uint64_t number) {
  CODECFS_ASSIGN(const auto range, find(array, number));
  if (!range) return std::nullopt;
  Place place{.size = range->size(), .offset = {}};
  if (!range->is_in_memory()) place.offset = range->offset();
  return place;
}

void ShardReader::expect(const OpenArray& array, std::span<const uint64_t> numbers) try {
  // A shard that is encoded as a whole is read as a whole, and one in another has its index in it.
  const ShardLayout& layout = *array.array.shards;
  if (layout.levels.size() != 1 || !layout.levels[0].stages.empty()) return;
  std::map<uint64_t, std::vector<uint64_t>> chunks;  // by shard
  for (const uint64_t number : numbers) chunks[shard_of(array.array, number)].push_back(number);
  const std::vector<std::pair<uint64_t, std::vector<uint64_t>>> shards(chunks.begin(), chunks.end());
  // Without memory, they are read one by one.
  (void)parallel_for(shards.size(), {.threads = kIndexesAtOnce}, [&](uint64_t i) -> Result<> {
    expect_in(array, shards[i].first, shards[i].second);
    return {};
  });
} catch (const std::bad_alloc&) {
}

void ShardReader::expect_places(const OpenArray& array, std::span<const uint64_t> numbers) try {
  std::vector<std::string> keys;
  std::optional<uint64_t> last;
  for (const uint64_t number : numbers) {
    const uint64_t shard = shard_of(array.array, number);
    if (shard == last) continue;
    last = shard;
    if (std::string key = shard_key(array, shard); std::ranges::find(keys, key) == keys.end())
      keys.push_back(std::move(key));
    if (keys.size() == kIndexesAhead) break;
  }
  files_.expect_opened(keys);
} catch (const std::bad_alloc&) {
}

void ShardReader::expect_in(const OpenArray& array, uint64_t shard, std::span<const uint64_t> numbers) {
  const auto file = files_.open_file(shard_key(array, shard));
  if (!file || !*file) return;
  std::vector<remote::ByteRange> wanted;
  for (const uint64_t number : numbers) {
    const auto range = find_in(array, number, *file);
    if (!range) return;
    if (*range && (*range)->size() <= array.max_stored) wanted.push_back({(*range)->offset(), (*range)->size()});
  }
  (*file)->expect(wanted);
}

Result<std::optional<Buffer>> ShardReader::read(const OpenArray& array, uint64_t number) {
  const std::string key = shard_key(array, shard_of(array.array, number));
  CODECFS_ASSIGN(auto file, files_.open_file(key));
  for (unsigned attempt = 0;; ++attempt) {
    if (!file) return std::nullopt;
    auto bytes = read_in(array, number, file);
    if (bytes || bytes.error().code != ESTALE || attempt == kMaxStates) return bytes;
    // Another program has replaced the shard; where that is an error, reopening it is one too.
    const std::string version = file->version();
    CODECFS_ASSIGN(file, files_.reopen_file(key));
    if (file && file->version() == version) return bytes;
  }
}

Result<std::optional<Buffer>> ShardReader::read_in(const OpenArray& array, uint64_t number,
                                                   std::shared_ptr<const StoredFile> file) {
  CODECFS_ASSIGN(const auto range, find_in(array, number, std::move(file)));
  if (!range) return std::nullopt;
  if (range->size() > array.max_stored)
    return fail(EIO, "{}: chunk {} has {} bytes, more than the {} that it can need", range->key(),
                array.array.variable.grid.name_of(number), range->size(), array.max_stored);
  CODECFS_ASSIGN(Buffer bytes, range->read(0, range->size()));
  return bytes;
}

Result<std::vector<ShardEntry>> ShardReader::entries(const OpenArray& array, const std::string& key,
                                                     const std::shared_ptr<const StoredFile>& file) {
  CODECFS_ASSIGN(const IndexPtr index, index_of(array, 0, Range(file, key), file->version()));
  return index->entries;
}

Result<> ShardReader::visit(const OpenArray& array, const std::string& key,
                            const std::shared_ptr<const StoredFile>& file, std::span<const uint64_t> shard,
                            const VisitChunk& visit) try {
  std::vector<uint64_t> positions;
  return visit_below(array, positions, Range(file, key), file->version(), shard, visit);
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to list its chunks", array.key);
}

Result<> ShardReader::list(const OpenArray& array, uint64_t shard, std::vector<uint64_t>& numbers) try {
  const std::string key = shard_key(array, shard);
  CODECFS_ASSIGN(const auto file, files_.open_file(key));
  if (!file) return {};
  std::vector<uint64_t> place(array.array.shards->grid.rank());
  array.array.shards->grid.coordinates_of(shard, place);
  const ChunkGrid& grid = array.array.variable.grid;
  return visit(array, key, file, place, [&](const auto&, std::span<const uint64_t> coordinates) {
    if (std::ranges::equal(coordinates, grid.cells(), std::less())) numbers.push_back(grid.number_of(coordinates));
  });
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to list its chunks", array.key);
}

/// `positions`: of the range in the levels above it. `place`: its coordinates among those of its level.
Result<> ShardReader::visit_below(const OpenArray& array, std::vector<uint64_t>& positions, const Range& range,
                                  const std::string& version, std::span<const uint64_t> place,
                                  const VisitChunk& visit) {
  const size_t at = positions.size();
  const ShardLayout& layout = *array.array.shards;
  const ShardLevel& level = layout.levels[at];
  CODECFS_ASSIGN(const IndexPtr index, index_of(array, at, range, version));
  const Range shard = index->memory ? range.decoded(index->memory) : range;
  std::vector<uint64_t> inner(place.size());
  for (uint64_t i = 0; i < level.count; ++i) {
    const ShardEntry& entry = index->entries[i];
    if (!entry.is_stored()) continue;
    level.coordinates_of(i, inner);
    for (size_t axis = 0; axis < inner.size(); ++axis) inner[axis] += place[axis] * level.cells[axis];
    positions.push_back(i);
    if (at + 1 < layout.levels.size()) {
      CODECFS_TRY(visit_below(array, positions, shard.part(entry, i), version, inner, visit));
    } else {
      visit(positions, inner);
    }
    positions.pop_back();
  }
  return {};
}

}  // namespace codecfs::zarr
