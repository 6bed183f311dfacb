#include "backends/zarr/source/chunk_file_writer.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "backends/zarr/metadata/zarr3_metadata.h"

namespace codecfs::zarr {

Result<> ChunkFileWriter::write_chunk(ObjectId variable, uint64_t number, Bytes chunk) {
  while (true) {
    CODECFS_TRY(metadata_.correct_codecs(variable));
    CODECFS_ASSIGN(const Target target, target_of_locked(variable, number));
    const auto& [array, name] = target;
    CODECFS_ASSIGN(const StoredChunk stored, encode_chunk(*array, join_key(array->key, name), chunk));
    const auto lock = store_.using_keys();
    CODECFS_ASSIGN(const Target now, target_of(variable, number));
    if (now.array != array && !describe_same_chunks(now.array->metadata, array->metadata))
      continue;  // the pipeline changed: encode again
    if (now.array->array.shards) return put_in_shard(now, number, &stored.bytes);
    CODECFS_TRY(writer_.write(now.array->key, now.name, stored.bytes, now.array->mode));
    refresh_listing(now, number);
    return {};
  }
}

Result<bool> ChunkFileWriter::write_stored(ObjectId variable, uint64_t number, Bytes stored) {
  CODECFS_TRY(metadata_.correct_codecs(variable));
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const Target target, target_of(variable, number));
  const auto& [array, name] = target;
  if (!array->has_exact_encoding() || stored.size() > array->max_stored) return false;
  if (array->array.shards) {
    CODECFS_TRY(put_in_shard(target, number, &stored));
    return true;
  }
  CODECFS_TRY(writer_.write(array->key, name, stored, array->mode));
  refresh_listing(target, number);
  return true;
}

Result<> ChunkFileWriter::remove_chunk(ObjectId variable, uint64_t number) {
  CODECFS_TRY(metadata_.correct_codecs(variable));
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const Target target, target_of(variable, number));
  if (target.array->array.shards) return put_in_shard(target, number, nullptr);
  CODECFS_TRY(writer_.remove(target.array->key, target.name));
  refresh_listing(target, number);
  return {};
}

Result<ChunkFileWriter::Target> ChunkFileWriter::target_of(ObjectId variable, uint64_t number) {
  CODECFS_ASSIGN(const ArrayPtr told, store_.writable_array(variable));
  const ChunkGrid& grid = told->array.variable.grid;
  if (number >= grid.count()) return fail(EINVAL, "{}: has no chunk of number {}", called(told->key), number);
  CODECFS_ASSIGN(const auto text,
                 store_.hierarchy().read_text(join_key(told->key, store_.hierarchy().file_of(EntryKind::variable))));
  const auto name = [&](const OpenArray& array) {
    return array.array.shards ? std::string() : array.array.keys.name_of(grid, number);
  };
  if (text == told->metadata) return Target{told, name(*told)};
  if (!text) return fail(ESTALE, "{}: another program has removed it", called(told->key));
  CODECFS_ASSIGN(const auto now, load_array(store_.hierarchy(), told->key, true));
  if (now->unwritable) return std::unexpected(*now->unwritable);
  const Variable& facts = now->array.variable;
  std::vector<uint64_t> place(grid.rank());
  grid.coordinates_of(number, place);
  const bool has_chunk = facts.type == told->array.variable.type && facts.grid.rank() == grid.rank() &&
                         std::ranges::equal(facts.grid.chunks(), grid.chunks()) &&
                         facts.object_codec == told->array.variable.object_codec &&
                         now->array.shards.has_value() == told->array.shards.has_value() &&
                         std::ranges::equal(place, facts.grid.cells(), std::less());
  if (!has_chunk)
    return fail(ESTALE, "{}: another program has changed its type or shape, so chunk {} is not stored",
                called(told->key), told->array.keys.name_of(grid, number));
  now->is_changed = !describe_same_chunks(now->metadata, told->metadata);
  if (std::ranges::equal(facts.grid.shape(), grid.shape())) store_.keep(variable, now);
  return Target{now, name(*now)};
}

Result<ChunkFileWriter::Target> ChunkFileWriter::target_of_locked(ObjectId variable, uint64_t number) {
  const auto lock = store_.using_keys();
  return target_of(variable, number);
}

Result<> ChunkFileWriter::put_in_shard(const Target& target, uint64_t number, const Bytes* encoded) {
  CODECFS_TRY(writer_.begin());
  std::shared_ptr<const Buffer> held;
  if (encoded != nullptr) {
    CODECFS_ASSIGN(Buffer copy, Buffer::copy_of(*encoded));
    held = std::make_shared<const Buffer>(std::move(copy));
  }
  CODECFS_TRY(shards_.put(target.array, number, std::move(held)));
  store_.listings().refresh(target.array->key, number, [&]() -> Result<bool> { return encoded != nullptr; });
  return {};
}

void ChunkFileWriter::refresh_listing(const Target& target, uint64_t number) {
  store_.listings().refresh(target.array->key, number,
                            [&] { return store_.files().has_file(join_key(target.array->key, target.name)); });
}

}  // namespace codecfs::zarr
