#include "backends/zarr/source/shard_files.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "backends/zarr/metadata/zarr3_metadata.h"
#include "backends/zarr/source/shard_builder.h"

namespace codecfs::zarr {
namespace {

Result<> check_shard_number(const OpenArray& array, uint64_t shard) {
  if (array.array.shards && shard < array.array.shards->grid.count()) return {};
  return fail(ENOENT, "{}: has no shard of number {}", called(array.key), shard);
}

/// What is written is at fault, not what is stored.
std::unexpected<Error> refuse(const std::string& key, const Error& error) {
  return fail(error.code == ENOMEM ? ENOMEM : EINVAL, "{}: this is no shard of this array: {}", key, error.reason);
}

/// Checks the indexes of a shard that is to be written, and calls visit() for each of its chunks.
Result<> for_each_written(const OpenArray& array, const std::string& key, Bytes shard,
                          const std::function<Result<>(Bytes)>& visit) {
  const auto checked = for_each_chunk(*array.array.shards, shard, [&](Bytes chunk) -> Result<> {
    if (chunk.size() > array.max_stored)
      return fail(EINVAL, "a chunk in it has {} bytes, more than the {} that it can need", chunk.size(),
                  array.max_stored);
    return visit(chunk);
  });
  if (!checked) return refuse(key, checked.error());
  return {};
}

}  // namespace

Result<ArrayPtr> ShardFiles::shown(ObjectId variable) {
  CODECFS_ASSIGN(ArrayPtr array, store_.array_with_chunks(variable));
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
  CODECFS_TRY(check_shard_number(*array, shard));
  const std::string key = shard_key(*array, shard);
  CODECFS_ASSIGN(std::shared_ptr<const ContentReader> file, store_.files().open_file(key));
  if (!file) CODECFS_TRY(store_.files().check_absence(key, join_key(array->key, kZarr3File)));
  return file;
}

/// The array, if it is still what other programs and OpenStore::array() take it for. ESTALE.
Result<ArrayPtr> ShardFiles::to_change(ObjectId variable, uint64_t shard) {
  CODECFS_ASSIGN(ArrayPtr array, store_.writable_array(variable));
  CODECFS_TRY(check_shard_number(*array, shard));
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
  return for_each_written(*array, key, bytes, [&](Bytes chunk) -> Result<> {
    CODECFS_ASSIGN(Buffer copy, Buffer::copy_of(chunk));
    CODECFS_TRY(decode_chunk(*array, key, std::move(copy)));
    return {};
  });
}

Result<> ShardFiles::write(ObjectId variable, uint64_t shard, Bytes bytes) { return replace(variable, shard, bytes); }

Result<> ShardFiles::remove(ObjectId variable, uint64_t shard) { return replace(variable, shard, std::nullopt); }

Result<> ShardFiles::replace(ObjectId variable, uint64_t shard, std::optional<Bytes> bytes) {
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const ArrayPtr array, to_change(variable, shard));
  if (bytes) CODECFS_TRY(for_each_written(*array, shard_key(*array, shard), *bytes, [](Bytes) { return Result<>(); }));
  CODECFS_TRY(writer_.begin());
  const Result<> done = held_.replace(*array, shard, bytes);
  store_.listings().forget(array->key);
  return done;
}

}  // namespace codecfs::zarr
