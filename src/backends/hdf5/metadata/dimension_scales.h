#pragma once
// Dimension scales as HDF5 and netCDF-4 store them: the attributes by which a scale and the datasets that use it refer
// to each other. All calls under a LibraryLock.

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace codecfs::hdf5 {

inline constexpr const char* kScaleList = "DIMENSION_LIST";       // of a dataset: its scales
inline constexpr const char* kUserList = "REFERENCE_LIST";        // of a scale: the datasets that use it
inline constexpr const char* kDimensionNumber = "_Netcdf4Dimid";  // of a scale

/// A dimension of a dataset.
struct Extent {
  uint64_t length = 0;
  bool unlimited = false;
};
/// The extents of the dataset itself, without those of array elements. EIO.
Result<std::vector<Extent>> extents_of(hid_t dataset);

/// Whether the dataset represents a netCDF dimension without a variable.
bool is_dimension_without_variable(hid_t dataset);

/// A dimension of a dataset that uses a scale.
struct ScaleUser {
  uint64_t dataset;  // its address
  size_t dimension;
};
/// The users that the scale lists, without opening them.
std::vector<ScaleUser> listed_scale_users(hid_t scale);
/// Whether the dataset of a listed user refers to the scale at this address too.
bool is_scale_user(hid_t file, const ScaleUser& user, uint64_t scale);
/// The addresses of all datasets that use the scale.
std::vector<uint64_t> scale_users(hid_t file, hid_t scale);
/// Removes a user from the list of a scale, and scales from the list of a dataset. Together they do the same as
/// H5DSdetach_scale, which opens all users of a scale. EIO.
Result<> remove_scale_user(hid_t scale, const ScaleUser& user);
Result<> remove_scales(hid_t dataset, size_t dimension, std::span<const uint64_t> scales);
/// Replaces the scale of all users, and moves its dimension number. Does the same as H5DSdetach_scale and
/// H5DSattach_scale, which open all users of a scale for each user. EIO.
Result<> replace_scale(hid_t file, hid_t from, hid_t to);

/// Sets netCDF's number of a dimension. EIO.
Result<> write_dimension_number(hid_t scale, int number);
/// No error if there is none. EIO.
Result<> remove_attribute(hid_t holder, const char* name);

}  // namespace codecfs::hdf5
