// Changes of the tree: groups, variables and links are created, moved and removed, and metadata files are applied.
//
// Locks, in this order: layout_, shared by all changes here and in views/tree_chains.cc, exclusive for removals and
// moves; then a variable's pause in WriteBack.

#include <algorithm>
#include <filesystem>
#include <ranges>

#include "base/log.h"
#include "fs/namespace/clock.h"
#include "fs/namespace/tree.h"
#include "fs/views/metadata_files.h"
#include "model/json.h"

namespace codecfs::fs {
namespace {

std::string_view last_part(const std::string& path) { return std::string_view(path).substr(path.rfind('/') + 1); }

}  // namespace

void Tree::metadata_changed(const Node& node, bool wait) {
  metadata_changed_at_ = std::chrono::steady_clock::now();
  dataset_.forget(node.object);
  forget_xattrs(node);
  encoded_forms_.erase(node.key());
  encoded_zmetadata_.clear();
  std::vector<Ino> changed;
  for (const Node* shown : nodes_.in_all_views(node)) {
    for (const NamedFile& file : files_of(shown->kind))
      if (!shows_arrays(shown->view)) changed.push_back(shown->ino(file.kind));
    for (const Node* at = shown; !at->is_root();) {
      const Result<Place> parent = nodes_.at(at->parent);
      if (!parent) break;
      at = parent->node;
      changed.push_back(at->ino(FileKind::zmetadata));
    }
  }
  // Invalidations keep their order, so waiting for the last one waits for all.
  for (size_t i = 0; i < changed.size(); ++i) kernel_->content_changed(changed[i], wait && i + 1 == changed.size());
}

void Tree::forget_xattrs(const Node& node) {
  for (const Node* shown : nodes_.in_all_views(node)) {
    xattrs_.erase(shown->ino());
    xattrs_.erase(shown->ino(FileKind::array));
  }
}

std::string Tree::path_of(View view) const {
  return view == nodes_.shown() ? "" : fmt::format("{}/{}", nodes_.views().path, name_of(view));
}

void Tree::ChangedNames::add(const Node& directory, std::string_view name) {
  tree_.times_.set(directory.ino(), {}, now());
  names_.emplace_back(&directory, name);
}

Tree::ChangedNames::~ChangedNames() {
  for (const auto& [directory, name] : names_)
    for (const Node* shown : tree_.nodes_.in_all_views(*directory))
      if (shown->view != directory->view) tree_.member_changed(*shown, name, true);
}

void Tree::chunk_changed(const Node& node, uint64_t number, Ino written_through) {
  const Result<VariableViewPtr> view = dataset_.variable(node.object);
  if (!view) return;
  const ChunkGrid& grid = (*view)->facts->grid;
  for (const Node* shown : nodes_.in_all_views(node)) {
    if (shows_arrays(shown->view)) {
      if (shown->view != node.view) array_file_changed(*shown, **view, number);
      continue;
    }
    const Result<Ino> ino = nodes_.chunk_ino(*shown, number, grid.count());
    if (!ino) continue;
    former_files_changed(*ino, written_through);
    if (shown->view == node.view) continue;
    kernel_pages_.await_quiet(*ino);
    kernel_->content_changed(*ino, true);
    // The kernel may remember that it does not exist.
    if (shown->view == nodes_.shown()) kernel_->names_changed(shown->ino(), {grid.name_of(number)});
  }
}

/// The same of all chunks of a view of a variable.
void Tree::contents_changed(const Node& shown, Ino first, uint64_t count) {
  conversions_.drop(shown.ino());  // all that are absent
  kernel_pages_.await_quiet(first, count);
  kernel_->contents_changed(first, count, true);
}

/// Files that were opened before they were renamed to this chunk have pages of their own in the kernel.
void Tree::former_files_changed(Ino chunk, Ino written_through) {
  for (const Ino former : scratch_.former_inos(chunk))
    if (former != written_through) kernel_->content_changed(former, true);
}

std::string Tree::path_of_dataset(const Node& node) const {
  for (const Node* at = &node; !at->is_root();) {
    const Result<Place> parent = nodes_.at(at->parent);
    if (!parent) break;
    if (parent->node->kind == NodeKind::folder) return at->path + "/";
    at = parent->node;
  }
  return {};
}

void Tree::layout_changed(const Node& node, bool wait) {
  if (!dataset_.source().shares_metadata()) return metadata_changed(node, wait);
  metadata_changed_at_ = std::chrono::steady_clock::now();
  dataset_.forget_all();
  xattrs_.clear();
  encoded_forms_.clear();
  const std::string top = path_of_dataset(node);
  for (const Ino directory : nodes_.variables()) {
    const Result<Place> place = nodes_.at(directory);
    if (!place || !place->node->path.starts_with(top)) continue;
    const Ino first = directory - static_cast<Ino>(FileKind::itself);
    for (const FileKind file : {FileKind::zarray, FileKind::zattrs})
      kernel_->content_changed(first + static_cast<Ino>(file), false);
  }
  metadata_changed(node, wait);
}

// --- directories and links

Result<struct stat> Tree::make_directory(Ino parent, std::string_view name) {
  ChangedNames names(*this);
  const std::shared_lock layout(layout_);
  CODECFS_ASSIGN(const Node* node, changeable_directory(parent, name));
  if (node->kind == NodeKind::variable)
    return fail(EPERM, "{}/{}: a variable's directory holds chunks and no directories", node->path, name);
  if (name == "c" && overlay_.state_of(*node).refused_v3)
    return fail(EINVAL, "{}/{}: is a chunk directory of Zarr format 3, which this mount does not store", node->path,
                name);
  if (metadata_named(*node, name)) return fail(EINVAL, "{}/{}: this is the name of a metadata file", node->path, name);
  if ((parent == kRootIno && name == ".codecfs") || scratch_.find(parent, name))
    return fail(EEXIST, "{}/{}: exists", node->path, name);
  const Node* group = nullptr;
  {
    const std::shared_lock naming(names_);
    CODECFS_ASSIGN(const Entry entry, dataset_.source().make_group(node->object, name));
    CODECFS_ASSIGN(group, nodes_.child(*node, entry));
  }
  // cp creates files in a directory that it has created, and fails if they exist already.
  overlay_.add_fresh(*group, files_of(NodeKind::group));
  write_back_.note_change();
  names.add(*node, name);
  times_.set(group->ino(), now(), now());
  metadata_changed(*node, false);
  return attributes(group->ino());
}

/// ENOTEMPTY while its directory shows chunks.
Result<> Tree::may_remove_variable(const Node& node) {
  const auto not_empty = [&] {
    return fail(ENOTEMPTY, "{}: has chunks; remove it with all of them (rm -r)", node.path);
  };
  CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
  const DirectoryState state = overlay_.state_of(node);
  const bool condemned = is_condemned(node, state);
  if (view->shows_absent_chunks() && !condemned && !state.fresh && view->facts->grid.count() > 0) return not_empty();
  const WriteBack::Changes changes = changes_of(node);
  const auto is_shown = [&](uint64_t number) {
    return !changes.removed.contains(number) && !(condemned && overlay_.is_unlinked(node, number));
  };
  if (std::ranges::any_of(changes.written, is_shown)) return not_empty();
  constexpr size_t kBatch = 1024;
  for (uint64_t from = 0;;) {
    CODECFS_ASSIGN(const std::vector<uint64_t> numbers, dataset_.source().stored_chunks(node.object, from, kBatch));
    if (std::ranges::any_of(numbers, is_shown)) return not_empty();
    if (numbers.size() < kBatch) return {};
    from = numbers.back() + 1;
  }
}

/// Removes it from the source and from the caches.
Result<> Tree::remove_entry(const Node& directory, std::string_view name, const Node& entry) {
  const std::lock_guard naming(names_);
  CODECFS_TRY(dataset_.source().remove(directory.object, name));
  nodes_.remove(entry);
  dataset_.forget(entry.object);
  return {};
}

Result<> Tree::remove_directory(Ino parent, std::string_view name) {
  ChangedNames names(*this);
  const std::lock_guard alone(layout_);
  CODECFS_ASSIGN(const Node* node, changeable_directory(parent));
  CODECFS_ASSIGN(const struct stat there, lookup(parent, name));
  CODECFS_ASSIGN(const Place place, nodes_.at(there.st_ino));
  const Node& child = *place.node;
  if (!S_ISDIR(there.st_mode)) return fail(ENOTDIR, "{}/{}: is no directory", node->path, name);
  if (child.kind == NodeKind::control) return fail(EPERM, "{}: cannot be removed", child.path);
  for (const Node* shown : nodes_.in_all_views(child))
    if (!scratch_.list(shown->ino()).empty()) return fail(ENOTEMPTY, "{}: has files", child.path);
  if (child.kind == NodeKind::variable) {
    CODECFS_TRY(may_remove_variable(child));
    // It may have another name in the source, and live on there. What cannot be stored does not keep it from going.
    (void)write_back_.pause(child.object);
    const WriteBack::Pause pause = write_back_.pause_without_storing(child.object);
    CODECFS_TRY(remove_entry(*node, name, child));
    write_back_.forget(child.object);
  } else {
    CODECFS_TRY(remove_entry(*node, name, child));
  }
  overlay_.forget(child);
  write_back_.note_change();
  names.add(*node, name);
  if (child.kind == NodeKind::variable)
    layout_changed(*node, false);
  else
    metadata_changed(*node, false);
  return {};
}

Result<> Tree::move_entry(Ino parent, std::string_view name, Ino to_parent, std::string_view to_name) {
  ChangedNames names(*this);
  const std::lock_guard alone(layout_);
  CODECFS_ASSIGN(const Place from_place, nodes_.at(parent));
  CODECFS_ASSIGN(const Place to_place, nodes_.at(to_parent));
  const Node& from = *from_place.node;
  const Node& to = *to_place.node;
  if (from.kind != NodeKind::group) return fail(EPERM, "{}/{}: cannot be renamed", from.path, name);
  if (from.view != to.view) return fail(EXDEV, "{}/{}: is moved within one view; it moves in all", from.path, name);
  if (to.kind != NodeKind::group)
    return fail(EPERM, "{}/{}: a variable's directory holds chunks alone", to.path, to_name);
  if (metadata_named(to, to_name)) return fail(EINVAL, "{}/{}: is the name of a metadata file", to.path, to_name);
  CODECFS_ASSIGN(const struct stat there, lookup(from.ino(), name));
  CODECFS_ASSIGN(const Place place, nodes_.at(there.st_ino));
  if (const Result<struct stat> other = lookup(to.ino(), to_name)) {
    // A link takes the place of a link (ln -sf).
    if (!S_ISLNK(other->st_mode) || !S_ISLNK(there.st_mode))
      return fail(EEXIST, "{}/{}: exists; remove it first", to.path, to_name);
    if (other->st_ino == there.st_ino) return {};
    CODECFS_ASSIGN(const Place link, nodes_.at(other->st_ino));
    CODECFS_TRY(remove_entry(to, to_name, *link.node));
  }
  if (place.node->kind == NodeKind::control) return fail(EPERM, "{}: cannot be renamed", place.node->path);
  {
    const std::lock_guard naming(names_);
    CODECFS_TRY(dataset_.source().rename(from.object, name, to.object, to_name));
    nodes_.move(*place.node, to, to_name);
    dataset_.forget(from.object);
  }
  names.add(from, name);
  names.add(to, to_name);
  write_back_.note_change();
  // Dimension names may have changed with the place.
  if (const Result<Place> moved = nodes_.at(there.st_ino)) metadata_changed(*moved->node, false);
  metadata_changed(from, false);
  layout_changed(to, false);
  return {};
}

/// The target of a link as the source stores it: an absolute path below the mount point becomes relative, because it
/// would lead nowhere when the source is opened otherwise.
std::string Tree::target_from(const Node& directory, std::string_view target) const {
  const std::string top = mountpoint_ + path_of(directory.view);
  const bool is_below = target.starts_with(top) && (target.size() == top.size() || target[top.size()] == '/');
  if (!is_below || mountpoint_.empty()) return std::string(target);
  const std::filesystem::path path = "/" + std::string(target.substr(top.size()));
  return path.lexically_normal().lexically_relative(directory.path.empty() ? "/" : directory.path);
}

Result<struct stat> Tree::make_link(Ino parent, std::string_view name, std::string_view target) {
  ChangedNames names(*this);
  const std::shared_lock layout(layout_);
  CODECFS_ASSIGN(const Node* node, changeable_directory(parent, name));
  if (node->kind == NodeKind::variable)
    return fail(EPERM, "{}/{}: a variable's directory holds chunks and no links", node->path, name);
  if (metadata_named(*node, name)) return fail(EINVAL, "{}/{}: this is the name of a metadata file", node->path, name);
  if (scratch_.find(parent, name)) return fail(EEXIST, "{}/{}: exists", node->path, name);
  const Node* link = nullptr;
  {
    const std::shared_lock naming(names_);
    CODECFS_ASSIGN(const Entry entry, dataset_.source().make_link(node->object, name, target_from(*node, target)));
    CODECFS_ASSIGN(link, nodes_.child(*node, entry));
  }
  write_back_.note_change();
  names.add(*node, name);
  metadata_changed(*node, false);
  return child_attributes(*link);
}

// --- metadata files

/// Does what the text of a metadata file says.
Result<> Tree::apply(Ino ino, std::string_view text, const Cancelled& cancelled) {
  if (read_only_) return fail(EROFS, "this mount is read-only");
  CODECFS_ASSIGN(const Place place, nodes_.at(ino));
  const Node& node = *place.node;
  Result<> applied;
  switch (place.file) {
    case FileKind::zgroup: applied = check_zgroup(text); break;
    case FileKind::zmetadata: applied = Result<>(); break;  // it is made of what is there
    case FileKind::zattrs: applied = apply_zattrs(node.ino(), text); break;
    case FileKind::zarray: applied = apply_zarray(node.ino(), text, cancelled); break;
    case FileKind::chunk: {
      CODECFS_ASSIGN(const ChunkPlace chunk, chunk_place(node, place.chunk));
      return put_chunk(node, chunk, std::as_bytes(std::span(text)), cancelled);
    }
    case FileKind::filter:
    case FileKind::codecs:
      if (is_overruled(node))
        log::info("{}/{}: a rule of the mount decides instead", node.path, name_of(place.file));
      else if (place.file == FileKind::filter)
        applied = set_spec(node, text, cancelled);
      else
        applied = set_codecs(node, text, cancelled);
      break;
    default: applied = fail(EPERM, "{}: cannot be written", node.path); break;
  }
  if (applied) {
    overlay_.change(node, [&](DirectoryState& state) {
      state.hidden.erase(place.file);
      state.refused_v3 = false;
    });
    errors_.succeeded(node.ino(), RequestKind::attributes);
  } else {
    // Also of the directory: the file may not exist afterwards.
    errors_.failed(node.ino(), RequestKind::attributes, applied.error().reason);
  }
  return applied;
}

Result<> Tree::apply_zattrs(Ino directory, std::string_view text) {
  const std::shared_lock layout(layout_);
  CODECFS_ASSIGN(const Place place, nodes_.at(directory));
  const Node& node = *place.node;
  Result<WrittenAttributes> written = parse_zattrs(text);
  if (!written) return fail(written.error().code, "{}: {}", node.path, written.error().reason);
  Source& source = dataset_.source();
  std::vector<Attribute> now;
  bool keeps_fill = false;
  if (node.kind == NodeKind::variable) {
    CODECFS_ASSIGN(const VariablePtr variable, dataset_.described(node.object));
    now = variable->attributes;
    // Zarr writers tell it as the fill_value of .zarray, and only there.
    keeps_fill = !variable->fill_value.is_null();
    if (written->dimensions == std::vector<std::string>{"_scalar_"} && variable->grid.rank() == 0)
      written->dimensions.reset();
  } else {
    CODECFS_ASSIGN(now, source.group_attributes(node.object));
  }
  const auto named = [](const std::string& name) {
    return [&name](const Attribute& attribute) { return attribute.name == name; };
  };
  std::vector<std::string> removed;
  for (const Attribute& attribute : now) {
    if (std::ranges::any_of(written->attributes, named(attribute.name))) continue;
    if (keeps_fill && attribute.name == "_FillValue") continue;
    removed.push_back(attribute.name);
  }
  std::erase_if(written->attributes, [&](const Attribute& attribute) {
    const auto same = std::ranges::find_if(now, named(attribute.name));
    return same != now.end() && print_json(same->value) == print_json(attribute.value);
  });
  if (node.kind == NodeKind::group) {
    // They are for the variable that this directory may be about to become.
    if (written->dimensions)
      overlay_.change(node, [&](DirectoryState& state) { state.dimensions = written->dimensions; });
  } else if (written->dimensions) {
    // Also where they are shown already: an HDF5 file may show a name that it does not tell.
    CODECFS_TRY(source.set_dimensions(node.object, *written->dimensions));
    layout_changed(node, false);
  }
  Result<> set;
  if (!written->attributes.empty() || !removed.empty())
    set = source.set_attributes(node.object, written->attributes, removed);
  write_back_.note_change();
  metadata_changed(node);
  return set;
}

Result<> Tree::apply_zarray(Ino directory, std::string_view text, const Cancelled& cancelled) {
  CODECFS_ASSIGN(const Place before, nodes_.at(directory));
  const bool with_codecs = before.node->view == View::encoded;
  Result<Variable> wanted = parse_zarray(text, with_codecs);
  if (!wanted) return fail(wanted.error().code, "{}: {}", before.node->path, wanted.error().reason);
  if (before.node->kind == NodeKind::group) return make_variable(directory, *std::move(wanted));

  if (with_codecs) CODECFS_TRY(apply_codecs(directory, *wanted, cancelled));
  const std::shared_lock layout(layout_);
  CODECFS_ASSIGN(const Place place, nodes_.at(directory));
  const Node& node = *place.node;
  CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
  const Variable& now = *view->facts;
  const auto unchangeable = [&](const char* key, const Json& stands, const Json& asked) {
    return fail(EINVAL, "{}: \"{}\" of a variable cannot be changed from {} to {}; make another variable", node.path,
                key, print_json(stands), print_json(asked));
  };
  const Json stands = zarray_json(now);
  const Json asked = zarray_json(*wanted);
  for (const char* key : {"dtype", "chunks", "filters"})
    if (print_json(stands[key]) != print_json(asked[key])) return unchangeable(key, stands[key], asked[key]);
  const bool same_fill = now.fill_value.is_null() == wanted->fill_value.is_null() &&
                         (now.fill_value.is_null() || now.fill == wanted->fill);
  if (!same_fill) return unchangeable("fill_value", stands["fill_value"], asked["fill_value"]);
  if (!wanted->max_shape.empty() && wanted->max_shape != now.max_shape)
    return fail(EINVAL, "{}: \"_maxshape\" of a variable cannot be changed; make another variable", node.path);
  CODECFS_TRY(resize(node, wanted->grid.shape()));
  // Its .zarray had been removed, and chunks after it: now they are removed indeed. Each counts as unlinked until it
  // is, so that its old content does not come back meanwhile.
  CODECFS_ASSIGN(const VariableViewPtr after, dataset_.variable(node.object));
  for (const uint64_t number : overlay_.unlinked(node)) {
    if (number < after->facts->grid.count()) {
      CODECFS_ASSIGN(const Ino key, nodes_.chunk_key(node, number, after->facts->grid.count()));
      CODECFS_TRY(write_back_.remove({key, node.object, number, after}));
    }
    overlay_.forget_unlinked(node, number);
  }
  return {};
}

Result<> Tree::resize(const Node& node, const std::vector<uint64_t>& shape) {
  {
    CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
    const std::vector<uint64_t>& now = view->facts->grid.shape();
    if (shape == now) return {};
    if (shape.size() != now.size())
      return fail(EINVAL, "{}: has {} dimensions, and this shape {}", node.path, now.size(), shape.size());
  }
  CODECFS_TRY(dataset_.source().begin_writing_to(node.object));
  CODECFS_ASSIGN(const WriteBack::Pause pause, write_back_.pause(node.object));
  // Only with the pause no other request reshapes it.
  CODECFS_ASSIGN(const VariableViewPtr before, dataset_.variable(node.object));
  const Variable& now = *before->facts;
  const std::vector<uint64_t>& old_shape = now.grid.shape();
  if (shape == old_shape) return {};
  CODECFS_TRY(dataset_.source().resize(node.object, shape));
  write_back_.note_change();
  dataset_.forget_all();
  CODECFS_ASSIGN(const VariableViewPtr after, dataset_.variable(node.object));
  // Where only the first dimension has grown, each chunk keeps its number, and so its inode.
  const bool grown =
      shape[0] >= old_shape[0] && std::ranges::equal(shape | std::views::drop(1), old_shape | std::views::drop(1));
  if (!grown || after->facts->grid.count() > kLocalMask / 2) {
    CODECFS_TRY(renumber_chunks(node, now.grid.count(), after->facts->grid.count(), true));
  }
  note_numbering(node.object, after->facts);
  array_files_changed(node);
  layout_changed(node);
  return {};
}

Result<> Tree::renumber_chunks(const Node& node, uint64_t before, uint64_t now, bool wait) {
  write_back_.forget(node.object);
  const std::vector<const Node*> views = nodes_.in_all_views(node);
  std::vector<Ino> first;
  for (const Node* shown : views) {
    CODECFS_ASSIGN(first.emplace_back(), nodes_.chunk_ino(*shown, 0, before));
  }
  CODECFS_TRY(nodes_.renumber_chunks(node, now));
  // With the directory's name the kernel forgets all names in it but those in use; of these it asks us again.
  for (size_t i = 0; i < views.size(); ++i) {
    kernel_->attributes_changed(first[i], before, false);
    if (!views[i]->is_root())
      kernel_->name_changed(views[i]->parent, std::string(last_part(node.path)), wait && views[i]->view == node.view);
  }
  return {};
}

/// The group becomes a variable of this type and shape.
Result<> Tree::make_variable(Ino ino, Variable variable) {
  Source& source = dataset_.source();
  {
    const std::shared_lock layout(layout_);  // not alone: another variable may be on its way to another chain for hours
    CODECFS_ASSIGN(const Place place, nodes_.at(ino));
    const Node& group = *place.node;
    if (group.is_root()) return fail(EINVAL, "the root of this source is a group and cannot become a variable");
    if (group.kind != NodeKind::group) return fail(EEXIST, "{}: became a variable meanwhile", group.path);
    CODECFS_ASSIGN(const Place parent, nodes_.at(group.parent));
    if (group.view == View::encoded) {
      CODECFS_ASSIGN(variable.filters, chain_for_codecs(group, variable));
    } else {
      CODECFS_ASSIGN(variable.filters, chain_for_new(group, variable));
    }
    CODECFS_ASSIGN(variable.attributes, source.group_attributes(group.object));
    if (!variable.fill_value.is_null())
      std::erase_if(variable.attributes, [](const Attribute& attribute) { return attribute.name == "_FillValue"; });
    const DirectoryState before = overlay_.state_of(group);
    if (before.dimensions && before.dimensions->size() == variable.grid.rank()) variable.dimensions = before.dimensions;
    CODECFS_TRY(source.begin_writing_to(group.object));
    {
      const std::lock_guard naming(names_);
      CODECFS_ASSIGN(const Entry made, source.make_variable(parent.node->object, last_part(group.path), variable));
      dataset_.forget(group.object);
      nodes_.become_variable(group, made.object);
    }
    overlay_.change(group, [&](DirectoryState& state) {
      std::set<FileKind> hidden;
      if (state.fresh) hidden = {FileKind::filter, FileKind::codecs};
      if (state.hidden.contains(FileKind::zattrs)) hidden.insert(FileKind::zattrs);
      state.hidden = std::move(hidden);
      state.dimensions.reset();
      state.rule_applied = true;
    });
    write_back_.note_change();
  }
  CODECFS_ASSIGN(const Place place, nodes_.at(ino));
  metadata_changed(*place.node);
  if (const Result<Place> parent = nodes_.at(place.node->parent))
    for (const Node* shown : nodes_.in_all_views(*parent->node))
      if (shows_arrays(shown->view)) member_changed(*shown, last_part(place.node->path), true);
  for (const Node* shown : nodes_.in_all_views(*place.node))
    for (const NodeKind kind : {NodeKind::group, NodeKind::variable})
      for (const NamedFile& file : files_of(kind)) kernel_->name_changed(shown->ino(), std::string(file.name), false);
  adopt_spooled(*place.node);
  return {};
}

/// Chunks that came before the .zarray, as cp -r may bring them.
void Tree::adopt_spooled(const Node& variable) {
  for (const auto& [name, ino] : scratch_.list(variable.ino())) {
    if (name == name_of(FileKind::filter) || name == name_of(FileKind::codecs)) {
      const FileKind file = name == name_of(FileKind::filter) ? FileKind::filter : FileKind::codecs;
      overlay_.change(variable, [&](DirectoryState& state) { state.hidden.erase(file); });
      scratch_.promote(variable.ino(), name, variable.ino(file));
      kernel_->name_changed(variable.ino(), name, false);
      continue;
    }
    const Result<std::optional<ChunkPlace>> chunk = chunk_named(variable, name);
    if (!chunk) log::error("{}", chunk.error().reason);
    if (!chunk || !*chunk) continue;
    const Result<std::string> content = scratch_.seal(variable.ino(), name);
    if (!content) continue;  // on its way to another name
    const Result<Ino> shown = nodes_.chunk_ino(variable, (*chunk)->number, (*chunk)->variable->facts->grid.count());
    const Result<> stored = shown ? put_chunk(variable, **chunk, std::as_bytes(std::span(*content)), {})
                                  : Result<>(std::unexpected(shown.error()));
    if (stored) {
      scratch_.promote(variable.ino(), name, *shown);
      kernel_->name_changed(variable.ino(), name, false);
    } else {  // it stays, and is told of at the end
      scratch_.unseal(variable.ino(), name);
      note_error((*chunk)->key, stored.error());
    }
  }
}

}  // namespace codecfs::fs
