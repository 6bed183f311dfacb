#include "backends/zarr/source/metadata_changes.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "backends/zarr/metadata/metadata_write.h"
#include "backends/zarr/metadata/zarr3_write.h"
#include "backends/zarr/source/chunk_listing.h"
#include "backends/zarr/source/nczarr_changes.h"
#include "base/log.h"

namespace codecfs::zarr {
namespace {

/// The .zarray of an array, with its codecs in the form that all readers understand.
Result<std::string> corrected_zarray(const OpenArray& array) {
  if (!array.array.has_wrong_codecs) return array.metadata;
  return with_chain(array.metadata, array.array.variable, array.array.variable.filters);
}

}  // namespace

Result<> MetadataChanges::set_attributes(ObjectId id, std::span<const Attribute> set,
                                         std::span<const std::string> remove) {
  const auto lock = store_.changing_keys();
  CODECFS_ASSIGN(const Object object, editor_.object_to_change(id));
  AttributeChange change{.set = set, .remove = remove, .keeps_dimensions = false};
  if (is_v3()) return set_zarr3_attributes(object, id, change);
  if (object.kind == EntryKind::variable) {
    CODECFS_ASSIGN(const ArrayPtr array, store_.array(id));
    // If it does not fit the shape, it is an ordinary attribute and may be removed.
    change.keeps_dimensions = array->array.variable.dimensions.has_value();
  }
  CODECFS_ASSIGN(const auto text, store_.hierarchy().read_text(join_key(object.key, kAttributesFile)));
  const auto changed = with_attributes(text, change);
  if (!changed) return in_file(group_called(object.key), changed.error());
  if (!*changed) return {};
  return editor_.replace(object, kAttributesFile, **changed);
}

Result<> MetadataChanges::set_zarr3_attributes(const Object& object, ObjectId id, const AttributeChange& change) {
  ArrayPtr array;
  if (object.kind == EntryKind::variable) {
    CODECFS_ASSIGN(array, store_.array(id));
  }
  CODECFS_ASSIGN(const auto text, store_.hierarchy().read_text(join_key(object.key, kZarr3File)));
  if (!text) return fail(ENOENT, "{}: no longer has a zarr.json", group_called(object.key));
  const auto changed = with_zarr3_attributes(*text, change, array ? &array->array.variable.type : nullptr);
  if (!changed) return in_file(group_called(object.key), changed.error());
  if (!*changed) return {};
  return editor_.replace(object, kZarr3File, **changed);
}

Result<> MetadataChanges::set_dimensions(ObjectId id, std::span<const std::string> names) {
  if (is_v3()) {
    CODECFS_ASSIGN(const ArrayPtr array, store_.array(id));
    const auto& now = array->array.variable.dimensions;
    return now && std::ranges::equal(names, *now) ? Result<>() : set_dimension_names(id, distinct_names(names));
  }
  const auto lock = store_.changing_keys();
  CODECFS_ASSIGN(const Object object, editor_.variable_to_change(id));
  CODECFS_ASSIGN(const ArrayPtr array, store_.array(id));
  const Variable& facts = array->array.variable;
  if (names.size() != facts.grid.rank())
    return fail(EINVAL, "{}: {} names for {} dimensions", called(object.key), names.size(), facts.grid.rank());
  if (facts.dimensions && std::ranges::equal(names, *facts.dimensions)) return {};
  if (array->array.nczarr) {
    const auto lists = nczarr_dimensions(store_.hierarchy(), object.key, array->array, names);
    if (!lists) return in_file(called(object.key), lists.error());
    return editor_.with_lists(*lists, {}, [] { return Result<>(); }, [] {});
  }
  CODECFS_ASSIGN(const auto text, store_.hierarchy().read_text(join_key(object.key, kAttributesFile)));
  const auto changed = with_dimensions(text, names);
  if (!changed) return in_file(called(object.key), changed.error());
  return editor_.replace(object, kAttributesFile, *changed);
}

Result<> MetadataChanges::define_dimensions(ObjectId id, std::span<const GroupDimension> dimensions) {
  if (is_v3()) return {};
  const auto lock = store_.changing_keys();
  CODECFS_ASSIGN(const Object group, editor_.group_to_change(id));
  const auto lists = nczarr_definitions(store_.hierarchy(), group.key, dimensions);
  if (!lists) return in_file(group_called(group.key), lists.error());
  return editor_.with_lists(*lists, {}, [] { return Result<>(); }, [] {});
}

Result<> MetadataChanges::set_dimension_names(ObjectId id, const std::optional<OptionalNames>& names) {
  const auto lock = store_.changing_keys();
  CODECFS_ASSIGN(const Object object, editor_.variable_to_change(id));
  if (!is_v3()) return fail(EINVAL, "{}: only Zarr v3 has names for some dimensions", called(object.key));
  CODECFS_ASSIGN(const ArrayPtr array, store_.array(id));
  const Variable& facts = array->array.variable;
  if (names && names->size() != facts.grid.rank())
    return fail(EINVAL, "{}: {} names for {} dimensions", called(object.key), names->size(), facts.grid.rank());
  if (names == names_of(facts)) return {};
  CODECFS_ASSIGN(const auto text, store_.hierarchy().read_text(join_key(object.key, kZarr3File)));
  if (!text) return fail(ENOENT, "{}: no longer has a zarr.json", called(object.key));
  const auto changed = with_zarr3_dimensions(*text, names);
  if (!changed) return in_file(called(object.key), changed.error());
  return editor_.replace(object, kZarr3File, *changed);
}

Result<> MetadataChanges::resize(ObjectId id, std::span<const uint64_t> shape) {
  const auto lock = store_.changing_keys();
  CODECFS_ASSIGN(const Object object, editor_.variable_to_change(id));
  CODECFS_ASSIGN(const ArrayPtr array, store_.unchanged_array(object, id));
  const ChunkGrid& old_grid = array->array.variable.grid;
  if (shape.size() != old_grid.rank())
    return fail(EINVAL, "{}: has {} dimensions, not {}", called(object.key), old_grid.rank(), shape.size());
  if (std::ranges::equal(shape, old_grid.shape())) return {};
  if (array->array.rectilinear)
    return fail(EOPNOTSUPP, "{}: the shape of a rectilinear grid cannot be changed", called(object.key));
  if (array->array.shards) {
    if (const auto changeable = check_rewritable(*array->array.shards); !changeable)
      return in_file(called(object.key), changeable.error());
  }
  CODECFS_TRY(shards_.write_shards());
  NczarrPlan lists;
  if (array->array.nczarr) {
    auto planned = nczarr_resize(store_.hierarchy(), object.key, array->array, shape);
    if (!planned) return in_file(called(object.key), planned.error());
    lists = std::move(*planned);
  }
  return editor_.with_lists(lists, {}, [&] { return resize_array(object, *array, shape); }, [] {});
}

/// Resizes an array without a change of netCDF-C's lists.
Result<> MetadataChanges::resize_array(const Object& object, const OpenArray& array, std::span<const uint64_t> shape) {
  const ChunkGrid& old_grid = array.array.variable.grid;
  const auto new_grid = ChunkGrid::make({shape.begin(), shape.end()}, old_grid.chunks());
  if (!new_grid) return in_file(called(object.key), new_grid.error());
  CODECFS_ASSIGN(const std::string corrected, corrected_zarray(array));
  const auto metadata = is_v3() ? with_zarr3_shape(corrected, shape) : with_shape(corrected, shape);
  if (!metadata) return in_file(called(object.key), metadata.error());

  // Chunks outside of the old shape, left by an interrupted resize, must not become part of the new shape.
  SharedStore* const shared = writer_.shared();
  CODECFS_ASSIGN(const bool were_left, remove_chunks_outside(array, *new_grid, old_grid, shared != nullptr));
  // Another program, which has just changed the shape, may have written them.
  if (were_left && shared != nullptr)
    return fail(
        EBUSY,
        "{}: there are chunks outside of its shape, which would become part of it: another program changes the shape "
        "now, or an interrupted change has left them; then remove these objects with another program",
        called(object.key));
  if (were_left) CODECFS_TRY(writer_.order());
  CODECFS_TRY(editor_.replace(object, store_.hierarchy().file_of(EntryKind::variable), *metadata));
  if (std::ranges::equal(old_grid.cells(), new_grid->cells(), std::less_equal())) return {};  // has only grown
  // Make the new shape durable before removing chunks: otherwise the old shape could return without them.
  Result<> removed = writer_.order(object.key);
  if (removed) {
    if (const auto outside = remove_chunks_outside(array, old_grid, *new_grid); !outside)
      removed = std::unexpected(outside.error());
  }
  if (!removed) log::warning("{}: chunks outside of its shape stay: {}", called(object.key), removed.error().reason);
  return {};
}

/// Removes the chunks that are in the grid `listed` but not in `kept`, which has the same chunk shape. Returns whether
/// there were any.
Result<bool> MetadataChanges::remove_chunks_outside(const OpenArray& array, const ChunkGrid& listed,
                                                    const ChunkGrid& kept, bool is_only_asked) {
  if (listed.count() == 0) return false;
  if (array.array.shards) return shards_.remove_outside(array, listed, kept, is_only_asked);
  const ChunkKeys& keys = array.array.keys;
  CODECFS_ASSIGN(const auto numbers,
                 list_chunks_outside(store_.files(), writer_.shared(), array.key, listed, kept.cells(), keys));
  if (is_only_asked) return !numbers.empty();
  for (const uint64_t number : numbers) CODECFS_TRY(writer_.remove(array.key, keys.name_of(listed, number)));
  return !numbers.empty();
}

Result<> MetadataChanges::extend_arrays() {
  const auto lock = store_.changing_keys();
  CODECFS_ASSIGN(const auto settlement, nczarr_settle(store_.hierarchy()));
  CODECFS_TRY(editor_.write_edits(settlement.lists, false));
  for (const auto& [key, shape] : settlement.shapes) {
    if (store_.files().passes_link(key)) continue;
    CODECFS_ASSIGN(const ArrayPtr array, store_.load_array_at(key));
    CODECFS_TRY(resize_array({key, EntryKind::variable}, *array, shape));
  }
  return {};
}

Result<> MetadataChanges::correct_codecs(ObjectId id) {
  {
    const auto lock = store_.using_keys();
    CODECFS_ASSIGN(const ArrayPtr known, store_.writable_array(id));
    if (!known->array.has_wrong_codecs) return {};
  }
  const auto lock = store_.changing_keys();
  CODECFS_ASSIGN(const Object object, editor_.variable_to_change(id));
  CODECFS_ASSIGN(const ArrayPtr array, store_.unchanged_array(object, id));
  if (!array->array.has_wrong_codecs) return {};
  CODECFS_ASSIGN(const std::string zarray, corrected_zarray(*array));
  CODECFS_TRY(editor_.replace(object, kArrayFile, zarray));
  log::info("{}: corrected codecs in its .zarray that other readers would misinterpret", called(object.key));
  return writer_.order(object.key);
}

}  // namespace codecfs::zarr
