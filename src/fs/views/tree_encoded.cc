// The encoded view: chunks as they are stored, with their codecs in .zarray. Where the codecs of the source are Zarr's,
// stored bytes go through untouched, both ways; else a chunk is decoded and encoded on its way.
//
// A chunk that is written here is a staged file until it is closed. It is decoded then, and becomes an edit like any
// other, which all views show; its encoded bytes go with it and are stored as they are.

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "filters/core/codec_json.h"
#include "filters/core/filter.h"
#include "filters/core/parameter_limits.h"
#include "filters/core/zarr_chain.h"
#include "fs/namespace/clock.h"
#include "fs/namespace/tree.h"
#include "fs/views/metadata_files.h"
#include "model/json.h"
#include "model/limits.h"

namespace codecfs::fs {
namespace {

bool are_equal(std::span<const FilterStage> one, std::span<const FilterStage> other) {
  return print_json(filters::print_codecs(one)) == print_json(filters::print_codecs(other));
}

/// More bytes than any encoder produces for a chunk: a longer file is refused.
uint64_t max_encoded(const Variable& variable) {
  const uint64_t bytes = variable.chunk_bytes.value_or(max_chunk_bytes());
  return bytes + bytes / 2 + (uint64_t{1} << 20);
}

std::string string_of(const Buffer& buffer) { return {reinterpret_cast<const char*>(buffer.data()), buffer.size()}; }

}  // namespace

Tree::EncodedForm Tree::make_encoded_form(const std::string& path, const Variable& facts) {
  EncodedForm form;
  filters::ZarrChain shown = filters::zarr_chain(facts.filters, filters::shape_of_chunk(facts));
  form.as_stored = shown.same_bytes;
  const Node* node = nodes_.find(path);
  if (node == nullptr || !overlay_.state_of(*node).rule_applied) {
    if (const auto wanted = chain_of_rules(path, facts)) {
      filters::ZarrChain ruled = filters::zarr_chain(*wanted, filters::shape_of_chunk(facts));
      if (!are_equal(ruled.stages, shown.stages)) {
        form.as_stored = false;
        shown = std::move(ruled);
      }
    }
  }
  form.chain = std::move(shown.stages);
  auto pipeline = filters::Pipeline::make(form.chain, filters::shape_of_chunk(facts));
  if (pipeline)
    form.pipeline = std::move(*pipeline);
  else
    form.unusable = std::move(pipeline.error());
  form.zarray = std::make_shared<const std::string>(file_text(zarray_json(facts, form.chain)));
  return form;
}

Result<Tree::EncodedFormPtr> Tree::encoded_form(const Node& node) {
  if (EncodedFormPtr known = encoded_forms_.get(node.key())) return known;
  const uint64_t changes = dataset_.changes();
  CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
  const auto form = std::make_shared<const EncodedForm>(make_encoded_form(node.path, *view->facts));
  encoded_forms_.put_if(node.key(), form, form->zarray->size(), [&] { return dataset_.changes() == changes; });
  return form;
}

Result<Text> Tree::zmetadata_of(const Node& node) {
  if (node.view == View::decoded) return dataset_.zmetadata(node.object);
  if (Text known = encoded_zmetadata_.get(node.key())) return known;
  const uint64_t changes = dataset_.changes();
  CODECFS_ASSIGN(const Json json,
                 dataset_.consolidate(node.object, [&](const std::string& path, const Variable& facts) {
                   return zarray_json(facts, make_encoded_form(node.path + "/" + path, facts).chain);
                 }));
  const Text text = std::make_shared<const std::string>(file_text(json));
  encoded_zmetadata_.put_if(node.key(), text, text->size(), [&] { return dataset_.changes() == changes; });
  return text;
}

// --- reading

Result<struct stat> Tree::encoded_attributes(const Node& node, const VariableViewPtr& view, uint64_t number) {
  const uint64_t count = view->facts->grid.count();
  CODECFS_ASSIGN(const Ino ino, nodes_.chunk_ino(node, number, count));
  CODECFS_ASSIGN(const Ino key, nodes_.chunk_key(node, number, count));
  const auto attributes_of = [&](uint64_t size) {
    struct stat status = make_attributes(node, ino, S_IFREG, size);
    status.st_blocks = std::max<blkcnt_t>(status.st_blocks, 1);
    return status;
  };
  if (const std::shared_ptr<StagedFile> staged = staged_files_.find(ino))
    if (const std::optional<uint64_t> size = staged->shown_size()) return attributes_of(*size);
  if (!write_back_.size(key)) {
    if (is_removed(node, number, key)) return std::unexpected(Error{ENOENT, {}});
    CODECFS_ASSIGN(const EncodedFormPtr form, encoded_form(node));
    CODECFS_ASSIGN(const ChunkInfo info, dataset_.source().locate(node.object, number));
    if (!info.stored && !shows_absent(node, *view)) return std::unexpected(Error{ENOENT, {}});
    if (info.stored && form->as_stored) {
      CODECFS_ASSIGN(const auto size, dataset_.source().stored_bytes(node.object, number));
      if (size) return attributes_of(*size);
    }
  }
  // Only the conversion determines the size. A chunk that cannot be converted is listed, and opening it fails with the
  // reason.
  const Result<ChunkPtr> chunk = encoded(node, {key, node.object, number, view});
  return attributes_of(chunk ? (*chunk)->size() : 0);
}

Result<ChunkPtr> Tree::encoded(const Node& node, const ChunkPlace& chunk) {
  CODECFS_ASSIGN(const EncodedFormPtr form, encoded_form(node));
  if (const auto edited = write_back_.content(chunk.key)) {
    if (form->as_stored && edited->encoded != nullptr) return edited->encoded;
  } else if (form->as_stored) {
    Result<ChunkPtr> stored = passed_on(chunk);
    const bool is_absent = !stored && stored.error().code == ENOENT && shows_absent(node, *chunk.variable);
    if (!is_absent && (!stored || *stored != nullptr)) return stored;
  }
  return converted(node, chunk, *form);
}

/// The bytes of a chunk as they are stored; null if its file holds other bytes. ENOENT if it is not stored.
Result<ChunkPtr> Tree::passed_on(const ChunkPlace& chunk) {
  CODECFS_ASSIGN(auto stored, dataset_.source().read_stored(chunk.object, chunk.number));
  if (!stored) return ChunkPtr();
  ++stats_.chunks_passed;
  stats_.bytes_passed += stored->size();
  return std::make_shared<const Buffer>(*std::move(stored));
}

/// Decodes and encodes a chunk. The result is cached until the kernel has all of it, or another chunk needs the room.
Result<ChunkPtr> Tree::converted(const Node& node, const ChunkPlace& chunk, const EncodedForm& form) {
  const Variable& facts = *chunk.variable->facts;
  if (facts.unreadable) return std::unexpected(*facts.unreadable);
  if (form.unusable) return std::unexpected(*form.unusable);
  const auto encode = [&](Bytes bytes) -> Result<Buffer> {
    CODECFS_ASSIGN(filters::EncodedChunk done, form.pipeline->encode(bytes));
    return std::move(done.bytes);
  };
  if (const auto edited = write_back_.content(chunk.key)) {
    // The whole chunk, as it will be stored at close.
    CODECFS_ASSIGN(Buffer bytes, encode(edited->bytes->bytes()));
    return std::make_shared<const Buffer>(std::move(bytes));
  }
  CODECFS_ASSIGN(const ChunkInfo info, dataset_.source().locate(chunk.object, chunk.number));
  // All absent chunks of a variable share one conversion, cached under the inode number of its directory.
  const ChunkKey key = info.stored ? chunk.key : node.ino();
  return conversions_.get(key, decoding_bytes(facts), [&]() -> Result<Buffer> {
    if (info.stored) return convert(chunk, form);
    CODECFS_ASSIGN(const Buffer fill, make_fill_chunk(facts));
    return encode(fill.bytes());
  });
}

/// The decoded chunk is not cached, because only this conversion uses it.
Result<Buffer> Tree::convert(const ChunkPlace& chunk, const EncodedForm& form) {
  CODECFS_ASSIGN(const Buffer bytes, decode(chunk));
  CODECFS_ASSIGN(filters::EncodedChunk done, form.pipeline->encode(bytes.bytes()));
  return std::move(done.bytes);
}

/// The size of a chunk's file, if its bytes are those that are stored.
std::optional<uint64_t> Tree::passed_bytes(const Node& node, const ChunkPlace& chunk) {
  const Result<EncodedFormPtr> form = encoded_form(node);
  if (!form || !(*form)->as_stored || write_back_.size(chunk.key)) return std::nullopt;
  return dataset_.source().stored_bytes(chunk.object, chunk.number).value_or(std::nullopt);
}

Result<std::unique_ptr<OpenFile>> Tree::open_encoded(const Node& node, const ChunkPlace& chunk, bool for_writing,
                                                     bool truncate) {
  auto file = std::make_unique<OpenFile>();
  CODECFS_ASSIGN(const Ino ino, nodes_.chunk_ino(node, chunk.number, chunk.variable->facts->grid.count()));
  if (!for_writing) {
    opened_to_read(node, chunk);
    if (!coherent_ && passed_bytes(node, chunk)) {
      // The size is known without reading it, and the kernel may have all of it by now.
      file->snapshot = std::make_shared<Snapshot>();
      file->snapshot->ino = ino;
      return file;
    }
    CODECFS_ASSIGN(file->snapshot, take_snapshot(ino));
    conversions_.done(chunk.key);  // the kernel caches what it reads from the snapshot
    file->live = coherent_;
    return file;
  }
  CODECFS_TRY(dataset_.source().variable_writable(node.object));
  std::string before;
  if (!truncate) {
    CODECFS_ASSIGN(const ChunkPtr bytes, encoded(node, chunk));
    before = string_of(*bytes);
  }
  file->writer = true;
  file->staged = staged_files_.open(ino, before, false, max_encoded(*chunk.variable->facts));
  if (truncate) CODECFS_TRY(file->staged->resize(0));
  return file;
}

// --- writing

Result<Tree::Created> Tree::create_encoded(const Node& node, const ChunkPlace& chunk) {
  CODECFS_TRY(dataset_.source().variable_writable(node.object));
  CODECFS_ASSIGN(const Ino ino, nodes_.chunk_ino(node, chunk.number, chunk.variable->facts->grid.count()));
  Created created;
  created.file = std::make_unique<OpenFile>();
  created.file->writer = true;
  created.file->staged = staged_files_.open(ino, "", true, max_encoded(*chunk.variable->facts));
  created.status = make_attributes(node, ino, S_IFREG, created.file->staged->shown_size().value_or(0));
  return created;
}

Result<> Tree::put_chunk(const Node& node, const ChunkPlace& chunk, Bytes bytes, const Cancelled& cancelled) {
  if (node.view == View::encoded) {
    CODECFS_TRY(put_encoded(node, chunk, bytes, cancelled));
  } else {
    CODECFS_TRY(apply_rules(chunk, cancelled));
    CODECFS_TRY(write_back_.replace(chunk, bytes));
  }
  overlay_.forget_unlinked(node, chunk.number);
  times_.set(chunk.key, {}, now());
  chunk_changed(node, chunk.number);
  return {};
}

Result<> Tree::put_encoded(const Node& node, const ChunkPlace& place, Bytes bytes, const Cancelled& cancelled) {
  CODECFS_ASSIGN(const EncodedFormPtr told, encoded_form(node));
  const std::string name = place.variable->facts->grid.name_of(place.number);
  if (told->unusable) return fail(told->unusable->code, "{}/{}: {}", node.path, name, told->unusable->reason);
  CODECFS_ASSIGN(Buffer copy, Buffer::copy_of(bytes));
  const Result<Buffer> decoded = told->pipeline->decode(std::move(copy));
  if (!decoded)
    return fail(decoded.error().code == ENOMEM ? ENOMEM : EINVAL, "{}/{}: this is no chunk of this variable: {}",
                node.path, name, decoded.error().reason);
  // A rule whose pipeline the chunk has been encoded with is applied to the variable now.
  CODECFS_TRY(apply_rules(place, cancelled));
  CODECFS_ASSIGN(const EncodedFormPtr form, encoded_form(node));
  CODECFS_ASSIGN(const ChunkPlace chunk, chunk_place(node, place.number));
  std::shared_ptr<const Buffer> encoded;
  if (form->as_stored && are_equal(form->chain, told->chain)) {
    CODECFS_ASSIGN(Buffer given, Buffer::copy_of(bytes));
    encoded = std::make_shared<const Buffer>(std::move(given));
  }
  CODECFS_TRY(write_back_.replace(chunk, decoded->bytes(), std::move(encoded)));
  CODECFS_ASSIGN(const Ino ino, nodes_.chunk_ino(node, chunk.number, chunk.variable->facts->grid.count()));
  conversions_.drop(chunk.key);
  times_.set(ino, {}, now());
  return {};
}

Result<std::vector<FilterStage>> Tree::chain_for_codecs(const Node& node, const Variable& wanted) {
  // An existing variable may have unusual parameters, which stay as they are.
  std::vector<FilterStage> stored;
  if (node.kind == NodeKind::variable) {
    CODECFS_ASSIGN(const EncodedFormPtr form, encoded_form(node));
    stored = form->chain;
  }
  if (const Result<> checked = filters::check_new_chain(wanted.filters, wanted.type.size, stored); !checked)
    return fail(checked.error().code, "{}: .zarray: {}", node.path, checked.error().reason);
  if (chains_for_numcodecs(node.path)) return wanted.filters;
  auto chain = filters::hdf5_chain(wanted.filters, filters::shape_of_chunk(wanted));
  if (!chain) return fail(chain.error().code, "{}: .zarray: {}", node.path, chain.error().reason);
  return chain;
}

Result<> Tree::apply_codecs(Ino directory, const Variable& wanted, const Cancelled& cancelled) {
  CODECFS_ASSIGN(const Place place, nodes_.at(directory));
  const Node& node = *place.node;
  CODECFS_ASSIGN(const EncodedFormPtr form, encoded_form(node));
  if (are_equal(form->chain, wanted.filters)) return {};
  CODECFS_ASSIGN(const std::vector<FilterStage> chain, chain_for_codecs(node, wanted));
  return set_chain(node, chain, cancelled);
}

}  // namespace codecfs::fs
