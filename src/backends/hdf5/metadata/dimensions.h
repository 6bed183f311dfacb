#pragma once
// Names of dimensions, as netCDF-C determines them: from dimension scales, else generated (phony_dim_N).
//
// netCDF numbers all dimensions of a file with one counter. Scales have the id that they store (_Netcdf4Dimid) or the
// next free one; they are visited group by group, a group before its children. Then the dimensions of datasets without
// scales are assigned, children before their parent: an unused one of the same group with the same length and the same
// maximum, else a new one with the next id. Source: netcdf-c, libhdf5/hdf5open.c (rec_match_dimscales,
// create_phony_dims). "phony" names need a walk through the whole file, which happens when the first one is requested.
//
// netCDF ignores datasets with types that it does not support (references, bit fields, uncommitted user-defined types);
// here their dimensions are numbered last.
//
// All calls under a LibraryLock.

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backends/hdf5/metadata/object_tree.h"
#include "base/result.h"

namespace codecfs::hdf5 {

bool is_dimension_scale(hid_t dataset);

/// The addresses of the scales that are attached to each dimension. Empty if the dataset has no list of scales.
std::vector<std::vector<uint64_t>> attached_scales(hid_t dataset, size_t rank);

/// A dataset, for the names of its dimensions.
struct NamedDataset {
  hid_t id;
  uint64_t address;  // of the object in the file
  size_t rank;       // of the dataset itself
  size_t grid_rank;  // of its grid, which has more dimensions for array elements, and one for a null dataspace
};

class Dimensions {
 public:
  Dimensions(hid_t file, const ObjectTree& tree, const AccessRecorder& recorder)
      : file_(file), tree_(tree), recorder_(recorder) {}

  /// Sets the identifier of the reopened file, in which changes may have been undone.
  void use(hid_t file) {
    file_ = file;
    numbers_.reset();
    forget();
  }

  /// The dimensions that a group defines: its scales, in netCDF's order.
  Result<std::vector<GroupDimension>> in_group(hid_t group);
  struct Names {
    std::vector<std::string> shown;  // one per dimension of the grid
    /// If some are generated: the names that the file does not store with the dataset, none for the others. Empty else.
    OptionalNames phony;
  };
  Result<Names> names(ObjectId object, const NamedDataset& dataset);

  /// The dimension ids that the file stores (_Netcdf4Dimid, _Netcdf4Coordinates).
  struct Numbers {
    bool used = false;                                 // the file stores ids
    int next = 0;                                      // the next unused id
    std::vector<std::pair<uint64_t, int>> unnumbered;  // scales without a stored id, by address
    // ids of the dimensions of multidimensional coordinate variables, which have no other reference to them
    std::unordered_set<int> by_number;
  };
  /// Kept while this program alone changes the file: taken from a walk once, not after each change.
  const Numbers& numbers();
  /// The scales of Numbers::unnumbered have their ids now.
  void note_numbered() { numbers_->unnumbered.clear(); }
  /// An id for a new dimension; none if the file stores no ids.
  std::optional<int> take_number() { return numbers().used ? std::optional(numbers_->next++) : std::nullopt; }

  /// netCDF's current length of an unlimited dimension, by the address of its scale.
  std::optional<uint64_t> length(uint64_t scale);
  /// The shape that netCDF gives a dataset, if it differs from the stored one: an unlimited dimension is as long as the
  /// longest variable that uses it, and shorter variables are padded with fill. Null for all other datasets. Source:
  /// netcdf-c, nc4_find_dim_len. The result of the first call stays until use_stored_shape(): a program that writes
  /// Zarr resizes one array after another, each from the shape that it has read, so growing one must not change the
  /// others.
  const std::vector<uint64_t>* record_shape(uint64_t address);
  /// From now on the dataset is shown with its stored shape. Also to be called when a dataset is removed.
  void use_stored_shape(uint64_t address) {
    if (record_shapes_) record_shapes_->erase(address);
  }

  /// Must be called after groups, links, shapes or scales have changed.
  void forget() {
    forget_numbering();
    members_.clear();
  }
  /// As forget(), where no dimension or scale was added, moved or removed, and no link but one to a new variable or
  /// group, or where note_scale() or note_removal() tell of it.
  void forget_numbering() {
    numbering_.reset();
    // All else does not change, whatever objects there are.
    if (numbers_ && numbers_->used && (!numbers_->unnumbered.empty() || !numbers_->by_number.empty())) numbers_.reset();
  }
  /// A new scale with a new link in a group.
  void note_scale(ObjectId group, uint64_t address, const std::string& link);
  /// A link to an object is gone; `object`: what had this number, which is gone as well.
  void note_removal(ObjectId group, uint64_t address, ObjectId object);

 private:
  // The result of the walk.
  struct Numbering {
    std::unordered_map<int, std::string> by_id;                 // named dimensions
    std::unordered_map<uint64_t, std::vector<int>> by_dataset;  // dimension ids by address, for datasets without scales
    std::unordered_map<int, std::string> phony;
    Numbers numbers;
    std::unordered_map<uint64_t, uint64_t> lengths;  // of unlimited dimensions, by the address of the scale
    std::unordered_map<uint64_t, std::vector<uint64_t>> record_shapes;  // by address; see record_shape()
  };
  class Walk;

  std::optional<std::string> scale_name(ObjectId object, uint64_t scale);
  const Numbering& numbering();

  hid_t file_;
  const ObjectTree& tree_;
  const AccessRecorder& recorder_;
  std::optional<Numbering> numbering_;
  std::optional<Numbers> numbers_;
  std::optional<std::unordered_map<uint64_t, std::vector<uint64_t>>> record_shapes_;
  std::unordered_map<ObjectId, std::unordered_map<uint64_t, std::string>> members_;  // link names by group and address
};

}  // namespace codecfs::hdf5
