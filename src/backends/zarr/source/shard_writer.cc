#include "backends/zarr/source/shard_writer.h"

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <new>
#include <utility>

#include "backends/zarr/metadata/zarr3_metadata.h"
#include "backends/zarr/source/chunk_listing.h"
#include "base/parallel.h"
#include "model/limits.h"

namespace codecfs::zarr {
namespace {

constexpr size_t kWritesAtOnce = 8;  // that are written, if each takes requests

/// A part of a chunk that was written while another was held. What is held of the chunk was read before, so it is in
/// the new content, too.
std::shared_ptr<const WrittenPart> joined(const ShardWriter::Held* held, std::shared_ptr<const WrittenPart> part) {
  if (held == nullptr || part == nullptr) return part;
  if (held->part == nullptr) return nullptr;
  auto copy = Buffer::copy_of(part->chunk.bytes());
  if (!copy) throw std::bad_alloc();
  auto both = std::make_shared<WrittenPart>(std::move(*copy), part->written);
  both->written.add(held->part->written);
  return both;
}

}  // namespace

uint64_t ShardWriter::size_of(const Held& chunk) {
  return (chunk.encoded ? chunk.encoded->size() : 0) + (chunk.part ? chunk.part->chunk.size() : 0);
}

Result<> ShardWriter::put(const ArrayPtr& array, uint64_t number, Held chunk) try {
  bool is_full = false;
  {
    const LockGuard lock(mutex_);
    const Key key = {array->key, shard_of(array->array, number)};
    Shard& shard = held_[key];
    if (shard.array && !describe_same_chunks(shard.array->metadata, array->metadata)) {
      for (const auto& [other, held] : shard.chunks) bytes_in_memory_ -= size_of(held);
      held_.erase(key);
      return fail(ESTALE, "{}: another program has changed it: chunks are not stored", called(array->key));
    }
    shard.array = array;
    const auto [place, is_new] = shard.chunks.try_emplace(number);
    chunk.part = joined(is_new ? nullptr : &place->second, std::move(chunk.part));
    bytes_in_memory_ += size_of(chunk) - size_of(place->second);
    place->second = std::move(chunk);
    is_full = bytes_in_memory_ > kMaxHeld;
  }
  return is_full ? write_shards() : Result<>();
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to hold a chunk", called(array->key));
}

std::optional<std::shared_ptr<const Buffer>> ShardWriter::held(const OpenArray& array, uint64_t number) {
  const Key key = {array.key, shard_of(array.array, number)};
  const LockGuard lock(mutex_);
  for (const auto* shards : {&held_, &being_written_}) {
    const auto shard = shards->find(key);
    if (shard == shards->end()) continue;
    if (const auto found = shard->second.chunks.find(number); found != shard->second.chunks.end())
      return found->second.encoded;
  }
  return std::nullopt;
}

void ShardWriter::apply_held(const OpenArray& array, std::vector<uint64_t>& numbers) {
  std::map<uint64_t, bool> held;  // whether it is stored
  {
    const LockGuard lock(mutex_);
    for (const auto* shards : {&held_, &being_written_})
      for (auto at = shards->lower_bound({array.key, 0}); at != shards->end() && at->first.first == array.key; ++at)
        for (const auto& [number, chunk] : at->second.chunks) held.try_emplace(number, chunk.encoded != nullptr);
  }
  if (held.empty()) return;
  std::erase_if(numbers, [&](uint64_t number) { return held.contains(number); });
  for (const auto& [number, is_stored] : held)
    if (is_stored) numbers.push_back(number);
  std::ranges::sort(numbers);
}

Result<> ShardWriter::write_shards() {
  const LockGuard writing(writing_mutex_);
  CODECFS_TRY(write_begun());  // older than what is held
  {
    const LockGuard lock(mutex_);
    being_written_.swap(held_);
    bytes_in_memory_ = 0;
  }
  return write_begun();
}

/// Writes all shards of being_written_. Those that an exception ends, or that are not reached then, stay in it, and are
/// written before others by the next call.
Result<> ShardWriter::write_begun() {
  std::vector<Key> keys;
  {
    const LockGuard lock(mutex_);
    failure_.reset();
    for (const auto& [key, shard] : being_written_) keys.push_back(key);
  }
  CODECFS_TRY(parallel_for(keys.size(), {.threads = writer_.shared() != nullptr ? kWritesAtOnce : 1},
                           [&](uint64_t i) { return write_next(keys[i]); }));
  const LockGuard lock(mutex_);
  if (failure_) return std::unexpected(*failure_);
  return {};
}

/// Writes one shard of being_written_. The errors of one shard do not end the others.
Result<> ShardWriter::write_next(const Key& key) {
  Shard shard;
  {
    const LockGuard lock(mutex_);
    shard = being_written_.at(key);
  }
  const Result<> written = write_held(shard, key.second);
  const LockGuard lock(mutex_);
  if (!written) {
    if (!failure_) failure_ = written.error();
    // Chunks that were written meanwhile are newer. After ESTALE the array is another one.
    if (written.error().code != ESTALE) keep(key, std::move(shard));
  }
  being_written_.erase(key);
  return {};
}

void ShardWriter::refresh_listing(const OpenArray& array, uint64_t shard) {
  store_.shard_listings().refresh(array.key, shard, [&] { return store_.files().has_file(shard_key(array, shard)); });
}

/// Holds again what could not be written, without what was written since.
void ShardWriter::keep(const Key& key, Shard shard) {
  Shard& kept = held_[key];
  if (!kept.array) kept.array = std::move(shard.array);
  for (auto& [number, chunk] : shard.chunks) {
    const auto [place, is_new] = kept.chunks.try_emplace(number);
    if (is_new) {
      place->second = std::move(chunk);
      bytes_in_memory_ += size_of(place->second);
    } else {
      place->second.part = joined(&chunk, std::move(place->second.part));
    }
  }
}

Result<> ShardWriter::replace(const OpenArray& array, uint64_t shard, std::optional<Bytes> bytes) try {
  const LockGuard writing(writing_mutex_);
  CODECFS_TRY(write_begun());  // older than the bytes
  const Key key = {array.key, shard};
  Shard replaced;
  {
    const LockGuard lock(mutex_);
    if (const auto held = held_.find(key); held != held_.end()) {
      replaced = std::move(held->second);
      held_.erase(held);
      for (const auto& [number, chunk] : replaced.chunks) bytes_in_memory_ -= size_of(chunk);
    }
  }
  const std::string name = array.array.keys.name_of(array.array.shards->grid, shard);
  Result<> done = bytes ? writer_.write(array.key, name, *bytes, array.mode) : writer_.remove(array.key, name);
  refresh_listing(array, shard);
  if (!done && !replaced.chunks.empty()) {
    const LockGuard lock(mutex_);
    keep(key, std::move(replaced));
  }
  return done;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to write a shard", called(array.key));
}

bool ShardWriter::holds_any(const OpenArray& array) {
  const LockGuard lock(mutex_);
  return std::ranges::any_of(std::array{&held_, &being_written_}, [&](const auto* shards) {
    const auto first = shards->lower_bound({array.key, 0});
    return first != shards->end() && first->first.first == array.key;
  });
}

Result<> ShardWriter::write_held(const Shard& shard, uint64_t number) try {
  const OpenArray& array = *shard.array;
  const auto text = store_.hierarchy().read_text(join_key(array.key, kZarr3File));
  if (!text) return std::unexpected(text.error());
  if (!*text || !describe_same_chunks(**text, array.metadata))
    return fail(ESTALE, "{}: another program has changed or removed it: chunks are not stored", called(array.key));
  const std::string name = array.array.keys.name_of(array.array.shards->grid, number);
  Result<> done = repeat_change([&]() -> Result<> {
    Result<> once = write_into(shard, name);
    // A file that is read in parts was replaced.
    if (!once && once.error().code == ESTALE && writer_.shared() != nullptr)
      return fail(EAGAIN, "{}", once.error().reason);
    return once;
  });
  refresh_listing(array, number);
  return done;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to write a shard", called(shard.array->key));
}

Result<> ShardWriter::write_into(const Shard& shard, const std::string& name) {
  const OpenArray& array = *shard.array;
  CODECFS_ASSIGN(const FilePtr file, open(join_key(array.key, name)));
  std::vector<ChunkChange> changes;
  std::deque<Buffer> made;
  for (const auto& [number, chunk] : shard.chunks) {
    const Buffer* bytes = chunk.encoded.get();
    if (chunk.part) {
      CODECFS_ASSIGN(Buffer whole, merged(array, number, *chunk.part, file));
      bytes = &made.emplace_back(std::move(whole));
    }
    changes.push_back({positions_of(array.array, number), bytes});
  }
  std::ranges::sort(changes, {}, &ChunkChange::positions);
  return rewrite(array, name, changes, file);
}

/// A chunk as it is in the shard, encoded, with the part that was written.
Result<Buffer> ShardWriter::merged(const OpenArray& array, uint64_t number, const WrittenPart& part,
                                   const FilePtr& file) {
  const std::string key = join_key(array.key, array.array.variable.grid.name_of(number));
  std::optional<Buffer> stored;
  if (file) {
    CODECFS_ASSIGN(stored, store_.shards().read_in(array, number, file));
  }
  Buffer chunk;
  if (stored) {
    CODECFS_ASSIGN(chunk, decode_chunk(array, key, *std::move(stored)));
  } else {
    CODECFS_ASSIGN(chunk, make_fill_chunk(array.array.variable));
  }
  if (chunk.size() != part.chunk.size())
    return fail(EIO, "{}: has {} bytes, not {}", key, chunk.size(), part.chunk.size());
  part.written.copy(part.chunk.bytes(), chunk.mutable_bytes());
  CODECFS_ASSIGN(StoredChunk encoded, encode_chunk(array, key, chunk.bytes()));
  if (encoded.buffer.empty()) return Buffer::copy_of(encoded.bytes);
  return std::move(encoded.buffer);
}

Result<ShardWriter::FilePtr> ShardWriter::open(const std::string& key) {
  return writer_.shared() != nullptr ? writer_.shared()->open_now(key) : store_.files().open_file(key);
}

Result<> ShardWriter::replace_file(const OpenArray& array, const std::string& name, const FilePtr& file,
                                   std::span<const StorePart> parts) {
  SharedStore* const shared = writer_.shared();
  if (shared == nullptr) return writer_.write_parts(array.key, name, parts, array.mode);
  CODECFS_TRY(shared->replace(join_key(array.key, name), file ? file->version() : "", parts));
  return {};
}

/// `changes`: as for change_shard(). `file`: of open().
Result<> ShardWriter::rewrite(const OpenArray& array, const std::string& name, std::span<const ChunkChange> changes,
                              const FilePtr& file) {
  const ShardLayout& layout = *array.array.shards;
  const ShardLevel& level = layout.levels[0];
  if (!level.stages.empty()) return rewrite_encoded(array, name, changes, file);
  const bool is_nested = layout.levels.size() > 1;
  const std::string key = join_key(array.key, name);
  std::vector<ShardEntry> old(level.count, {ShardEntry::kAbsent, ShardEntry::kAbsent});
  if (file && (is_nested || changes.size() < level.count)) {  // else nothing of it stays
    CODECFS_ASSIGN(old, store_.shards().entries(array, key, file));
  }
  Positions changed;
  std::deque<Buffer> made;  // shards of the next level
  while (!changes.empty()) {
    const uint64_t position = changes.front().positions[0];
    const auto next =
        std::ranges::find_if(changes, [&](const ChunkChange& change) { return change.positions[0] != position; });
    const auto group = changes.first(static_cast<size_t>(next - changes.begin()));
    changes = changes.subspan(group.size());
    if (!is_nested) {
      changed[position] = group.front().bytes;
      continue;
    }
    Buffer inner;
    const bool was_stored = old[position].is_stored();
    if (was_stored) {
      CODECFS_ASSIGN(inner, file->read(old[position].offset, old[position].size));
    }
    auto content = change_shard(layout, was_stored ? std::optional(inner.bytes()) : std::nullopt, group, 1);
    if (!content) return in_file(key, content.error());
    changed[position] = *content ? &made.emplace_back(**std::move(content)) : nullptr;
  }
  return write_positions(array, name, changed, file, old);
}

/// As rewrite(), for a shard that is encoded as a whole.
Result<> ShardWriter::rewrite_encoded(const OpenArray& array, const std::string& name,
                                      std::span<const ChunkChange> changes, const FilePtr& file) {
  const std::string key = join_key(array.key, name);
  Buffer old;
  if (file && file->size() > max_chunk_bytes())
    return fail(EIO, "{}: has {} bytes, more than {}", key, file->size(), max_chunk_text());
  if (file) {
    CODECFS_ASSIGN(old, file->read(0, file->size()));
  }
  auto content = change_shard(*array.array.shards, file ? std::optional(old.bytes()) : std::nullopt, changes);
  if (!content) return in_file(key, content.error());
  if (!*content && (writer_.shared() == nullptr || !file)) return writer_.remove(array.key, name);
  if (!*content) {
    // A shard without chunks cannot be told from one that is there no more, so one of them becomes fill.
    CODECFS_ASSIGN(const Buffer fill, make_fill_chunk(array.array.variable));
    CODECFS_ASSIGN(const StoredChunk encoded, encode_chunk(array, key, fill.bytes()));
    CODECFS_ASSIGN(const Buffer stored, Buffer::copy_of(encoded.bytes));
    std::vector<ChunkChange> kept(changes.begin(), changes.end());
    kept.front().bytes = &stored;
    content = change_shard(*array.array.shards, old.bytes(), kept);
    if (!content) return in_file(key, content.error());
  }
  const StorePart whole = {.bytes = (*content)->bytes(), .file = nullptr, .offset = 0, .size = (*content)->size()};
  return replace_file(array, name, file, std::span(&whole, 1));
}

Result<> ShardWriter::write_positions(const OpenArray& array, const std::string& name, const Positions& changed,
                                      const FilePtr& file, const std::vector<ShardEntry>& old) {
  const ShardLevel& level = array.array.shards->levels[0];
  const ShardEntry absent = {ShardEntry::kAbsent, ShardEntry::kAbsent};
  std::vector<ShardEntry> entries(level.count, absent);
  std::vector<StorePart> parts;
  uint64_t end = level.index.is_at_start ? level.index_bytes() : 0;
  for (uint64_t position = 0; position < level.count; ++position) {
    StorePart part;
    if (const auto found = changed.find(position); found != changed.end()) {
      if (found->second == nullptr) continue;
      part.bytes = found->second->bytes();
      part.size = part.bytes.size();
    } else if (old[position].is_stored()) {
      part = {.bytes = {}, .file = file, .offset = old[position].offset, .size = old[position].size};
    } else {
      continue;
    }
    entries[position] = {.offset = end, .size = part.size};
    end += part.size;
    parts.push_back(std::move(part));
  }
  if (parts.empty() && (writer_.shared() == nullptr || !file)) return writer_.remove(array.key, name);
  CODECFS_ASSIGN(const Buffer index, encode_shard_index(level, entries));
  const StorePart index_part = {.bytes = index.bytes(), .file = nullptr, .offset = 0, .size = index.size()};
  parts.insert(level.index.is_at_start ? parts.begin() : parts.end(), index_part);
  return replace_file(array, name, file, parts);
}

void ShardWriter::forget(const std::string& key) {
  const LockGuard lock(mutex_);
  std::erase_if(being_written_, [&](const auto& shard) { return is_at_or_below(shard.first.first, key); });
  for (auto at = held_.begin(); at != held_.end();) {
    if (!is_at_or_below(at->first.first, key)) {
      ++at;
      continue;
    }
    for (const auto& [number, chunk] : at->second.chunks) bytes_in_memory_ -= size_of(chunk);
    at = held_.erase(at);
  }
}

Result<bool> ShardWriter::remove_outside(const OpenArray& array, const ChunkGrid& listed, const ChunkGrid& kept,
                                         bool is_only_asked) try {
  const Array& facts = array.array;
  CODECFS_ASSIGN(const ChunkGrid shards, ChunkGrid::make(listed.shape(), facts.shards->grid.chunks()));
  if (shards.count() == 0) return false;
  // A shard that is in `kept` as a whole is not read.
  std::vector<uint64_t> whole(listed.rank());
  for (size_t axis = 0; axis < whole.size(); ++axis)
    whole[axis] = kept.cells()[axis] / (shards.chunks()[axis] / kept.chunks()[axis]);
  CODECFS_ASSIGN(const auto numbers,
                 list_chunks_outside(store_.files(), writer_.shared(), array.key, shards, whole, facts.keys));
  std::vector<uint64_t> shard(listed.rank());
  bool were_any = false;
  for (const uint64_t number : numbers) {
    shards.coordinates_of(number, shard);
    const std::string name = facts.keys.name_of(shards, number);
    const std::string key = join_key(array.key, name);
    const Result<> changed = repeat_change([&]() -> Result<> {
      CODECFS_ASSIGN(const FilePtr file, open(key));
      if (!file) return {};
      std::vector<ChunkChange> removed;
      CODECFS_TRY(store_.shards().visit(array, key, file, shard, [&](const auto& positions, const auto& coordinates) {
        if (!std::ranges::equal(coordinates, kept.cells(), std::less())) removed.push_back({positions, nullptr});
      }));
      if (removed.empty()) return {};
      were_any = true;
      if (is_only_asked) return {};
      store_.shard_listings().forget(array.key);
      return rewrite(array, name, removed, file);
    });
    CODECFS_TRY(changed);
  }
  return were_any;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to remove chunks", called(array.key));
}

}  // namespace codecfs::zarr
