// Dimension names, with exactly netCDF's numbering; the header describes the rules.

#include "backends/hdf5/metadata/dimensions.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>

#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/text.h"
#include "backends/hdf5/metadata/attribute_values.h"
#include "backends/hdf5/metadata/dimension_scales.h"
#include "backends/hdf5/metadata/type_map.h"
#include "base/log.h"

namespace codecfs::hdf5 {
namespace {

constexpr int kMaxGroupDepth = 1000;  // of groups

// The scale that names a dimension: the last one attached, as in netCDF. None if a dimension has no scale; empty if the
// dataset has no list of scales.
std::vector<std::optional<uint64_t>> naming_scales(hid_t dataset, size_t rank) {
  std::vector<std::optional<uint64_t>> naming;
  for (const std::vector<uint64_t>& scales : attached_scales(dataset, rank))
    naming.push_back(scales.empty() ? std::nullopt : std::optional(scales.back()));
  return naming;
}

// Whether netCDF-C (4.9.0) supports the dataset's type.
bool netcdf_understands(hid_t dataset) {
  const Handle type(H5Dget_type(dataset));
  const Handle native(H5Tget_native_type(type.get(), H5T_DIR_ASCEND));
  switch (H5Tget_class(type.get())) {
    case H5T_STRING: return true;
    case H5T_INTEGER: return H5Tget_size(native.get()) <= 8;
    case H5T_FLOAT: return H5Tget_size(native.get()) <= 8;
    case H5T_COMPOUND:
    case H5T_ENUM:
    case H5T_OPAQUE:
    case H5T_VLEN: return H5Tcommitted(type.get()) > 0;
    default: return false;
  }
}

herr_t refuse_external_link(const char*, const char*, const char*, const char*, unsigned*, hid_t, void*) { return -1; }

}  // namespace

// As H5DSis_scale(), which reads all attributes to find this one, so that libhdf5 1.10 crashes if one of many is
// damaged.
bool is_dimension_scale(hid_t dataset) {
  constexpr std::string_view kScale = "DIMENSION_SCALE";
  if (H5Aexists(dataset, "CLASS") <= 0) return false;
  const Handle attribute(H5Aopen(dataset, "CLASS", H5P_DEFAULT));
  const Handle type(H5Aget_type(attribute.get()));
  const bool fits = H5Tget_class(type.get()) == H5T_STRING && H5Tis_variable_str(type.get()) <= 0 &&
                    H5Tget_strpad(type.get()) == H5T_STR_NULLTERM && H5Tget_size(type.get()) == kScale.size() + 1;
  return fits && text_attribute(dataset, "CLASS") == kScale;
}

std::vector<std::vector<uint64_t>> attached_scales(hid_t dataset, size_t rank) {
  std::vector<std::vector<uint64_t>> scales;
  if (rank == 0 || H5Aexists(dataset, "DIMENSION_LIST") <= 0) return scales;
  const Handle attribute(H5Aopen(dataset, "DIMENSION_LIST", H5P_DEFAULT));
  const Handle type(H5Aget_type(attribute.get()));
  const Handle space(H5Aget_space(attribute.get()));
  if (H5Tget_class(type.get()) != H5T_VLEN) return scales;
  const Handle base(H5Tget_super(type.get()));
  if (H5Tequal(base.get(), H5T_STD_REF_OBJ) <= 0) return scales;
  if (H5Sget_simple_extent_npoints(space.get()) != static_cast<hssize_t>(rank)) return scales;
  std::vector<hvl_t> lists(rank);
  if (H5Aread(attribute.get(), type.get(), lists.data()) < 0) return scales;
  for (const hvl_t& list : lists) {
    // An object reference is the object's address.
    const auto* references = static_cast<const hobj_ref_t*>(list.p);
    scales.emplace_back(references, references + (references == nullptr ? 0 : list.len));
  }
  reclaim(type.get(), space.get(), lists.data());
  return scales;
}

// A walk through the file in netCDF's order.
class Dimensions::Walk {
 public:
  Walk(hid_t file, const AccessRecorder& recorder)
      : file_(file), recorder_(recorder), access_(H5Pcreate(H5P_LINK_ACCESS)) {
    H5Pset_elink_cb(access_.get(), refuse_external_link, nullptr);  // do not follow external links
  }

  Numbering run(uint64_t root) {
    read_group(root, 0);
    numbering_.numbers.next = next_;
    // Visit each group before its children.
    match(0);
    for (Group& group : groups_)
      for (const Variable& variable : group.variables)
        if (variable.late) number(group, variable);
    find_record_shapes();
    return std::move(numbering_);
  }

 private:
  struct Dim {
    uint64_t length;
    bool unlimited;
    int id;
  };
  struct Variable {
    uint64_t address;
    std::vector<uint64_t> shape;  // as presented
    std::vector<bool> unlimited;
    bool late;   // netCDF does not number it
    bool named;  // scales and internal attributes define all names
  };
  // A variable with dimensions that may be unlimited.
  struct Records {
    uint64_t address;
    std::vector<uint64_t> shape;  // as stored
    std::vector<bool> unlimited;
    std::vector<std::optional<uint64_t>> scales;  // by address
    std::vector<int> ids;                         // dimension ids; empty if the file does not store them
  };
  struct Group {
    std::vector<Dim> dims;
    std::vector<Variable> variables;
    std::vector<size_t> children;
  };

  void read_group(uint64_t address, int depth) {
    const size_t self = groups_.size();
    groups_.emplace_back();
    visited_.insert(address);
    if (!recorder_.object(address)) return;
    const Handle handle(open_object(file_, address));
    if (!handle || depth > kMaxGroupDepth) return;
    auto links = links_of(handle.get());
    if (!links) return;
    std::vector<uint64_t> children;
    for (const Link& link : *links) {
      if (link.info.type != H5L_TYPE_HARD && link.info.type != H5L_TYPE_SOFT) continue;
      if (!recorder_.object(link.info.type == H5L_TYPE_HARD ? link.info.address : address)) continue;
      ObjectInfo info;
      if (!object_info_by_name(handle.get(), link.name.c_str(), info, access_.get())) continue;
      if (info.type == H5O_TYPE_GROUP && link.info.type == H5L_TYPE_HARD && !visited_.contains(info.address)) {
        visited_.insert(info.address);
        children.push_back(info.address);
      } else if (info.type == H5O_TYPE_DATASET) {
        if (!recorder_.object(info.address)) continue;
        const Handle dataset(open_object(file_, info.address));
        if (dataset) read_dataset(groups_[self], dataset.get(), info.address, link.name);
      }
    }
    links->clear();
    for (const uint64_t child : children) {
      groups_[self].children.push_back(groups_.size());
      read_group(child, depth + 1);
    }
  }

  void read_dataset(Group& group, hid_t dataset, uint64_t address, const std::string& name) {
    const Handle space(H5Dget_space(dataset));
    std::array<hsize_t, H5S_MAX_RANK> dims{};
    std::array<hsize_t, H5S_MAX_RANK> most{};
    const int found = H5Sget_simple_extent_dims(space.get(), dims.data(), most.data());
    if (found < 0) return;
    const auto rank = static_cast<size_t>(found);
    const bool readable = recorder_.attributes(address).has_value();
    const bool scale = readable && rank > 0 && is_dimension_scale(dataset);
    if (scale && read_scale(group, dataset, name, address, dims[0], most[0] == H5S_UNLIMITED)) return;

    Variable variable{address, {}, {}, !netcdf_understands(dataset), false};
    for (size_t d = 0; d < rank; ++d) {
      variable.shape.push_back(dims[d]);
      variable.unlimited.push_back(most[d] == H5S_UNLIMITED);
    }
    const auto scales = readable ? naming_scales(dataset, rank) : std::vector<std::optional<uint64_t>>();
    const std::vector<int> told = readable ? integer_attribute(dataset, "_Netcdf4Coordinates") : std::vector<int>();
    if (scale && rank == 1)
      note_records(variable, {address}, {});
    else
      note_records(variable, scales, told);
    numbering_.numbers.used |= !told.empty();
    if (scale && rank > 1) numbering_.numbers.by_number.insert(told.begin(), told.end());
    variable.named = (scale && rank == 1) || told.size() == rank ||
                     (!scales.empty() && std::ranges::all_of(scales, [](const auto& at) { return at.has_value(); }));
    // netCDF decides by the first dimension whether a variable has scales.
    if (scale || (!scales.empty() && scales[0])) variable.late = true;
    if (H5Sget_simple_extent_type(space.get()) == H5S_NULL) variable = {address, {0}, {false}, true, false};

    const Handle type(H5Dget_type(dataset));
    if (H5Tget_class(type.get()) == H5T_ARRAY) {
      auto mapped = map_type(type.get());
      if (!mapped) return;
      variable.shape.insert(variable.shape.end(), mapped->shape.begin(), mapped->shape.end());
      variable.unlimited.resize(variable.shape.size());
      variable.late = true;
      variable.named &= mapped->shape.empty();
    }
    if (!variable.shape.empty() && !variable.named) group.variables.push_back(std::move(variable));
  }

  // True for a dimension without variable.
  bool read_scale(Group& group, hid_t dataset, const std::string& name, uint64_t address, uint64_t length,
                  bool unlimited) {
    const std::vector<int> assigned = integer_attribute(dataset, "_Netcdf4Dimid");
    int id = next_;
    if (!assigned.empty() && assigned[0] >= 0) {
      id = assigned[0];
      next_ = std::max(next_, id == INT32_MAX ? id : id + 1);
      numbering_.numbers.used = true;
    } else {
      ++next_;
      numbering_.numbers.unnumbered.emplace_back(address, id);
    }
    const bool alone = is_dimension_without_variable(dataset);
    if (unlimited) {
      numbering_.lengths.emplace(address, 0);
      by_number_.emplace(id, address);
    }
    group.dims.push_back({alone && unlimited ? 0 : length, unlimited, id});
    numbering_.by_id.emplace(id, as_utf8(name));
    return alone;
  }

  void note_records(const Variable& variable, const std::vector<std::optional<uint64_t>>& scales,
                    const std::vector<int>& told) {
    const size_t rank = variable.shape.size();
    if (rank == 0 || (scales.size() != rank && told.size() != rank)) return;
    records_.push_back({variable.address, variable.shape, variable.unlimited, scales, told});
  }

  // The length of an unlimited dimension.
  std::pair<const uint64_t, uint64_t>* length_of(const Records& records, size_t d) {
    std::optional<uint64_t> scale;
    if (d < records.scales.size()) scale = records.scales[d];
    if (!scale && records.ids.size() == records.shape.size())
      if (const auto known = by_number_.find(records.ids[d]); known != by_number_.end()) scale = known->second;
    const auto found = scale ? numbering_.lengths.find(*scale) : numbering_.lengths.end();
    return found == numbering_.lengths.end() ? nullptr : &*found;
  }

  void find_record_shapes() {
    for (const Records& records : records_)
      for (size_t d = 0; d < records.shape.size(); ++d)
        if (auto* length = length_of(records, d)) length->second = std::max(length->second, records.shape[d]);
    for (const Records& records : records_) {
      std::vector<uint64_t> shape = records.shape;
      for (size_t d = 0; d < shape.size(); ++d)
        if (const auto* length = length_of(records, d); length != nullptr && records.unlimited[d])
          shape[d] = length->second;
      if (shape != records.shape) numbering_.record_shapes.emplace(records.address, std::move(shape));
    }
  }

  void match(size_t index) {
    for (const size_t child : groups_[index].children) match(child);
    for (const Variable& variable : groups_[index].variables)
      if (!variable.late) number(groups_[index], variable);
  }

  void number(Group& group, const Variable& variable) {
    std::vector<int> ids;
    for (size_t d = 0; d < variable.shape.size(); ++d) {
      const auto fits = [&](const Dim& dim) {
        return dim.length == variable.shape[d] && dim.unlimited == variable.unlimited[d] &&
               std::ranges::find(ids, dim.id) == ids.end();
      };
      const auto known = std::ranges::find_if(group.dims, fits);
      if (known != group.dims.end()) {
        ids.push_back(known->id);
        continue;
      }
      group.dims.push_back({variable.shape[d], variable.unlimited[d], next_});
      numbering_.phony.emplace(next_, fmt::format("{}{}", kPhonyPrefix, next_));
      ids.push_back(next_++);
    }
    numbering_.by_dataset.emplace(variable.address, std::move(ids));
  }

  hid_t file_;
  const AccessRecorder& recorder_;
  Handle access_;
  std::vector<Group> groups_;
  std::unordered_set<uint64_t> visited_;
  std::vector<Records> records_;
  std::unordered_map<int, uint64_t> by_number_;  // the addresses of those scales
  int next_ = 0;
  Numbering numbering_;
};

const Dimensions::Numbering& Dimensions::numbering() {
  if (!numbering_) numbering_ = Walk(file_, recorder_).run(tree_.address(ObjectTree::kRoot));
  return *numbering_;
}

const Dimensions::Numbers& Dimensions::numbers() {
  if (!numbers_) numbers_ = numbering().numbers;
  return *numbers_;
}

void Dimensions::note_scale(ObjectId group, uint64_t address, const std::string& link) {
  if (const auto members = members_.find(group); members != members_.end())
    members->second.insert_or_assign(address, link);
}

void Dimensions::note_removal(ObjectId group, uint64_t address, ObjectId object) {
  members_.erase(object);
  if (const auto members = members_.find(group); members != members_.end()) members->second.erase(address);
}

std::optional<uint64_t> Dimensions::length(uint64_t scale) {
  const auto found = numbering().lengths.find(scale);
  return found == numbering().lengths.end() ? std::nullopt : std::optional(found->second);
}

const std::vector<uint64_t>* Dimensions::record_shape(uint64_t address) {
  if (!record_shapes_) record_shapes_ = numbering().record_shapes;
  const auto found = record_shapes_->find(address);
  return found == record_shapes_->end() ? nullptr : &found->second;
}

// The scale's link name in the dataset's group or a parent group; else the path that libhdf5 finds.
std::optional<std::string> Dimensions::scale_name(ObjectId object, uint64_t scale) {
  for (ObjectId group = tree_.parent(object);; group = tree_.parent(group)) {
    auto members = members_.find(group);
    if (members == members_.end()) {
      members = members_.emplace(group, std::unordered_map<uint64_t, std::string>()).first;
      auto handle = tree_.open(group);
      auto links = handle ? links_of(handle->get()) : Result<std::vector<Link>>(pass_on(handle));
      if (links)
        for (Link& link : *links)
          if (link.info.type == H5L_TYPE_HARD) members->second.emplace(link.info.address, std::move(link.name));
    }
    if (const auto found = members->second.find(scale); found != members->second.end())
      return as_utf8(netcdf_name(found->second));
    if (group == ObjectTree::kRoot) break;
  }
  const std::string path = path_of(file_, scale);
  if (path.empty()) return std::nullopt;
  std::string name = as_utf8(netcdf_name(std::string_view(path).substr(path.rfind('/') + 1)));
  members_[tree_.parent(object)].emplace(scale, name);
  return name;
}

Result<std::vector<GroupDimension>> Dimensions::in_group(hid_t group) {
  CODECFS_ASSIGN(const std::vector<Link> links, links_of(group));
  std::vector<std::pair<int, GroupDimension>> found;  // with their ids
  for (const Link& link : links) {
    ObjectInfo info;
    if (link.info.type != H5L_TYPE_HARD) continue;
    // A dataset that cannot be read is reported as such. Whether it is a dimension is not known; those that others name
    // are made all the same.
    const auto unreadable = [&] { log::warning("{}: it is not known whether it is a dimension", link.name); };
    if (!recorder_.object(link.info.address) || !object_info_by_name(group, link.name.c_str(), info)) {
      unreadable();
      continue;
    }
    if (info.type != H5O_TYPE_DATASET) continue;
    const Handle dataset(open_object(file_, info.address));
    if (!dataset || !recorder_.attributes(info.address)) {
      unreadable();
      continue;
    }
    if (!is_dimension_scale(dataset.get())) continue;
    CODECFS_ASSIGN(const std::vector<Extent> extents, extents_of(dataset.get()));
    if (extents.empty()) continue;
    GroupDimension dimension{as_utf8(netcdf_name(link.name)), extents[0].length, extents[0].unlimited};
    if (dimension.is_unlimited) dimension.length = length(info.address).value_or(dimension.length);
    const std::vector<int> id = integer_attribute(dataset.get(), kDimensionNumber);
    found.emplace_back(id.empty() ? INT32_MAX : id[0], std::move(dimension));
  }
  std::ranges::stable_sort(found, {}, &std::pair<int, GroupDimension>::first);
  std::vector<GroupDimension> dimensions;
  for (auto& [id, dimension] : found) dimensions.push_back(std::move(dimension));
  return dimensions;
}

Result<Dimensions::Names> Dimensions::names(ObjectId object, const NamedDataset& dataset) {
  const bool readable = recorder_.attributes(dataset.address).has_value();
  std::vector<std::optional<std::string>> found(dataset.grid_rank);
  const size_t rank = dataset.rank;
  const bool scale = readable && rank > 0 && is_dimension_scale(dataset.id);
  if (scale && rank == 1) {
    found[0] = as_utf8(netcdf_name(tree_.link_name(object)));
  } else if (readable && !scale) {
    const auto scales = naming_scales(dataset.id, rank);
    for (size_t d = 0; d < scales.size(); ++d)
      if (scales[d]) found[d] = scale_name(object, *scales[d]);
  }
  const auto unnamed = [](const auto& name) { return !name.has_value(); };
  if (readable && std::ranges::any_of(found, unnamed)) {
    const std::vector<int> ids = integer_attribute(dataset.id, "_Netcdf4Coordinates");
    for (size_t d = 0; d < rank && ids.size() == rank; ++d) {
      const auto real = numbering().by_id.find(ids[d]);
      if (!found[d] && real != numbering().by_id.end()) found[d] = real->second;
    }
  }
  Names names;
  bool has_phony = false;
  OptionalNames phony(found.size());
  if (std::ranges::any_of(found, unnamed)) {
    const auto numbered = numbering().by_dataset.find(tree_.address(object));
    for (size_t d = 0; d < found.size(); ++d) {
      if (found[d]) continue;
      if (numbered == numbering().by_dataset.end() || numbered->second.size() != found.size()) {
        found[d] = fmt::format("dim_{}", d);  // damaged: scales refer to nothing
        phony[d] = found[d];
        has_phony = true;
        continue;
      }
      const int id = numbered->second[d];
      const auto generated = numbering().phony.find(id);
      const bool is_generated = generated != numbering().phony.end();
      found[d] = phony[d] = is_generated ? generated->second : numbering().by_id.at(id);
      has_phony |= is_generated;
    }
  }
  if (has_phony) names.phony = std::move(phony);
  for (auto& name : found) names.shown.push_back(std::move(*name));
  return names;
}

}  // namespace codecfs::hdf5
