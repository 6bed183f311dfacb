// What other programs change: a mounted folder with the files in it, which are shown as they are at the moment, and,
// with -o coherent, a Zarr store.

#include <algorithm>
#include <utility>

#include "base/file_io.h"
#include "base/log.h"
#include "fs/namespace/tree.h"

namespace codecfs::fs {
namespace {

// An object is not looked at more often. With what the kernel remembers (kOutsideTimeout) it makes less than a second.
constexpr std::chrono::milliseconds kLookAgain{50};

bool have_same_chunks(const Variable& one, const Variable& other) {
  return one.grid.shape() == other.grid.shape() && one.grid.chunks() == other.grid.chunks() &&
         one.chunk_bytes == other.chunk_bytes;
}

}  // namespace

bool Tree::may_change_outside(Ino ino) const {
  const Result<Place> place = nodes_.at(ino);
  if (!place) return true;
  const Node& node = *place->node;
  if (node.kind == NodeKind::folder || node.kind == NodeKind::file) return true;
  if (coherent_) return node.kind != NodeKind::control && node.kind != NodeKind::views;
  if (place->file != FileKind::itself || node.is_root()) return false;
  const Result<Place> parent = nodes_.at(node.parent);
  return parent && parent->node->kind == NodeKind::folder;
}

bool Tree::chains_for_numcodecs(std::string_view path) {
  while (true) {
    if (const Node* node = nodes_.find(std::string(path)))
      return dataset_.source().chains_for_numcodecs_in(node->object);
    if (path.empty()) return false;
    path = path.substr(0, path.rfind('/'));
  }
}

// --- folders and their files

Result<struct stat> Tree::plain_attributes(const Node& node) const {
  CODECFS_ASSIGN(struct stat status, dataset_.source().status_of(node.object));
  const bool is_file = node.kind == NodeKind::file;
  if (S_ISREG(status.st_mode) != is_file) return fail(ESTALE, "{}: was replaced", node.path);
  status.st_ino = node.ino();
  status.st_mode = (is_file ? S_IFREG : S_IFDIR) | (status.st_mode & (is_file || read_only_ ? 0555 : 0777));
  status.st_nlink = is_file ? 1 : 2;
  return status;
}

Result<std::unique_ptr<OpenFile>> Tree::open_plain(const Node& node, bool for_writing) {
  if (for_writing) CODECFS_TRY(changeable_directory(node.ino()));
  auto file = std::make_unique<OpenFile>();
  CODECFS_ASSIGN(file->plain, dataset_.source().open_file(node.object));
  file->outside = true;
  return file;
}

Result<Slice> Tree::read_plain(const OpenFile& file, uint64_t offset, size_t size) {
  CODECFS_ASSIGN(Buffer buffer, Buffer::allocate(size));
  CODECFS_ASSIGN(const size_t count, read_at(file.plain.get(), "file", offset, buffer.mutable_bytes()));
  buffer.truncate(count);
  const auto owner = std::make_shared<const Buffer>(std::move(buffer));
  return Slice{owner->bytes(), owner};
}

// --- -o coherent

bool Tree::is_due(ObjectId object) {
  const auto now = std::chrono::steady_clock::now();
  const auto before = looked_at_.get(object);
  if (before != nullptr && now - before->at < kLookAgain) return false;
  looked_at_.put(object, std::make_shared<const LookedAt>(now, before != nullptr ? before->facts : nullptr));
  return true;
}

void Tree::note_numbering(ObjectId variable, VariablePtr facts) {
  const auto before = looked_at_.get(variable);
  if (before != nullptr) looked_at_.put(variable, std::make_shared<const LookedAt>(before->at, std::move(facts)));
}

bool Tree::is_open_for_writing(ObjectId variable) {
  return std::ranges::any_of(write_back_.open_writers(), [&](ChunkKey key) {
    const Result<Place> place = place_of(key);
    return place && place->node->object == variable;
  });
}

void Tree::look_outside(const Node& node) {
  if (!coherent_ || (node.kind != NodeKind::group && node.kind != NodeKind::variable)) return;
  if (!is_due(node.object)) return;
  if (node.kind == NodeKind::variable) return look_at_variable(node);
  if (!dataset_.source().changed_outside(node.object)) return;
  dataset_.forget(node.object);
  forget_xattrs(node);
  encoded_zmetadata_.clear();
}

void Tree::look_at_variable(const Node& node) {
  // An edited variable keeps its shape until the edits are stored, as they are of this shape.
  const std::optional<WriteBack::Pause> pause = write_back_.try_pause(node.object);
  if (!pause || is_open_for_writing(node.object) || !dataset_.source().changed_outside(node.object)) return;
  const VariableViewPtr known = dataset_.known(node.object);
  const auto looked_at = looked_at_.get(node.object);
  const VariablePtr before = known != nullptr ? known->facts : looked_at != nullptr ? looked_at->facts : nullptr;
  dataset_.forget(node.object);
  forget_xattrs(node);
  encoded_forms_.erase(node.key());
  encoded_zmetadata_.clear();
  array_files_changed(node);
  cache_.drop(node.key());  // the fill
  for (const Node* shown : nodes_.in_all_views(node)) conversions_.drop(shown->ino());
  const Result<VariableViewPtr> after = dataset_.variable(node.object);
  if (!after) return;  // gone or damaged: the next request for it fails
  const VariablePtr facts = (*after)->facts;
  note_numbering(node.object, facts);
  if (before == nullptr || have_same_chunks(*before, *facts)) return;
  const uint64_t count = facts->grid.count();
  const uint64_t old_count = before->grid.count();
  std::vector<Ino> first;
  for (const Node* shown : nodes_.in_all_views(node)) {
    const Result<Ino> ino = nodes_.chunk_ino(*shown, 0, old_count);
    if (ino) first.push_back(*ino);
  }
  if (const Result<> renumbered = renumber_chunks(node, old_count, count, false); !renumbered)
    log::error("{}: {}", node.path, renumbered.error().reason);
  // A program that has one of them open gets ESTALE, and not what the kernel remembers of it.
  for (const Ino ino : first) kernel_->contents_changed(ino, old_count, false);
}

Result<Place> Tree::current_place_of(Ino ino) {
  CODECFS_ASSIGN(const Place place, place_of(ino));
  if (!coherent_) return place;
  look_outside(*place.node);
  return place_of(ino);  // the chunk may be another one now
}

void Tree::note_removed(const ChunkPlace& chunk) {
  if (!coherent_) return;
  const Result<ChunkInfo> info = dataset_.source().locate(chunk.object, chunk.number);
  const std::lock_guard lock(gone_mutex_);
  if (info && !info->stored) gone_.insert(chunk.key);
}

bool Tree::is_removed(const Node& node, uint64_t number, Ino key) {
  if (!write_back_.removed(key)) return false;
  {
    const std::lock_guard lock(gone_mutex_);
    if (!gone_.contains(key)) return true;
  }
  const Result<ChunkInfo> info = dataset_.source().locate(node.object, number);
  if (!info || !info->stored) return true;
  write_back_.forget_removed({key, node.object, number, nullptr});
  const std::lock_guard lock(gone_mutex_);
  gone_.erase(key);
  return false;
}

WriteBack::Changes Tree::changes_of(const Node& node) {
  WriteBack::Changes changes = write_back_.changes(node.object);
  if (!coherent_) return changes;
  std::erase_if(changes.removed, [&](uint64_t number) {
    const Result<ChunkPlace> chunk = chunk_place(node, number);
    return chunk && !is_removed(node, number, chunk->key);
  });
  return changes;
}

Result<> Tree::read_array_afresh(const Node& node, OpenFile& file) {
  file.outside = true;
  const uint64_t count = file.array->variable->facts->grid.count();
  CODECFS_ASSIGN(const Ino first, nodes_.chunk_key(node, 0, count));
  cache_.drop(first, count);
  return {};
}

void Tree::open_afresh(const ChunkPlace& chunk, OpenFile& file) {
  file.outside = true;
  if (write_back_.size(chunk.key)) return;
  cache_.drop(chunk.key);
  conversions_.drop(chunk.key);
}

}  // namespace codecfs::fs
