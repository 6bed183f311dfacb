// What changes the tree: groups, variables and links are made, moved and removed; metadata files and extended
// attributes are done as they say.
//
// Locks: layout_ shared by everything here, alone by what removes or moves; then a variable's pause in WriteBack.

#include <algorithm>
#include <ranges>

#include "base/log.h"
#include "filters/codec_json.h"
#include "filters/filter.h"
#include "filters/filter_spec.h"
#include "fs/clock.h"
#include "fs/metadata_files.h"
#include "fs/tree.h"

namespace codecfs::fs {
namespace {

constexpr std::string_view kUser = "user.";
constexpr std::string_view kFilter = "_Filter";
constexpr std::string_view kCodecs = "_Codecs";
// HDF5's ids of the filters that have special attributes.
constexpr uint32_t kDeflate = 1;
constexpr uint32_t kShuffle = 2;
constexpr uint32_t kFletcher32 = 3;

constexpr uint64_t kMostNotices = uint64_t{1} << 22;  // inodes of chunks that the kernel is told of one by one

std::string_view last_part(const std::string& path) { return std::string_view(path).substr(path.rfind('/') + 1); }

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

std::unexpected<Error> fail_empty(std::string_view path) {
  return fail(EINVAL, "{}: an empty chain could be an accident; the word for no filters is none", path);
}

Result<std::vector<FilterStage>> parse_spec(std::string_view path, std::string_view spec) {
  spec = trimmed(spec);
  if (spec.empty()) return fail_empty(path);
  Result<std::vector<FilterStage>> chain = filters::parse_filter_spec(spec);
  if (!chain) return fail(chain.error().code, "{}: {}", path, chain.error().reason);
  return chain;
}

Result<std::vector<FilterStage>> parse_codecs(std::string_view path, std::string_view text, uint64_t item_size) {
  text = trimmed(text);
  if (text.empty()) return fail_empty(path);
  if (filters::is_none(text)) return std::vector<FilterStage>();
  const auto in_codecs = [&](const Error& error) { return fail(EINVAL, "{}: _Codecs: {}", path, error.reason); };
  const Result<Json> json = parse_json(text);
  if (!json) return in_codecs(json.error());
  if (!json->is_array()) return fail(EINVAL, "{}: _Codecs: not a list of codecs: [{{\"id\": ...}}, ...]", path);
  auto chain = filters::parse_zarr_codecs(Json(), json->empty() ? Json() : *json, item_size);
  if (!chain) return in_codecs(chain.error());
  return chain;
}

/// ENOENT where nobody provides a filter of the chain.
Result<> check_known(std::string_view path, std::span<const FilterStage> chain) {
  for (const FilterStage& stage : chain) {
    if (filters::find_for(stage) != nullptr) continue;
    return fail(ENOENT, "{}: no filter or plugin provides {}", path,
                stage.codec.is_null() ? fmt::format("filter {}", stage.id) : print_json(stage.codec));
  }
  return {};
}

Result<bool> parse_switch(std::string_view value) {
  value = trimmed(value);
  if (value == "true" || value == "1") return true;
  if (value == "false" || value == "0") return false;
  return fail(EINVAL, "\"{}\" is neither true nor false", value);
}

/// The chain with a filter put in, with new parameters, or taken out.
std::vector<FilterStage> with_filter(std::vector<FilterStage> chain, uint32_t id, bool wanted,
                                     std::vector<uint32_t> parameters = {}) {
  const auto found = std::ranges::find(chain, id, &FilterStage::id);
  if (!wanted) {
    if (found != chain.end()) chain.erase(found);
    return chain;
  }
  if (found != chain.end()) {
    if (!parameters.empty()) *found = {.id = id, .parameters = std::move(parameters), .codec = {}, .name = {}};
    return chain;
  }
  chain.push_back({.id = id, .parameters = std::move(parameters), .codec = {}, .name = {}});
  return chain;
}

}  // namespace

void Tree::metadata_changed(const Node& node, bool wait) {
  dataset_.forget(node.object);
  xattrs_.erase(node.ino());
  std::vector<Ino> changed;
  for (const NamedFile& file : files_of(node.kind)) changed.push_back(node.ino(file.kind));
  for (const Node* at = &node; at->ino() != kRootIno;) {
    const Result<Place> parent = nodes_.at(at->parent);
    if (!parent) break;
    at = parent->node;
    changed.push_back(at->ino(FileKind::zmetadata));
  }
  // The kernel is told in this order, so who has waited for the last has waited for all.
  for (size_t i = 0; i < changed.size(); ++i) kernel_.content_changed(changed[i], wait && i + 1 == changed.size());
}

void Tree::layout_changed(const Node& node, bool wait) {
  if (!dataset_.source().shares_metadata()) return metadata_changed(node, wait);
  dataset_.forget_all();
  xattrs_.clear();
  for (const Ino directory : nodes_.variables()) {
    const Ino first = directory - static_cast<Ino>(FileKind::itself);
    for (const FileKind file : {FileKind::zarray, FileKind::zattrs})
      kernel_.content_changed(first + static_cast<Ino>(file), false);
  }
  metadata_changed(node, wait);
}

// --- directories and links

Result<struct stat> Tree::make_directory(Ino parent, std::string_view name) {
  const std::shared_lock layout(layout_);
  CODECFS_ASSIGN(const Node* node, changeable_directory(parent));
  if (node->kind == NodeKind::variable)
    return fail(EPERM, "{}/{}: a variable's directory holds chunks and no directories", node->path, name);
  if (metadata_named(*node, name)) return fail(EINVAL, "{}/{}: this is the name of a metadata file", node->path, name);
  if ((parent == kRootIno && name == ".codecfs") || scratch_.find(parent, name))
    return fail(EEXIST, "{}/{}: exists", node->path, name);
  CODECFS_ASSIGN(const Entry entry, dataset_.source().make_group(node->object, name));
  CODECFS_ASSIGN(const Node* group, nodes_.child(*node, entry));
  // cp makes files in a directory that it has made, and stops where they are there already.
  change_state(group->ino(), [&](DirectoryState& state) {
    state = {};
    state.fresh = true;
    state.latest = std::chrono::steady_clock::now();
    for (const NamedFile& file : files_of(NodeKind::group)) state.hidden.insert(file.kind);
  });
  touch(parent, {}, now());
  write_back_.note_change();
  metadata_changed(*node, false);
  return attributes(group->ino());
}

/// ENOTEMPTY while chunks are shown in its directory.
Result<> Tree::may_remove_variable(const Node& node) {
  const auto not_empty = [&] {
    return fail(ENOTEMPTY, "{}: has chunks; remove it with all of them (rm -r)", node.path);
  };
  CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
  const DirectoryState state = state_of(node.ino());
  const bool condemned = is_condemned(node, state);
  if (view->shows_absent_chunks() && !condemned && !state.fresh && view->facts->grid.count() > 0) return not_empty();
  const WriteBack::Changes changes = write_back_.changes(node.object);
  const auto is_shown = [&](uint64_t number) {
    return !changes.removed.contains(number) && !(condemned && is_unlinked(node.ino(), number));
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

Result<> Tree::remove_directory(Ino parent, std::string_view name) {
  const std::lock_guard alone(layout_);
  CODECFS_ASSIGN(const Node* node, changeable_directory(parent));
  CODECFS_ASSIGN(const struct stat there, lookup(parent, name));
  CODECFS_ASSIGN(const Place place, nodes_.at(there.st_ino));
  const Node& child = *place.node;
  if (!S_ISDIR(there.st_mode)) return fail(ENOTDIR, "{}/{}: is no directory", node->path, name);
  if (child.kind == NodeKind::control) return fail(EPERM, "{}: cannot be removed", child.path);
  if (!scratch_.list(child.ino()).empty()) return fail(ENOTEMPTY, "{}: has files", child.path);
  if (child.kind == NodeKind::variable) {
    CODECFS_TRY(may_remove_variable(child));
    // It may have another name in the source, and live on there. What cannot be stored does not keep it from going.
    (void)write_back_.pause(child.object);
    const WriteBack::Pause pause = write_back_.pause_without_storing(child.object);
    CODECFS_TRY(dataset_.source().remove(node->object, name));
    write_back_.forget(child.object);
  } else {
    CODECFS_TRY(dataset_.source().remove(node->object, name));
  }
  nodes_.remove(child);
  forget_state(child.ino());
  touch(parent, {}, now());
  write_back_.note_change();
  if (child.kind == NodeKind::variable)
    layout_changed(*node, false);
  else
    metadata_changed(*node, false);
  return {};
}

Result<> Tree::move_entry(const Node& from, std::string_view name, const Node& to, std::string_view to_name) {
  const std::lock_guard alone(layout_);
  if (from.kind != NodeKind::group) return fail(EPERM, "{}/{}: cannot be renamed", from.path, name);
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
    CODECFS_TRY(dataset_.source().remove(to.object, to_name));
    nodes_.remove(*link.node);
  }
  if (place.node->kind == NodeKind::control) return fail(EPERM, "{}: cannot be renamed", place.node->path);
  CODECFS_TRY(dataset_.source().rename(from.object, name, to.object, to_name));
  nodes_.move(*place.node, to, to_name);
  touch(from.ino(), {}, now());
  touch(to.ino(), {}, now());
  write_back_.note_change();
  // Dimension names may have changed with the place.
  if (const Result<Place> moved = nodes_.at(there.st_ino)) metadata_changed(*moved->node, false);
  metadata_changed(from, false);
  layout_changed(to, false);
  return {};
}

Result<struct stat> Tree::make_link(Ino parent, std::string_view name, std::string_view target) {
  const std::shared_lock layout(layout_);
  CODECFS_ASSIGN(const Node* node, changeable_directory(parent));
  if (node->kind == NodeKind::variable)
    return fail(EPERM, "{}/{}: a variable's directory holds chunks and no links", node->path, name);
  if (metadata_named(*node, name)) return fail(EINVAL, "{}/{}: this is the name of a metadata file", node->path, name);
  if (scratch_.find(parent, name)) return fail(EEXIST, "{}/{}: exists", node->path, name);
  CODECFS_ASSIGN(const Entry entry, dataset_.source().make_link(node->object, name, target));
  touch(parent, {}, now());
  write_back_.note_change();
  metadata_changed(*node, false);
  return entry_attributes(*node, entry);
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
    case FileKind::zarray: applied = apply_zarray(node.ino(), text); break;
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
  if (applied)
    change_state(node.ino(), [&](DirectoryState& state) { state.hidden.erase(place.file); });
  else
    remember_error(node.ino(), applied.error());  // the file may not even be there afterwards
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
      change_state(node.ino(), [&](DirectoryState& state) { state.dimensions = written->dimensions; });
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

Result<> Tree::apply_zarray(Ino directory, std::string_view text) {
  CODECFS_ASSIGN(const Place before, nodes_.at(directory));
  Result<Variable> wanted = parse_zarray(text);
  if (!wanted) return fail(wanted.error().code, "{}: {}", before.node->path, wanted.error().reason);
  if (before.node->kind == NodeKind::group) return make_variable(directory, *std::move(wanted));

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
  CODECFS_TRY(resize(node, now, wanted->grid.shape()));
  // Its .zarray had been removed, and chunks after it: now they are removed indeed.
  std::unordered_set<uint64_t> unlinked;
  {
    const std::lock_guard lock(states_mutex_);
    if (const auto found = unlinked_.find(node.ino()); found != unlinked_.end()) {
      unlinked = std::move(found->second);
      unlinked_.erase(found);
    }
  }
  CODECFS_ASSIGN(const VariableViewPtr after, dataset_.variable(node.object));
  for (const uint64_t number : unlinked) {
    if (number >= after->facts->grid.count()) continue;
    CODECFS_ASSIGN(const Ino key, nodes_.chunk_ino(node, number, after->facts->grid.count()));
    CODECFS_TRY(write_back_.remove({key, node.object, number, after}));
  }
  return {};
}

Result<> Tree::resize(const Node& node, const Variable& now, const std::vector<uint64_t>& shape) {
  const std::vector<uint64_t>& old_shape = now.grid.shape();
  if (shape == old_shape) return {};
  if (shape.size() != old_shape.size())
    return fail(EINVAL, "{}: has {} dimensions, and this shape {}", node.path, old_shape.size(), shape.size());
  CODECFS_TRY(dataset_.source().begin_writing());
  CODECFS_ASSIGN(const WriteBack::Pause pause, write_back_.pause(node.object));
  CODECFS_TRY(dataset_.source().resize(node.object, shape));
  write_back_.note_change();
  dataset_.forget_all();
  CODECFS_ASSIGN(const VariableViewPtr after, dataset_.variable(node.object));
  // Where only the first dimension has grown, each chunk keeps its number, and so its inode.
  const bool grown =
      shape[0] >= old_shape[0] && std::ranges::equal(shape | std::views::drop(1), old_shape | std::views::drop(1));
  if (!grown || after->facts->grid.count() > kLocalMask / 2) {
    write_back_.forget(node.object);
    CODECFS_ASSIGN(const Ino first, nodes_.chunk_ino(node, 0, now.grid.count()));
    CODECFS_TRY(nodes_.renumber_chunks(node, after->facts->grid.count()));
    // With the directory's name the kernel forgets all names in it but those in use; of these it asks us again.
    kernel_.attributes_changed(first, std::min(now.grid.count(), kMostNotices));
    kernel_.name_changed(node.parent, std::string(last_part(node.path)), true);
  }
  layout_changed(node);
  return {};
}

/// A filter chain among the files that came before the .zarray, as cp -r may bring them.
Result<std::optional<std::vector<FilterStage>>> Tree::spooled_chain(const Node& group, const Variable& variable) {
  for (const std::string_view name : {kCodecs, kFilter}) {
    if (!scratch_.find(group.ino(), name)) continue;
    CODECFS_ASSIGN(const std::string text, scratch_.seal(group.ino(), name));
    scratch_.unseal(group.ino(), name);
    if (trimmed(text).empty()) continue;
    CODECFS_ASSIGN(std::vector<FilterStage> chain,
                   name == kFilter ? parse_spec(group.path, text) : parse_codecs(group.path, text, variable.type.size));
    return chain;
  }
  return std::nullopt;
}

/// The filters of a variable that is made here.
Result<std::vector<FilterStage>> Tree::chain_for_new(const Node& node, const Variable& variable) {
  if (auto chain = chain_of_rules(node, variable)) return *std::move(chain);
  CODECFS_ASSIGN(auto spooled, spooled_chain(node, variable));
  if (spooled) return *std::move(spooled);
  if (variable.grid.rank() == 0) return std::vector<FilterStage>();
  for (const Node* at = &node; at->ino() != kRootIno;) {
    CODECFS_ASSIGN(const Place parent, nodes_.at(at->parent));
    at = parent.node;
    const DirectoryState state = state_of(at->ino());
    if (state.filter) return arranged(state.chain, variable, node.path);
  }
  return std::vector<FilterStage>();
}

/// The group becomes a variable of this type and shape.
Result<> Tree::make_variable(Ino ino, Variable variable) {
  if (ino == kRootIno) return fail(EINVAL, "the root of this source is a group and cannot become a variable");
  Source& source = dataset_.source();
  {
    const std::shared_lock layout(layout_);  // not alone: another variable may be on its way to another chain for hours
    CODECFS_ASSIGN(const Place place, nodes_.at(ino));
    const Node& group = *place.node;
    if (group.kind != NodeKind::group) return fail(EEXIST, "{}: became a variable meanwhile", group.path);
    CODECFS_ASSIGN(const Place parent, nodes_.at(group.parent));
    CODECFS_ASSIGN(variable.filters, chain_for_new(group, variable));
    if (const Result<> known = check_known(group.path, variable.filters); !known) return known;
    CODECFS_ASSIGN(variable.attributes, source.group_attributes(group.object));
    if (!variable.fill_value.is_null())
      std::erase_if(variable.attributes, [](const Attribute& attribute) { return attribute.name == "_FillValue"; });
    const DirectoryState before = state_of(ino);
    if (before.dimensions && before.dimensions->size() == variable.grid.rank()) variable.dimensions = before.dimensions;
    CODECFS_TRY(source.begin_writing());
    CODECFS_ASSIGN(const Entry made, source.make_variable(parent.node->object, last_part(group.path), variable));
    dataset_.forget(group.object);
    nodes_.become_variable(group, made.object);
    change_state(ino, [&](DirectoryState& state) {
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
  for (const NodeKind kind : {NodeKind::group, NodeKind::variable})
    for (const NamedFile& file : files_of(kind)) kernel_.name_changed(ino, std::string(file.name), false);
  adopt_spooled(*place.node);
  return {};
}

/// Chunks that came before the .zarray, as cp -r may bring them.
void Tree::adopt_spooled(const Node& variable) {
  for (const auto& [name, ino] : scratch_.list(variable.ino())) {
    if (name == kFilter || name == kCodecs) {
      const FileKind file = name == kFilter ? FileKind::filter : FileKind::codecs;
      change_state(variable.ino(), [&](DirectoryState& state) { state.hidden.erase(file); });
      scratch_.become(variable.ino(), name, variable.ino(file));
      kernel_.name_changed(variable.ino(), name, false);
      continue;
    }
    const Result<std::optional<ChunkPlace>> chunk = chunk_named(variable, name);
    if (!chunk) log::error("{}", chunk.error().reason);
    if (!chunk || !*chunk) continue;
    const Result<std::string> content = scratch_.seal(variable.ino(), name);
    if (!content) continue;  // on its way to another name
    const Result<> stored = write_back_.replace(**chunk, std::as_bytes(std::span(*content)));
    if (stored) {
      scratch_.become(variable.ino(), name, (*chunk)->key);
      kernel_.name_changed(variable.ino(), name, false);
    } else {  // it stays, and is told of at the end
      scratch_.unseal(variable.ino(), name);
      note_error((*chunk)->key, stored.error());
    }
  }
}

// --- chains

Result<> Tree::set_chain(const Node& node, const std::vector<FilterStage>& chain, const Cancelled& cancelled) {
  CODECFS_TRY(check_known(node.path, chain));
  const std::shared_lock layout(layout_);
  Source& source = dataset_.source();
  CODECFS_TRY(source.begin_writing());
  CODECFS_ASSIGN(const WriteBack::Pause pause, write_back_.pause(node.object));
  CODECFS_ASSIGN(const VariableViewPtr before, dataset_.variable(node.object));
  Progress progress;
  progress.cancelled = cancelled;
  {
    const std::lock_guard lock(states_mutex_);
    recoding_[node.object] = &progress;
  }
  const Result<> set = source.set_filters(node.object, chain, progress);
  {
    const std::lock_guard lock(states_mutex_);
    recoding_.erase(node.object);
    states_[node.ino()].rule_applied |= set.has_value();
  }
  if (!set && set.error().code == ECANCELED) return fail(EINTR, "{}: cancelled; nothing has changed", node.path);
  CODECFS_TRY(set);
  write_back_.note_change();
  metadata_changed(node);
  CODECFS_ASSIGN(const VariableViewPtr after, dataset_.variable(node.object));
  if (*after->codecs != *before->codecs) {
    ++stats_.variables_recoded;
    log::info("{}: {} chunks are stored with {} now", node.path, progress.done.load(), trimmed(*after->codecs));
    // Their stored sizes; the bytes are the same.
    const uint64_t count = after->facts->grid.count();
    CODECFS_ASSIGN(const Ino first, nodes_.chunk_ino(node, 0, count));
    kernel_.attributes_changed(first, std::min(count, kMostNotices));
  }
  return write_back_.commit();
}

bool Tree::is_overruled(const Node& node) {
  if (rules_.empty() || !state_of(node.ino()).fresh) return false;
  const Result<VariableViewPtr> view = dataset_.variable(node.object);
  return view && chain_of_rules(node, *(*view)->facts).has_value();
}

Result<> Tree::set_spec(const Node& node, std::string_view spec, const Cancelled& cancelled) {
  CODECFS_ASSIGN(std::vector<FilterStage> chain, parse_spec(node.path, spec));
  CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
  // What is there is left as it is, in whatever order.
  const Result<std::string> written = filters::print_filter_spec(chain);
  const Result<std::string> stands = filters::print_filter_spec(view->facts->filters);
  if (written && stands && *written == *stands) {
    change_state(node.ino(), [](DirectoryState& state) { state.rule_applied = true; });
    return {};
  }
  return set_chain(node, arranged(std::move(chain), *view->facts, node.path), cancelled);
}

Result<> Tree::set_codecs(const Node& node, std::string_view json, const Cancelled& cancelled) {
  CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
  CODECFS_ASSIGN(const std::vector<FilterStage> chain, parse_codecs(node.path, json, view->facts->type.size));
  return set_chain(node, chain, cancelled);
}

Result<> Tree::apply_rules(const ChunkPlace& chunk, const Cancelled& cancelled) {
  if (rules_.empty()) return {};
  CODECFS_ASSIGN(const Place place, nodes_.at(chunk.key));
  if (state_of(place.node->ino()).rule_applied) return {};
  CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(place.node->object));
  const auto chain = chain_of_rules(*place.node, *view->facts);
  if (chain) CODECFS_TRY(set_chain(*place.node, *chain, cancelled));
  change_state(place.node->ino(), [](DirectoryState& state) { state.rule_applied = true; });
  return {};
}

// --- extended attributes

Result<> Tree::set_default_chain(const Node& group, std::string_view name, std::string_view value) {
  std::vector<FilterStage> chain;
  if (name == kFilter) {
    CODECFS_ASSIGN(chain, parse_spec(group.path, value));
  } else {
    CODECFS_ASSIGN(chain, parse_codecs(group.path, value, 0));
  }
  CODECFS_TRY(check_known(group.path, chain));
  CODECFS_ASSIGN(std::string spec, filters::print_filter_spec(chain));
  change_state(group.ino(), [&](DirectoryState& state) {
    state.filter = spec.empty() ? "none" : std::move(spec);
    state.chain = std::move(chain);
  });
  xattrs_.erase(group.ino());
  return {};
}

/// One of netCDF's special attributes.
Result<> Tree::set_special(const Node& node, std::string_view name, std::string_view value,
                           const Cancelled& cancelled) {
  if (name == kFilter) return set_spec(node, value, cancelled);
  if (name == kCodecs) return set_codecs(node, value, cancelled);
  CODECFS_ASSIGN(const VariableViewPtr view, dataset_.variable(node.object));
  std::vector<FilterStage> chain = view->facts->filters;
  if (name == "_DeflateLevel") {
    const std::string_view digits = trimmed(value);
    if (digits.size() != 1 || digits[0] < '0' || digits[0] > '9')
      return fail(EINVAL, "{}: _DeflateLevel is a number from 0 to 9, not \"{}\"", node.path, digits);
    chain = with_filter(std::move(chain), kDeflate, true, {static_cast<uint32_t>(digits[0] - '0')});
  } else if (name == "_Shuffle" || name == "_Fletcher32") {
    const Result<bool> wanted = parse_switch(value);
    if (!wanted) return fail(EINVAL, "{}: {}: {}", node.path, name, wanted.error().reason);
    const uint32_t id = name == "_Shuffle" ? kShuffle : kFletcher32;
    if (*wanted == (std::ranges::find(chain, id, &FilterStage::id) != chain.end())) return {};
    chain = with_filter(std::move(chain), id, *wanted);
  } else {
    return fail(EPERM, "{}: {} cannot be changed", node.path, name);
  }
  return set_chain(node, arranged(std::move(chain), *view->facts, node.path), cancelled);
}

Result<> Tree::set_xattr(Ino ino, std::string_view name, std::string_view value, XattrMode mode,
                         const Cancelled& cancelled) {
  CODECFS_ASSIGN(const Place place, place_of(ino));
  const Node& node = *place.node;
  if (!name.starts_with(kUser)) return std::unexpected(Error{EOPNOTSUPP, {}});
  if (read_only_) return fail(EROFS, "{}: this mount is read-only", node.path);
  if (place.file != FileKind::itself || (node.kind != NodeKind::group && node.kind != NodeKind::variable))
    return fail(EPERM, "{}: only groups and variables have attributes that can be changed", node.path);
  const std::string_view plain = name.substr(kUser.size());
  CODECFS_ASSIGN(const XattrView view, xattrs(ino));
  const auto now = std::ranges::find(*view.stored, name, &Xattr::name);
  if (mode == XattrMode::create && now != view.stored->end()) return std::unexpected(Error{EEXIST, {}});
  if (mode == XattrMode::replace && now == view.stored->end()) return std::unexpected(Error{ENODATA, {}});
  // As cp -a brings it.
  if (is_special_xattr(name) && plain != kFilter && plain != kCodecs && now != view.stored->end() &&
      now->value == value)
    return {};
  if (node.kind == NodeKind::group && (plain == kFilter || plain == kCodecs))
    return set_default_chain(node, plain, value);
  if (is_special_xattr(name)) {
    if (node.kind == NodeKind::variable) {
      CODECFS_TRY(set_special(node, plain, value, cancelled));
      show(node, {FileKind::filter, FileKind::codecs});
      return {};
    }
    return fail(EPERM, "{}: {} is not for groups", node.path, plain);
  }

  const std::shared_lock layout(layout_);
  std::vector<Attribute> attributes;
  if (node.kind == NodeKind::variable) {
    CODECFS_ASSIGN(const VariablePtr variable, dataset_.described(node.object));
    attributes = variable->attributes;
  } else {
    CODECFS_ASSIGN(attributes, dataset_.source().group_attributes(node.object));
  }
  const auto stands = std::ranges::find(attributes, plain, &Attribute::name);
  const Attribute wanted{std::string(plain),
                         attribute_value(value, stands == attributes.end() ? nullptr : &stands->value)};
  CODECFS_TRY(dataset_.source().set_attributes(node.object, std::span(&wanted, 1), {}));
  write_back_.note_change();
  show(node, {FileKind::zattrs});
  metadata_changed(node);
  return {};
}

Result<> Tree::remove_xattr(Ino ino, std::string_view name, const Cancelled& cancelled) {
  CODECFS_ASSIGN(const Place place, place_of(ino));
  const Node& node = *place.node;
  if (name == "user._Error") {
    const std::lock_guard lock(errors_mutex_);
    if (errors_.erase(ino) == 0) return std::unexpected(Error{ENODATA, {}});
    return {};
  }
  if (read_only_) return fail(EROFS, "{}: this mount is read-only", node.path);
  CODECFS_ASSIGN(const XattrView view, xattrs(ino));
  if (std::ranges::find(*view.stored, name, &Xattr::name) == view.stored->end())
    return std::unexpected(Error{ENODATA, {}});
  if (place.file != FileKind::itself) return fail(EPERM, "{}: cannot be changed", node.path);
  const std::string plain(name.substr(kUser.size()));
  if (node.kind == NodeKind::group && (plain == kFilter || plain == kCodecs)) {
    change_state(ino, [](DirectoryState& state) {
      state.filter.reset();
      state.chain.clear();
    });
    xattrs_.erase(ino);
    return {};
  }
  if (plain == "_Shuffle" || plain == "_Fletcher32") return set_special(node, plain, "false", cancelled);
  if (plain == "_DeflateLevel") {
    CODECFS_ASSIGN(const VariableViewPtr variable, dataset_.variable(node.object));
    return set_chain(node, with_filter(variable->facts->filters, kDeflate, false), cancelled);
  }
  if (is_special_xattr(name))
    return fail(EPERM, "{}: {} cannot be removed; no filters are set with: setfattr -n user._Filter -v none", node.path,
                plain);
  const std::shared_lock layout(layout_);
  CODECFS_TRY(dataset_.source().set_attributes(node.object, {}, std::span(&plain, 1)));
  write_back_.note_change();
  metadata_changed(node);
  return {};
}

}  // namespace codecfs::fs
