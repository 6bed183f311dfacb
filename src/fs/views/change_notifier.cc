#include "fs/views/change_notifier.h"

#include <exception>
#include <map>

#include "backends/api/names.h"
#include "base/log.h"
#include "fs/chunks/array_file.h"
#include "fs/nodes/clock.h"
#include "fs/views/array_names.h"

namespace codecfs::fs {
void ChangeNotifier::chunk_changed(const Node& node, uint64_t number, Ino written_through) {
  const Result<VariableViewPtr> view = mount_.dataset.variable(node.object);
  if (!view) return;
  const Variable& facts = *(*view)->facts;
  for (const Node* shown : mount_.tree.nodes.in_all_views(node)) {
    if (shown->form().array != nullptr) {
      if (shown->view != node.view) array_file_changed(*shown, **view, number);
      continue;
    }
    const uint64_t file = file_of_chunk(shown->view, facts, number);
    const Result<Ino> ino = mount_.tree.nodes.chunk_ino(*shown, file, grid_of(shown->view, facts).count());
    if (!ino) continue;
    former_files_changed(*ino, written_through);
    if (shown->view == node.view) continue;
    mount_.kernel.pages.await_quiet(*ino);
    mount_.kernel.invalidator->content_changed(*ino, true);
    if (!mount_.kernel.absent_chunks.take(*ino)) continue;
    if (Result<ChunkName> name = name_of_chunk(mount_.tree.nodes, *shown, facts, file))
      mount_.kernel.invalidator->names_changed(name->directory, {std::move(name->name)});
  }
}

void ChangeNotifier::part_changed(const Node& node, ArrayFile::Range data, const std::vector<uint64_t>& chunks) {
  const Result<VariableViewPtr> view = mount_.dataset.variable(node.object);
  if (!view) return;
  const Variable& facts = *(*view)->facts;
  for (const Node* shown : mount_.tree.nodes.in_all_views(node)) {
    if (shown->view == node.view) continue;
    if (shown->form().array != nullptr) {
      const Ino ino = shown->ino(FileKind::array);
      mount_.tree.times.set(ino, {}, now());
      mount_.kernel.pages.await_quiet(ino);
      const Result<ArrayFile> file = array_of((*view)->facts, shown->view);
      if (file) mount_.kernel.invalidator->part_changed(ino, file->header_size() + data.offset, data.size, true);
      continue;
    }
    std::map<Ino, std::vector<std::string>> names;  // by directory
    for (size_t i = 0; i < chunks.size(); ++i) {
      const uint64_t file = file_of_chunk(shown->view, facts, chunks[i]);
      const Result<Ino> ino = mount_.tree.nodes.chunk_ino(*shown, file, grid_of(shown->view, facts).count());
      if (!ino) return;
      mount_.tree.times.set(*ino, {}, now());
      mount_.kernel.pages.await_quiet(*ino);
      former_files_changed(*ino);
      // Invalidations keep their order, so waiting for the last one waits for all.
      mount_.kernel.invalidator->content_changed(*ino, i + 1 == chunks.size());
      if (!mount_.kernel.absent_chunks.take(*ino)) continue;
      if (Result<ChunkName> name = name_of_chunk(mount_.tree.nodes, *shown, facts, file))
        names[name->directory].push_back(std::move(name->name));
    }
    for (auto& [directory, list] : names) mount_.kernel.invalidator->names_changed(directory, std::move(list));
  }
}

void ChangeNotifier::shard_changed(const Node& node, uint64_t shard) {
  const Result<VariableViewPtr> view = mount_.dataset.variable(node.object);
  if (!view || !(*view)->facts->shards) return;
  const Variable& facts = *(*view)->facts;
  const std::vector<ChunkRange> ranges = chunks_of_shard(facts, shard);
  if (const Result<Ino> own = mount_.tree.nodes.chunk_ino(node, shard, facts.shards->grid.count()))
    former_files_changed(*own);
  for (const Node* shown : mount_.tree.nodes.in_all_views(node)) {
    if (shown->view == node.view) continue;
    if (shown->form().array != nullptr) {
      const Ino ino = shown->ino(FileKind::array);
      mount_.tree.times.set(ino, {}, now());
      mount_.kernel.pages.await_quiet(ino);
      mount_.kernel.invalidator->content_changed(ino, true);
      continue;
    }
    for (const ChunkRange& range : ranges) {
      const Result<Ino> first = mount_.tree.nodes.chunk_ino(*shown, range.first, facts.grid.count());
      if (!first) return;
      mount_.kernel.pages.await_quiet(*first, range.count);
      mount_.kernel.invalidator->contents_changed(*first, range.count, &range == &ranges.back());
      names_in_range_changed(*shown, facts, range, *first);
    }
  }
}

/// Invalidates the names of chunks in another view: of those that the kernel may remember as absent, and of those that
/// are absent now.
void ChangeNotifier::names_in_range_changed(const Node& shown, const Variable& facts, const ChunkRange& range,
                                            Ino first) {
  std::map<Ino, std::vector<std::string>> names;  // by directory
  for (uint64_t i = 0; i < range.count; ++i) {
    mount_.tree.times.set(first + i, {}, now());
    former_files_changed(first + i);
    const bool was_absent = mount_.kernel.absent_chunks.take(first + i);
    const Result<ChunkInfo> info = mount_.dataset.source().locate(shown.object, range.first + i);
    if (!was_absent && info && info->stored) continue;
    if (Result<ChunkName> name = name_of_chunk(mount_.tree.nodes, shown, facts, range.first + i))
      names[name->directory].push_back(std::move(name->name));
  }
  for (auto& [directory, list] : names) mount_.kernel.invalidator->names_changed(directory, std::move(list));
}

void ChangeNotifier::chunks_changed_outside(const Node& node, const Variable& facts, const ChunkRange& range) {
  constexpr uint64_t kSingly = 64;  // parts of an array's file that are told one by one
  const uint64_t count = facts.grid.count();
  if (const Result<Ino> first = mount_.tree.nodes.chunk_key(node, range.first, count)) {
    mount_.chunks.cache.drop(*first, range.count);
    mount_.chunks.conversions.drop_forms(*first, range.count);
  }
  const Result<VariableViewPtr> view = mount_.dataset.variable(node.object);
  for (const Node* shown : mount_.tree.nodes.in_all_views(node)) {
    if (shown->form().array != nullptr) {
      if (!view) continue;
      const Result<ArrayFile> file = array_of((*view)->facts, shown->view);
      const Ino ino = shown->ino(FileKind::array);
      if (!file || range.count > kSingly) {
        mount_.kernel.invalidator->content_changed(ino, false);
        continue;
      }
      for (uint64_t i = 0; i < range.count; ++i)
        if (const ArrayFile::Range part = file->range_of_chunk(range.first + i); part.size > 0)
          mount_.kernel.invalidator->part_changed(ino, part.offset, part.size, false);
      continue;
    }
    const bool is_shard = shown->form().shows_shards(facts);
    const uint64_t file = file_of_chunk(shown->view, facts, range.first);
    const Result<Ino> first = mount_.tree.nodes.chunk_ino(*shown, file, grid_of(shown->view, facts).count());
    if (first) mount_.kernel.invalidator->contents_changed(*first, is_shard ? 1 : range.count, false);
  }
}

void ChangeNotifier::metadata_changed(const Node& node, bool wait) {
  mount_.kernel.metadata_given.note_change();
  mount_.dataset.forget(node.object);
  forget_xattrs(node);
  forms_.forget(node);
  forms_.forget_zmetadata();
  const Ino dataset = mount_.tree.nodes.dataset_of(node);
  const auto tell = [this](Ino ino) { text_changed(ino, false); };
  std::vector<Ino> changed;
  for (const Node* shown : mount_.tree.nodes.in_all_views(node)) {
    for (const NamedFile& file : files_of(*shown))
      if (shown->form().array == nullptr) changed.push_back(shown->ino(file.kind));
    for (const Node* above : mount_.tree.nodes.above(*shown)) {
      mount_.kernel.metadata_given.take(dataset, above->ino(above->form().format().consolidated), tell);
      mount_.kernel.metadata_given.take(dataset, above->ino(FileKind::zattrs), tell);  // names its members in NCZarr
    }
  }
  // Invalidations keep their order, so waiting for the last one waits for all.
  for (size_t i = 0; i < changed.size(); ++i) text_changed(changed[i], wait && i + 1 == changed.size());
}

void ChangeNotifier::text_changed(Ino file, bool wait) {
  ++mount_.stats.metadata_notices;
  mount_.kernel.invalidator->content_changed(file, wait);
}

void ChangeNotifier::layout_changed(const Node& node, bool wait) {
  if (!mount_.dataset.source().shares_metadata()) return metadata_changed(node, wait);
  mount_.kernel.metadata_given.note_change();
  mount_.dataset.forget_all();
  mount_.xattrs.clear();
  forms_.forget_all();
  mount_.kernel.metadata_given.take_all(mount_.tree.nodes.dataset_of(node),
                                        [this](Ino ino) { text_changed(ino, false); });
  metadata_changed(node, wait);
}

void ChangeNotifier::array_files_changed(const Node& node) {
  for (const Node* shown : mount_.tree.nodes.in_all_views(node))
    if (shown->form().array != nullptr) mount_.kernel.invalidator->content_changed(shown->ino(FileKind::array), false);
}

/// After a re-encoding: invalidates what the kernel and the caches hold of the encoded chunks, and all sizes.
Result<> ChangeNotifier::chunks_reencoded(const Node& node) {
  CODECFS_ASSIGN(const VariableViewPtr now, mount_.dataset.variable(node.object));
  const uint64_t count = now->facts->grid.count();
  CODECFS_ASSIGN(const Ino first_key, mount_.tree.nodes.chunk_key(node, 0, count));
  mount_.chunks.conversions.drop_forms(first_key, count);
  for (const Node* shown : mount_.tree.nodes.in_all_views(node)) {
    if (shown->form().array != nullptr) continue;
    CODECFS_ASSIGN(const Ino first, mount_.tree.nodes.chunk_ino(*shown, 0, count));
    if (!shown->form().is_encoded)
      mount_.kernel.invalidator->attributes_changed(first, count, true);
    else
      contents_changed(*shown, first, count);
  }
  return {};
}

Result<> ChangeNotifier::renumber_chunks(const Node& node, uint64_t before, uint64_t now, bool wait) {
  mount_.chunks.write_back.forget(node.object);
  const std::vector<const Node*> views = mount_.tree.nodes.in_all_views(node);
  std::vector<Ino> first;
  for (const Node* shown : views) {
    CODECFS_ASSIGN(first.emplace_back(), mount_.tree.nodes.chunk_ino(*shown, 0, before));
  }
  CODECFS_TRY(mount_.tree.nodes.renumber_chunks(node, now));
  // With the directory's name the kernel forgets all names in it but those in use; of these it asks us again.
  for (size_t i = 0; i < views.size(); ++i) {
    mount_.kernel.invalidator->attributes_changed(first[i], before, false);
    if (views[i]->form().format().has_chunk_directories)
      mount_.kernel.invalidator->name_changed(views[i]->ino(), "c", false);
    if (!views[i]->is_root())
      mount_.kernel.invalidator->name_changed(views[i]->parent, std::string(node.name()),
                                              wait && views[i]->view == node.view);
  }
  return {};
}

void ChangeNotifier::member_changed(const Node& directory, std::string_view name, bool wait) {
  if (const ArrayForm* array = directory.form().array; array != nullptr && !array->suffix.empty())
    mount_.kernel.invalidator->name_changed(directory.ino(), with_suffix(name, array->suffix), wait);
  mount_.kernel.invalidator->name_changed(directory.ino(), std::string(name), wait);
}

/// Tells the kernel that the file of an inode number is gone.
void ChangeNotifier::file_gone(Ino ino, bool wait) {
  const Result<Place> place = mount_.tree.nodes.at(ino);
  if (!place) return;
  if (place->file == FileKind::chunk) return chunk_gone(*place->node, place->chunk, wait);
  mount_.kernel.invalidator->name_changed(place->node->ino(), std::string(name_of(place->file)), wait);
}

void ChangeNotifier::chunk_gone(const Node& node, uint64_t number, bool wait) {
  const Result<VariableViewPtr> view = mount_.dataset.variable(node.object);
  if (!view) return;
  if (Result<ChunkName> name = name_of_chunk(mount_.tree.nodes, node, *(*view)->facts, number))
    mount_.kernel.invalidator->name_changed(name->directory, std::move(name->name), wait);
}

void ChangeNotifier::forget_xattrs(const Node& node) {
  for (const Node* shown : mount_.tree.nodes.in_all_views(node)) {
    mount_.xattrs.erase(shown->ino());
    mount_.xattrs.erase(shown->ino(FileKind::array));
  }
}

/// Whether a metadata file is open for writing, or its content has just changed.
bool ChangeNotifier::is_in_motion(Ino ino) {
  return mount_.tree.staged_files.find(ino) != nullptr || mount_.kernel.metadata_given.is_changing();
}

/// The content of all chunks of a view of a variable has changed.
void ChangeNotifier::contents_changed(const Node& shown, Ino first, uint64_t count) {
  mount_.chunks.conversions.drop(shown.ino());  // all that are absent
  mount_.kernel.pages.await_quiet(first, count);
  mount_.kernel.invalidator->contents_changed(first, count, true);
}

/// Files that were opened before they were renamed to this chunk have pages of their own in the kernel.
void ChangeNotifier::former_files_changed(Ino chunk, Ino written_through) {
  for (const Ino former : mount_.tree.scratch.former_inos(chunk))
    if (former != written_through) mount_.kernel.invalidator->content_changed(former, true);
}

void ChangeNotifier::array_file_changed(const Node& shown, const VariableView& view, uint64_t chunk) {
  const Result<ArrayFile> file = array_of(view.facts, shown.view);
  if (!file) return;
  const ArrayFile::Range range = file->range_of_chunk(chunk);
  mount_.tree.times.set(shown.ino(FileKind::array), {}, now());
  mount_.kernel.pages.await_quiet(shown.ino(FileKind::array));
  if (range.size > 0)
    mount_.kernel.invalidator->part_changed(shown.ino(FileKind::array), range.offset, range.size, true);
}

ChangedNames::~ChangedNames() {
  const auto tell = [](const auto& of_one) {
    try {
      of_one();
    } catch (const std::exception& exception) {  // the others may fit into memory
      log::error("cannot tell the kernel of a change, whose caches may be outdated: {}", exception.what());
    }
  };
  for (const auto& [variable, number] : chunks_)
    tell([this, shown = variable, chunk = number] { tell_of_chunk(*shown, chunk); });
  for (const auto& [directory, name] : names_)
    tell([this, shown = directory, &changed = name] { tell_of_name(*shown, changed); });
}

void ChangedNames::tell_of_chunk(const Node& variable, uint64_t number) {
  const Result<VariableViewPtr> view = mount_.dataset.variable(variable.object);
  if (!view) return;
  for (const Node* shown : mount_.tree.nodes.in_all_views(variable))
    if (shown->view != variable.view && shown->form().array == nullptr)
      notifier_.chunk_gone(*shown, file_of_chunk(shown->view, *(*view)->facts, number), true);
}

void ChangedNames::tell_of_name(const Node& directory, std::string_view name) {
  for (const Node* shown : mount_.tree.nodes.in_all_views(directory))
    if (shown->view != directory.view) notifier_.member_changed(*shown, name, true);
}

void ChangedNames::add_chunk(const Node& variable, uint64_t number) {
  mount_.tree.times.set(variable.ino(), {}, now());
  chunks_.emplace_back(&variable, number);
}

void ChangedNames::add(const Node& directory, std::string_view name) {
  mount_.tree.times.set(directory.ino(), {}, now());
  names_.emplace_back(&directory, name);
}

}  // namespace codecfs::fs
