#pragma once
// What a change of the tree means for the lists that netCDF-C keeps (nczarr.h). Planned here, before anything is
// changed, as texts of files; written by who makes the change.
//
// A change takes several files, and each is old or new. So that netCDF-C reads every state in between right, a member
// is in the list only while it is there and whole: what is made is listed last, what goes or moves is taken off the
// list first. Other readers do not look at the lists. Only lengths cannot be told in one step: after a kill in the
// middle of a resize netCDF-C says NC_EDIMSIZE until the next resize, or the unmount after it.
//
// Each form stays what it is: a store of 4.9.0 is one that 4.9.0 reads. What netCDF-C could not read (a type that it
// does not have, a name) is a plain array or group of Zarr, in no list.
//
// A dimension that is not there is made in the group of the array, without limit where the array has none and the form
// knows such. An array on a dimension without limit may be shorter than this while a program that knows only arrays
// resizes one after the other; netCDF-C wants them all as long, and makes them so when it closes a file. So do we
// (nczarr_settle). A fixed dimension changes its length only while a single array has it.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/zarr/metadata/metadata.h"
#include "backends/zarr/metadata/metadata_write.h"
#include "backends/zarr/source/hierarchy.h"
#include "base/result.h"

namespace codecfs::zarr {

/// A metadata file that is to hold another text.
struct NczarrEdit {
  std::string key;  // of the group or array
  EntryKind kind = EntryKind::group;
  const char* file = "";
  std::string text;
  std::optional<std::string> old_text;
};

struct NczarrPlan {
  std::vector<NczarrEdit> before;  // to be written in this order, and durable, before the change itself
  std::vector<NczarrEdit> after;   // likewise after it
};

/// The files of a group to be made, and the plan: no edits where the group that it is made in has no lists.
struct NczarrNewGroup {
  std::vector<std::pair<const char*, std::string>> files;
  NczarrPlan plan;
};
Result<NczarrNewGroup> nczarr_new_group(const Hierarchy& hierarchy, const std::string& parent, const std::string& name);

/// The same for an array; `files` as Zarr has it. It may take the place of a group of that name. EINVAL where a
/// dimension of the array's group has this name, another length, and other arrays.
struct NczarrNewArray {
  NewArray files;
  NczarrPlan plan;
};
Result<NczarrNewArray> nczarr_new_array(const Hierarchy& hierarchy, const std::string& parent, const std::string& name,
                                        const Variable& variable, NewArray files);

Result<NczarrPlan> nczarr_removal(const Hierarchy& hierarchy, const std::string& parent, const std::string& name);

/// References to dimensions of a group that is moved become others; a dimension that is not seen from the new place is
/// made there. EINVAL as above.
Result<NczarrPlan> nczarr_move(const Hierarchy& hierarchy, const std::string& from, EntryKind kind,
                               const std::string& to);

/// Other names for the dimensions of an array. The plan has the array's own files too. A dimension of which this was
/// the only array is renamed. EINVAL as above.
Result<NczarrPlan> nczarr_dimensions(const Hierarchy& hierarchy, const std::string& key, const Array& array,
                                     std::span<const std::string> names);

/// Another shape. EINVAL for another length of a fixed dimension that other arrays have too.
Result<NczarrPlan> nczarr_resize(const Hierarchy& hierarchy, const std::string& key, const Array& array,
                                 std::span<const uint64_t> shape);

/// What is to be done so that all arrays are as long as their dimensions without limit.
struct NczarrSettlement {
  std::vector<NczarrEdit> lists;
  std::vector<std::pair<std::string, std::vector<uint64_t>>> shapes;  // of arrays
};
Result<NczarrSettlement> nczarr_settle(const Hierarchy& hierarchy);

/// Variable::max_shape of an array of NCZarr.
Result<std::vector<std::optional<uint64_t>>> nczarr_limits(const Hierarchy& hierarchy, const Array& array);

}  // namespace codecfs::zarr
