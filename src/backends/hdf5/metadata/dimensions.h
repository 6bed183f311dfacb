#pragma once
// Names of dimensions, as netCDF-C finds them: from dimension scales, else made up (phony_dim_N).
//
// netCDF numbers all dimensions of a file with one counter. Scales are dimensions with a number of their own
// (_Netcdf4Dimid) or the next one; they are met group by group, a group before its children. Then datasets without
// scales are given dimensions: children before their parent; one of the same group, length and unlimitedness that the
// dataset does not use yet is taken, else a new one gets the next number. Source: netcdf-c, libhdf5/hdf5open.c
// (rec_match_dimscales, create_phony_dims); "phony" names need a walk through the whole file, which is made when the
// first one is asked for.
//
// netCDF passes over what it does not understand (references, bit fields, types of the user's that are not committed);
// here such datasets are numbered after all others.
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
#include "backends/hdf5/source/dataset.h"
#include "base/result.h"

namespace codecfs::hdf5 {

bool is_dimension_scale(hid_t dataset);

/// The addresses of all scales that are attached to each dimension. Empty where the dataset has no list of scales.
std::vector<std::vector<uint64_t>> attached_scales(hid_t dataset, size_t rank);

class Dimensions {
 public:
  Dimensions(hid_t file, const ObjectTree& tree, Watch& watch) : file_(file), tree_(tree), watch_(watch) {}

  /// The file was opened again, as this.
  void use(hid_t file) { file_ = file; }

  /// One name for each dimension of dataset.facts().grid.
  Result<std::vector<std::string>> names(ObjectId object, const Dataset& dataset);

  /// What netCDF knows scales by where a file says it (_Netcdf4Dimid, _Netcdf4Coordinates).
  struct Numbers {
    bool used = false;                             // the file says it
    int next = 0;                                  // that no scale has
    std::vector<std::pair<uint64_t, int>> untold;  // of scales, by address, that have none of their own
    std::unordered_set<int> by_number;             // the dimensions of scales with several, which have no other link
  };
  const Numbers& numbers() { return numbering().numbers; }

  /// The length of a dimension without limit, by the address of its scale, as netCDF knows it now.
  std::optional<uint64_t> length(uint64_t scale);
  /// The shape that netCDF gives a dataset, where that is not the stored one: a dimension without limit is as long as
  /// the longest variable that has it, and shorter ones are fill beyond what they store. None for all others. Source:
  /// netcdf-c, nc4_find_dim_len. As of the first call, until settle_shape(): a program that writes Zarr resizes one
  /// array after another, each from the shape that it finds, so that one that grows must not change another's.
  const std::vector<uint64_t>* record_shape(uint64_t address);
  /// The dataset's own shape is the one to be shown from now on, or the dataset is gone.
  void settle_shape(uint64_t address) {
    if (record_shapes_) record_shapes_->erase(address);
  }

  /// Groups, links, shapes or scales have changed.
  void forget() {
    numbering_.reset();
    members_.clear();
  }

 private:
  // What the walk found out.
  struct Numbering {
    std::unordered_map<int, std::string> by_id;                 // real dimensions
    std::unordered_map<uint64_t, std::vector<int>> by_dataset;  // numbers by address, for those without scales
    std::unordered_map<int, std::string> phony;
    Numbers numbers;
    std::unordered_map<uint64_t, uint64_t> lengths;  // of dimensions without limit, by the address of the scale
    std::unordered_map<uint64_t, std::vector<uint64_t>> record_shapes;  // by address; see record_shape()
  };
  class Walk;

  std::optional<std::string> scale_name(ObjectId object, uint64_t scale);
  const Numbering& numbering();

  hid_t file_;
  const ObjectTree& tree_;
  Watch& watch_;
  std::optional<Numbering> numbering_;
  std::optional<std::unordered_map<uint64_t, std::vector<uint64_t>>> record_shapes_;
  std::unordered_map<ObjectId, std::unordered_map<uint64_t, std::string>> members_;  // link names by group and address
};

}  // namespace codecfs::hdf5
