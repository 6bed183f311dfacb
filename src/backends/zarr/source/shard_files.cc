#include "backends/zarr/source/shard_files.h"

#include <optional>
#include <string>

#include "backends/zarr/metadata/zarr3_metadata.h"

namespace codecfs::zarr {
namespace {

Result<> check_number(const OpenArray& array, uint64_t shard) {
  if (array.array.shards && shard < array.array.shards->grid.count()) return {};
  return fail(ENOENT, "{}: has no shard of number {}", called(array.key), shard);
}

/// What is written is at fault, not what is stored.
std::unexpected<Error> refuse(const std::string& key, const Error& error) {
  return fail(error.code == ENOMEM ? ENOMEM : EINVAL, "{}: this is no shard of this array: {}", key, error.reason);
}

/// The chunks in a shard that is to be written, of an array that passes check_rewritable().
Result<std::vector<ShardEntry>> entries_of(const OpenArray& array, const std::string& key, Bytes bytes) {
  const ShardLevel& level = array.array.shards->levels[0];
  const uint64_t index_bytes = level.index_bytes();
  if (bytes.size() < index_bytes)
    return refuse(key,
                  {EINVAL, fmt::format("it has {} bytes, too few for the index of {}", bytes.size(), index_bytes)});
  const Bytes index = level.index.is_at_start ? bytes.first(index_bytes) : bytes.last(index_bytes);
  auto entries = decode_shard_index(level, index, bytes.size());
  if (!entries) return refuse(key, entries.error());
  const uint64_t begin = level.index.is_at_start ? index_bytes : 0;
  const uint64_t end = begin + bytes.size() - index_bytes;
  for (const ShardEntry& entry : *entries) {
    if (!entry.is_stored()) continue;
    if (entry.offset < begin || entry.offset + entry.size > end)
      return refuse(key, {EINVAL, fmt::format("its chunk at {} overlaps its index", entry.offset)});
    if (entry.size > array.max_stored)
      return refuse(key, {EINVAL, fmt::format("a chunk in it has {} bytes, more than the {} that it can need",
                                              entry.size, array.max_stored)});
  }
  return entries;
}

}  // namespace

Result<ArrayPtr> ShardFiles::shown(ObjectId variable) {
  CODECFS_ASSIGN(ArrayPtr array, store_.array(variable));
  if (array->array.shards && held_.holds_any(*array)) CODECFS_TRY(held_.write_shards());
  return array;
}

Result<std::vector<uint64_t>> ShardFiles::stored(ObjectId variable, uint64_t from, size_t limit) {
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const ArrayPtr array, shown(variable));
  if (!array->array.shards) return std::vector<uint64_t>();
  const ChunkGrid& grid = array->array.shards->grid;
  return store_.shard_listings().next(
      store_.files(), array->key, array->array.keys.separator == '.',
      [&] { return list_chunks(store_.files(), array->key, grid, array->array.keys); }, from, limit);
}

Result<std::shared_ptr<const ContentReader>> ShardFiles::open(ObjectId variable, uint64_t shard) {
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const ArrayPtr array, shown(variable));
  CODECFS_TRY(check_number(*array, shard));
  CODECFS_ASSIGN(std::shared_ptr<const ContentReader> file, store_.files().open_file(shard_key(*array, shard)));
  return file;
}

/// The array, if it is still what other programs and OpenStore::array() take it for. ESTALE.
Result<ArrayPtr> ShardFiles::to_change(ObjectId variable, uint64_t shard) {
  CODECFS_ASSIGN(ArrayPtr array, store_.writable_array(variable));
  CODECFS_TRY(check_number(*array, shard));
  CODECFS_ASSIGN(const auto text, store_.hierarchy().read_text(join_key(array->key, kZarr3File)));
  if (!text || !describe_same_chunks(*text, array->metadata))
    return fail(ESTALE, "{}: another program has changed or removed it: its shard is not stored", called(array->key));
  return array;
}

Result<> ShardFiles::check(ObjectId variable, uint64_t shard, Bytes bytes) {
  ArrayPtr array;
  {
    const auto lock = store_.using_keys();
    CODECFS_ASSIGN(array, to_change(variable, shard));
  }
  const std::string key = shard_key(*array, shard);
  CODECFS_ASSIGN(const auto entries, entries_of(*array, key, bytes));
  for (const ShardEntry& entry : entries) {
    if (!entry.is_stored()) continue;
    CODECFS_ASSIGN(Buffer chunk, Buffer::copy_of(bytes.subspan(entry.offset, entry.size)));
    if (const auto decoded = decode_chunk(*array, key, std::move(chunk)); !decoded)
      return refuse(key,
                    {decoded.error().code, fmt::format("its chunk at {}: {}", entry.offset, decoded.error().reason)});
  }
  return {};
}

Result<> ShardFiles::write(ObjectId variable, uint64_t shard, Bytes bytes) { return replace(variable, shard, bytes); }

Result<> ShardFiles::remove(ObjectId variable, uint64_t shard) { return replace(variable, shard, std::nullopt); }

Result<> ShardFiles::replace(ObjectId variable, uint64_t shard, std::optional<Bytes> bytes) {
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const ArrayPtr array, to_change(variable, shard));
  if (bytes) CODECFS_TRY(entries_of(*array, shard_key(*array, shard), *bytes));
  CODECFS_TRY(writer_.begin());
  const Result<> done = held_.replace(*array, shard, bytes);
  store_.listings().forget(array->key);
  return done;
}

}  // namespace codecfs::zarr
