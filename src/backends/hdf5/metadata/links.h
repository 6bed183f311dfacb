#pragma once
// The links of an HDF5 file: their names and values. All calls under a LibraryLock.

#include <hdf5.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/hdf5/library/hdf5_version.h"
#include "base/result.h"

namespace codecfs::hdf5 {

/// netCDF's prefix for a variable that has the name of a dimension but is not its coordinate variable.
inline constexpr std::string_view kNonCoordinate = "_nc4_non_coord_";
/// netCDF's name of an object.
std::string_view netcdf_name(std::string_view link_name);

struct Link {
  std::string name;
  LinkInfo info;
};
/// All links of a group in creation order if that is stored, else by name. netCDF uses this order too.
Result<std::vector<Link>> links_of(hid_t group);

/// The text of a soft or external link. EIO.
Result<std::string> link_value(hid_t group, const Link& link);

/// Whether libhdf5 interprets the text as one link name, not as a path.
bool is_link_name(std::string_view name);
/// The components of an HDF5 path, without ".".
std::vector<std::string_view> components_of(std::string_view path);

/// A path of the object at an address, if libhdf5 finds one; else empty.
std::string path_of(hid_t file, uint64_t address);

}  // namespace codecfs::hdf5
