#include "backends/zarr/source/chunk_file_reader.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "backends/zarr/source/rectilinear_reader.h"
#include "base/log.h"

namespace codecfs::zarr {
namespace {

Result<> check_number(const OpenArray& array, uint64_t number) {
  if (number < array.array.variable.grid.count()) return {};
  return fail(ENOENT, "{}: has no chunk of number {}", array.key, number);
}

std::string chunk_key(const OpenArray& array, uint64_t number) {
  return join_key(array.key, array.array.keys.name_of(array.array.variable.grid, number));
}

/// For messages.
std::string chunk_name(const OpenArray& array, uint64_t number) {
  if (!array.array.shards && !array.array.rectilinear) return chunk_key(array, number);
  return join_key(array.key, array.array.variable.grid.name_of(number));
}

}  // namespace

namespace {

/// All chunks of a shard that are in the array.
void add_all_chunks(const Array& array, uint64_t shard, std::vector<uint64_t>& numbers) {
  const ChunkGrid& grid = array.variable.grid;
  std::vector<uint64_t> first(grid.rank());
  std::vector<uint64_t> end(grid.rank());
  array.shards->grid.coordinates_of(shard, first);
  for (size_t axis = 0; axis < grid.rank(); ++axis) {
    const uint64_t inner = array.shards->grid.chunks()[axis] / grid.chunks()[axis];
    first[axis] *= inner;
    end[axis] = std::min(first[axis] + inner, grid.cells()[axis]);
  }
  std::vector<uint64_t> at = first;
  for (size_t axis = grid.rank(); true;) {
    numbers.push_back(grid.number_of(at));
    for (axis = grid.rank(); axis > 0 && ++at[axis - 1] == end[axis - 1]; --axis) at[axis - 1] = first[axis - 1];
    if (axis == 0) return;
  }
}

}  // namespace

Result<std::vector<uint64_t>> stored_chunks_of(OpenStore& store, const OpenArray& array) try {
  const Array& facts = array.array;
  if (facts.rectilinear) return stored_rectilinear(store.files(), array);
  const ChunkGrid& grid = facts.shards ? facts.shards->grid : facts.variable.grid;
  CODECFS_ASSIGN(auto files, list_chunks(store.files(), array.key, grid, facts.keys));
  if (files.empty())
    CODECFS_TRY(store.files().check_absence("", join_key(array.key, store.hierarchy().file_of(EntryKind::variable))));
  if (!facts.shards) return files;
  std::vector<uint64_t> numbers;
  for (const uint64_t shard : files) {
    // A chunk that is not listed reads as fill: all chunks are listed of a shard that cannot be read, and report why.
    const size_t before = numbers.size();
    if (!facts.variable.unreadable) {
      const auto listed = store.shards().list(array, shard, numbers);
      if (listed) continue;
      if (listed.error().code == EINTR) return std::unexpected(listed.error());
      log::warning("{}", listed.error().reason);
    }
    numbers.resize(before);
    add_all_chunks(facts, shard, numbers);
  }
  std::ranges::sort(numbers);
  return numbers;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to list its chunks", array.key);
}

/// For a chunk that was found absent: checks that it may be.
Result<> ChunkFileReader::check_absence(const OpenArray& array, uint64_t number) const {
  const Array& facts = array.array;
  std::string key;  // those of an irregular grid are in several files
  if (!facts.rectilinear) key = facts.shards ? shard_key(array, shard_of(facts, number)) : chunk_key(array, number);
  return store_.files().check_absence(key, join_key(array.key, store_.hierarchy().file_of(EntryKind::variable)));
}

Result<ChunkInfo> ChunkFileReader::locate(ObjectId variable, uint64_t number) {
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const auto array, store_.array_with_chunks(variable));
  CODECFS_TRY(check_number(*array, number));
  if (array->array.rectilinear) {
    CODECFS_ASSIGN(const ChunkInfo info, locate_rectilinear(store_.files(), *array, number));
    if (!info.stored) CODECFS_TRY(check_absence(*array, number));
    return info;
  }
  if (array->array.shards) {
    if (array->array.variable.unreadable) {  // perhaps with its index
      const std::string key = shard_key(*array, shard_of(array->array, number));
      CODECFS_ASSIGN(const bool is_stored, store_.files().has_file(key));
      if (!is_stored) CODECFS_TRY(check_absence(*array, number));
      return ChunkInfo{.stored = is_stored, .stored_size = 0, .offset = {}, .filter_mask = 0};
    }
    if (const auto held = held_shards_.held(*array, number))
      return ChunkInfo{
          .stored = *held != nullptr, .stored_size = *held ? (*held)->size() : 0, .offset = {}, .filter_mask = 0};
    CODECFS_ASSIGN(const auto place, store_.shards().locate(*array, number));
    if (!place) CODECFS_TRY(check_absence(*array, number));
    if (!place) return ChunkInfo{};
    return ChunkInfo{.stored = true, .stored_size = place->size, .offset = place->offset, .filter_mask = 0};
  }
  CODECFS_ASSIGN(const auto stored, store_.files().locate(chunk_key(*array, number)));
  if (!stored) CODECFS_TRY(check_absence(*array, number));
  if (!stored) return ChunkInfo{};
  return ChunkInfo{.stored = true, .stored_size = stored->bytes, .offset = stored->offset, .filter_mask = 0};
}

Result<std::vector<uint64_t>> ChunkFileReader::stored_chunks(ObjectId variable, uint64_t from, size_t limit) {
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const auto array, store_.array_with_chunks(variable));
  const bool is_flat = !array->array.shards && !array->array.rectilinear && array->array.keys.separator == '.';
  return store_.listings().next(
      store_.files(), array->key, is_flat,
      [&]() -> Result<std::vector<uint64_t>> {
        CODECFS_ASSIGN(auto numbers, stored_chunks_of(store_, *array));
        if (array->array.shards) held_shards_.apply_held(*array, numbers);
        return numbers;
      },
      from, limit);
}

Result<> ChunkFileReader::expect(ObjectId variable, std::span<const uint64_t> numbers) {
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const auto array, store_.array_with_chunks(variable));
  // Those of irregular grids are parts of several files.
  const bool waits = store_.files().reads_at_once() > 0;
  if (!waits || array->array.rectilinear || array->array.variable.unreadable) return {};
  if (array->array.shards) {
    std::vector<uint64_t> stored;  // not those that wait here to be stored
    for (const uint64_t number : numbers)
      if (check_number(*array, number) && !held_shards_.held(*array, number)) stored.push_back(number);
    store_.shards().expect(*array, stored);
    return {};
  }
  std::vector<std::string> keys;
  for (const uint64_t number : numbers)
    if (check_number(*array, number)) keys.push_back(chunk_key(*array, number));
  // What filters may make of a chunk is no measure of what they make: memory for fewer would be left.
  constexpr uint64_t kUsualGrowth = 2;
  const uint64_t bytes = std::min(array->array.variable.chunk_bytes.value_or(array->max_stored), array->max_stored);
  store_.files().expect(keys, std::min(array->max_stored, kUsualGrowth * bytes + (uint64_t{64} << 10)));
  return {};
}

Result<> ChunkFileReader::expect_places(ObjectId variable, std::span<const uint64_t> numbers) {
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const auto array, store_.array_with_chunks(variable));
  const bool waits = store_.files().reads_at_once() > 0;
  if (waits && array->array.shards && !array->array.variable.unreadable) store_.shards().expect_places(*array, numbers);
  return {};
}

Result<DecodedChunk> ChunkFileReader::fetch_chunk(ObjectId variable, uint64_t number) {
  ArrayPtr array;
  std::optional<Buffer> stored;
  std::vector<RectilinearPiece> pieces;
  {
    const auto lock = store_.using_keys();
    CODECFS_ASSIGN(array, store_.array_with_chunks(variable));
    if (const auto& why = array->array.variable.unreadable) return std::unexpected(*why);
    CODECFS_TRY(check_number(*array, number));
    if (array->array.rectilinear) {
      CODECFS_ASSIGN(pieces, read_rectilinear(store_.files(), *array, number));
    } else {
      CODECFS_ASSIGN(stored, read_encoded(*array, number));
    }
    if (!stored && pieces.empty()) CODECFS_TRY(check_absence(*array, number));
  }
  if (!pieces.empty()) {
    uint64_t size = 0;
    for (const RectilinearPiece& piece : pieces) size += piece.bytes.size();
    CODECFS_ASSIGN(Buffer joined, join_rectilinear(*array, number, std::move(pieces)));
    return DecodedChunk{std::move(joined), size, false};
  }
  if (!stored) return fail(ENOENT, "{}: is not stored", chunk_name(*array, number));
  const uint64_t stored_size = stored->size();
  CODECFS_ASSIGN(Buffer bytes, decode_chunk(*array, chunk_name(*array, number), *std::move(stored)));
  const bool is_changed = store_.files().take_changed(
      array->array.shards ? shard_key(*array, shard_of(array->array, number)) : chunk_key(*array, number));
  return DecodedChunk{std::move(bytes), stored_size, is_changed};
}

Result<std::optional<Buffer>> ChunkFileReader::read_part(ObjectId variable, uint64_t number, uint64_t offset,
                                                         uint64_t size) {
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const auto array, store_.array_with_chunks(variable));
  const Variable& facts = array->array.variable;
  // A file of an archive may be compressed there.
  if (!S_ISDIR(store_.files().status().st_mode) || array->array.shards || array->array.rectilinear ||
      !facts.filters.empty() || !array->has_exact_encoding())
    return std::nullopt;
  CODECFS_TRY(check_number(*array, number));
  CODECFS_ASSIGN(const auto file, store_.files().open_file(chunk_key(*array, number)));
  if (!file || facts.chunk_bytes != file->size()) return std::nullopt;
  CODECFS_ASSIGN(Buffer part, file->read(offset, size));
  return part;
}

Result<std::optional<uint64_t>> ChunkFileReader::stored_bytes(ObjectId variable, uint64_t number) {
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const auto array, store_.array_with_chunks(variable));
  if (!array->has_exact_encoding()) return std::nullopt;
  CODECFS_TRY(check_number(*array, number));
  if (array->array.shards) {
    if (const auto held = held_shards_.held(*array, number))
      return *held ? std::optional((*held)->size()) : std::nullopt;
    CODECFS_ASSIGN(const auto place, store_.shards().locate(*array, number));
    return place ? std::optional(place->size) : std::nullopt;
  }
  CODECFS_ASSIGN(const auto status, store_.files().stat(chunk_key(*array, number)));
  if (!status || !S_ISREG(status->st_mode)) return std::nullopt;
  return static_cast<uint64_t>(status->st_size);
}

Result<std::optional<uint64_t>> ChunkFileReader::stored_offset(ObjectId variable, uint64_t number) {
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const auto array, store_.array_with_chunks(variable));
  if (!array->has_exact_encoding()) return std::nullopt;
  CODECFS_TRY(check_number(*array, number));
  if (array->array.shards) return std::nullopt;
  return store_.files().offset_of(chunk_key(*array, number));
}

Result<std::optional<UniqueFd>> ChunkFileReader::open_stored(ObjectId variable, uint64_t number) {
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const auto array, store_.array_with_chunks(variable));
  if (!array->has_exact_encoding() || array->array.shards) return std::nullopt;
  CODECFS_TRY(check_number(*array, number));
  return store_.files().open_plain(chunk_key(*array, number));
}

Result<std::optional<Buffer>> ChunkFileReader::read_stored(ObjectId variable, uint64_t number) {
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const auto array, store_.array_with_chunks(variable));
  if (!array->has_exact_encoding()) return std::nullopt;
  CODECFS_TRY(check_number(*array, number));
  CODECFS_ASSIGN(std::optional<Buffer> stored, read_encoded(*array, number));
  if (!stored) CODECFS_TRY(check_absence(*array, number));
  if (!stored) return fail(ENOENT, "{}: is not stored", chunk_name(*array, number));
  return stored;
}

Result<std::optional<Buffer>> ChunkFileReader::read_encoded(const OpenArray& array, uint64_t number) {
  if (array.array.shards) {
    if (const auto held = held_shards_.held(array, number)) {
      if (!*held) return std::nullopt;
      CODECFS_ASSIGN(Buffer copy, Buffer::copy_of((*held)->bytes()));
      return copy;
    }
    return store_.shards().read(array, number);
  }
  return store_.files().read(chunk_key(array, number), array.max_stored);
}

}  // namespace codecfs::zarr
