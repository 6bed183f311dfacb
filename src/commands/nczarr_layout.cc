#include "commands/nczarr_layout.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "backends/api/newer_format.h"
#include "model/float_attributes.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

bool is_text(const Variable& variable) {
  return variable.type.kind == TypeKind::object && variable.object_codec->is_object() &&
         variable.object_codec->value("id", "") == "vlen-utf8";
}

/// A fill value that marks missing data is the attribute _FillValue in netCDF.
VariablePtr with_fill_attribute(VariablePtr variable) {
  const bool is_number = variable->type.kind != TypeKind::object && variable->type.kind != TypeKind::string;
  const bool has_attribute =
      std::ranges::find(variable->attributes, kFillAttribute, &Attribute::name) != variable->attributes.end();
  if (!is_number || variable->fill_value.is_null() || variable->is_fill_unmarked || has_attribute) return variable;
  auto marked = std::make_shared<Variable>(*variable);
  marked->attributes.push_back({kFillAttribute, variable->fill_value, print_dtype(variable->type).get<std::string>()});
  return marked;
}

/// netCDF has neither lists of lists nor lists of values of several kinds, nor integers of more than 64 bits: they
/// become JSON text, for which netCDF-C would else refuse the whole file. NCZarr's types tell which texts are numbers.
void make_netcdf(std::vector<Attribute>& attributes) {
  restore_floats(attributes);
  for (Attribute& attribute : attributes) {
    const Json& value = attribute.value;
    if (is_large_integer(value)) {
      attribute = {attribute.name, Json(print_json(value)), ">S1"};
      continue;
    }
    if (!value.is_array() || (value.empty() && !attribute.type.empty())) continue;
    const auto all = [&](auto is) { return !value.empty() && std::ranges::all_of(value, is); };
    const bool is_known = all([](const Json& item) { return item.is_string(); }) ||
                          all([](const Json& item) { return item.is_number(); }) ||
                          all([](const Json& item) { return item.is_boolean(); });
    if (!is_known) attribute = {attribute.name, Json(print_json(value)), ">S1"};
  }
}

/// The variable with texts of this length in place of those of any length, and without filters: netCDF-C applies none
/// to texts.
Variable with_text_of(Variable variable, uint64_t length) {
  variable.type = {.kind = TypeKind::string, .order = ByteOrder::none, .size = length, .unit = {}, .members = {}};
  variable.object_codec = Json();
  variable.filters.clear();
  if (variable.fill.size() >= sizeof(uint32_t)) variable.fill.erase(variable.fill.begin(), variable.fill.begin() + 4);
  variable.fill.resize(length);
  return variable;
}

}  // namespace

Result<NczarrLayout> NczarrLayout::make(Source& source, const DatasetInfo& info, Omissions& omissions) {
  NczarrLayout layout(source);
  if (source.root().kind != EntryKind::group)
    return fail(EINVAL, "{}: is one array, and netCDF has variables only in groups", info.source);
  for (const InfoNode& node : info.nodes) {
    const std::string path = node.path.empty() ? "" : "/" + node.path;
    if (node.error || (!path.empty() && omissions.covers(path))) continue;
    const bool is_group = node.entry.kind == EntryKind::group;
    if (!is_group && !(node.entry.kind == EntryKind::variable && node.variable && node.variable->facts)) continue;
    Result<> added =
        path.empty() ? Result<>() : nczarr_texts::check_name(std::string_view(path).substr(path.rfind('/') + 1));
    if (added) added = is_group ? layout.add_group(path, node.entry.object) : layout.add_array(path, node.entry.object);
    if (added) continue;
    const int code = added.error().code;
    if (path.empty() || (code != EINVAL && !is_unreadable(code))) return std::unexpected(added.error());
    omissions.add(path, added.error(), code == EINVAL);
  }
  return layout;
}

Result<> NczarrLayout::add_group(const std::string& path, ObjectId group) {
  CODECFS_ASSIGN(dimensions_[path], source_->dimensions(group));
  for (const GroupDimension& dimension : dimensions_[path]) CODECFS_TRY(nczarr_texts::check_name(dimension.name));
  groups_[path] = group;
  return {};
}

Result<> NczarrLayout::add_array(const std::string& path, ObjectId object) {
  Array array;
  array.object = object;
  CODECFS_ASSIGN(array.variable, source_->variable(object));
  const Variable& variable = *array.variable;
  if (variable.unreadable_attributes) return std::unexpected(*variable.unreadable_attributes);
  CODECFS_TRY(nczarr_texts::check_variable(is_text(variable) ? with_text_of(variable, 1) : variable));
  const std::vector<uint64_t>& shape = variable.grid.shape();
  const std::set<std::string> phony = phony_names(variable.attributes);
  const auto limits = variable.max_shape.empty() ? noted_limits(variable) : variable.max_shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    GroupDimension wanted{nczarr_texts::anonymous_dimension(shape[d]), shape[d], false};
    const auto names = names_of(variable);
    if (names && d < names->size() && (*names)[d]) wanted.name = *(*names)[d];
    wanted.is_unlimited = d < limits.size() && !limits[d];
    CODECFS_TRY(nczarr_texts::check_name(wanted.name));
    CODECFS_ASSIGN(std::string path_of_dimension, reference(path, wanted, phony.contains(wanted.name)));
    array.references.push_back(std::move(path_of_dimension));
  }
  auto variable_of_netcdf = std::make_shared<Variable>(*with_fill_attribute(std::move(array.variable)));
  make_netcdf(variable_of_netcdf->attributes);
  array.variable = std::move(variable_of_netcdf);
  arrays_.emplace(path, std::move(array));
  return {};
}

/// The path of the dimension that a variable means, which is made if it is not there.
Result<std::string> NczarrLayout::reference(const std::string& path, const GroupDimension& wanted, bool is_phony) {
  const std::string own = parent_of(path);
  for (std::string group = own;; group = parent_of(group)) {
    std::vector<GroupDimension>& there = dimensions_[group];
    const auto found = std::ranges::find(there, wanted.name, &GroupDimension::name);
    if (found != there.end() && found->length == wanted.length) return group + "/" + wanted.name;
    if (found != there.end() && group == own)
      return fail(EINVAL, "its dimension \"{}\" has the length {}, and {} in other variables: netCDF has one length",
                  wanted.name, wanted.length, found->length);
    if (found != there.end() || group.empty()) break;  // another dimension
  }
  dimensions_[own].push_back(wanted);
  if (is_phony) phony_[own].insert(wanted.name);
  return own + "/" + wanted.name;
}

const Variable* NczarrLayout::variable(const std::string& path) const {
  const auto found = arrays_.find(path);
  return found == arrays_.end() ? nullptr : found->second.variable.get();
}

Result<nczarr_texts::ArrayFiles> NczarrLayout::files_of(const std::string& path, std::string_view zarray,
                                                        std::optional<uint64_t> text_length) const {
  const Array& array = arrays_.at(path);
  if (!text_length) return nczarr_texts::array_files(zarray, *array.variable, array.references);
  const Variable variable = with_text_of(*array.variable, *text_length);
  CODECFS_ASSIGN(Json json, parse_json(zarray));
  json["dtype"] = print_dtype(variable.type);
  json["filters"] = json["compressor"] = Json();
  return nczarr_texts::array_files(print_json(json), variable, array.references);
}

Result<std::string> NczarrLayout::zattrs_of(const std::string& path, std::vector<std::string> arrays,
                                            std::vector<std::string> groups) const {
  const auto found = groups_.find(path);
  if (found == groups_.end()) return fail(EIO, "{}: the group cannot be read", path);
  nczarr_texts::Group group{{}, dimensions_.at(path), std::move(arrays), std::move(groups)};
  CODECFS_ASSIGN(group.attributes, source_->group_attributes(found->second));
  make_netcdf(group.attributes);
  if (const auto phony = phony_.find(path); phony != phony_.end())
    group.attributes.push_back(phony_attribute({phony->second.begin(), phony->second.end()}));
  return nczarr_texts::group_zattrs(group, path.empty());
}

}  // namespace codecfs::commands
