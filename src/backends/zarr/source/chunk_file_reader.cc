#include "backends/zarr/source/chunk_file_reader.h"

#include <string>
#include <utility>

namespace codecfs::zarr {
namespace {

Result<std::string> chunk_key(const OpenArray& array, uint64_t number) {
  const ChunkGrid& grid = array.array.variable.grid;
  if (number >= grid.count()) return fail(ENOENT, "{}: has no chunk of number {}", array.key, number);
  return join_key(array.key, grid.name_of(number, array.array.separator));
}

}  // namespace

Result<ChunkInfo> ChunkFileReader::locate(ObjectId variable, uint64_t number) {
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const auto array, store_.array(variable));
  CODECFS_ASSIGN(const std::string key, chunk_key(*array, number));
  CODECFS_ASSIGN(const auto stored, store_.files().locate(key));
  if (!stored) return ChunkInfo{};
  return ChunkInfo{.stored = true, .stored_size = stored->bytes, .offset = stored->offset, .filter_mask = 0};
}

Result<std::vector<uint64_t>> ChunkFileReader::stored_chunks(ObjectId variable, uint64_t from, size_t limit) {
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const auto array, store_.array(variable));
  return store_.listings().next(store_.files(), array->key, array->array.variable.grid, array->array.separator, from,
                                limit);
}

Result<DecodedChunk> ChunkFileReader::fetch_chunk(ObjectId variable, uint64_t number) {
  ArrayPtr array;
  std::string key;
  std::optional<Buffer> stored;
  {
    const auto lock = store_.using_keys();
    CODECFS_ASSIGN(array, store_.array(variable));
    if (const auto& why = array->array.variable.unreadable) return std::unexpected(*why);
    CODECFS_ASSIGN(key, chunk_key(*array, number));
    CODECFS_ASSIGN(stored, store_.files().read(key, array->max_stored));
  }
  if (!stored) return fail(ENOENT, "{}: is not stored", key);
  const uint64_t stored_size = stored->size();
  CODECFS_ASSIGN(Buffer bytes, decode_chunk(*array, key, *std::move(stored)));
  return DecodedChunk{std::move(bytes), stored_size};
}

Result<std::optional<uint64_t>> ChunkFileReader::stored_bytes(ObjectId variable, uint64_t number) {
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const auto array, store_.array(variable));
  if (!array->has_exact_encoding()) return std::nullopt;
  CODECFS_ASSIGN(const std::string key, chunk_key(*array, number));
  CODECFS_ASSIGN(const auto status, store_.files().stat(key));
  if (!status || !S_ISREG(status->st_mode)) return std::nullopt;
  return static_cast<uint64_t>(status->st_size);
}

Result<std::optional<Buffer>> ChunkFileReader::read_stored(ObjectId variable, uint64_t number) {
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const auto array, store_.array(variable));
  if (!array->has_exact_encoding()) return std::nullopt;
  CODECFS_ASSIGN(const std::string key, chunk_key(*array, number));
  CODECFS_ASSIGN(std::optional<Buffer> stored, store_.files().read(key, array->max_stored));
  if (!stored) return fail(ENOENT, "{}: is not stored", key);
  return stored;
}

}  // namespace codecfs::zarr
