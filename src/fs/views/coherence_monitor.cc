#include "fs/views/coherence_monitor.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace codecfs::fs {
namespace {

// An object is not looked at more often. With what the kernel remembers (kOutsideTimeout) it makes less than a second.
constexpr std::chrono::milliseconds kLookAgain{50};

bool have_same_chunks(const Variable& one, const Variable& other) {
  const bool have_same_shards = one.shards.has_value() == other.shards.has_value() &&
                                (!one.shards || one.shards->grid.chunks() == other.shards->grid.chunks());
  return have_same_shards && one.grid.shape() == other.grid.shape() && one.grid.chunks() == other.grid.chunks() &&
         one.chunk_bytes == other.chunk_bytes;
}

}  // namespace

bool CoherenceMonitor::may_change_outside(Ino ino) const {
  const Result<Place> place = mount_.tree.nodes.at(ino);
  if (!place) return true;
  const Node& node = *place->node;
  if (node.kind == NodeKind::folder || node.kind == NodeKind::file) return true;
  if (mount_.options.coherent) return node.kind != NodeKind::control && node.kind != NodeKind::views;
  if (place->file != FileKind::itself || node.is_root()) return false;
  const Result<Place> parent = mount_.tree.nodes.at(node.parent);
  return parent && parent->node->kind == NodeKind::folder;
}

Result<Place> CoherenceMonitor::current_place_of(Ino ino) {
  CODECFS_ASSIGN(const Place place, mount_.tree.place_of(ino));
  if (!mount_.options.coherent) return place;
  look_outside(*place.node);
  return mount_.tree.place_of(ino);  // the chunk may be another one now
}

bool CoherenceMonitor::is_due(ObjectId object) {
  const auto now = std::chrono::steady_clock::now();
  const auto before = looked_at_.get(object);
  if (before != nullptr && now - before->at < kLookAgain) return false;
  looked_at_.put(object, std::make_shared<const LookedAt>(now, before != nullptr ? before->facts : nullptr));
  return true;
}

void CoherenceMonitor::note_numbering(ObjectId variable, VariablePtr facts) {
  const auto before = looked_at_.get(variable);
  if (before != nullptr) looked_at_.put(variable, std::make_shared<const LookedAt>(before->at, std::move(facts)));
}

void CoherenceMonitor::note_removed(const ChunkPlace& chunk) {
  if (!mount_.options.coherent) return;
  const Result<ChunkInfo> info = mount_.dataset.source().locate(chunk.object, chunk.number);
  const LockGuard lock(gone_mutex_);
  if (info && !info->stored) gone_.insert(chunk.key);
}

bool CoherenceMonitor::is_removed(const Node& node, uint64_t number, Ino key) {
  if (!mount_.chunks.write_back.removed(key)) return false;
  {
    const LockGuard lock(gone_mutex_);
    if (!gone_.contains(key)) return true;
  }
  const Result<ChunkInfo> info = mount_.dataset.source().locate(node.object, number);
  if (!info) return false;  // a look-up returns the error
  if (!info->stored) return true;
  mount_.chunks.write_back.forget_removed({key, node.object, number, nullptr});
  const LockGuard lock(gone_mutex_);
  gone_.erase(key);
  return false;
}

WriteBack::Changes CoherenceMonitor::changes_of(const Node& node) {
  WriteBack::Changes changes = mount_.chunks.write_back.changes(node.object);
  if (!mount_.options.coherent) return changes;
  std::erase_if(changes.removed, [&](uint64_t number) {
    const Result<ChunkPlace> chunk = mount_.chunk_place(node, number);
    return chunk && !is_removed(node, number, chunk->key);
  });
  return changes;
}

Result<> CoherenceMonitor::array_opened(const Node& node, const VariableView& variable) {
  const uint64_t count = variable.facts->grid.count();
  CODECFS_ASSIGN(const Ino first, mount_.tree.nodes.chunk_key(node, 0, count));
  mount_.chunks.cache.drop(first, count);
  return {};
}

void CoherenceMonitor::chunk_opened(const ChunkPlace& chunk) {
  if (mount_.chunks.write_back.size(chunk.key)) return;
  mount_.chunks.drop_cached(chunk.key);
}

void CoherenceMonitor::chunk_changed_outside(const ChunkPlace& chunk) {
  const Result<Place> place = mount_.tree.nodes.at(chunk.key);
  if (!place || !chunk.variable) return;
  const Variable& facts = *chunk.variable->facts;
  const std::vector<ChunkRange> ranges = facts.shards ? chunks_of_shard(facts, shard_of_chunk(facts, chunk.number))
                                                      : std::vector<ChunkRange>{{chunk.number, 1}};
  mount_.chunks.write_back.note_changed_outside();
  for (const ChunkRange& range : ranges) notifier_.chunks_changed_outside(*place->node, facts, range);
}

void CoherenceMonitor::look_outside(const Node& node) {
  if (!mount_.options.coherent || (node.kind != NodeKind::group && node.kind != NodeKind::variable)) return;
  if (!is_due(node.object)) return;
  if (node.kind == NodeKind::variable) return look_at_variable(node);
  if (!mount_.dataset.source().changed_outside(node.object)) return;
  mount_.dataset.forget(node.object);
  notifier_.forget_xattrs(node);
  forms_.forget_zmetadata();
}

void CoherenceMonitor::look_at_variable(const Node& node) {
  // An edited variable keeps its shape until the edits are stored, as they are of this shape.
  const std::optional<WriteBack::Pause> pause = mount_.chunks.write_back.try_pause(node.object);
  if (!pause || is_open_for_writing(node.object) || !mount_.dataset.source().changed_outside(node.object)) return;
  const VariableViewPtr known = mount_.dataset.known(node.object);
  const auto looked_at = looked_at_.get(node.object);
  const VariablePtr before = known != nullptr ? known->facts : looked_at != nullptr ? looked_at->facts : nullptr;
  std::optional<Nodes::Reshaping> reshaping;
  const Result<VariablePtr> next = mount_.dataset.source().facts(node.object);
  if (before != nullptr && next && !have_same_chunks(*before, **next)) reshaping.emplace(mount_.tree.nodes, node);
  mount_.dataset.forget(node.object);
  notifier_.forget_xattrs(node);
  forms_.forget(node);
  forms_.forget_zmetadata();
  notifier_.array_files_changed(node);
  mount_.chunks.cache.drop(node.key());  // the fill
  for (const Node* shown : mount_.tree.nodes.in_all_views(node)) mount_.chunks.conversions.drop(shown->ino());
  const Result<VariableViewPtr> after = mount_.dataset.variable(node.object);
  if (!after) return;  // gone or damaged: the next request for it fails
  const VariablePtr facts = (*after)->facts;
  note_numbering(node.object, facts);
  if (before == nullptr || have_same_chunks(*before, *facts)) return;
  const uint64_t count = facts->grid.count();
  const uint64_t old_count = before->grid.count();
  std::vector<Ino> first;
  for (const Node* shown : mount_.tree.nodes.in_all_views(node)) {
    const Result<Ino> ino = mount_.tree.nodes.chunk_ino(*shown, 0, old_count);
    if (ino) first.push_back(*ino);
  }
  if (const Result<> renumbered = notifier_.renumber_chunks(node, old_count, count, false); !renumbered)
    log::error("{}: {}", node.path, renumbered.error().reason);
  // A program that has one of them open gets ESTALE, and not what the kernel remembers of it.
  for (const Ino ino : first) mount_.kernel.invalidator->contents_changed(ino, old_count, false);
}

bool CoherenceMonitor::is_open_for_writing(ObjectId variable) {
  return std::ranges::any_of(mount_.chunks.write_back.open_writers(), [&](ChunkKey key) {
    const Result<Place> place = mount_.tree.place_of(key);
    return place && place->node->object == variable;
  });
}

}  // namespace codecfs::fs
