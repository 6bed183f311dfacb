// Creates variables, and changes their attributes, dimensions and shape.

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/hdf5/library/complex_type.h"
#include "backends/hdf5/library/filter_registration.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_read.h"
#include "backends/hdf5/metadata/attribute_values.h"
#include "backends/hdf5/metadata/type_make.h"
#include "backends/hdf5/metadata/type_map.h"
#include "backends/hdf5/metadata/type_notes.h"
#include "backends/hdf5/source/edge_chunks.h"
#include "backends/hdf5/source/tree_write.h"
#include "base/endian.h"
#include "model/json.h"
#include "model/limits.h"

namespace codecfs::hdf5 {
namespace {

constexpr uint64_t kMaxChunkBytes = UINT32_MAX;  // HDF5's own limit

// The text of a fill value, which vlen-utf8 stores after its length.
std::string text_of(const std::vector<std::byte>& fill) {
  if (fill.size() <= sizeof(uint32_t)) return {};
  return {reinterpret_cast<const char*>(fill.data()) + sizeof(uint32_t), fill.size() - sizeof(uint32_t)};
}

// An attribute's value as one element of this type, a text as Variable::fill has it.
Result<std::vector<std::byte>> element_of(const DataType& type, const Json& value) {
  if (type.kind == TypeKind::object) {
    if (!value.is_string()) return fail(EINVAL, "_FillValue is {}, and elements are texts", print_json(value));
    const auto& text = value.get_ref<const std::string&>();
    std::vector<std::byte> element(sizeof(uint32_t));
    store_le(element.data(), static_cast<uint32_t>(text.size()));
    std::ranges::copy(std::as_bytes(std::span(text)), std::back_inserter(element));
    return element;
  }
  if (value.is_array() && type.kind != TypeKind::complex && value.size() == 1) return element_of(type, value[0]);
  auto bytes = fill_bytes(type, value);
  if (!bytes) return fail(EINVAL, "_FillValue: {}", bytes.error().reason);
  return bytes;
}

// Whether an attribute's value equals the fill value of this type.
bool is_fill(const DataType& type, const std::vector<std::byte>& fill, const Json& value) {
  if (type.kind == TypeKind::object) return value.is_string() && value.get<std::string>() == text_of(fill);
  const auto bytes = element_of(type, value);
  return bytes && *bytes == fill;
}

// Checks HDF5's limits for chunked storage.
Result<> check_chunks(const Variable& variable, uint64_t element) {
  const std::vector<uint64_t>& chunks = variable.grid.chunks();
  if (variable.grid.elements_per_chunk() > kMaxChunkBytes / element)
    return fail(EINVAL, "a chunk of {} elements of {} bytes: HDF5 has chunks of at most 4 GiB - 1 byte",
                variable.grid.elements_per_chunk(), element);
  if (variable.grid.elements_per_chunk() > max_chunk_bytes() / element)
    return fail(EFBIG, "a chunk of {} elements of {} bytes is larger than {}", variable.grid.elements_per_chunk(),
                element, max_chunk_text());
  for (size_t d = 0; d < variable.max_shape.size(); ++d) {
    const auto most = variable.max_shape[d];
    if (!most) continue;
    if (*most < variable.grid.shape()[d])
      return fail(EINVAL, "dimension {} has {} elements and a limit of {}", d, variable.grid.shape()[d], *most);
    if (chunks[d] > *most)
      return fail(EINVAL, "dimension {}: HDF5 has no chunks of {} elements where there are never more than {}", d,
                  chunks[d], *most);
  }
  return {};
}

Result<Handle> make_space(const Variable& variable) {
  const ChunkGrid& grid = variable.grid;
  if (grid.rank() > H5S_MAX_RANK) return fail(EINVAL, "{} dimensions; HDF5 has at most {}", grid.rank(), H5S_MAX_RANK);
  if (!variable.max_shape.empty() && variable.max_shape.size() != grid.rank())
    return fail(EINVAL, "{} limits for {} dimensions", variable.max_shape.size(), grid.rank());
  if (grid.rank() == 0) return Handle(H5Screate(H5S_SCALAR));
  const std::vector<hsize_t> dims(grid.shape().begin(), grid.shape().end());
  std::vector<hsize_t> most(grid.rank(), H5S_UNLIMITED);
  for (size_t d = 0; d < variable.max_shape.size(); ++d) most[d] = variable.max_shape[d].value_or(H5S_UNLIMITED);
  Handle space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), most.data()));
  if (!space) return fail_library(EINVAL, "its shape");
  return space;
}

Result<> put_fill(hid_t properties, hid_t type, const Variable& variable) {
  if (variable.type.kind == TypeKind::object) {
    const std::string text = text_of(variable.fill);
    const char* pointer = text.c_str();
    if (text.find('\0') != std::string::npos) return fail(EINVAL, "fill_value: a text of HDF5 cannot hold a zero byte");
    if (!text.empty() && H5Pset_fill_value(properties, type, &pointer) < 0) return fail_library(EIO, "its fill value");
    return {};
  }
  if (variable.fill.size() != variable.type.size)
    return fail(EINVAL, "a fill of {} bytes for elements of {}", variable.fill.size(), variable.type.size);
  if (is_all_zero(variable.fill)) return {};
  if (H5Pset_fill_value(properties, type, variable.fill.data()) < 0) return fail_library(EIO, "its fill value");
  return {};
}

/// `chain` becomes the pipeline in the properties.
Result<Handle> make_properties(hid_t type, const Variable& variable, bool is_empty, std::vector<FilterStage>& chain) {
  Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_obj_track_times(properties.get(), false);
  H5Pset_attr_creation_order(properties.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  CODECFS_TRY(put_fill(properties.get(), type, variable));
  if (is_empty) return properties;
  if (variable.grid.rank() == 0) {
    if (!variable.filters.empty()) return fail(EINVAL, "a scalar is stored in one piece, which HDF5 does not filter");
    return properties;
  }
  CODECFS_TRY(check_chunks(variable, H5Tget_size(type)));
  const std::vector<hsize_t> chunks(variable.grid.chunks().begin(), variable.grid.chunks().end());
  if (H5Pset_chunk(properties.get(), static_cast<int>(chunks.size()), chunks.data()) < 0)
    return fail_library(EINVAL, "its chunks");
  CODECFS_ASSIGN(chain, complete_chain(variable.filters, filters::shape_of_chunk(variable)));
  CODECFS_TRY(add_filters(properties.get(), chain));
  return properties;
}

std::vector<Extent> extents_of(const Variable& variable) {
  std::vector<Extent> extents;
  for (size_t d = 0; d < variable.grid.rank(); ++d)
    extents.push_back({variable.grid.shape()[d], variable.max_shape.empty() || !variable.max_shape[d]});
  return extents;
}

/// What the variable had in another HDF5 file, if views would show the new one as it is.
struct Noted {
  Handle type;            // invalid if it is not known, or would be shown as another
  bool is_empty = false;  // it has no shape (H5S_NULL)
};

/// Gives the variable the fill value that its attribute notes, if it has no other.
Noted take_noted(Variable& variable, bool native_complex) {
  Noted noted;
  const auto attribute = std::ranges::find(variable.attributes, kStoredTypes, &Attribute::name);
  if (attribute == variable.attributes.end()) return noted;
  const Json notes = parse_stored_types(attribute->value);
  const Json fill = member(notes, "fill");
  if (variable.fill_value.is_null() && variable.type.kind != TypeKind::object && !fill.is_null())
    if (auto element = element_of(variable.type, fill)) variable.fill = *std::move(element);

  Json type = member(notes, "type");
  if (type.is_object() && type.contains("empty")) {
    noted.is_empty = variable.grid.shape() == std::vector<uint64_t>{0} && variable.filters.empty();
    type = member(type, "empty");
  }
  Handle made = make_described(type, native_complex);
  if (!made) return noted;
  const auto mapped = map_type(made.get());
  const bool is_text = variable.type.kind == TypeKind::object;
  if (!mapped || mapped->unreadable || !mapped->shape.empty() || mapped->text != is_text) return noted;
  if (is_text || mapped->type == variable.type) noted.type = std::move(made);
  return noted;
}

}  // namespace

// A checked new dataset, ready to be created.
struct TreeWriter::NewDataset {
  std::string link;
  std::optional<ObjectId> replaced;  // an empty group
  Handle type;
  Handle space;
  Handle properties;
  std::vector<FilterStage> chain;
  AttributeChange attributes;
  std::optional<DimensionWriter::Plan> dimensions;
};

// The link name of a new variable, which may replace an empty group.
Result<std::string> TreeWriter::place_for_variable(ObjectId group, std::string_view name,
                                                   std::optional<ObjectId>& replaced) {
  auto member = tree_.member(group, name);
  if (!member) {
    if (member.error().code != ENOENT) return pass_on(member);
    return tree_.new_link_name(group, name);
  }
  if (member->entry.kind != EntryKind::group) return fail(EEXIST, "{} has a member \"{}\"", tree_.path(group), name);
  CODECFS_TRY(check_group_removal(member->entry.object));
  replaced = member->entry.object;
  return std::move(member->link.name);
}

Result<TreeWriter::NewDataset> TreeWriter::prepare(ObjectId group, std::string_view name, Variable variable) {
  NewDataset made;
  const bool native_complex = takes_native_complex(file_.file.get());
  Noted noted = take_noted(variable, native_complex);
  CODECFS_ASSIGN(made.link, place_for_variable(group, name, made.replaced));
  CODECFS_ASSIGN(made.type, make_type(variable.type, variable.object_codec, variable.zarr3_type));
  if (noted.type) made.type = std::move(noted.type);
  // A variable of netCDF-C has its own copy of the type.
  if (Handle committed = netcdf_ ? Handle() : tree_.committed_like(made.type.get())) made.type = std::move(committed);
  CODECFS_ASSIGN(made.space, noted.is_empty ? Handle(H5Screate(H5S_NULL)) : make_space(variable));
  CODECFS_ASSIGN(made.properties, make_properties(made.type.get(), variable, noted.is_empty, made.chain));

  // Without a fill_value, _FillValue marks missing data alone, as in Zarr v3, and absent chunks have another value.
  std::optional<std::vector<std::byte>> fill;
  if (!variable.fill_value.is_null() && !variable.is_fill_unmarked) fill = variable.fill;
  std::vector<Attribute> attributes;
  for (const Attribute& attribute : variable.attributes) {
    if (attribute.name == kPhonyDimensions) continue;
    if (attribute.name != kFillAttribute) {
      attributes.push_back(attribute);
    } else if (variable.fill_value.is_null()) {
      CODECFS_ASSIGN(fill, element_of(variable.type, attribute.value));
    } else if (!is_fill(variable.type, variable.fill, attribute.value)) {
      return fail(EINVAL, "the attribute _FillValue must be the fill_value of the variable");
    }
  }
  if (variable.dimensions && variable.grid.rank() > 0 && !noted.is_empty) {
    if (variable.dimensions->size() != variable.grid.rank())
      return fail(EINVAL, "{} names for {} dimensions", variable.dimensions->size(), variable.grid.rank());
    const OptionalNames names = named_dimensions(*variable.dimensions, variable.attributes);
    if (std::ranges::any_of(names, [](const auto& one) { return one.has_value(); })) {
      CODECFS_ASSIGN(made.dimensions, scales_.plan(group, netcdf_name(made.link), extents_of(variable), names));
    }
  }
  const AttributeRules rules{netcdf_, made.dimensions && made.dimensions->scale, false, native_complex};
  CODECFS_ASSIGN(made.attributes, AttributeChange::prepare(H5I_INVALID_HID, rules, name, attributes, {}));
  if (fill) CODECFS_TRY(made.attributes.add_element(kFillAttribute, made.type.get(), *fill, text_of(*fill)));
  return made;
}

Result<Entry> TreeWriter::make_variable(ObjectId group, std::string_view name, const Variable& variable) {
  CODECFS_ASSIGN(const Handle parent, tree_.open_group(group));
  auto made = prepare(group, name, variable);
  if (!made) return fail(made.error().code, "{}: {}", name, made.error().reason);
  CODECFS_TRY(file_.allow_change(made->attributes.bytes()));
  // Created without a link: if anything fails before it gets one, libhdf5 removes it.
  const auto make_dataset = [&]() -> Result<Handle> {
    KeptParameters kept;
    CODECFS_TRY(kept.keep(made->chain));
    return Handle(
        H5Dcreate_anon(parent.get(), made->type.get(), made->space.get(), made->properties.get(), H5P_DEFAULT));
  };
  CODECFS_ASSIGN(const Handle dataset, make_dataset());
  if (!dataset) return fail_library(EINVAL, "{}: HDF5 does not make such a dataset", name);
  CODECFS_TRY(made->attributes.apply(dataset.get()));
  const Result<> linked = done(carry_out_making(group, *made, dataset.get()), false);
  if (!linked) return std::unexpected(linked.error());
  return tree_.find(group, name);
}

Result<> TreeWriter::carry_out_making(ObjectId group, NewDataset& made, hid_t dataset) {
  CODECFS_ASSIGN(const Handle parent, tree_.open_group(group));
  if (made.replaced && H5Ldelete(parent.get(), made.link.c_str(), H5P_DEFAULT) < 0)
    return fail_library(EIO, "removing the group \"{}\"", made.link);
  if (made.replaced) {
    dimensions_.note_removal(group, tree_.address(*made.replaced), *made.replaced);
    tree_.removed(*made.replaced);
  }
  if (H5Olink(dataset, parent.get(), made.link.c_str(), link_properties(made.link).get(), H5P_DEFAULT) < 0)
    return fail_library(EIO, "linking the variable \"{}\"", made.link);
  if (made.dimensions) CODECFS_TRY(scales_.apply(*made.dimensions, dataset, made.link));
  tree_.links_changed();
  return {};
}

// The element to write for _FillValue; none if it stays. Where .zarray has a fill_value, that is _FillValue, and it
// must stay the fill value of absent chunks, which HDF5 cannot change. Elsewhere it marks missing data alone.
Result<std::optional<std::vector<std::byte>>> TreeWriter::check_fill(const Dataset& dataset, const Attribute& attribute,
                                                                     hid_t handle) const {
  const Variable& facts = dataset.facts();
  const bool is_free = facts.fill_value.is_null();
  if (is_fill(facts.type, facts.fill, attribute.value)) return is_free ? std::optional(facts.fill) : std::nullopt;
  const Handle old(H5Aexists(handle, kFillAttribute) > 0 ? H5Aopen(handle, kFillAttribute, H5P_DEFAULT)
                                                         : H5I_INVALID_HID);
  if (old) {
    CODECFS_ASSIGN(const auto shown, read_attribute(old.get(), {netcdf_, false}));
    if (shown && *shown == *attribute.value) return std::nullopt;  // unchanged, so not checked
  }
  if (is_free) {
    auto element = element_of(facts.type, attribute.value);
    if (!element) return fail(element.error().code, "{}: {}", dataset.name(), element.error().reason);
    return *std::move(element);
  }
  return fail(EPERM, "{}: _FillValue cannot become {}: the fill value of an HDF5 dataset never changes", dataset.name(),
              print_json(attribute.value));
}

Result<AttributeChange> TreeWriter::plan_attributes(ObjectId object, const Dataset* dataset,
                                                    std::span<const Attribute> set, std::span<const std::string> remove,
                                                    hid_t handle, bool becomes_scale) const {
  const bool is_scale = becomes_scale || (dataset != nullptr && is_dimension_scale(handle));
  const AttributeRules rules{netcdf_, is_scale, dataset == nullptr, takes_native_complex(handle)};
  std::vector<Attribute> others;
  std::optional<std::vector<std::byte>> fill;
  for (const Attribute& attribute : set) {
    if (dataset != nullptr && attribute.name == kPhonyDimensions) continue;  // follows from the names
    if (dataset == nullptr || attribute.name != kFillAttribute) {
      others.push_back(attribute);
    } else {
      CODECFS_ASSIGN(fill, check_fill(*dataset, attribute, handle));
    }
  }
  std::vector<std::string> removed(remove.begin(), remove.end());
  if (dataset != nullptr) std::erase(removed, kPhonyDimensions);
  CODECFS_ASSIGN(AttributeChange change, AttributeChange::prepare(handle, rules, tree_.path(object), others, removed));
  if (fill) {
    Handle type(H5Dget_type(handle));
    while (H5Tget_class(type.get()) == H5T_ARRAY) type = Handle(H5Tget_super(type.get()));
    CODECFS_TRY(change.add_element(kFillAttribute, type.get(), *fill, text_of(*fill)));
  }
  return change;
}

Result<> TreeWriter::set_attributes(ObjectId object, const Dataset* dataset, std::span<const Attribute> set,
                                    std::span<const std::string> remove) {
  CODECFS_ASSIGN(const Handle handle, tree_.open(object));
  CODECFS_ASSIGN(const AttributeChange change, plan_attributes(object, dataset, set, remove, handle.get(), false));
  if (change.empty()) return {};
  CODECFS_TRY(file_.allow_change(change.bytes()));
  return done(change.apply(handle.get()), false);
}

Result<std::optional<DimensionWriter::Plan>> TreeWriter::plan_dimensions(ObjectId variable, const Dataset& dataset,
                                                                         std::span<const std::string> names,
                                                                         std::span<const Attribute> set) {
  const size_t shown_rank = dataset.facts().grid.rank();
  if (names.size() != shown_rank)
    return fail(EINVAL, "{}: {} names for {} dimensions", dataset.name(), names.size(), shown_rank);
  const size_t rank = dataset.rank();
  OptionalNames wanted = named_dimensions(names, set);
  const bool is_scale = is_dimension_scale(dataset.id());
  const auto scales = attached_scales(dataset.id(), rank);
  const auto is_attached = [&](size_t d) { return !scales.empty() && !scales[d].empty(); };
  const bool attached = !scales.empty() && std::ranges::all_of(scales, [](const auto& at) { return !at.empty(); });
  const auto is_unnamed = [](const auto& name) { return !name.has_value(); };
  if (std::ranges::all_of(wanted, is_unnamed) && rank == shown_rank && rank > 0 && scales.empty() && !is_scale)
    return std::optional<DimensionWriter::Plan>();
  // A shown name may be inferred from the length alone; a generated one is not a name.
  const auto is_generated = [](const std::string& name) { return name.starts_with(kPhonyPrefix); };
  const bool stays_if_equal = rank == 0 || attached || is_scale || std::ranges::any_of(names, is_generated);
  // Names that the file does not store are found by a walk through all of it: not where they do not matter, as for each
  // new variable that gets its dimensions.
  std::vector<std::string> shown;
  if (stays_if_equal || shown_rank > rank) {
    CODECFS_ASSIGN(auto found, dimensions_.names(variable, dataset.named()));
    shown = std::move(found.shown);
  }
  if (stays_if_equal && std::ranges::equal(names, shown)) return std::optional<DimensionWriter::Plan>();
  for (size_t d = rank; d < names.size(); ++d)
    if (names[d] != shown[d])
      return fail(EINVAL, "{}: dimension {} belongs to the type of its elements and has no name in HDF5",
                  dataset.name(), d);
  if (is_scale)
    return fail(EINVAL, "{}: it is the coordinate variable of the dimension \"{}\"; rename the variable instead",
                dataset.name(), shown[0]);
  for (size_t d = 0; d < rank; ++d) {
    if (wanted[d] || !is_attached(d)) continue;
    if (shown.empty() || names[d] != shown[d])
      return fail(EINVAL, "{}: dimension {} has a name in the file, and \"{}\" is generated", dataset.name(), d,
                  names[d]);
    wanted[d] = names[d];
  }
  CODECFS_ASSIGN(const std::vector<Extent> extents, hdf5::extents_of(dataset.id()));
  auto plan = scales_.plan(tree_.parent(variable), netcdf_name(tree_.link_name(variable)), extents,
                           std::span(wanted).first(rank));
  if (!plan) return fail(plan.error().code, "{}: {}", dataset.name(), plan.error().reason);
  if (plan->scale)
    for (const char* const name : {"CLASS", "NAME"})
      if (H5Aexists(dataset.id(), name) > 0)
        return fail(EINVAL,
                    "{}: as the coordinate variable of a dimension it cannot have the attribute \"{}\": remove it",
                    dataset.name(), name);
  return std::optional(*std::move(plan));
}

Result<> TreeWriter::carry_out_naming(ObjectId variable, const Dataset& dataset, const DimensionWriter::Plan& plan) {
  CODECFS_ASSIGN(std::string link, scales_.apply(plan, dataset.id(), tree_.link_name(variable)));
  tree_.moved(variable, plan.group, std::move(link));
  tree_.links_changed();
  return {};
}

Result<> TreeWriter::set_dimensions(ObjectId variable, const Dataset& dataset, std::span<const std::string> names) {
  CODECFS_ASSIGN(const auto plan, plan_dimensions(variable, dataset, names, {}));
  if (!plan) return {};
  CODECFS_TRY(file_.allow_change(0));
  return done(carry_out_naming(variable, dataset, *plan), false);
}

Result<> TreeWriter::set_metadata(ObjectId variable, const Dataset& dataset, std::span<const std::string> dimensions,
                                  std::span<const Attribute> set, std::span<const std::string> remove) {
  CODECFS_ASSIGN(const auto plan, plan_dimensions(variable, dataset, dimensions, set));
  CODECFS_ASSIGN(const AttributeChange change,
                 plan_attributes(variable, &dataset, set, remove, dataset.id(), plan && plan->scale));
  if (!plan && change.empty()) return {};
  CODECFS_TRY(file_.allow_change(change.bytes()));
  const auto carry_out = [&]() -> Result<> {
    if (plan) CODECFS_TRY(carry_out_naming(variable, dataset, *plan));
    return change.apply(dataset.id());
  };
  return done(carry_out(), false);
}

Result<> TreeWriter::resize(Dataset& dataset, std::span<const uint64_t> shape) {
  const Variable& facts = dataset.facts();
  const std::vector<uint64_t>& old = facts.grid.shape();
  if (shape.size() != old.size())
    return fail(EINVAL, "{}: it has {} dimensions, not {}", dataset.name(), old.size(), shape.size());
  if (std::ranges::equal(shape, old)) return {};
  if (facts.storage != Storage::chunked)
    return fail(EOPNOTSUPP, "{}: only a variable in chunks can change its shape", dataset.name());
  for (size_t d = 0; d < shape.size(); ++d)
    if (facts.max_shape[d] && shape[d] != old[d] && (shape[d] > *facts.max_shape[d] || d >= dataset.rank()))
      return fail(EINVAL, "{}: dimension {} cannot have {} elements, only {}{}", dataset.name(), d, shape[d],
                  d < dataset.rank() ? "up to " : "", *facts.max_shape[d]);
  auto grid = ChunkGrid::make({shape.begin(), shape.end()}, facts.grid.chunks());
  if (!grid) return fail(EINVAL, "{}: {}", dataset.name(), grid.error().reason);
  const std::vector<hsize_t> dims(shape.begin(), shape.begin() + static_cast<ptrdiff_t>(dataset.rank()));
  auto longer = scales_.growth(dataset.id(), shape.first(dataset.rank()));
  if (!longer) return fail(longer.error().code, "{}: {}", dataset.name(), longer.error().reason);
  // At an edge that moves inwards, libhdf5 decodes and re-encodes chunks to fill the part beyond it.
  for (const FilterStage& stage : facts.filters) {
    const Result<> available = make_available(stage);
    if (!available) return fail(EIO, "{}: {}", dataset.name(), available.error().reason);
  }
  uint64_t rewritten = 0;
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] < old[d]) rewritten += facts.grid.count() / std::max<uint64_t>(facts.grid.cells()[d], 1);
  const uint64_t chunk = facts.grid.elements_per_chunk() * H5Tget_size(Handle(H5Dget_type(dataset.id())).get());
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(rewritten, chunk, &bytes)) bytes = UINT64_MAX;
  if (bytes > 0) bytes = std::min<uint64_t>(bytes, 2 * H5Dget_storage_size(dataset.id()));  // looks at all chunks
  EdgeChunks edges(facts.grid, *grid, dataset.has_raw_partial_chunks());
  CODECFS_TRY(edges.complete(dataset));
  CODECFS_TRY(edges.note(dataset));
  CODECFS_TRY(file_.allow_risky_change(bytes, bytes));

  dimensions_.use_stored_shape(dataset.address());
  ++file_.generation_of(dataset.address());
  file_.listing.reset();
  file_.listing_owner = nullptr;
  if (const auto written = file_.written_masks.find(dataset.address()); written != file_.written_masks.end()) {
    std::vector<uint64_t> at(grid->rank());
    facts.grid.coordinates_of(written->second.chunk, at);
    if (!edges.contains(at) && std::ranges::equal(at, grid->cells(), std::less()))
      written->second.chunk = grid->number_of(at);
    else
      file_.written_masks.erase(written);
  }
  return done(carry_out_resize(dataset, dims, edges, *longer));
}

Result<> TreeWriter::carry_out_resize(const Dataset& dataset, std::span<const hsize_t> dims, const EdgeChunks& edges,
                                      const std::vector<DimensionWriter::Growth>& scales) {
  if (H5Iinc_ref(dataset.id()) < 0) return fail_library(EIO, "{}", dataset.name());
  Handle same(dataset.id());
  if (H5Dset_extent(dataset.id(), dims.data()) < 0) return fail_library(EIO, "{}: changing its shape", dataset.name());
  CODECFS_ASSIGN(const std::shared_ptr<Dataset> resized,
                 Dataset::open(file_, std::move(same), dataset.address(), dataset.name()));
  CODECFS_TRY(edges.repair(*resized));
  return DimensionWriter::grow(scales);
}

}  // namespace codecfs::hdf5
