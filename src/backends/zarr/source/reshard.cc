#include "backends/zarr/source/reshard.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "backends/zarr/metadata/metadata_write.h"
#include "backends/zarr/source/chunk_listing.h"
#include "backends/zarr/source/shard_builder.h"
#include "backends/zarr/source/shard_reader.h"
#include "base/parallel.h"

namespace codecfs::zarr {
namespace {

constexpr uint64_t kFileBuffers = 3;  // memory of a thread, in sizes of its file

class Resharder {
 public:
  Resharder(const Store& source, const OpenArray& from, const OpenArray& to, NewDirectory& target, Progress& progress)
      : source_(source), from_(from), to_(to), name_(from.key), target_(target), progress_(progress) {
    from_.key.clear();  // `source` is its directory
    keeps_encoding_ = from.array.variable.stored_order == to.array.variable.stored_order &&
                      are_equal(from.array.variable.filters, to.array.variable.filters);
  }

  Result<> run() {
    CODECFS_TRY(list());
    progress_.total = files_.size();
    const ParallelOptions options{.call_bytes = kFileBuffers * file_bytes(),
                                  .cancelled = progress_.cancelled,
                                  .cancelled_reason = cancelled_reason(),
                                  .memory_reason = fmt::format("{}: no memory to change its shards", called(name_))};
    return parallel_for(files_.size(), options, [this](uint64_t i) { return make_file(files_[i]); });
  }

 private:
  /// A file of the new array and the stored chunks that it gets: chunks_[first..end).
  struct File {
    uint64_t number = 0;
    size_t first = 0;
    size_t end = 0;
  };

  Result<> list() try {
    const Array& array = from_.array;
    if (array.shards) {
      CODECFS_ASSIGN(const auto shards, list_chunks(source_, "", array.shards->grid, array.keys));
      for (const uint64_t shard : shards) {
        if (const auto listed = reader_.list(from_, shard, chunks_); !listed) return in_file(name_, listed.error());
      }
    } else {
      CODECFS_ASSIGN(chunks_, list_chunks(source_, "", array.variable.grid, array.keys));
    }
    std::vector<std::pair<uint64_t, uint64_t>> places;  // file, chunk
    places.reserve(chunks_.size());
    for (const uint64_t chunk : chunks_)
      places.emplace_back(to_.array.shards ? shard_of(to_.array, chunk) : chunk, chunk);
    std::ranges::sort(places);
    for (size_t i = 0; i < places.size(); ++i) {
      chunks_[i] = places[i].second;
      if (i == 0 || places[i].first != places[i - 1].first) files_.push_back({places[i].first, i, i});
      files_.back().end = i + 1;
    }
    return {};
  } catch (const std::bad_alloc&) {
    return fail(ENOMEM, "{}: no memory to list its chunks", called(name_));
  }

  /// Decoded bytes of a file of the new array, at most kParallelMemory for shards.
  [[nodiscard]] uint64_t file_bytes() const {
    uint64_t bytes = std::max<uint64_t>(from_.array.variable.chunk_bytes.value_or(kAssumedChunkBytes), 1);
    if (to_.array.shards)
      for (const ShardLevel& level : to_.array.shards->levels) bytes = std::min(bytes * level.count, kParallelMemory);
    return bytes;
  }

  Result<> make_file(const File& file) {
    if (to_.array.shards) {
      CODECFS_TRY(make_shard(file));
    } else {
      CODECFS_ASSIGN(const Buffer chunk, chunk_for(chunks_[file.first]));
      CODECFS_TRY(write(to_.array.variable.grid, file.number, chunk.bytes()));
    }
    ++progress_.done;
    return {};
  }

  Result<> make_shard(const File& file) {
    std::vector<Buffer> chunks;
    std::vector<ChunkChange> changes;
    chunks.reserve(file.end - file.first);
    for (size_t i = file.first; i < file.end; ++i) {
      if (progress_.cancelled && progress_.cancelled()) return fail(ECANCELED, "{}", cancelled_reason());
      CODECFS_ASSIGN(Buffer chunk, chunk_for(chunks_[i]));
      changes.push_back({positions_of(to_.array, chunks_[i]), &chunks.emplace_back(std::move(chunk))});
    }
    std::ranges::sort(changes, {}, &ChunkChange::positions);
    const ChunkGrid& grid = to_.array.shards->grid;
    auto shard = change_shard(*to_.array.shards, std::nullopt, changes);
    if (!shard) return in_file(join_key(name_, to_.array.keys.name_of(grid, file.number)), shard.error());
    return write(grid, file.number, (*shard)->bytes());
  }

  /// A stored chunk with the encoding of the new array.
  Result<Buffer> chunk_for(uint64_t number) {
    const ChunkGrid& grid = from_.array.variable.grid;
    const std::string key = join_key(name_, grid.name_of(number));
    auto read = from_.array.shards ? reader_.read(from_, number)
                                   : source_.read(from_.array.keys.name_of(grid, number), from_.max_stored);
    if (!read) return in_file(key, read.error());
    if (!*read) return fail(EIO, "{}: was removed while it was read", key);
    if (keeps_encoding_) return **std::move(read);
    CODECFS_ASSIGN(Buffer chunk, decode_chunk(from_, key, **std::move(read)));
    CODECFS_ASSIGN(StoredChunk encoded, encode_chunk(to_, key, chunk.bytes()));
    if (!encoded.buffer.empty()) return std::move(encoded.buffer);
    return Buffer::copy_of(encoded.bytes);
  }

  [[nodiscard]] std::string cancelled_reason() const {
    return fmt::format("{}: its chunks were not re-encoded: it was cancelled", called(name_));
  }

  Result<> write(const ChunkGrid& grid, uint64_t number, Bytes bytes) {
    return target_.write(to_.array.keys.name_of(grid, number), bytes, to_.mode);
  }

  const Store& source_;
  OpenArray from_;
  const OpenArray& to_;
  const std::string name_;  // of the array
  bool keeps_encoding_ = false;
  ShardReader reader_{source_};
  NewDirectory& target_;
  Progress& progress_;
  std::vector<uint64_t> chunks_;
  std::vector<File> files_;
};

}  // namespace

Result<> reshard_chunks(const Store& source, const OpenArray& from, const OpenArray& to, NewDirectory& target,
                        Progress& progress) {
  return Resharder(source, from, to, target, progress).run();
}

}  // namespace codecfs::zarr
