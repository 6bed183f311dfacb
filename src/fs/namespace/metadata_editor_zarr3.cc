// What a written zarr.json says. See metadata_editor.cc for the rest.

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <ranges>
#include <span>
#include <utility>

#include "base/log.h"
#include "fs/namespace/metadata_editor.h"
#include "fs/nodes/chunk_names.h"
#include "fs/nodes/staged_names.h"
#include "model/json.h"
#include "model/small_float.h"
#include "model/zarr3_type.h"

namespace codecfs::fs {
namespace {

auto is_named(std::string_view name) {
  return [name](const Attribute& attribute) { return attribute.name == name; };
}

std::unexpected<Error> refuse_shards() {
  return fail(EINVAL,
              "zarr.json: only a source of Zarr v3 can store shards: write without them (zarr-python: "
              "shards=None)");
}

bool has_no_names(const Variable& variable) {
  return !variable.dimensions &&
         (!variable.some_dimensions ||
          std::ranges::none_of(*variable.some_dimensions, [](const auto& name) { return name.has_value(); }));
}

/// EINVAL for names of some dimensions only.
Result<> check_names(const Variable& variable) {
  if (variable.dimensions || has_no_names(variable)) return {};
  return fail(
      EINVAL,
      "zarr.json: \"dimension_names\" has a null beside names, which only a source of Zarr v3 can store: name all "
      "dimensions or none");
}

/// Whether there are such chunks, or such directories of chunks.
bool is_inside(const ChunkGrid& grid, std::span<const uint64_t> coordinates, bool is_directory) {
  if (is_directory ? coordinates.size() >= grid.rank() : coordinates.size() != grid.rank()) return false;
  return std::ranges::equal(coordinates, grid.cells() | std::views::take(coordinates.size()), std::less());
}

const Json& single_of(const Json& value) { return value.is_array() && value.size() == 1 ? value[0] : value; }

/// Whether an attribute _FillValue is the fill value of absent chunks.
bool is_fill(const Variable& variable, const Json& value) {
  const Json& single = single_of(value);
  if (variable.type.kind == TypeKind::object) {
    const auto element = zarr3_fill_bytes({variable.type, variable.object_codec, {}}, single);
    return element && *element == variable.fill;
  }
  const auto element = fill_bytes(variable.type, single);
  return element && *element == variable.fill;
}

Json fill_json_of(const Variable& variable) {
  if (variable.type.kind == TypeKind::object)
    return zarr3_fill_json({variable.type, variable.object_codec, {}}, variable.fill);
  return fill_json(variable.type, variable.fill);
}

}  // namespace

bool MetadataEditor::is_other_fill(const Variable& variable, const Json& value) {
  if (variable.type.kind == TypeKind::object) return false;
  const auto element = fill_bytes(variable.type, single_of(value));
  return element && *element != variable.fill;
}

Result<> MetadataEditor::apply_zarr_json(Ino directory, std::string_view text, const Cancelled& cancelled) {
  CODECFS_ASSIGN(const Place place, mount_.tree.nodes.at(directory));
  const Node& node = *place.node;
  Result<WrittenZarr3> written = parse_zarr_json(text, node.form().is_encoded);
  if (!written) return fail(written.error().code, "{}: {}", node.path, written.error().reason);
  take_listed_names(*written);
  if (node.kind == NodeKind::group && written->is_array) return make_array(directory, *std::move(written));
  if (node.kind == NodeKind::variable) return change_array(directory, *written, cancelled);
  const SharedLock layout(mount_.tree.layout);
  CODECFS_ASSIGN(std::vector<Attribute> now, mount_.dataset.source().group_attributes(node.object));
  return change_attributes(node, written->attributes, {std::move(now), {}}, {});
}

/// In a store of Zarr v3, _ARRAY_DIMENSIONS is an attribute like others. Other sources have no others: there it
/// completes `dimension_names`, which programs that write format 2, too, leave out, and in which a name cannot be
/// twice.
void MetadataEditor::take_listed_names(WrittenZarr3& written) const {
  std::optional<std::vector<std::string>> listed = std::exchange(written.attributes.dimensions, std::nullopt);
  if (!listed) return;
  if (mount_.dataset.source().is_zarr3())
    written.attributes.attributes.push_back({kDimensions, Json(*std::move(listed))});
  else if (auto all = complete_names(names_of(written.variable), *listed))
    codecfs::set_names(written.variable, std::move(all));
}

/// The array differs in nothing but what can be changed: codecs in the encoded view, shape, attributes and names.
Result<> MetadataEditor::change_array(Ino directory, const WrittenZarr3& written, const Cancelled& cancelled) {
  CODECFS_ASSIGN(const Place before, mount_.tree.nodes.at(directory));
  const View view = before.node->view;
  const std::string& path = before.node->path;
  if (!written.is_array) return fail(EINVAL, "{}: is an array and cannot become a group; remove it first", path);
  CODECFS_ASSIGN(const VariablePtr described, mount_.dataset.described(before.node->object));
  const Result<Json> shown = forms_.zarr_json(view, path, *described);
  if (!shown) return fail(EINVAL, "{}: {}", path, shown.error().reason);
  // The written text is compared with the shown one, as both have what zarr.json can say.
  CODECFS_ASSIGN(WrittenZarr3 stands, parse_zarr_json(print_json(*shown), true));
  take_listed_names(stands);
  const Variable& now = stands.variable;
  const Variable& wanted = written.variable;
  const auto unchangeable = [&](const char* key) {
    return fail(EINVAL, "{}: \"{}\" of a variable cannot be changed from {}; make another variable", path, key,
                print_json((*shown)[key]));
  };
  if (now.type != wanted.type || now.zarr3_type != wanted.zarr3_type) return unchangeable("data_type");
  if (now.chunk_keys != wanted.chunk_keys) return unchangeable("chunk_key_encoding");
  if (now.grid.chunks() != wanted.grid.chunks()) return unchangeable("chunk_grid");
  if (wanted.shards && !mount_.dataset.source().is_zarr3()) return refuse_shards();
  if (now.fill != wanted.fill) return unchangeable("fill_value");
  if (now.grid.rank() != wanted.grid.rank()) return unchangeable("shape");
  if (!are_same_shards(now, wanted)) {
    CODECFS_TRY(filters_.set_sharding(directory, wanted, cancelled));
  } else if (form_of(view).is_encoded && !now.shards) {
    CODECFS_TRY(filters_.apply_codecs(directory, wanted, cancelled));
  }
  const SharedLock layout(mount_.tree.layout);
  CODECFS_ASSIGN(const Place place, mount_.tree.nodes.at(directory));
  CODECFS_TRY(resize(*place.node, wanted.grid.shape()));
  CODECFS_ASSIGN(std::optional<Names> names, changed_names(now, wanted));
  CODECFS_TRY(change_attributes(*place.node, written.attributes, stands.attributes, names));
  return remove_unlinked(*place.node);
}

/// The names that the source must change, if any. Those that are shown may be made up: they are no reason to refuse a
/// file without names.
Result<std::optional<MetadataEditor::Names>> MetadataEditor::changed_names(const Variable& now,
                                                                           const Variable& wanted) const {
  const Names names{names_of(now), names_of(wanted)};
  if (names.shown == names.wanted) return std::nullopt;
  if (mount_.dataset.source().is_zarr3()) return names;
  if (has_no_names(wanted)) return std::nullopt;
  // What is shown of names that are there twice, without the attribute that has all.
  if (now.dimensions && wanted.some_dimensions == distinct_names(*now.dimensions)) return std::nullopt;
  CODECFS_TRY(check_names(wanted));
  return names;
}

Result<> MetadataEditor::set_names(const Node& node, const std::optional<OptionalNames>& names) {
  Source& source = mount_.dataset.source();
  if (source.is_zarr3()) {
    CODECFS_TRY(source.set_dimension_names(node.object, names));
  } else {
    std::vector<std::string> all;
    for (const std::optional<std::string>& name : names.value_or(OptionalNames())) all.push_back(name.value_or(""));
    CODECFS_TRY(source.set_dimensions(node.object, all));
  }
  notifier_.layout_changed(node, false);
  return {};
}

/// `shown`: what the file said before, to which the source may have more.
Result<> MetadataEditor::change_attributes(const Node& node, const WrittenAttributes& written,
                                           const WrittenAttributes& shown, const std::optional<Names>& names) {
  std::vector<Attribute> set;
  std::vector<std::string> removed;
  for (const Attribute& attribute : written.attributes) {
    const auto same = std::ranges::find_if(shown.attributes, is_named(attribute.name));
    if (same == shown.attributes.end() || print_json(same->value) != print_json(attribute.value))
      set.push_back(attribute);
  }
  std::vector<Attribute> now;
  VariablePtr variable;
  if (node.kind == NodeKind::variable) {
    CODECFS_ASSIGN(variable, mount_.dataset.described(node.object));
    now = variable->attributes;
  } else {
    now = shown.attributes;
  }
  for (const Attribute& attribute : shown.attributes)
    if (std::ranges::none_of(written.attributes, is_named(attribute.name)) &&
        std::ranges::any_of(now, is_named(attribute.name)))
      removed.push_back(attribute.name);
  if (set.empty() && removed.empty() && !names) return {};
  if (variable != nullptr && variable->unreadable_attributes) return std::unexpected(*variable->unreadable_attributes);
  Source& source = mount_.dataset.source();
  if (names) CODECFS_TRY(set_names(node, names->wanted));
  Result<> done;
  if (!set.empty() || !removed.empty()) done = source.set_attributes(node.object, set, removed);
  if (!done && names && (names->shown || source.is_zarr3())) (void)set_names(node, names->shown);
  mount_.chunks.write_back.note_change();
  notifier_.metadata_changed(node);
  return done;
}

Result<> MetadataEditor::make_array(Ino directory, WrittenZarr3 written) {
  Variable& variable = written.variable;
  const bool keeps_names = mount_.dataset.source().is_zarr3();
  if (variable.chunk_keys != (keeps_names ? kZarr3Format.keys_of(variable) : ChunkKeys()))
    return fail(EINVAL, "zarr.json: new chunks are named c/0/1 here: \"chunk_key_encoding\" is \"default\" with \"/\"");
  if (variable.shards && !keeps_names) return refuse_shards();
  variable.attributes = std::move(written.attributes.attributes);
  if (!keeps_names) {
    CODECFS_TRY(check_names(variable));
    variable.some_dimensions.reset();
  }
  // A .zarray has a fill value, which is not that of missing data; HDF5 has one attribute for both, so there it is
  // _FillValue alone that gives .zarray a fill_value.
  CODECFS_ASSIGN(const Place place, mount_.tree.nodes.at(directory));
  const bool has_zarray = mount_.dataset.source().chains_for_numcodecs_in(place.node->object);
  if (!variable.zarr3_type.empty() && !keeps_names) {  // HDF5 has any float that is made as those of IEEE 754
    const SmallFloat* format = small_float_named(variable.zarr3_type);
    if (has_zarray || format == nullptr || !format->is_like_ieee())
      return fail(EINVAL, "zarr.json: the data type {} can only be stored in a Zarr v3 store", variable.zarr3_type);
  }
  const auto mark = std::ranges::find_if(variable.attributes, is_named(kFillAttribute));
  const bool is_marked = mark != variable.attributes.end() && is_fill(variable, mark->value);
  if (has_zarray || is_marked) variable.fill_value = fill_json_of(variable);
  if (is_marked && !has_zarray) variable.attributes.erase(mark);

  std::vector<Spooled> spooled;
  CODECFS_TRY(make_variable(directory, std::move(variable), &spooled));
  CODECFS_ASSIGN(const Place made, mount_.tree.nodes.at(directory));
  for (const Spooled& item : spooled) adopt_spooled(*made.node, item);
  return {};
}

/// Removes the groups that were made for the chunks of a group that is about to become an array from the source, and
/// returns what was in them. Their nodes stay until the array is there: programs have these directories open.
Result<std::vector<MetadataEditor::Spooled>> MetadataEditor::take_spooled(const Node& group) {
  CODECFS_ASSIGN(const std::vector<Entry> members, mount_.dataset.source().list(group.object));
  if (members.size() != 1 || members.front().name != "c" || members.front().kind != EntryKind::group)
    return std::vector<Spooled>();
  std::vector<Spooled> spooled;
  CODECFS_ASSIGN(const Node* top, mount_.tree.nodes.child(group, members.front()));
  CODECFS_ASSIGN(const bool is_spool, find_spooled(*top, {}, spooled));
  if (!is_spool) return std::vector<Spooled>();
  CODECFS_TRY(remove_groups(group));
  return spooled;
}

/// Whether a group was made in this mount, and holds nothing but such groups with names of coordinates, and files.
Result<bool> MetadataEditor::find_spooled(const Node& group, std::vector<uint64_t> prefix,
                                          std::vector<Spooled>& spooled) {
  if (!mount_.tree.overlay.state_of(group).made_here) return false;
  CODECFS_ASSIGN(const std::vector<Attribute> attributes, mount_.dataset.source().group_attributes(group.object));
  if (!attributes.empty()) return false;
  spooled.push_back({prefix, &group, {}});
  for (auto& [name, ino] : mount_.tree.scratch.list(group.ino())) {
    const std::optional<uint64_t> coordinate = parse_coordinate(name);
    if (!coordinate && is_temporary_name(name)) continue;
    if (!coordinate) return false;
    prefix.push_back(*coordinate);
    spooled.push_back({prefix, &group, name});
    prefix.pop_back();
  }
  CODECFS_ASSIGN(const std::vector<Entry> members, mount_.dataset.source().list(group.object));
  for (const Entry& member : members) {
    const std::optional<uint64_t> coordinate = parse_coordinate(member.name);
    if (member.kind != EntryKind::group || !coordinate || prefix.size() >= ChunkGrid::kMaxRank) return false;
    CODECFS_ASSIGN(const Node* child, mount_.tree.nodes.child(group, member));
    prefix.push_back(*coordinate);
    CODECFS_ASSIGN(const bool is_spool, find_spooled(*child, prefix, spooled));
    prefix.pop_back();
    if (!is_spool) return false;
  }
  return true;
}

/// The groups that stand for directories of chunks in this grid.
std::vector<Nodes::FormerGroup> MetadataEditor::directories_of(const std::vector<Spooled>& spooled,
                                                               const ChunkGrid& grid) {
  std::vector<Nodes::FormerGroup> directories;
  for (const Spooled& item : spooled)
    if (item.name.empty() && is_inside(grid, item.coordinates, true))
      directories.push_back({item.group, ChunkDirectories(grid).number_of(item.coordinates)});
  return directories;
}

/// Temporary files in a former group stay in the directory of chunks. One that is being renamed goes its way.
Result<> MetadataEditor::keep_temporary(const Node& former) {
  CODECFS_ASSIGN(const Place place, mount_.tree.nodes.at(former.ino()));
  CODECFS_ASSIGN(const Ino directory, mount_.ino_of(place));
  for (const auto& [name, ino] : mount_.tree.scratch.list(former.ino()))
    if (!parse_coordinate(name)) (void)mount_.tree.scratch.rename(former.ino(), name, directory, name);
  return {};
}

void MetadataEditor::adopt_spooled(const Node& variable, const Spooled& spooled) {
  const Result<VariableViewPtr> view = mount_.dataset.variable(variable.object);
  if (!view) return;
  const ChunkGrid& grid = grid_of(variable.view, *(*view)->facts);
  const std::vector<uint64_t>& at = spooled.coordinates;
  const bool is_group = spooled.name.empty();
  if (is_inside(grid, at, is_group)) {
    if (is_group) return;
    if (const auto chunk = mount_.chunk_place(variable, grid.number_of(at)))
      adopt_chunk(variable, *chunk, spooled.group->ino(), spooled.name);
  } else {
    log::error("{}/c/{}: no {} of this array", variable.path, fmt::join(at, "/"), is_group ? "directory" : "chunk");
  }
}

/// Removes all groups below one.
Result<> MetadataEditor::remove_groups(const Node& group) {
  CODECFS_ASSIGN(const std::vector<Entry> members, mount_.dataset.source().list(group.object));
  for (const Entry& member : members) {
    CODECFS_ASSIGN(const Node* child, mount_.tree.nodes.child(group, member));
    CODECFS_TRY(remove_groups(*child));
    CODECFS_TRY(mount_.dataset.source().remove(group.object, member.name));
    mount_.tree.overlay.forget(*child);
    mount_.dataset.forget(member.object);
  }
  return {};
}

}  // namespace codecfs::fs
