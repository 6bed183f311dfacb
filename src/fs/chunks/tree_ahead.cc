// Read-ahead: chunks are decoded before a sequential reader asks for them, and pushed into the kernel's page cache,
// from which the kernel then answers the reader. Content that changes meanwhile must not stay there: see push_pages().

#include "fs/namespace/tree.h"

namespace codecfs::fs {
namespace {

// Bytes of a chunk that is only read, not decoded: reading fewer takes no longer than waking another thread.
constexpr uint64_t kWorthAThread = 32 << 10;
constexpr uint64_t kPage = 4096;  // bytes; of larger pages the kernel takes what fills them

}  // namespace

bool Tree::push_pages(Ino ino, uint64_t offset, Bytes content, uint64_t changes) {
  return kernel_pages_.push_pages(ino, [&] {
    if (this->changes() != changes || !kernel_->store_pages(ino, offset, content)) return false;
    ++stats_.stores;
    stats_.bytes_pushed += content.size();
    if (this->changes() == changes) return true;
    // The writer's invalidation may have come before these pages.
    kernel_->content_changed(ino, true);
    return false;
  });
}

void Tree::opened_to_read(const Node& node, const ChunkPlace& chunk) {
  if (node.view == View::encoded && passed_bytes(node, chunk).value_or(kWorthAThread) < kWorthAThread) return;
  const Variable& facts = *chunk.variable->facts;
  read_ahead_.note(node.ino(), facts.grid, chunk.number, decoding_bytes(facts),
                   [this, chunk, &node](uint64_t number) { fetch_file(node, place_beside(chunk, number)); });
}

void Tree::chunk_of_array(const ChunkPlace& chunk) {
  const Variable& facts = *chunk.variable->facts;
  read_ahead_.note(chunk.object, facts.grid, chunk.number, decoding_bytes(facts),
                   [this, chunk](uint64_t number) { fetch_decoded(place_beside(chunk, number)); });
}

ChunkPlace Tree::place_beside(ChunkPlace chunk, uint64_t number) {
  chunk.key += number - chunk.number;
  chunk.number = number;
  return chunk;
}

void Tree::fetch_file(const Node& node, const ChunkPlace& chunk) {
  const uint64_t changes = this->changes();
  const Result<Ino> ino = nodes_.chunk_ino(node, chunk.number, chunk.variable->facts->grid.count());
  const ChunkPtr bytes = node.view == View::encoded ? fetch_encoded(node, chunk) : fetch_decoded(chunk);
  if (!ino || bytes == nullptr || coherent_ || !push_pages(*ino, 0, bytes->bytes(), changes)) return;
  // The kernel has all of it, so it need not be cached.
  (node.view == View::encoded ? conversions_ : cache_).done(chunk.key);
}

ChunkPtr Tree::fetch_encoded(const Node& node, const ChunkPlace& chunk) {
  const Variable& facts = *chunk.variable->facts;
  const Result<EncodedFormPtr> form = encoded_form(node);
  const Result<ChunkInfo> info = dataset_.source().locate(chunk.object, chunk.number);
  if (!form || !info || !info->stored || write_back_.size(chunk.key)) return nullptr;
  if ((*form)->as_stored) {
    const Result<ChunkPtr> passed = passed_on(chunk);
    if (!passed || *passed != nullptr) return passed.value_or(nullptr);
  }
  if ((*form)->unusable || facts.unreadable) return nullptr;
  return conversions_.fetch(chunk.key, decoding_bytes(facts), [&] { return convert(chunk, **form); });
}

void Tree::give_chunk(const OpenArray& array, uint64_t number, const ChunkPtr& chunk, uint64_t changes) {
  if (coherent_) return;
  const std::optional<ArrayFile::Range> stretch = array.file.stretch_of_chunk(number);
  if (!stretch) return;
  // A page of which only a part is given is asked for all the same, but for the last of the file.
  const uint64_t begin = (stretch->offset + kPage - 1) / kPage * kPage;
  uint64_t end = stretch->offset + stretch->size;
  if (end != array.file.size()) end = end / kPage * kPage;
  if (begin >= end) return;
  read_ahead_.soon([this, ino = array.ino, chunk, changes, begin,
                    content = Bytes(chunk->bytes().subspan(begin - stretch->offset, end - begin))] {
    push_pages(ino, begin, content, changes);
  });
}

}  // namespace codecfs::fs
