#pragma once
// Changes the names of dimensions: creates, attaches and replaces dimension scales as netCDF-C does, so that it reads
// the result as valid netCDF-4.
//
// A one-dimensional variable with the name of its dimension is the scale of that dimension. For a dimension without
// such a variable, the scale is a hidden dataset ("dimension without variable"). A variable that has the name of a
// dimension but is not its scale has netCDF's prefix (kNonCoordinate) in its link name, as has a group without
// content, which may become one. If a file stores dimension ids (_Netcdf4Dimid), new dimensions get ids too.
//
// plan() and growth() return all foreseeable errors; the other functions fail only with EIO, possibly after a part of
// the change. All calls under a LibraryLock.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/metadata/dimension_scales.h"
#include "backends/hdf5/metadata/dimensions.h"
#include "backends/hdf5/metadata/object_tree.h"
#include "base/result.h"

namespace codecfs::hdf5 {

class DimensionWriter {
 public:
  DimensionWriter(ObjectTree& tree, Dimensions& dimensions, hid_t file)
      : tree_(tree), dimensions_(dimensions), file_(file) {}

  struct Plan {
    struct Dimension {
      std::string name;  // empty: it stays without name
      Extent extent;
      std::optional<uint64_t> scale;  // its address; none: must be created in the variable's group
      bool unused = false;            // the scale has another length but no users: must be replaced
    };
    ObjectId group = 0;
    std::string name;                  // netCDF's name of the variable
    bool scale = false;                // the variable becomes the scale of its one dimension,
    std::optional<uint64_t> replaced;  // and replaces this dimension without variable
    std::vector<Dimension> dimensions;
  };
  /// Plans how a variable of this name in `group` gets these dimensions, a name or none for each extent. EINVAL.
  Result<Plan> plan(ObjectId group, std::string_view name, std::span<const Extent> extents,
                    std::span<const std::optional<std::string>> names);
  /// The dimensions of which the group has neither a scale nor another member with the name. EINVAL.
  Result<std::vector<GroupDimension>> missing(ObjectId group, std::span<const GroupDimension> dimensions);
  /// Creates them, as dimensions without variable.
  Result<> define(ObjectId group, std::span<const GroupDimension> dimensions);
  /// `link` is the dataset's link name in the plan's group; returns its new name.
  Result<std::string> apply(const Plan& plan, hid_t dataset, std::string link);

  /// Whether the dataset is the scale of a dimension of another dataset.
  bool is_used(hid_t dataset);
  /// The datasets of which this one is the scale of a dimension, by address.
  [[nodiscard]] std::vector<uint64_t> users(hid_t dataset) const { return scale_users(file_, dataset); }
  /// Must be called before a dataset is removed: replaces it by a dimension without variable if it is a scale in use,
  /// and removes it from the lists of its own scales. `group` is the result of ObjectTree::open_with_path(). Returns
  /// the current name of its link.
  Result<std::string> prepare_removal(hid_t group, std::string link, hid_t dataset);
  /// Updates netCDF's NAME attribute of a scale after its link was renamed.
  static Result<> update_name(hid_t dataset, std::string_view old_name, std::string_view name);

  /// The scales that must grow with a dataset of this new shape, with their new lengths. EINVAL if the length of a
  /// dimension cannot change.
  struct Growth {
    Handle scale;
    uint64_t address;
    uint64_t length;
  };
  Result<std::vector<Growth>> growth(hid_t dataset, std::span<const uint64_t> shape);
  static Result<> grow(const std::vector<Growth>& scales);

 private:
  struct Scale {
    Handle dataset;
    uint64_t address = 0;
    Extent extent;
    bool alone = false;  // a dimension without variable
  };

  Result<std::optional<Scale>> scale_at(uint64_t address) const;
  Result<std::optional<Scale>> scale_in(hid_t group, const std::string& name) const;
  Result<Plan::Dimension> plan_dimension(const Plan& plan, const std::string& name, const Extent& extent);
  Result<> plan_scale(Plan& plan, const Extent& extent);
  Result<> check_scale(Plan::Dimension& dimension, const Scale& scale);
  Result<> check_free(const Plan& plan, const std::string& name);
  Result<> number_all();
  Result<> number_next(hid_t scale);
  Result<Handle> make_dimension(hid_t group, const std::string& name, const Extent& extent) const;
  Result<> make_scale(const Plan& plan, hid_t group, hid_t dataset, std::string& link);
  Result<> take_over_users(const Plan& plan, hid_t dataset);
  Result<> attach_scale(const Plan& plan, size_t d, hid_t group, hid_t dataset, std::string& link);
  Result<Handle> new_dimension(const Plan& plan, const Plan::Dimension& wanted, hid_t group, std::string& link);
  Result<> detach(hid_t dataset, unsigned dimension, std::span<const uint64_t> scales) const;
  Result<> rename_member(hid_t group, ObjectId parent, const std::string& name) const;

  ObjectTree& tree_;
  Dimensions& dimensions_;
  hid_t file_;
};

}  // namespace codecfs::hdf5
