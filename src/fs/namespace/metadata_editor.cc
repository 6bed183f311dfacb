#include "fs/namespace/metadata_editor.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <utility>

#include "base/log.h"
#include "fs/nodes/chunk_names.h"
#include "fs/nodes/metadata_files.h"
#include "model/json.h"

namespace codecfs::fs {
namespace {

auto named(std::string_view name) {
  return [name](const Attribute& attribute) { return attribute.name == name; };
}

/// Where what was written as the names of dimensions is, or is not, an attribute like others. `has_names`: the variable
/// has names now, of which another number is a mistake.
void sort_dimensions(const std::vector<Attribute>& now, size_t rank, bool has_names, WrittenAttributes& written) {
  if (written.dimensions && written.dimensions->size() != rank && !has_names) {
    written.attributes.push_back({kDimensions, Json(*std::exchange(written.dimensions, std::nullopt))});
  } else if (std::ranges::none_of(now, named(kDimensions))) {  // null is no name
    std::erase_if(written.attributes, [](const Attribute& attribute) {
      return attribute.name == kDimensions && attribute.value.is_null();
    });
  }
}

/// The names of dimensions in what was the .zattrs of a group that becomes this variable.
void take_dimensions(const DirectoryState& group, Variable& variable) {
  const size_t rank = variable.grid.rank();
  const auto attribute = std::ranges::find_if(variable.attributes, named(kDimensions));
  std::optional<std::vector<std::string>> names = group.dimensions;
  if (attribute != variable.attributes.end()) {
    const Json value = attribute->value;
    const bool are_names = value.is_array() && value.size() == rank &&
                           std::ranges::all_of(value, [](const Json& item) { return item.is_string(); });
    if (are_names) names = value.get<std::vector<std::string>>();
    if (are_names || names) variable.attributes.erase(attribute);
  }
  if (!names) return;
  if (names->size() == rank)
    variable.dimensions = std::move(names);
  else if (rank > 0 || *names != std::vector<std::string>{"_scalar_"})
    variable.attributes.push_back({kDimensions, Json(*std::move(names))});
}

/// In a store of Zarr v3 the names of a view of v2 are an attribute, too, if there is one, or a name is there twice.
/// Where they are shown because of that attribute alone, and have not changed, they are nothing else.
void list_names(const std::vector<Attribute>& now, const Variable& facts, WrittenAttributes& written) {
  if (!written.dimensions || written.dimensions == facts.dimensions) return;
  const auto attribute = std::ranges::find_if(now, named(kDimensions));
  if (attribute == now.end() && !has_unnamed(distinct_names(*written.dimensions))) return;
  written.attributes.push_back({kDimensions, Json(*written.dimensions)});
  if (!facts.dimensions && attribute != now.end() && *attribute->value == *written.attributes.back().value)
    written.dimensions.reset();
}

/// Sets the maximum shape of a new variable without one: what a copy of an HDF5 file notes, or else its shape if it
/// `is_fixed`.
void set_limits(Variable& variable, bool is_fixed) {
  if (!variable.max_shape.empty()) return;
  const ChunkGrid& grid = variable.grid;
  variable.max_shape = noted_limits(variable);
  if (variable.max_shape.empty() && is_fixed) variable.max_shape.assign(grid.shape().begin(), grid.shape().end());
  for (size_t d = 0; d < variable.max_shape.size(); ++d) {
    std::optional<uint64_t>& most = variable.max_shape[d];
    if (most == 0) most.reset();                         // netCDF has no other dimensions without elements
    if (most) most = std::max(*most, grid.chunks()[d]);  // HDF5 has no longer chunks
  }
}

/// The dimensions of a group, but for those with generated names.
Result<> define_dimensions(Source& source, ObjectId group, WrittenAttributes& written) {
  const std::set<std::string> phony = phony_names(written.attributes);
  std::erase_if(written.defined, [&](const GroupDimension& one) { return phony.contains(one.name); });
  std::erase_if(written.attributes, named(kPhonyDimensions));
  return source.define_dimensions(group, written.defined);
}

}  // namespace

/// Does what the text of a metadata file says.
Result<> MetadataEditor::apply(Ino ino, std::string_view text, const Cancelled& cancelled) {
  if (mount_.options.read_only) return fail(EROFS, "this mount is read-only");
  CODECFS_ASSIGN(const Place place, mount_.tree.nodes.at(ino));
  const Node& node = *place.node;
  Result<> applied;
  switch (place.file) {
    case FileKind::zgroup: applied = apply_zgroup(node.ino(), text); break;
    case FileKind::zmetadata: applied = Result<>(); break;  // it is made of what is there
    case FileKind::zattrs: applied = apply_zattrs(node.ino(), text); break;
    case FileKind::zarray: applied = apply_zarray(node.ino(), text, cancelled); break;
    case FileKind::zarr_json: applied = apply_zarr_json(node.ino(), text, cancelled); break;
    case FileKind::chunk: {
      CODECFS_ASSIGN(const ChunkPlace chunk, mount_.chunk_place(ino));
      return chunk_files_.put(node, chunk, std::as_bytes(std::span(text)), cancelled);
    }
    case FileKind::filter:
    case FileKind::codecs:
      if (filters_.is_overruled(node))
        log::info("{}/{}: a rule of the mount decides instead", node.path, name_of(place.file));
      else if (place.file == FileKind::filter)
        applied = filters_.set_spec(node, text, cancelled);
      else
        applied = filters_.set_codecs(node, text, cancelled);
      break;
    default: applied = fail(EPERM, "{}: cannot be written", node.path); break;
  }
  if (applied) {
    mount_.tree.overlay.change(node, [&](DirectoryState& state) {
      state.hidden.erase(place.file);
      // Both files tell that the variable is there.
      if (place.file == FileKind::zarray) state.hidden.erase(FileKind::zarr_json);
      if (place.file == FileKind::zarr_json)
        for (const FileKind file : {FileKind::zarray, FileKind::zattrs}) state.hidden.erase(file);
      state.refused_v3 = false;
    });
    mount_.errors.succeeded(node.ino(), RequestKind::attributes);
  } else {
    // The error is kept for the directory, too: the file may not exist afterwards.
    mount_.errors.failed(node.ino(), RequestKind::attributes, applied.error().reason);
  }
  return applied;
}

/// What was written as the names of dimensions is an attribute of a group.
Result<> MetadataEditor::apply_zgroup(Ino directory, std::string_view text) {
  CODECFS_TRY(check_zgroup(text));
  const SharedLock layout(mount_.tree.layout);
  CODECFS_ASSIGN(const Place place, mount_.tree.nodes.at(directory));
  const Node& node = *place.node;
  const auto names = mount_.tree.overlay.state_of(node).dimensions;
  if (node.kind != NodeKind::group || !names) return {};
  const Attribute attribute{kDimensions, Json(*names)};
  CODECFS_TRY(mount_.dataset.source().set_attributes(node.object, {&attribute, 1}, {}));
  mount_.tree.overlay.change(node, [](DirectoryState& state) { state.dimensions.reset(); });
  mount_.chunks.write_back.note_change();
  notifier_.metadata_changed(node);
  return {};
}

Result<> MetadataEditor::apply_zattrs(Ino directory, std::string_view text) {
  const SharedLock layout(mount_.tree.layout);
  CODECFS_ASSIGN(const Place place, mount_.tree.nodes.at(directory));
  const Node& node = *place.node;
  Result<WrittenAttributes> written = parse_zattrs(text);
  if (!written) return fail(written.error().code, "{}: {}", node.path, written.error().reason);
  Source& source = mount_.dataset.source();
  std::vector<Attribute> now;
  bool keeps_fill = false;
  if (node.kind == NodeKind::variable) {
    CODECFS_ASSIGN(const VariableViewPtr view, mount_.dataset.variable(node.object));
    const Variable& facts = *view->facts;
    const size_t rank = facts.grid.rank();
    // Zarr writers tell it as the fill_value of .zarray, and only there.
    keeps_fill = !facts.fill_value.is_null();
    if (written->dimensions == std::vector<std::string>{"_scalar_"} && rank == 0) written->dimensions.reset();
    CODECFS_ASSIGN(now, source.variable_attributes(node.object));
    bool has_names = false;
    // Otherwise what names there are does not matter: finding them may take a walk through the whole source.
    if (written->dimensions && (rank == 0 || written->dimensions->size() != rank)) {
      CODECFS_ASSIGN(const VariablePtr variable, mount_.dataset.described(node.object));
      has_names = variable->dimensions.has_value();
      if (has_names && variable->dimensions->empty() && written->dimensions->empty()) written->dimensions.reset();
    }
    sort_dimensions(now, rank, has_names, *written);
    if (source.is_zarr3()) list_names(now, facts, *written);
  } else {
    if (!written->defined.empty()) CODECFS_TRY(define_dimensions(source, node.object, *written));
    CODECFS_ASSIGN(now, source.group_attributes(node.object));
    const bool stays_group = !mount_.tree.overlay.state_of(node).hidden.contains(FileKind::zgroup);
    if (stays_group && written->dimensions)
      written->attributes.push_back({kDimensions, Json(*std::exchange(written->dimensions, std::nullopt))});
  }
  std::vector<std::string> removed;
  for (const Attribute& attribute : now) {
    if (std::ranges::any_of(written->attributes, named(attribute.name))) continue;
    if (keeps_fill && attribute.name == kFillAttribute) continue;
    if (written->dimensions && attribute.name == kDimensions) continue;  // is replaced
    removed.push_back(attribute.name);
  }
  std::erase_if(written->attributes, [&](const Attribute& attribute) {
    const auto same = std::ranges::find_if(now, named(attribute.name));
    return same != now.end() && print_json(same->value) == print_json(attribute.value);
  });
  Result<> set;
  if (node.kind == NodeKind::variable && written->dimensions) {
    // Dimension names are set also where they are shown already: an HDF5 file may show a name that it does not tell.
    set = source.set_metadata(node.object, *written->dimensions, written->attributes, removed);
    notifier_.layout_changed(node, false);
  } else {
    // They are for the variable that this directory may be about to become.
    if (written->dimensions)
      mount_.tree.overlay.change(node, [&](DirectoryState& state) { state.dimensions = written->dimensions; });
    if (!written->attributes.empty() || !removed.empty())
      set = source.set_attributes(node.object, written->attributes, removed);
  }
  mount_.chunks.write_back.note_change();
  notifier_.metadata_changed(node);
  return set;
}

Result<> MetadataEditor::apply_zarray(Ino directory, std::string_view text, const Cancelled& cancelled) {
  CODECFS_ASSIGN(const Place before, mount_.tree.nodes.at(directory));
  const bool with_codecs = before.node->form().is_encoded;
  Result<Variable> wanted = parse_zarray(text, with_codecs);
  if (!wanted) return fail(wanted.error().code, "{}: {}", before.node->path, wanted.error().reason);
  if (before.node->kind == NodeKind::group) return make_variable(directory, *std::move(wanted));

  if (with_codecs) CODECFS_TRY(filters_.apply_codecs(directory, *wanted, cancelled));
  const SharedLock layout(mount_.tree.layout);
  CODECFS_ASSIGN(const Place place, mount_.tree.nodes.at(directory));
  const Node& node = *place.node;
  CODECFS_ASSIGN(const VariableViewPtr view, mount_.dataset.variable(node.object));
  const Variable& now = *view->facts;
  const auto unchangeable = [&](const char* key, const Json& stands, const Json& asked) {
    return fail(EINVAL, "{}: \"{}\" of a variable cannot be changed from {} to {}; make another variable", node.path,
                key, print_json(stands), print_json(asked));
  };
  Json stands = zarray_json(now);
  Json asked = zarray_json(*wanted);
  stands["dtype"] = print_dtype(now.type);  // of characters in NCZarr both say more
  asked["dtype"] = print_dtype(wanted->type);
  for (const char* key : {"dtype", "chunks", "filters"})
    if (print_json(stands[key]) != print_json(asked[key])) return unchangeable(key, stands[key], asked[key]);
  // A fill value of Zarr v3 is shown as null where it does not mark missing data; a program that wrote it as fill_value
  // when it made the variable writes it again with every change of the attributes.
  const bool is_shown =
      !now.fill_value.is_null() || (mount_.dataset.source().is_zarr3() && !wanted->fill_value.is_null());
  const bool same_fill =
      is_shown ? !wanted->fill_value.is_null() && now.fill == wanted->fill : wanted->fill_value.is_null();
  if (!same_fill) return unchangeable("fill_value", stands["fill_value"], asked["fill_value"]);
  if (!wanted->max_shape.empty() && wanted->max_shape != now.max_shape)
    return fail(EINVAL, "{}: \"_maxshape\" of a variable cannot be changed; make another variable", node.path);
  CODECFS_TRY(resize(node, wanted->grid.shape()));
  return remove_unlinked(node);
}

/// For a variable of which the metadata had been removed, and chunks after it: now they are removed indeed. Each counts
/// as unlinked until it is, so that its old content does not come back meanwhile.
Result<> MetadataEditor::remove_unlinked(const Node& node) {
  CODECFS_ASSIGN(const VariableViewPtr after, mount_.dataset.variable(node.object));
  for (const uint64_t number : mount_.tree.overlay.unlinked(node)) {
    if (number < after->facts->grid.count()) {
      CODECFS_ASSIGN(const Ino key, mount_.tree.nodes.chunk_key(node, number, after->facts->grid.count()));
      CODECFS_TRY(mount_.chunks.write_back.remove({key, node.object, number, after}));
    }
    mount_.tree.overlay.forget_unlinked(node, number);
  }
  return {};
}

Result<> MetadataEditor::make_variable(Ino ino, Variable variable, std::vector<Spooled>* spooled) {
  Source& source = mount_.dataset.source();
  {
    // Shared: a re-encoding of another variable may hold it for hours.
    const SharedLock layout(mount_.tree.layout);
    CODECFS_ASSIGN(const Place place, mount_.tree.nodes.at(ino));
    const Node& group = *place.node;
    std::optional<DirectoryState::WrittenCodecs> codecs;
    if (group.is_root()) return fail(EINVAL, "the root of this source is a group and cannot become a variable");
    if (group.kind != NodeKind::group) return fail(EEXIST, "{}: became a variable meanwhile", group.path);
    CODECFS_ASSIGN(const Place parent, mount_.tree.nodes.at(group.parent));
    if (group.form().is_encoded) {
      CODECFS_ASSIGN(variable.filters, filters_.chain_for_codecs(group, variable, codecs));
    } else {
      CODECFS_ASSIGN(variable.filters, filters_.chain_for_new(group, variable));
    }
    if (group.form().format().has_attributes_apart) {
      CODECFS_ASSIGN(variable.attributes, source.group_attributes(group.object));
      const auto mark = std::ranges::find_if(variable.attributes, named(kFillAttribute));
      if (!variable.fill_value.is_null() && mark != variable.attributes.end()) {
        // HDF5 has both: there the fill value of a .zarray that is not the attribute is only that of absent chunks.
        if (is_other_fill(variable, mark->value) && !source.chains_for_numcodecs_in(group.object))
          variable.fill_value = Json();
        else
          variable.attributes.erase(mark);
      }
      take_dimensions(mount_.tree.overlay.state_of(group), variable);
      if (source.is_zarr3()) make_names_distinct(variable);
    }
    set_limits(variable, mount_.options.new_are_fixed);
    CODECFS_TRY(source.begin_writing_to(group.object));
    // Before the first chunk can be written.
    mount_.tree.overlay.change(group, [&](DirectoryState& state) { state.codecs = std::move(codecs); });
    if (Result<> made = replace_group(*parent.node, group, variable, spooled); !made) {
      mount_.tree.overlay.change(group, [](DirectoryState& state) { state.codecs.reset(); });
      return made;
    }
    mount_.tree.overlay.change(group, [&](DirectoryState& state) {
      std::set<FileKind> hidden;
      if (state.fresh) hidden = {FileKind::filter, FileKind::codecs};
      if (state.hidden.contains(FileKind::zattrs)) hidden.insert(FileKind::zattrs);
      state.hidden = std::move(hidden);
      state.dimensions.reset();
      state.rule_applied = true;
    });
    mount_.chunks.write_back.note_change();
  }
  CODECFS_ASSIGN(const Place place, mount_.tree.nodes.at(ino));
  announce_variable(*place.node);
  adopt_spooled(*place.node);
  return {};
}

/// Puts the variable in the place of the group. Until it is there, requests that depend on the place wait.
Result<> MetadataEditor::replace_group(const Node& parent, const Node& group, const Variable& variable,
                                       std::vector<Spooled>* spooled) {
  const LockGuard naming(mount_.tree.names);
  std::vector<Nodes::FormerGroup> directories;
  if (spooled != nullptr) {
    CODECFS_ASSIGN(*spooled, take_spooled(group));
    directories = directories_of(*spooled, grid_of(group.view, variable));
  }
  Result<Entry> made = mount_.dataset.source().make_variable(parent.object, group.name(), variable);
  if (made) {
    mount_.dataset.forget(group.object);
    mount_.tree.nodes.become_variable(group, made->object, directories);
  }
  if (spooled != nullptr)
    for (const Spooled& item : *spooled) mount_.tree.nodes.remove(*item.group);  // those that are no directories now
  if (!made) return pass_on(made);
  for (const auto& [former, number] : directories) {
    mount_.tree.overlay.add_made(group, number);
    CODECFS_TRY(keep_temporary(*former));
  }
  return {};
}

/// Tells the kernel that a group has become this variable.
void MetadataEditor::announce_variable(const Node& variable) {
  notifier_.metadata_changed(variable);
  if (const Result<Place> parent = mount_.tree.nodes.at(variable.parent))
    for (const Node* shown : mount_.tree.nodes.in_all_views(*parent->node))
      if (shown->form().array != nullptr) notifier_.member_changed(*shown, variable.name(), true);
  for (const Node* shown : mount_.tree.nodes.in_all_views(variable)) {
    const MetadataFormat& format = shown->form().format();
    for (const std::span<const NamedFile> files : {format.of_groups, format.of_variables})
      for (const NamedFile& file : files)
        mount_.kernel.invalidator->name_changed(shown->ino(), std::string(file.name), false);
    if (format.has_chunk_directories) mount_.kernel.invalidator->name_changed(shown->ino(), "c", false);
  }
}

/// Chunks that came before the .zarray, as cp -r may bring them.
void MetadataEditor::adopt_spooled(const Node& variable) {
  for (const auto& [name, ino] : mount_.tree.scratch.list(variable.ino())) {
    if (name == name_of(FileKind::filter) || name == name_of(FileKind::codecs)) {
      const FileKind file = name == name_of(FileKind::filter) ? FileKind::filter : FileKind::codecs;
      mount_.tree.overlay.change(variable, [&](DirectoryState& state) { state.hidden.erase(file); });
      if (Result<ScratchFiles::Sealed> sealed = mount_.tree.scratch.seal(variable.ino(), name))
        sealed->promote(variable.ino(file));
      mount_.kernel.invalidator->name_changed(variable.ino(), name, false);
      continue;
    }
    const Result<std::optional<ChunkPlace>> chunk = chunk_files_.named(Place{&variable, FileKind::itself, 0}, name);
    if (!chunk) log::error("{}", chunk.error().reason);
    if (chunk && *chunk) adopt_chunk(variable, **chunk, variable.ino(), name);
  }
}

/// The content of a scratch file becomes a chunk.
void MetadataEditor::adopt_chunk(const Node& variable, const ChunkPlace& chunk, Ino directory,
                                 const std::string& name) {
  Result<ScratchFiles::Sealed> sealed = mount_.tree.scratch.seal(directory, name);
  if (!sealed) return;  // on its way to another name
  const Result<Ino> shown =
      mount_.tree.nodes.chunk_ino(variable, chunk.number, grid_of(variable.view, *chunk.variable->facts).count());
  const Result<> stored = shown ? chunk_files_.put(variable, chunk, std::as_bytes(std::span(sealed->content())), {})
                                : Result<>(std::unexpected(shown.error()));
  if (stored) {
    sealed->promote(*shown);
    mount_.kernel.invalidator->name_changed(directory, name, false);
  } else {  // it stays, and is reported at the end
    mount_.note_error(chunk.key, stored.error());
  }
}

Result<> MetadataEditor::resize(const Node& node, const std::vector<uint64_t>& shape) {
  {
    CODECFS_ASSIGN(const VariableViewPtr view, mount_.dataset.variable(node.object));
    const std::vector<uint64_t>& now = view->facts->grid.shape();
    if (shape == now) return {};
    if (shape.size() != now.size())
      return fail(EINVAL, "{}: has {} dimensions, and this shape {}", node.path, now.size(), shape.size());
  }
  CODECFS_TRY(mount_.dataset.source().begin_writing_to(node.object));
  CODECFS_ASSIGN(const WriteBack::Pause pause, mount_.chunks.write_back.pause(node.object));
  // Only with the pause no other request reshapes it.
  CODECFS_ASSIGN(const VariableViewPtr before, mount_.dataset.variable(node.object));
  const Variable& now = *before->facts;
  const std::vector<uint64_t>& old_shape = now.grid.shape();
  if (shape == old_shape) return {};
  // Where only the first dimension has grown, each chunk keeps its number, and so its inode.
  const bool grown =
      shape[0] >= old_shape[0] && std::ranges::equal(shape | std::views::drop(1), old_shape | std::views::drop(1));
  std::optional<Nodes::Reshaping> reshaping;
  if (!grown) reshaping.emplace(mount_.tree.nodes, node);
  CODECFS_TRY(mount_.dataset.source().resize(node.object, shape));
  mount_.chunks.write_back.note_change();
  mount_.dataset.forget_all();
  CODECFS_ASSIGN(const VariableViewPtr after, mount_.dataset.variable(node.object));
  if (!grown || after->facts->grid.count() > kLocalMask / 2) {
    CODECFS_TRY(notifier_.renumber_chunks(node, now.grid.count(), after->facts->grid.count(), true));
  }
  coherence_.note_numbering(node.object, after->facts);
  notifier_.array_files_changed(node);
  notifier_.layout_changed(node);
  return {};
}

}  // namespace codecfs::fs
