#pragma once
// Changes the structure of an HDF5 file: creates, moves and removes groups, variables and links; changes attributes,
// dimensions and shapes. backends/api/source.h has the contract of each call.
//
// libhdf5 cannot undo a change: all checks happen before the first change, and a failure after it calls
// SourceFile::change_failed().
//
// All calls under a LibraryLock, held for the whole call, so that no commit contains a part of it. Calls in which
// libhdf5 may run filters (make_variable, resize) need a LibraryRead.

#include <span>
#include <string>
#include <string_view>

#include "backends/api/source.h"
#include "backends/hdf5/metadata/attribute_write.h"
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
  Result<> define_dimensions(ObjectId group, std::span<const GroupDimension> dimensions);
  Result<Entry> make_link(ObjectId group, std::string_view name, std::string_view target);
  // link_notes.cc
  Result<> restore_link(ObjectId group, std::string_view name, std::string_view note);
  // tree_write.cc
  Result<> remove(ObjectId group, std::string_view name);
  /// `dataset`: the moved variable, if it is one.
  Result<> rename(ObjectId from, std::string_view name, ObjectId to, std::string_view new_name, const Dataset* dataset);

  // variable_write.cc
  Result<Entry> make_variable(ObjectId group, std::string_view name, const Variable& variable);
  /// `dataset`: `object`, if it is a variable.
  Result<> set_attributes(ObjectId object, const Dataset* dataset, std::span<const Attribute> set,
                          std::span<const std::string> remove);
  Result<> set_dimensions(ObjectId variable, const Dataset& dataset, std::span<const std::string> names);
  /// Both as one change.
  Result<> set_metadata(ObjectId variable, const Dataset& dataset, std::span<const std::string> dimensions,
                        std::span<const Attribute> set, std::span<const std::string> remove);
  Result<> resize(Dataset& dataset, std::span<const uint64_t> shape);

 private:
  struct NewDataset;  // variable_write.cc

  /// Converts a target, of file names, to the path that HDF5 stores.
  Result<std::string> link_target(ObjectId group, std::string_view target) const;
  /// Does nothing if an equal one is there, as in a conversion that is resumed.
  Result<> commit_type(ObjectId group, hid_t parent, const std::string& link, const Json& described);
  Result<> make_noted_link(ObjectId group, hid_t parent, const std::string& link, const Json& note);
  [[nodiscard]] Result<std::string> soft_path(ObjectId group, hid_t parent, const std::string& path,
                                              const Json& note) const;
  Result<> make_other_name(ObjectId group, hid_t parent, const std::string& link, const std::string& target);
  Result<> check_netcdf_link(ObjectId group, std::string_view target, const std::string& path) const;
  Result<> check_group_removal(ObjectId group);
  Result<> carry_out_removal(hid_t group, ObjectId parent, const ObjectTree::Member& member);
  Result<> check_move(const ObjectTree::Member& member, ObjectId to) const;
  Result<> carry_out_move(ObjectId from, const ObjectTree::Member& member, ObjectId to, const std::string& link,
                          const std::optional<DimensionWriter::Plan>& plan);

  Result<NewDataset> prepare(ObjectId group, std::string_view name, Variable variable);
  Result<std::string> place_for_variable(ObjectId group, std::string_view name, std::optional<ObjectId>& replaced);
  Result<std::optional<std::vector<std::byte>>> check_fill(const Dataset& dataset, const Attribute& attribute,
                                                           hid_t handle) const;
  Result<> carry_out_making(ObjectId group, NewDataset& made, hid_t dataset);
  /// `becomes_scale`: by the same change.
  Result<AttributeChange> plan_attributes(ObjectId object, const Dataset* dataset, std::span<const Attribute> set,
                                          std::span<const std::string> remove, hid_t handle, bool becomes_scale) const;
  /// None if the variable has these names. `set`: may mark some as generated, which the file does not get.
  Result<std::optional<DimensionWriter::Plan>> plan_dimensions(ObjectId variable, const Dataset& dataset,
                                                               std::span<const std::string> names,
                                                               std::span<const Attribute> set);
  Result<> carry_out_naming(ObjectId variable, const Dataset& dataset, const DimensionWriter::Plan& plan);
  Result<> carry_out_resize(const Dataset& dataset, std::span<const hsize_t> dims, const EdgeChunks& edges,
                            const std::vector<DimensionWriter::Growth>& scales);

  /// Ends a change: if it failed, nothing of it may be committed. `has_moved`: links may have changed, other than by a
  /// new variable.
  template <class T>
  Result<T> done(Result<T> result, bool has_moved = true) {
    if (has_moved || !result)
      dimensions_.forget();
    else
      dimensions_.forget_numbering();  // the rest is forgotten with the change of a dimension
    if (!result) return file_.change_failed(pass_on(result));
    return result;
  }

  SourceFile& file_;
  ObjectTree& tree_;
  Dimensions& dimensions_;
  DimensionWriter scales_;
  bool netcdf_;
};

/// A link creation property list for this name, which declares non-ASCII names as UTF-8.
Handle link_properties(std::string_view name);

}  // namespace codecfs::hdf5
