// Creates and attaches dimension scales. Source of the rules: netcdf-c, libhdf5/hdf5dim.c, hdf5var.c and nc4hdf.c
// (nc4_create_dim_wo_var, give_var_secret_name, attach_dimscales).

#include "backends/hdf5/metadata/dimension_write.h"

#include <hdf5_hl.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/library/text.h"
#include "backends/hdf5/metadata/attribute_values.h"

namespace codecfs::hdf5 {
namespace {

// netCDF's NAME of a dimension without variable; its length in ten digits follows.
constexpr const char* kNoVariable = "This is a netCDF dimension but not a netCDF variable.";
constexpr const char* kRemoved = "_codecfs_removed_";
constexpr const char* kCoordinates = "_Netcdf4Coordinates";
// REFERENCE_LIST is an attribute with an entry for each dimension that uses the scale; more entries do not fit an old
// header.
constexpr uint64_t kOldHeaderUsers = 4000;

bool link_exists(hid_t group, const std::string& name) { return H5Lexists(group, name.c_str(), H5P_DEFAULT) > 0; }

Result<> move_link(hid_t group, const std::string& from, const std::string& to) {
  if (H5Lmove(group, from.c_str(), group, to.c_str(), H5P_DEFAULT, H5P_DEFAULT) < 0)
    return fail_library(EIO, "renaming the link \"{}\" to \"{}\"", from, to);
  return {};
}

// Whether a group has nothing but groups in it, as one made for the chunk directories of a variable. Neither may have
// attributes or other links.
bool has_groups_alone(hid_t file, uint64_t address, int depth) {
  const Handle group(open_object(file, address));
  ObjectInfo info;
  if (!group || depth > H5S_MAX_RANK || !object_info(group.get(), info)) return false;
  if (info.type != H5O_TYPE_GROUP || info.references != 1 || info.attributes != 0) return false;
  const Result<std::vector<Link>> links = links_of(group.get());
  return links && std::ranges::all_of(*links, [&](const Link& link) {
           return link.info.type == H5L_TYPE_HARD && has_groups_alone(file, link.info.address, depth + 1);
         });
}

// The addresses of a group and of all below it; links to them from elsewhere do not count.
void note_below(hid_t file, uint64_t address, std::unordered_set<uint64_t>& below, int depth) {
  constexpr int kMaxDepth = 1000;
  if (depth > kMaxDepth || !below.insert(address).second) return;
  const Handle object(open_object(file, address));
  if (!object || H5Iget_type(object.get()) != H5I_GROUP) return;
  const Result<std::vector<Link>> links = links_of(object.get());
  if (!links) return;
  for (const Link& link : *links)
    if (link.info.type == H5L_TYPE_HARD) note_below(file, link.info.address, below, depth + 1);
}

}  // namespace

Result<std::optional<DimensionWriter::Scale>> DimensionWriter::scale_at(uint64_t address) const {
  Scale scale{Handle(open_object(file_, address)), address, {}, false};
  if (!scale.dataset || H5Iget_type(scale.dataset.get()) != H5I_DATASET || !is_dimension_scale(scale.dataset.get()))
    return std::optional<Scale>();
  CODECFS_ASSIGN(const std::vector<Extent> extents, extents_of(scale.dataset.get()));
  if (extents.empty()) return std::optional<Scale>();
  scale.extent = extents[0];
  scale.alone = is_dimension_without_variable(scale.dataset.get());
  return std::optional(std::move(scale));
}

Result<std::optional<DimensionWriter::Scale>> DimensionWriter::scale_in(hid_t group, const std::string& name) const {
  LinkInfo info;
  if (!link_exists(group, name) || !link_info(group, name.c_str(), info) || info.type != H5L_TYPE_HARD)
    return std::optional<Scale>();
  return scale_at(info.address);
}

Result<DimensionWriter::Plan> DimensionWriter::plan(ObjectId group, std::string_view name,
                                                    std::span<const Extent> extents,
                                                    std::span<const std::optional<std::string>> names) {
  Plan plan;
  plan.group = group;
  plan.name = name;
  for (const std::optional<std::string>& dimension : names)
    if (dimension && (!is_link_name(*dimension) || netcdf_name(*dimension).size() != dimension->size()))
      return fail(EINVAL, "\"{}\" cannot be the name of a dimension", *dimension);
  if (extents.size() == 1 && names[0] == name) {
    CODECFS_TRY(plan_scale(plan, extents[0]));
    return plan;
  }
  for (size_t d = 0; d < extents.size(); ++d) {
    if (!names[d]) {
      plan.dimensions.push_back({"", extents[d], {}, false});
      continue;
    }
    const std::string& wanted = *names[d];
    const auto same = std::ranges::find(plan.dimensions, wanted, &Plan::Dimension::name);
    if (same != plan.dimensions.end() && !same->scale && same->extent.length != extents[d].length)
      return fail(EINVAL, "the dimension \"{}\" cannot have both the lengths {} and {}", wanted, same->extent.length,
                  extents[d].length);
    CODECFS_ASSIGN(auto dimension, plan_dimension(plan, wanted, extents[d]));
    plan.dimensions.push_back(std::move(dimension));
  }
  return plan;
}

Result<> DimensionWriter::plan_scale(Plan& plan, const Extent& extent) {
  plan.scale = true;
  CODECFS_ASSIGN(const Handle group, tree_.open_group(plan.group));
  CODECFS_ASSIGN(const auto there, scale_in(group.get(), plan.name));
  if (!there || !there->alone) return {};
  plan.replaced = there->address;
  if (there->extent.length == extent.length || !is_used(there->dataset.get())) return {};
  if (!there->extent.unlimited || !extent.unlimited)
    return fail(EINVAL, "the dimension \"{}\" has the length {} in other variables, not {}", plan.name,
                there->extent.length, extent.length);
  return {};
}

Result<DimensionWriter::Plan::Dimension> DimensionWriter::plan_dimension(const Plan& plan, const std::string& name,
                                                                         const Extent& extent) {
  Plan::Dimension dimension{name, extent, {}, false};
  for (ObjectId at = plan.group;; at = tree_.parent(at)) {
    CODECFS_ASSIGN(const Handle group, tree_.open_group(at));
    CODECFS_ASSIGN(const auto scale, scale_in(group.get(), name));
    // A dimension of a parent group with another length is a different dimension.
    if (scale && (at == plan.group || scale->extent.length == extent.length ||
                  (scale->extent.unlimited && dimensions_.length(scale->address) == extent.length))) {
      CODECFS_TRY(check_scale(dimension, *scale));
      return dimension;
    }
    if (at == ObjectTree::kRoot) break;
  }
  CODECFS_TRY(check_free(plan, name));
  return dimension;
}

Result<> DimensionWriter::check_scale(Plan::Dimension& dimension, const Scale& scale) {
  const Extent& extent = dimension.extent;
  dimension.scale = scale.address;
  if (header_version(scale.dataset.get()) < 2 && listed_scale_users(scale.dataset.get()).size() >= kOldHeaderUsers)
    return fail(EFBIG, "the dimension \"{}\" cannot be used by more variables: it is in HDF5's oldest format",
                dimension.name);
  if (scale.extent.length == extent.length || (scale.extent.unlimited && extent.unlimited)) return {};
  if (!scale.alone || is_used(scale.dataset.get()))
    return fail(EINVAL, "the dimension \"{}\" has the length {}, not {}", dimension.name, scale.extent.length,
                extent.length);
  dimension.unused = true;
  return {};
}

// Checks that a dimension without variable can get the name, which a variable may have, or a group without content:
// programs that copy a Zarr store may make all directories first, also those of the dimension's variable.
Result<> DimensionWriter::check_free(const Plan& plan, const std::string& name) {
  CODECFS_ASSIGN(const Handle group, tree_.open_group(plan.group));
  if (name == plan.name || !link_exists(group.get(), name)) return {};
  ObjectInfo info;
  LinkInfo link;
  if (!link_info(group.get(), name.c_str(), link) || link.type != H5L_TYPE_HARD ||
      !object_info_by_name(group.get(), name.c_str(), info) ||
      (info.type != H5O_TYPE_DATASET && info.type != H5O_TYPE_GROUP))
    return fail(EINVAL, "{} has a member \"{}\" that is not a variable, so no dimension can have this name",
                tree_.path(plan.group), name);
  if (info.type == H5O_TYPE_GROUP && !has_groups_alone(file_, info.address, 0))
    return fail(EINVAL, "{} has a group \"{}\" with members or attributes, so no dimension can have this name",
                tree_.path(plan.group), name);
  if (link_exists(group.get(), std::string(kNonCoordinate) + name))
    return fail(EINVAL, "{} has two members \"{}\"", tree_.path(plan.group), name);
  return {};
}

bool DimensionWriter::is_used(hid_t dataset) {
  ObjectInfo info;
  if (!is_dimension_scale(dataset) || !object_info(dataset, info)) return false;
  if (std::ranges::any_of(listed_scale_users(dataset),
                          [&](const ScaleUser& user) { return is_scale_user(file_, user, info.address); }))
    return true;
  if (!dimensions_.numbers().used) return false;
  const std::vector<int> number = integer_attribute(dataset, kDimensionNumber);
  return !number.empty() && dimensions_.numbers().by_number.contains(number[0]);
}

// If a file stores dimension ids, all dimensions need one: the others would be numbered by the order of links, which
// changes.
Result<> DimensionWriter::number_all() {
  const Dimensions::Numbers& numbers = dimensions_.numbers();
  if (!numbers.used) return {};
  for (const auto& [address, number] : numbers.unnumbered) {
    const Handle scale(open_object(file_, address));
    if (!scale) return fail_library(EIO, "a dimension scale");
    CODECFS_TRY(write_dimension_number(scale.get(), number));
  }
  dimensions_.note_numbered();
  return {};
}

Result<> DimensionWriter::number_next(hid_t scale) {
  const std::optional<int> number = dimensions_.take_number();
  return number ? write_dimension_number(scale, *number) : Result<>();
}

Result<Handle> DimensionWriter::make_dimension(hid_t group, const std::string& name, const Extent& extent) const {
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  const hsize_t length = extent.length;
  const hsize_t most = extent.unlimited ? H5S_UNLIMITED : length;
  const hsize_t chunk = 1;
  if (extent.unlimited) H5Pset_chunk(properties.get(), 1, &chunk);
  H5Pset_obj_track_times(properties.get(), false);
  H5Pset_attr_creation_order(properties.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  const Handle space(H5Screate_simple(1, &length, &most));
  Handle scale(
      H5Dcreate2(group, name.c_str(), H5T_IEEE_F32BE, space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT));
  const std::string text = fmt::format("{}{:10}", kNoVariable, extent.length);
  if (!scale || H5DSset_scale(scale.get(), text.c_str()) < 0)
    return fail_library(EIO, "making the dimension \"{}\"", name);
  return scale;
}

// Renames the variable or group with this name, so that a dimension without variable can have it.
Result<> DimensionWriter::rename_member(hid_t group, ObjectId parent, const std::string& name) const {
  LinkInfo info;
  const std::string prefixed = std::string(kNonCoordinate) + name;
  if (!link_info(group, name.c_str(), info)) return fail_library(EIO, "link \"{}\"", name);
  CODECFS_TRY(move_link(group, name, prefixed));
  if (const auto known = tree_.number_of(info.address); known && tree_.parent(*known) == parent)
    tree_.moved(*known, parent, prefixed);
  return {};
}

Result<std::vector<GroupDimension>> DimensionWriter::missing(ObjectId group,
                                                             std::span<const GroupDimension> dimensions) {
  CODECFS_ASSIGN(const Handle handle, tree_.open_group(group));
  std::vector<GroupDimension> missing;
  for (const GroupDimension& dimension : dimensions) {
    if (!is_link_name(dimension.name) || netcdf_name(dimension.name).size() != dimension.name.size())
      return fail(EINVAL, "\"{}\" cannot be the name of a dimension", dimension.name);
    const bool is_there = link_exists(handle.get(), dimension.name) ||
                          std::ranges::find(missing, dimension.name, &GroupDimension::name) != missing.end();
    if (!is_there) missing.push_back(dimension);
  }
  return missing;
}

Result<> DimensionWriter::define(ObjectId group, std::span<const GroupDimension> dimensions) {
  CODECFS_ASSIGN(const Handle handle, tree_.open_group(group));
  CODECFS_TRY(number_all());
  for (const GroupDimension& dimension : dimensions) {
    CODECFS_ASSIGN(const Handle made,
                   make_dimension(handle.get(), dimension.name, {dimension.length, dimension.is_unlimited}));
    ObjectInfo info;
    if (!object_info(made.get(), info)) return fail_library(EIO, "the dimension \"{}\"", dimension.name);
    dimensions_.note_scale(group, info.address, dimension.name);
    CODECFS_TRY(number_next(made.get()));
  }
  return {};
}

Result<std::string> DimensionWriter::apply(const Plan& plan, hid_t dataset, std::string link) {
  CODECFS_ASSIGN(const Handle group, tree_.open_with_path(plan.group));
  const bool changes = plan.scale || std::ranges::any_of(plan.dimensions, [](const Plan::Dimension& dimension) {
                         return !dimension.name.empty() && (!dimension.scale || dimension.unused);
                       });
  if (changes) CODECFS_TRY(number_all());
  CODECFS_TRY(remove_attribute(dataset, kCoordinates));
  if (plan.scale) {
    CODECFS_TRY(make_scale(plan, group.get(), dataset, link));
  } else {
    if (!plan.dimensions.empty()) CODECFS_TRY(remove_attribute(dataset, kDimensionNumber));
    for (size_t d = 0; d < plan.dimensions.size(); ++d)
      if (!plan.dimensions[d].name.empty()) CODECFS_TRY(attach_scale(plan, d, group.get(), dataset, link));
  }
  dimensions_.forget_numbering();
  return link;
}

Result<> DimensionWriter::make_scale(const Plan& plan, hid_t group, hid_t dataset, std::string& link) {
  const auto attached = attached_scales(dataset, 1);
  if (!attached.empty()) CODECFS_TRY(detach(dataset, 0, attached[0]));
  CODECFS_TRY(remove_attribute(dataset, kScaleList));
  if (H5DSset_scale(dataset, plan.name.c_str()) < 0)
    return fail_library(EIO, "making \"{}\" a dimension scale", plan.name);
  if (!plan.replaced) {
    ObjectInfo info;
    if (!object_info(dataset, info)) return fail_library(EIO, "the dimension \"{}\"", plan.name);
    dimensions_.note_scale(plan.group, info.address, link);
    CODECFS_TRY(number_next(dataset));
    return take_over_users(plan, dataset);
  }
  dimensions_.forget();
  CODECFS_TRY(remove_attribute(dataset, kDimensionNumber));
  const Handle replaced(open_object(file_, *plan.replaced));
  CODECFS_TRY(replace_scale(file_, replaced.get(), dataset));
  if (H5Ldelete(group, plan.name.c_str(), H5P_DEFAULT) < 0)
    return fail_library(EIO, "removing the dimension \"{}\"", plan.name);
  CODECFS_TRY(move_link(group, link, plan.name));
  link = plan.name;
  return {};
}

// Programs that know dimensions by name take this coordinate for those of the variables here that were written first,
// and got the dimension of this name and length of a group above.
Result<> DimensionWriter::take_over_users(const Plan& plan, hid_t dataset) {
  // A file of netCDF-C, in which variables name their dimensions by number: they have those that they were made with.
  if (dimensions_.numbers().used) return {};
  CODECFS_ASSIGN(const std::vector<Extent> extents, extents_of(dataset));
  std::unordered_set<uint64_t> here;  // addresses of what is in the group
  for (ObjectId at = plan.group; at != ObjectTree::kRoot;) {
    at = tree_.parent(at);
    CODECFS_ASSIGN(const Handle group, tree_.open_group(at));
    CODECFS_ASSIGN(const auto above, scale_in(group.get(), plan.name));
    if (!above || above->extent.length != extents[0].length) continue;
    const std::vector<ScaleUser> users = listed_scale_users(above->dataset.get());
    if (here.empty() && !users.empty()) note_below(file_, tree_.address(plan.group), here, 0);
    for (const ScaleUser& user : users) {
      if (!here.contains(user.dataset) || !is_scale_user(file_, user, above->address)) continue;
      const Handle moved(open_object(file_, user.dataset));
      const auto dimension = static_cast<unsigned>(user.dimension);
      if (!moved) return fail_library(EIO, "a variable with the dimension \"{}\"", plan.name);
      CODECFS_TRY(detach(moved.get(), dimension, {&above->address, 1}));
      if (H5DSattach_scale(moved.get(), dataset, dimension) < 0)
        return fail_library(EIO, "attaching the dimension \"{}\"", plan.name);
    }
  }
  return {};
}

Result<> DimensionWriter::attach_scale(const Plan& plan, size_t d, hid_t group, hid_t dataset, std::string& link) {
  const Plan::Dimension& wanted = plan.dimensions[d];
  Handle scale;
  if (wanted.scale && !wanted.unused) {
    scale = Handle(open_object(file_, *wanted.scale));
  } else {
    CODECFS_ASSIGN(scale, new_dimension(plan, wanted, group, link));
  }
  ObjectInfo info;
  if (!scale || !object_info(scale.get(), info)) return fail_library(EIO, "the dimension \"{}\"", wanted.name);
  const auto attached = attached_scales(dataset, plan.dimensions.size());
  if (attached.empty() || attached[d].empty() || attached[d].back() != info.address) {
    if (!attached.empty()) CODECFS_TRY(detach(dataset, static_cast<unsigned>(d), attached[d]));
    if (H5DSattach_scale(dataset, scale.get(), static_cast<unsigned>(d)) < 0)
      return fail_library(EIO, "attaching the dimension \"{}\"", wanted.name);
  }
  CODECFS_ASSIGN(const std::vector<Extent> extents, extents_of(scale.get()));
  if (!extents[0].unlimited || extents[0].length >= wanted.extent.length) return {};
  std::vector<Growth> longer;
  longer.push_back({std::move(scale), info.address, wanted.extent.length});
  return grow(longer);
}

// Replaces an unused dimension of another length, or renames a member that has the name.
Result<Handle> DimensionWriter::new_dimension(const Plan& plan, const Plan::Dimension& wanted, hid_t group,
                                              std::string& link) {
  CODECFS_ASSIGN(auto there, scale_in(group, wanted.name));
  // A name that occurs twice in the list was created at its first place.
  if (there && there->extent.length == wanted.extent.length) return std::move(there->dataset);
  std::vector<int> number;
  if (there || link_exists(group, wanted.name)) dimensions_.forget();  // links are removed or renamed
  if (there) {
    number = integer_attribute(there->dataset.get(), kDimensionNumber);
    if (H5Ldelete(group, wanted.name.c_str(), H5P_DEFAULT) < 0)
      return fail_library(EIO, "removing the dimension \"{}\"", wanted.name);
  } else if (link_exists(group, wanted.name)) {
    CODECFS_TRY(rename_member(group, plan.group, wanted.name));
    if (link == wanted.name) link = std::string(kNonCoordinate) + wanted.name;
  }
  CODECFS_ASSIGN(Handle made, make_dimension(group, wanted.name, wanted.extent));
  ObjectInfo info;
  if (!object_info(made.get(), info)) return fail_library(EIO, "the dimension \"{}\"", wanted.name);
  dimensions_.note_scale(plan.group, info.address, wanted.name);
  if (!number.empty()) {
    CODECFS_TRY(write_dimension_number(made.get(), number[0]));
  } else {
    CODECFS_TRY(number_next(made.get()));
  }
  return made;
}

Result<> DimensionWriter::detach(hid_t dataset, unsigned dimension, std::span<const uint64_t> scales) const {
  ObjectInfo info;
  if (!object_info(dataset, info)) return fail_library(EIO, "a dataset");
  for (const uint64_t address : scales) {
    const Handle scale(open_object(file_, address));
    if (!scale || H5Iget_type(scale.get()) != H5I_DATASET || !is_dimension_scale(scale.get())) continue;  // removed
    CODECFS_TRY(remove_scale_user(scale.get(), {info.address, dimension}));
  }
  return remove_scales(dataset, dimension, scales);
}

Result<std::string> DimensionWriter::prepare_removal(hid_t group, std::string link, hid_t dataset) {
  CODECFS_ASSIGN(const std::vector<Extent> extents, extents_of(dataset));
  if (!extents.empty() && is_used(dataset)) {
    const std::string name(netcdf_name(link));
    const std::string aside = kRemoved + name;
    CODECFS_TRY(number_all());
    CODECFS_TRY(move_link(group, link, aside));
    link = aside;
    CODECFS_ASSIGN(const Handle dimension, make_dimension(group, name, extents[0]));
    CODECFS_TRY(replace_scale(file_, dataset, dimension.get()));
    dimensions_.forget();
  } else {
    const auto attached = attached_scales(dataset, extents.size());
    for (size_t d = 0; d < attached.size(); ++d) CODECFS_TRY(detach(dataset, static_cast<unsigned>(d), attached[d]));
  }
  dimensions_.forget_numbering();
  return link;
}

Result<> DimensionWriter::update_name(hid_t dataset, std::string_view old_name, std::string_view name) {
  if (!is_dimension_scale(dataset) || text_attribute(dataset, "NAME") != as_utf8(old_name)) return {};
  if (H5LTset_attribute_string(dataset, ".", "NAME", std::string(name).c_str()) < 0)
    return fail_library(EIO, "the name of a dimension scale");
  return {};
}

Result<std::vector<DimensionWriter::Growth>> DimensionWriter::growth(hid_t dataset, std::span<const uint64_t> shape) {
  std::vector<Growth> longer;
  if (is_dimension_scale(dataset)) {
    CODECFS_ASSIGN(const std::vector<Extent> extents, extents_of(dataset));
    if (extents[0].length != shape[0] && !extents[0].unlimited && is_used(dataset))
      return fail(EINVAL, "other variables use it as a dimension of the fixed length {}", extents[0].length);
    return longer;
  }
  const auto attached = attached_scales(dataset, shape.size());
  for (size_t d = 0; d < attached.size(); ++d) {
    for (const uint64_t address : attached[d]) {
      CODECFS_ASSIGN(auto scale, scale_at(address));
      if (!scale || scale->extent.length == shape[d]) continue;
      if (!scale->extent.unlimited)
        return fail(EINVAL, "dimension {} has a scale of the fixed length {}", d, scale->extent.length);
      // A coordinate variable is an array that Zarr writers resize themselves; netCDF uses the longest.
      if (!scale->alone) continue;
      const auto known = std::ranges::find(longer, address, &Growth::address);
      if (known != longer.end()) {
        known->length = std::max(known->length, shape[d]);
      } else if (scale->extent.length < shape[d]) {
        longer.push_back({std::move(scale->dataset), address, shape[d]});
      }
    }
  }
  return longer;
}

Result<> DimensionWriter::grow(const std::vector<Growth>& scales) {
  for (const Growth& scale : scales) {
    CODECFS_ASSIGN(const std::vector<Extent> extents, extents_of(scale.scale.get()));
    std::vector<hsize_t> lengths;
    for (const Extent& extent : extents) lengths.push_back(extent.length);
    lengths[0] = scale.length;
    if (H5Dset_extent(scale.scale.get(), lengths.data()) < 0) return fail_library(EIO, "a dimension scale");
  }
  return {};
}

}  // namespace codecfs::hdf5
