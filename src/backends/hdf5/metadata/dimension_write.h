#pragma once
// Changing the names of dimensions: dimension scales are made, attached and handed on as netCDF-C does, so that it
// reads the result as good netCDF-4.
//
// A variable of one dimension that has its name is the scale of it. A dimension that has no such variable is a hidden
// dataset ("dimension without variable"). A variable that has the name of a dimension without being its scale has
// netCDF's prefix (kNonCoordinate) in its link. Files that number their dimensions (_Netcdf4Dimid) go on doing so.
//
// What can be refused is refused by plan() and growth(); the rest fails with EIO only, in the middle. All calls under a
// LibraryLock.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/metadata/dimensions.h"
#include "backends/hdf5/metadata/object_tree.h"
#include "base/result.h"

namespace codecfs::hdf5 {

/// A dimension of a dataset.
struct Extent {
  uint64_t length = 0;
  bool unlimited = false;
};
/// Those of the dataset itself, without those of its elements. EIO.
Result<std::vector<Extent>> extents_of(hid_t dataset);

class DimensionWriter {
 public:
  DimensionWriter(ObjectTree& tree, Dimensions& dimensions, hid_t file)
      : tree_(tree), dimensions_(dimensions), file_(file) {}

  struct Plan {
    struct Dimension {
      std::string name;
      Extent extent;
      std::optional<uint64_t> scale;  // its address; none: to be made in the variable's group
      bool unused = false;            // the scale has another length, but nobody uses it: made anew
    };
    ObjectId group = 0;
    std::string name;                  // of the variable, as netCDF knows it
    bool scale = false;                // the variable becomes the scale of its one dimension,
    std::optional<uint64_t> replaced;  // in the place of this dimension without variable
    std::vector<Dimension> dimensions;
  };
  /// How a variable of this name in `group` comes to these dimensions, one name for each extent. EINVAL.
  Result<Plan> plan(ObjectId group, std::string_view name, std::span<const Extent> extents,
                    std::span<const std::string> names);
  /// `link` is the dataset's in the group of the plan; its new name is returned.
  Result<std::string> apply(const Plan& plan, hid_t dataset, std::string link);

  /// Whether other datasets have the dataset as the scale of a dimension of theirs.
  bool is_used(hid_t dataset);
  /// Those datasets, by address.
  std::vector<uint64_t> users(hid_t dataset) const;
  /// Before a dataset is removed: puts a dimension without variable in the place of a scale that is used, and takes the
  /// dataset out of the lists of its scales. `group` as of ObjectTree::open_with_path(). Returns the name that its link
  /// has then.
  Result<std::string> leave(hid_t group, std::string link, hid_t dataset);
  /// Scales have netCDF's NAME after their link.
  static Result<> note_name(hid_t dataset, std::string_view old_name, std::string_view name);

  /// The scales that have to grow with a dataset that gets this shape, with their new lengths. EINVAL where the length
  /// of a dimension cannot change.
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
  struct User {
    uint64_t dataset;  // its address
    size_t dimension;
  };

  Result<std::optional<Scale>> scale_at(uint64_t address) const;
  Result<std::optional<Scale>> scale_in(hid_t group, const std::string& name) const;
  Result<Plan::Dimension> plan_dimension(const Plan& plan, const std::string& name, const Extent& extent);
  Result<> plan_scale(Plan& plan, const Extent& extent);
  Result<> check_scale(Plan::Dimension& dimension, const Scale& scale);
  Result<> check_free(const Plan& plan, const std::string& name);
  static std::vector<User> listed_users(hid_t scale);
  [[nodiscard]] bool is_user(const User& user, uint64_t scale) const;
  Result<> hand_over(hid_t from, hid_t to) const;
  Result<> number_all();
  Result<> number_next(hid_t scale);
  Result<Handle> make_dimension(hid_t group, const std::string& name, const Extent& extent) const;
  Result<> become_scale(const Plan& plan, hid_t group, hid_t dataset, std::string& link);
  Result<> give_scale(const Plan& plan, size_t d, hid_t group, hid_t dataset, std::string& link);
  Result<Handle> new_dimension(const Plan& plan, const Plan::Dimension& wanted, hid_t group, std::string& link);
  Result<> detach(hid_t dataset, unsigned dimension, std::span<const uint64_t> scales) const;
  Result<> move_aside(hid_t group, ObjectId parent, const std::string& name) const;

  ObjectTree& tree_;
  Dimensions& dimensions_;
  hid_t file_;
  std::optional<int> next_number_;  // of a dimension, where the file numbers them
};

}  // namespace codecfs::hdf5
