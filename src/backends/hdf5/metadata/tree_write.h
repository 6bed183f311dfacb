#pragma once
// Changes of what an HDF5 file consists of: groups, variables and links are made, moved and removed, their attributes,
// dimensions and shapes changed. See backends/source.h for what each call promises.
//
// libhdf5 cannot take a change back: what can be refused is refused before the first one, and a failure after it is
// SourceFile::change_failed().
//
// All calls under a LibraryLock, which is held to the end of the call: no commit comes between its parts. Those that
// may run filters of libhdf5's (make_variable, resize) under a LibraryRead.

#include <span>
#include <string>
#include <string_view>

#include "backends/api/source.h"
#include "backends/hdf5/metadata/dimension_write.h"
#include "backends/hdf5/metadata/dimensions.h"
#include "backends/hdf5/metadata/object_tree.h"
#include "backends/hdf5/source/dataset.h"
#include "backends/hdf5/source/source_file.h"

namespace codecfs::hdf5 {

class EdgeChunks;

class TreeWriter {
 public:
  TreeWriter(SourceFile& file, ObjectTree& tree, Dimensions& dimensions, bool netcdf)
      : file_(file),
        tree_(tree),
        dimensions_(dimensions),
        scales_(tree, dimensions, file.file.get()),
        netcdf_(netcdf) {}

  // tree_write.cc
  Result<Entry> make_group(ObjectId group, std::string_view name);
  Result<Entry> make_link(ObjectId group, std::string_view name, std::string_view target);
  Result<> remove(ObjectId group, std::string_view name);
  /// `dataset`: of the variable that is moved, if it is one.
  Result<> rename(ObjectId from, std::string_view name, ObjectId to, std::string_view new_name, const Dataset* dataset);

  // variable_write.cc
  Result<Entry> make_variable(ObjectId group, std::string_view name, const Variable& variable);
  /// `dataset`: where `object` is a variable.
  Result<> set_attributes(ObjectId object, const Dataset* dataset, std::span<const Attribute> set,
                          std::span<const std::string> remove);
  Result<> set_dimensions(ObjectId variable, const Dataset& dataset, std::span<const std::string> names);
  Result<> resize(const Dataset& dataset, std::span<const uint64_t> shape);

 private:
  struct NewDataset;  // variable_write.cc

  Result<std::string> link_target(ObjectId group, std::string_view target) const;
  Result<> check_netcdf_link(ObjectId group, std::string_view target, const std::string& path) const;
  Result<> check_group_removal(ObjectId group);
  Result<> carry_out_removal(hid_t group, const ObjectTree::Member& member);
  Result<> check_move(const ObjectTree::Member& member, ObjectId to) const;
  Result<> carry_out_move(ObjectId from, const ObjectTree::Member& member, ObjectId to, const std::string& link,
                          const std::optional<DimensionWriter::Plan>& plan);

  Result<NewDataset> prepare(ObjectId group, std::string_view name, const Variable& variable);
  Result<std::string> place_for_variable(ObjectId group, std::string_view name, std::optional<ObjectId>& replaced);
  Result<bool> check_fill(const Dataset& dataset, const Attribute& attribute, hid_t handle) const;
  Result<> carry_out_making(ObjectId group, NewDataset& made, hid_t dataset);
  Result<> carry_out_resize(const Dataset& dataset, std::span<const hsize_t> dims, const EdgeChunks& edges,
                            const std::vector<DimensionWriter::Growth>& scales);

  /// What the first change has begun has succeeded, or nothing is to be committed.
  template <class T>
  Result<T> done(Result<T> result) {
    dimensions_.forget();
    if (!result) return file_.change_failed(pass_on(result));
    return result;
  }

  SourceFile& file_;
  ObjectTree& tree_;
  Dimensions& dimensions_;
  DimensionWriter scales_;
  bool netcdf_;
};

/// A link creation property list for links of this name: tells what is not ASCII to be UTF-8.
Handle link_properties(std::string_view name);

}  // namespace codecfs::hdf5
