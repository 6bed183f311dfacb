#include "fs/views/encoded_view.h"

#include <algorithm>
#include <utility>

#include "filters/core/common_form.h"
#include "fs/nodes/chunk_names.h"
#include "fs/nodes/clock.h"

namespace codecfs::fs {
namespace {

/// Whether other programs decode these bytes in the source. In a Zarr store, a Zarr writer has made them for it.
bool is_for_readers(Source& source, const ChunkPlace& chunk, Bytes encoded) {
  if (source.chains_for_numcodecs_in(chunk.object)) return true;
  const Variable& facts = *chunk.variable->facts;
  return filters::has_common_form(facts.filters, filters::shape_of_chunk(facts), encoded, encoded.size());
}

}  // namespace

Result<struct stat> EncodedView::attributes(const Node& node, const VariableViewPtr& view, uint64_t number) {
  const uint64_t count = view->facts->grid.count();
  CODECFS_ASSIGN(const Ino ino, mount_.tree.nodes.chunk_ino(node, number, count));
  CODECFS_ASSIGN(const Ino key, mount_.tree.nodes.chunk_key(node, number, count));
  const auto attributes_of = [&](uint64_t size) {
    struct stat status = inodes_.make(node, ino, S_IFREG, size);
    status.st_blocks = std::max<blkcnt_t>(status.st_blocks, 1);
    return status;
  };
  if (const std::shared_ptr<StagedFile> staged = mount_.tree.staged_files.find(ino))
    if (const std::optional<uint64_t> size = staged->shown_size()) return attributes_of(*size);
  if (!mount_.chunks.write_back.size(key)) {
    if (coherence_.is_removed(node, number, key)) return std::unexpected(Error{ENOENT, {}});
    CODECFS_ASSIGN(const EncodedFormPtr form, forms_.of(node));
    CODECFS_ASSIGN(const ChunkInfo info, mount_.dataset.source().locate(node.object, number));
    if (!info.stored && !mount_.shows_absent(node, *view)) return std::unexpected(Error{ENOENT, {}});
    if (info.stored && form->as_stored) {
      CODECFS_ASSIGN(const auto size, mount_.dataset.source().stored_bytes(node.object, number));
      if (size) return attributes_of(form->file_size(*size));
    }
  }
  // Only the conversion determines the size.
  CODECFS_ASSIGN(const ChunkPtr chunk, content(node, {key, node.object, number, view}));
  return attributes_of(chunk->size());
}

Result<ChunkPtr> EncodedView::content(const Node& node, const ChunkPlace& chunk) {
  Result<ChunkPtr> bytes = made_content(node, chunk);
  // Absent is an answer, too.
  if (bytes || bytes.error().code == ENOENT) CODECFS_TRY(mount_.still_means(chunk));
  return bytes;
}

Result<ChunkPtr> EncodedView::made_content(const Node& node, const ChunkPlace& chunk) {
  if (node.form().shows_shards(*chunk.variable->facts)) {
    CODECFS_ASSIGN(const auto file, open_shard(node, chunk.number));
    CODECFS_ASSIGN(Buffer bytes, file->read(0, file->size()));
    return std::make_shared<const Buffer>(std::move(bytes));
  }
  CODECFS_ASSIGN(const EncodedFormPtr form, forms_.of(node));
  if (const auto edited = mount_.chunks.write_back.content(chunk.key)) {
    if (form->as_stored && edited->encoded != nullptr) return file_of(*form, edited->encoded);
  } else if (form->as_stored) {
    Result<ChunkPtr> stored = passed_on(chunk, *form);
    const bool is_absent = !stored && stored.error().code == ENOENT && mount_.shows_absent(node, *chunk.variable);
    if (!is_absent && (!stored || *stored != nullptr)) return stored;
  }
  return converted(node, chunk, *form);
}

/// The size of a chunk's file, if its bytes are those that are stored.
std::optional<uint64_t> EncodedView::passed_bytes(const Node& node, const ChunkPlace& chunk) {
  const Result<EncodedFormPtr> form = forms_.of(node);
  if (!form || !(*form)->as_stored || mount_.chunks.write_back.size(chunk.key)) return std::nullopt;
  const auto stored = mount_.dataset.source().stored_bytes(chunk.object, chunk.number).value_or(std::nullopt);
  if (!stored) return std::nullopt;
  return (*form)->file_size(*stored);
}

Result<std::optional<UniqueFd>> EncodedView::open_passed(const Node& node, const ChunkPlace& chunk) {
  CODECFS_ASSIGN(const EncodedFormPtr form, forms_.of(node));
  if (!form->as_stored || form->gzip_size || mount_.chunks.write_back.size(chunk.key)) return std::nullopt;
  CODECFS_ASSIGN(auto file, mount_.dataset.source().open_stored(chunk.object, chunk.number));
  CODECFS_TRY(mount_.still_means(chunk));
  return file;
}

Result<> EncodedView::put(const Node& node, const ChunkPlace& place, Bytes bytes, const Cancelled& cancelled) {
  CODECFS_ASSIGN(const EncodedFormPtr told, forms_.of(node));
  const std::string name = path_of_chunk(node.view, *place.variable->facts, place.number);
  if (told->unusable) return fail(told->unusable->code, "{}/{}: {}", node.path, name, told->unusable->reason);
  CODECFS_ASSIGN(Buffer copy, Buffer::copy_of(bytes));
  const Result<Buffer> decoded = told->pipeline->decode(std::move(copy));
  if (!decoded)
    return fail(decoded.error().code == ENOMEM ? ENOMEM : EINVAL, "{}/{}: this is no chunk of this variable: {}",
                node.path, name, decoded.error().reason);
  // A rule whose pipeline the chunk has been encoded with is applied to the variable now.
  CODECFS_TRY(filters_.apply_rules(place, cancelled));
  CODECFS_ASSIGN(const EncodedFormPtr form, forms_.of(node));
  CODECFS_ASSIGN(const ChunkPlace chunk, mount_.chunk_place(node, place.number));
  CODECFS_TRY(mount_.still_means(place));
  std::shared_ptr<const Buffer> encoded;
  // The form may be older than the place, with which replace() compares the stored pipeline.
  if (form->as_stored && *form->stored_codecs == *chunk.variable->codecs && are_equal(form->chain, told->chain)) {
    // What has no such form (several gzip members), or one that readers of HDF5 do not decode, is encoded anew.
    Result<Buffer> stored = form->stored_of_file(bytes);
    if (stored && is_for_readers(mount_.dataset.source(), chunk, stored->bytes()))
      encoded = std::make_shared<const Buffer>(*std::move(stored));
  }
  CODECFS_TRY(mount_.chunks.write_back.replace(chunk, decoded->bytes(), std::move(encoded)));
  CODECFS_ASSIGN(const Ino ino, mount_.tree.nodes.chunk_ino(node, chunk.number, chunk.variable->facts->grid.count()));
  mount_.chunks.conversions.drop_forms(chunk.key);
  mount_.tree.times.set(ino, {}, now());
  return {};
}

ChunkPtr EncodedView::fetch(const Node& node, const ChunkPlace& chunk) {
  const Variable& facts = *chunk.variable->facts;
  const Result<EncodedFormPtr> form = forms_.of(node);
  const Result<ChunkInfo> info = mount_.dataset.source().locate(chunk.object, chunk.number);
  if (!form || !info || !info->stored || mount_.chunks.write_back.size(chunk.key)) return nullptr;
  if ((*form)->as_stored) {
    const Result<ChunkPtr> passed = passed_on(chunk, **form);
    if (!passed || !mount_.still_means(chunk)) return nullptr;
    if (*passed != nullptr) return *passed;
  }
  if ((*form)->unusable || facts.unreadable) return nullptr;
  return mount_.chunks.conversions.fetch(conversion_key(node.view, chunk.key), ChunkDecoder::decoding_bytes(facts),
                                         [&] { return convert(chunk, **form); });
}

/// The bytes of a chunk as they are stored; null if its file holds other bytes. ENOENT if it is not stored.
Result<ChunkPtr> EncodedView::passed_on(const ChunkPlace& chunk, const EncodedForm& form) {
  CODECFS_ASSIGN(auto stored, mount_.dataset.source().read_stored(chunk.object, chunk.number));
  if (!stored) return ChunkPtr();
  ++mount_.stats.chunks_passed;
  mount_.stats.bytes_passed += stored->size();
  CODECFS_ASSIGN(Buffer file, form.file_of_stored(*std::move(stored)));
  return std::make_shared<const Buffer>(std::move(file));
}

/// The chunk file for bytes that will be stored.
Result<ChunkPtr> EncodedView::file_of(const EncodedForm& form, const std::shared_ptr<const Buffer>& stored) {
  if (!form.gzip_size) return stored;
  CODECFS_ASSIGN(Buffer copy, Buffer::copy_of(stored->bytes()));
  CODECFS_ASSIGN(Buffer file, form.file_of_stored(std::move(copy)));
  return std::make_shared<const Buffer>(std::move(file));
}

/// Decodes and encodes a chunk. The result is cached until the kernel has all of it, or another chunk needs the room.
Result<ChunkPtr> EncodedView::converted(const Node& node, const ChunkPlace& chunk, const EncodedForm& form) {
  const Variable& facts = *chunk.variable->facts;
  if (facts.unreadable) return std::unexpected(*facts.unreadable);
  if (form.unusable) return std::unexpected(*form.unusable);
  const auto encode = [&](Bytes bytes) -> Result<Buffer> {
    CODECFS_ASSIGN(filters::EncodedChunk done, form.pipeline->encode(bytes));
    return std::move(done.bytes);
  };
  if (const auto edited = mount_.chunks.write_back.content(chunk.key)) {
    // The whole chunk, as it will be stored at close.
    CODECFS_ASSIGN(Buffer bytes, encode(edited->bytes->bytes()));
    return std::make_shared<const Buffer>(std::move(bytes));
  }
  CODECFS_ASSIGN(const ChunkInfo info, mount_.dataset.source().locate(chunk.object, chunk.number));
  // All absent chunks of a variable share one conversion, cached under the inode number of its directory.
  const ChunkKey key = info.stored ? conversion_key(node.view, chunk.key) : node.ino();
  return mount_.chunks.conversions.get(key, ChunkDecoder::decoding_bytes(facts), [&]() -> Result<Buffer> {
    if (info.stored) return convert(chunk, form);
    CODECFS_ASSIGN(const Buffer fill, make_fill_chunk(facts));
    return encode(fill.bytes());
  });
}

/// The decoded chunk is not cached, because only this conversion uses it.
Result<Buffer> EncodedView::convert(const ChunkPlace& chunk, const EncodedForm& form) {
  CODECFS_ASSIGN(const Buffer bytes, mount_.chunks.decoder.decode(chunk));
  CODECFS_ASSIGN(filters::EncodedChunk done, form.pipeline->encode(bytes.bytes()));
  return std::move(done.bytes);
}

}  // namespace codecfs::fs
