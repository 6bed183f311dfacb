#include "fs/views/prefetcher.h"

#include <fcntl.h>

namespace codecfs::fs {
namespace {

// Bytes of a chunk that is only read, not decoded: reading fewer takes no longer than waking another thread.
constexpr uint64_t kWorthAThread = 32 << 10;
constexpr uint64_t kPage = 4096;  // bytes; of larger pages the kernel takes what fills them

/// Makes the kernel read a chunk that is a file of the source. False if it is not.
bool read_source_ahead(const PassableChunk& chunk) {
  if (!chunk.open_source) return false;
  const Result<std::optional<UniqueFd>> file = chunk.open_source();
  if (!file || !*file) return false;
  (void)posix_fadvise((*file)->get(), 0, 0, POSIX_FADV_WILLNEED);
  return true;
}

}  // namespace

std::optional<PassableChunk> Prefetcher::opened_to_read(const Node& node, const ChunkPlace& chunk) {
  if (node.form().is_encoded && encoded_.passed_bytes(node, chunk).value_or(kWorthAThread) < kWorthAThread)
    return std::nullopt;
  const Variable& facts = *chunk.variable->facts;
  const bool is_sequential = mount_.chunks.read_ahead.note(
      node.ino(), facts.grid, chunk.number, ChunkDecoder::decoding_bytes(facts),
      [this, chunk, &node](uint64_t number) { fetch_file(node, place_beside(chunk, number)); }, expect_of(chunk));
  return passable(node, chunk, is_sequential);
}

std::optional<PassableChunk> Prefetcher::passable(const Node& node, const ChunkPlace& chunk, bool is_expected) {
  if (mount_.kernel.passthrough == nullptr) return std::nullopt;
  if (node.form().is_encoded) return passable_encoded(node, chunk);
  const std::optional<uint64_t> bytes = chunk.variable->facts->chunk_bytes;
  if (!bytes) return std::nullopt;
  PassableChunk passable{
      .key = chunk.key, .bytes = *bytes, .is_expected = is_expected, .produce = {}, .open_source = {}};
  if (mount_.kernel.passthrough->suits(*bytes))
    passable.produce = [this, chunk] {
      return mount_.chunks.cache.get_uncached(chunk.key, ChunkDecoder::decoding_bytes(*chunk.variable->facts),
                                              [&] { return mount_.chunks.decoder.decode(chunk); });
    };
  // Without filters, what is stored is the chunk.
  if (chunk.variable->facts->filters.empty() && mount_.kernel.passthrough->suits_source(*bytes))
    passable.open_source = [this, chunk]() -> Result<std::optional<UniqueFd>> {
      CODECFS_ASSIGN(auto file, mount_.dataset.source().open_stored(chunk.object, chunk.number));
      CODECFS_TRY(mount_.still_means(chunk));
      return file;
    };
  if (!passable.produce && !passable.open_source) return std::nullopt;
  return passable;
}

std::optional<PassableChunk> Prefetcher::passable_encoded(const Node& node, const ChunkPlace& chunk) {
  const std::optional<uint64_t> bytes = encoded_.passed_bytes(node, chunk);
  if (!bytes || !mount_.kernel.passthrough->suits_source(*bytes)) return std::nullopt;
  return PassableChunk{
      .key = chunk.key, .bytes = *bytes, .is_expected = false, .produce = {}, .open_source = [this, &node, chunk] {
        return encoded_.open_passed(node, chunk);
      }};
}

void Prefetcher::chunk_of_array(const ChunkPlace& chunk) {
  const Variable& facts = *chunk.variable->facts;
  mount_.chunks.read_ahead.note(
      chunk.object, facts.grid, chunk.number, ChunkDecoder::decoding_bytes(facts),
      [this, chunk](uint64_t number) { fetch_decoded(place_beside(chunk, number)); }, expect_of(chunk));
}

void Prefetcher::chunks_of_array(const ChunkPlace& chunk, std::span<const uint64_t> numbers) {
  (void)mount_.dataset.source().expect(chunk.object, numbers);
  mount_.chunks.read_ahead.fetch(chunk.object, numbers,
                                 [this, chunk](uint64_t number) { fetch_decoded(place_beside(chunk, number)); });
}

ReadAhead::Expect Prefetcher::expect_of(const ChunkPlace& chunk) const {
  Source& source = mount_.dataset.source();
  if (source.reads_at_once() == 0) return nullptr;
  return [&source, object = chunk.object](std::span<const uint64_t> numbers) { (void)source.expect(object, numbers); };
}

void Prefetcher::give_chunk(Ino ino, const ArrayFile& file, uint64_t number, const ChunkPtr& chunk, uint64_t changes) {
  if (mount_.options.coherent) return;
  const std::optional<ArrayFile::Range> stretch = file.stretch_of_chunk(number);
  if (!stretch) return;
  // A page of which only a part is given is asked for all the same, but for the last of the file.
  const uint64_t begin = (stretch->offset + kPage - 1) / kPage * kPage;
  uint64_t end = stretch->offset + stretch->size;
  if (end != file.size()) end = end / kPage * kPage;
  if (begin >= end) return;
  mount_.chunks.read_ahead.soon([this, ino, chunk, changes, begin,
                                 content = Bytes(chunk->bytes().subspan(begin - stretch->offset, end - begin))] {
    push_pages(ino, begin, content, changes);
  });
}

bool Prefetcher::push_pages(Ino ino, uint64_t offset, Bytes content, uint64_t changes) {
  if (mount_.kernel.transport == Transport::read) return false;
  return mount_.kernel.pages.push_pages(ino, [&] {
    if (mount_.changes() != changes || !mount_.kernel.invalidator->store_pages(ino, offset, content)) return false;
    ++mount_.stats.stores;
    mount_.stats.bytes_pushed += content.size();
    if (mount_.changes() == changes) return true;
    // The writer's invalidation may have come before these pages.
    mount_.kernel.invalidator->content_changed(ino, true);
    return false;
  });
}

void Prefetcher::fetch_file(const Node& node, const ChunkPlace& chunk) {
  const uint64_t changes = mount_.changes();
  const Result<Ino> ino = mount_.tree.nodes.chunk_ino(node, chunk.number, chunk.variable->facts->grid.count());
  if (ino && mount_.kernel.pages_given.has(*ino, changes)) return;
  if (const std::optional<PassableChunk> passing = passable(node, chunk, true)) {
    // The reader of a file that is open in cached mode decodes it itself.
    if (!ino || mount_.kernel.passthrough->modes().is_cached(*ino)) return;
    if (read_source_ahead(*passing)) return;
    const bool is_made = passing->produce && mount_.kernel.passthrough->files().make(passing->key, passing->bytes, [&] {
      ++mount_.stats.decodes_ahead;
      return passing->produce();
    });
    // Else it may have room in the page cache, unless its reader made the file meanwhile.
    if (is_made || mount_.kernel.passthrough->files().has(passing->key)) return;
  }
  const ChunkPtr bytes = node.form().is_encoded ? encoded_.fetch(node, chunk) : fetch_decoded(chunk);
  if (!ino || bytes == nullptr || mount_.options.coherent || !push_pages(*ino, 0, bytes->bytes(), changes)) return;
  // The kernel has all of it, so it need not be cached.
  mount_.kernel.pages_given.given(*ino, changes);
  if (node.form().is_encoded)
    mount_.chunks.conversions.done(conversion_key(node.view, chunk.key));
  else
    mount_.chunks.cache.done(chunk.key);
}

ChunkPtr Prefetcher::fetch_decoded(const ChunkPlace& chunk) {
  if (mount_.chunks.write_back.size(chunk.key)) return nullptr;
  return mount_.chunks.cache.fetch(chunk.key, ChunkDecoder::decoding_bytes(*chunk.variable->facts),
                                   [&] { return mount_.chunks.decoder.decode(chunk); });
}

ChunkPlace Prefetcher::place_beside(ChunkPlace chunk, uint64_t number) {
  chunk.key += number - chunk.number;
  chunk.number = number;
  return chunk;
}

}  // namespace codecfs::fs
