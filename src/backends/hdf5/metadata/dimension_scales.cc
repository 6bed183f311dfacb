#include "backends/hdf5/metadata/dimension_scales.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/metadata/attribute_values.h"
#include "backends/hdf5/metadata/dimensions.h"

namespace codecfs::hdf5 {
namespace {

constexpr hssize_t kMaxUsers = 1 << 24;  // of one scale
constexpr std::string_view kDimensionOnly = "This is a netCDF dimension but not a netCDF variable";

struct UserEntry {
  hobj_ref_t dataset;  // an object reference is the object's address
  int dimension;
};

Handle user_type() {
  Handle type(H5Tcreate(H5T_COMPOUND, sizeof(UserEntry)));
  H5Tinsert(type.get(), "dataset", HOFFSET(UserEntry, dataset), H5T_STD_REF_OBJ);
  H5Tinsert(type.get(), "dimension", HOFFSET(UserEntry, dimension), H5T_NATIVE_INT);
  return type;
}

// All entries of kUserList.
std::vector<UserEntry> user_entries(hid_t scale) {
  if (H5Aexists(scale, kUserList) <= 0) return {};
  const Handle attribute(H5Aopen(scale, kUserList, H5P_DEFAULT));
  const Handle space(H5Aget_space(attribute.get()));
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  if (count < 1 || count > kMaxUsers) return {};
  std::vector<UserEntry> entries(static_cast<size_t>(count));
  if (H5Aread(attribute.get(), user_type().get(), entries.data()) < 0) return {};
  return entries;
}

Result<> write_scales(hid_t dataset, std::vector<std::vector<uint64_t>>& scales) {
  std::vector<hvl_t> lists;
  for (std::vector<uint64_t>& list : scales) lists.push_back({list.size(), list.data()});
  const Handle attribute(H5Aopen(dataset, kScaleList, H5P_DEFAULT));
  const Handle type(H5Tvlen_create(H5T_STD_REF_OBJ));
  if (!attribute || H5Awrite(attribute.get(), type.get(), lists.data()) < 0)
    return fail_library(EIO, "the dimension scales of a dataset");
  return {};
}

}  // namespace

bool is_dimension_without_variable(hid_t dataset) {
  return text_attribute(dataset, "NAME").starts_with(kDimensionOnly);
}

Result<> remove_attribute(hid_t holder, const char* name) {
  if (H5Aexists(holder, name) > 0 && H5Adelete(holder, name) < 0) return fail_library(EIO, "attribute \"{}\"", name);
  return {};
}

Result<> write_dimension_number(hid_t scale, int number) {
  CODECFS_TRY(remove_attribute(scale, kDimensionNumber));
  const Handle space(H5Screate(H5S_SCALAR));
  const Handle attribute(H5Acreate2(scale, kDimensionNumber, H5T_NATIVE_INT, space.get(), H5P_DEFAULT, H5P_DEFAULT));
  if (!attribute || H5Awrite(attribute.get(), H5T_NATIVE_INT, &number) < 0)
    return fail_library(EIO, "attribute \"{}\"", kDimensionNumber);
  return {};
}

Result<std::vector<Extent>> extents_of(hid_t dataset) {
  const Handle space(H5Dget_space(dataset));
  std::array<hsize_t, H5S_MAX_RANK> dims{};
  std::array<hsize_t, H5S_MAX_RANK> most{};
  const int rank = H5Sget_simple_extent_dims(space.get(), dims.data(), most.data());
  if (!space || rank < 0) return fail_library(EIO, "the shape of a dataset");
  std::vector<Extent> extents;
  for (size_t d = 0; d < static_cast<size_t>(rank); ++d) extents.push_back({dims[d], most[d] == H5S_UNLIMITED});
  return extents;
}

std::vector<ScaleUser> listed_scale_users(hid_t scale) {
  std::vector<ScaleUser> users;
  for (const UserEntry& entry : user_entries(scale))
    if (entry.dimension >= 0) users.push_back({entry.dataset, static_cast<size_t>(entry.dimension)});
  return users;
}

Result<> remove_scale_user(hid_t scale, const ScaleUser& user) {
  std::vector<UserEntry> entries = user_entries(scale);
  const auto is_user = [&](const UserEntry& entry) {
    return entry.dataset == user.dataset && entry.dimension >= 0 &&
           static_cast<size_t>(entry.dimension) == user.dimension;
  };
  if (std::erase_if(entries, is_user) == 0) return {};
  const Handle attribute(H5Aopen(scale, kUserList, H5P_DEFAULT));
  const Handle type(H5Aget_type(attribute.get()));
  CODECFS_TRY(remove_attribute(scale, kUserList));
  if (entries.empty()) return {};
  const hsize_t count = entries.size();
  const Handle space(H5Screate_simple(1, &count, nullptr));
  const Handle made(H5Acreate2(scale, kUserList, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
  if (!made || H5Awrite(made.get(), user_type().get(), entries.data()) < 0)
    return fail_library(EIO, "detaching a dimension scale");
  return {};
}

Result<> remove_scales(hid_t dataset, size_t dimension, std::span<const uint64_t> scales) {
  CODECFS_ASSIGN(const std::vector<Extent> extents, extents_of(dataset));
  auto lists = attached_scales(dataset, extents.size());
  if (dimension >= lists.size()) return {};
  const auto is_removed = [&](uint64_t scale) { return std::ranges::find(scales, scale) != scales.end(); };
  if (std::erase_if(lists[dimension], is_removed) == 0) return {};
  CODECFS_TRY(write_scales(dataset, lists));  // frees the space of the former list
  if (std::ranges::any_of(lists, [](const auto& list) { return !list.empty(); })) return {};
  return remove_attribute(dataset, kScaleList);
}

bool is_scale_user(hid_t file, const ScaleUser& user, uint64_t scale) {
  const Handle dataset(open_object(file, user.dataset));
  if (!dataset || H5Iget_type(dataset.get()) != H5I_DATASET) return false;
  const auto extents = extents_of(dataset.get());
  if (!extents || user.dimension >= extents->size()) return false;
  const auto attached = attached_scales(dataset.get(), extents->size());
  return !attached.empty() && std::ranges::find(attached[user.dimension], scale) != attached[user.dimension].end();
}

std::vector<uint64_t> scale_users(hid_t file, hid_t scale) {
  std::vector<uint64_t> addresses;
  ObjectInfo info;
  if (!object_info(scale, info)) return addresses;
  for (const ScaleUser& user : listed_scale_users(scale))
    if (is_scale_user(file, user, info.address)) addresses.push_back(user.dataset);
  return addresses;
}

Result<> replace_scale(hid_t file, hid_t from, hid_t to) {
  ObjectInfo old_scale;
  ObjectInfo new_scale;
  if (!object_info(from, old_scale) || !object_info(to, new_scale)) return fail_library(EIO, "a dimension scale");
  const auto failed = [] { return fail_library(EIO, "handing a dimension scale on"); };
  for (const ScaleUser& user : listed_scale_users(from)) {
    if (!is_scale_user(file, user, old_scale.address)) continue;
    const Handle dataset(open_object(file, user.dataset));
    CODECFS_ASSIGN(const std::vector<Extent> extents, extents_of(dataset.get()));
    auto scales = attached_scales(dataset.get(), extents.size());
    std::ranges::replace(scales[user.dimension], old_scale.address, new_scale.address);
    CODECFS_TRY(write_scales(dataset.get(), scales));
  }
  if (H5Aexists(from, kUserList) > 0) {
    const Handle attribute(H5Aopen(from, kUserList, H5P_DEFAULT));
    const Handle type(H5Aget_type(attribute.get()));
    const Handle space(H5Aget_space(attribute.get()));
    std::vector<std::byte> entries(static_cast<size_t>(H5Sget_simple_extent_npoints(space.get())) *
                                   H5Tget_size(type.get()));
    if (H5Aread(attribute.get(), type.get(), entries.data()) < 0) return failed();
    CODECFS_TRY(remove_attribute(to, kUserList));
    const Handle copy(H5Acreate2(to, kUserList, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
    if (!copy || H5Awrite(copy.get(), type.get(), entries.data()) < 0) return failed();
    CODECFS_TRY(remove_attribute(from, kUserList));
  }
  const std::vector<int> number = integer_attribute(from, kDimensionNumber);
  if (!number.empty()) CODECFS_TRY(write_dimension_number(to, number[0]));
  return {};
}

}  // namespace codecfs::hdf5
