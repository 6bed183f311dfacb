#pragma once
// Plans the edits of netCDF-C's lists (nczarr.h) for a change of the tree, as new texts of files. The plan is made
// before anything changes; the caller writes the edits.
//
// A change writes several files, and after a kill each has its old or its new content. For netCDF-C to read every such
// state, a member must be listed only while it exists completely: a new member is listed last, and a removed or moved
// one is first removed from the list. Other readers ignore the lists. Only a change of lengths is not possible in one
// step: after a kill during a resize netCDF-C reports NC_EDIMSIZE until the next resize, or the unmount after it.
//
// Each store keeps its form: one of 4.9.0 stays readable by 4.9.0. Members that netCDF-C could not read by
// their name are plain Zarr arrays or groups and are not listed; arrays that it could not read by their type are
// refused, in the forms before 4.9.3 also plain.
//
// A missing dimension is created in the array's group; it is unlimited if the array has no maximum and the form
// supports that. While a program that only knows arrays resizes one after another, arrays may be shorter than their
// unlimited dimension; netCDF-C requires equal lengths and extends the arrays when it closes a file. nczarr_settle()
// does the same. A fixed dimension may change its length only if a single array uses it.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/zarr/metadata/metadata.h"
#include "backends/zarr/metadata/metadata_write.h"
#include "backends/zarr/source/hierarchy.h"
#include "base/result.h"

namespace codecfs::zarr {

/// A new text for a metadata file.
struct NczarrEdit {
  std::string key;  // of the group or array
  EntryKind kind = EntryKind::group;
  const char* file = "";
  std::string text;
  std::optional<std::string> old_text;
};

struct NczarrPlan {
  std::vector<NczarrEdit> before;  // to be written durably in this order before the change itself
  std::vector<NczarrEdit> after;   // to be written durably in this order after it
};

/// The files of a new group, and the plan, which is empty if the parent group has no lists.
struct NczarrNewGroup {
  std::vector<std::pair<const char*, std::string>> files;
  NczarrPlan plan;
};
Result<NczarrNewGroup> nczarr_new_group(const Hierarchy& hierarchy, const std::string& parent, const std::string& name);

/// The files of a new array, and the plan, which is empty if the parent group has no lists. `files` must be those of a
/// plain Zarr array. It may replace a group of that name. EINVAL if a dimension of the array's group has this name,
/// another length, and is used by other arrays.
struct NczarrNewArray {
  NewArray files;
  NczarrPlan plan;
};
Result<NczarrNewArray> nczarr_new_array(const Hierarchy& hierarchy, const std::string& parent, const std::string& name,
                                        const Variable& variable, NewArray files);

/// Defines dimensions of a group with lists, which no array there may use yet if they have another length. EINVAL for
/// names that netCDF does not have.
Result<NczarrPlan> nczarr_definitions(const Hierarchy& hierarchy, const std::string& key,
                                      std::span<const NczarrDimension> dimensions);

Result<NczarrPlan> nczarr_removal(const Hierarchy& hierarchy, const std::string& parent, const std::string& name);

/// Updates references to dimensions of a moved group; dimensions that are not visible from the new place are created
/// there. EINVAL as of nczarr_new_array().
Result<NczarrPlan> nczarr_move(const Hierarchy& hierarchy, const std::string& from, EntryKind kind,
                               const std::string& to);

/// Changes the dimension names of an array; one of one element whose dimension gets netCDF-C's name for that of scalars
/// (kScalarDimension) becomes a scalar. The plan includes the array's own files. A dimension that no other array
/// uses is renamed. EINVAL as of nczarr_new_array().
Result<NczarrPlan> nczarr_dimensions(const Hierarchy& hierarchy, const std::string& key, const Array& array,
                                     std::span<const std::string> names);

/// Changes the shape. EINVAL if that changes the length of a fixed dimension that other arrays use.
Result<NczarrPlan> nczarr_resize(const Hierarchy& hierarchy, const std::string& key, const Array& array,
                                 std::span<const uint64_t> shape);

/// The edits that make all arrays as long as their unlimited dimensions.
struct NczarrSettlement {
  std::vector<NczarrEdit> lists;
  std::vector<std::pair<std::string, std::vector<uint64_t>>> shapes;  // of arrays
};
Result<NczarrSettlement> nczarr_settle(const Hierarchy& hierarchy);

/// Variable::max_shape of an NCZarr array.
Result<std::vector<std::optional<uint64_t>>> nczarr_limits(const Hierarchy& hierarchy, const Array& array);

}  // namespace codecfs::zarr
