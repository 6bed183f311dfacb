#include "backends/zarr/source/chunk_file_writer.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "backends/zarr/metadata/zarr3_metadata.h"

namespace codecfs::zarr {

Result<> ChunkFileWriter::write_chunk(ObjectId variable, uint64_t number, Bytes chunk) {
  while (true) {
    CODECFS_TRY(repeat_change([&] { return metadata_.correct_codecs(variable); }));
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
  CODECFS_TRY(repeat_change([&] { return metadata_.correct_codecs(variable); }));
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
  CODECFS_TRY(repeat_change([&] { return metadata_.correct_codecs(variable); }));
  const auto lock = store_.using_keys();
  CODECFS_ASSIGN(const Target target, target_of(variable, number));
  if (target.array->array.shards) return put_in_shard(target, number, nullptr);
  CODECFS_TRY(writer_.remove(target.array->key, target.name));
  refresh_listing(target, number);
  return {};
}

Result<> ChunkFileWriter::begin_updates(ObjectId variable) {
  const auto lock = store_.using_keys();
  CODECFS_TRY(store_.writable_array(variable));
  return writer_.shared() != nullptr ? writer_.shared()->begin_updates() : Result<>();
}

Result<ChunkBase> ChunkFileWriter::read_base(const OpenArray& array, const std::string& key) {
  auto file = writer_.shared()->read_now(key, array.max_stored);
  if (!file && file.error().code == EFBIG)
    return fail(EIO, "{}: has more than the {} bytes that it may have", key, array.max_stored);
  if (!file) return pass_on(file);
  ChunkBase base{
      .chunk = std::nullopt, .version = std::move(file->version), .is_changed = store_.files().take_changed(key)};
  if (file->bytes) {
    CODECFS_ASSIGN(base.chunk, decode_chunk(array, key, *std::move(file->bytes)));
  }
  return base;
}

Result<ChunkBase> ChunkFileWriter::fetch_base(ObjectId variable, uint64_t number) {
  CODECFS_ASSIGN(const Target target, target_of_locked(variable, number));
  return read_base(*target.array, join_key(target.array->key, target.name));
}

Result<UpdatedChunk> ChunkFileWriter::update_chunk(ObjectId variable, uint64_t number, Bytes chunk,
                                                   const ByteSet& written, const std::optional<std::string>& version) {
  CODECFS_ASSIGN(const Target first, target_of_locked(variable, number));
  if (first.array->array.shards) return update_in_shard(variable, number, chunk, written);
  UpdatedChunk done;
  std::optional<std::string> based_on = version;
  return repeat_change([&]() -> Result<UpdatedChunk> {
    CODECFS_TRY(repeat_change([&] { return metadata_.correct_codecs(variable); }));
    CODECFS_ASSIGN(const Target target, target_of_locked(variable, number));
    const auto& [array, name] = target;
    const std::string key = join_key(array->key, name);
    Buffer merged;
    if (!based_on) {
      CODECFS_ASSIGN(ChunkBase base, read_base(*array, key));
      done.has_others = true;
      if (base.chunk) {
        merged = *std::move(base.chunk);
      } else {
        CODECFS_ASSIGN(merged, make_fill_chunk(array->array.variable));
      }
      if (merged.size() != chunk.size())
        return fail(ESTALE, "{}: another program has changed its chunks, so a part of one is not stored", key);
      written.copy(chunk, merged.mutable_bytes());
      based_on = std::move(base.version);
    }
    CODECFS_ASSIGN(const StoredChunk stored, encode_chunk(*array, key, merged.empty() ? chunk : merged.bytes()));
    const auto lock = store_.using_keys();
    CODECFS_ASSIGN(const Target now, target_of(variable, number));
    if (now.array != array && !describe_same_chunks(now.array->metadata, array->metadata))
      return fail(EAGAIN, "{}: another program has changed its filters", key);
    const StorePart whole = {.bytes = stored.bytes, .file = nullptr, .offset = 0, .size = stored.bytes.size()};
    auto replaced = writer_.shared()->replace(key, *based_on, std::span(&whole, 1));
    if (!replaced) {
      based_on.reset();
      return pass_on(replaced);
    }
    refresh_listing(now, number);
    done.version = done.has_others ? std::nullopt : std::optional(*std::move(replaced));
    return done;
  });
}

/// What is held for a shard is brought into its current state when that is written.
Result<UpdatedChunk> ChunkFileWriter::update_in_shard(ObjectId variable, uint64_t number, Bytes chunk,
                                                      const ByteSet& written) {
  CODECFS_ASSIGN(Buffer copy, Buffer::copy_of(chunk));
  const auto part = std::make_shared<const WrittenPart>(std::move(copy), written);
  while (true) {
    CODECFS_ASSIGN(const Target target, target_of_locked(variable, number));
    CODECFS_ASSIGN(const StoredChunk stored, encode_chunk(*target.array, target.array->key, chunk));
    const auto lock = store_.using_keys();
    CODECFS_ASSIGN(const Target now, target_of(variable, number));
    if (now.array != target.array && !describe_same_chunks(now.array->metadata, target.array->metadata)) continue;
    CODECFS_TRY(put_in_shard(now, number, &stored.bytes, part));
    return UpdatedChunk{};
  }
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

Result<> ChunkFileWriter::put_in_shard(const Target& target, uint64_t number, const Bytes* encoded,
                                       std::shared_ptr<const WrittenPart> part) {
  CODECFS_TRY(writer_.shared() != nullptr ? writer_.shared()->begin_updates() : writer_.begin());
  std::shared_ptr<const Buffer> held;
  if (encoded != nullptr) {
    CODECFS_ASSIGN(Buffer copy, Buffer::copy_of(*encoded));
    held = std::make_shared<const Buffer>(std::move(copy));
  }
  CODECFS_TRY(shards_.put(target.array, number, {std::move(held), std::move(part)}));
  store_.listings().refresh(target.array->key, number, [&]() -> Result<bool> { return encoded != nullptr; });
  return {};
}

void ChunkFileWriter::refresh_listing(const Target& target, uint64_t number) {
  store_.listings().refresh(target.array->key, number,
                            [&] { return store_.files().has_file(join_key(target.array->key, target.name)); });
}

}  // namespace codecfs::zarr
