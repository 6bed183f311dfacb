#pragma once
// Changes of a file's tree and metadata. See Source of backends/api for the functions. Thread-safe.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/hdf5/source/mounted_file.h"
#include "backends/hdf5/source/open_datasets.h"
#include "base/result.h"

namespace codecfs::hdf5 {

class TreeWriter;

class TreeChanges {
 public:
  /// Both must outlive this object.
  TreeChanges(MountedFile& mounted, OpenDatasets& datasets) : mounted_(mounted), datasets_(datasets) {}

  Result<Entry> make_group(ObjectId group, std::string_view name);
  Result<> define_dimensions(ObjectId group, std::span<const GroupDimension> dimensions);
  Result<Entry> make_variable(ObjectId group, std::string_view name, const Variable& variable);
  Result<Entry> make_link(ObjectId group, std::string_view name, std::string_view target);
  Result<> restore_link(ObjectId group, std::string_view name, std::string_view note);
  Result<> remove(ObjectId group, std::string_view name);
  Result<> rename(ObjectId from, std::string_view name, ObjectId to, std::string_view new_name);
  Result<> set_attributes(ObjectId id, std::span<const Attribute> set, std::span<const std::string> remove);
  Result<> set_dimensions(ObjectId id, std::span<const std::string> names);
  Result<> set_metadata(ObjectId id, std::span<const std::string> dimensions, std::span<const Attribute> set,
                        std::span<const std::string> remove);
  Result<> resize(ObjectId id, std::span<const uint64_t> shape);

  /// See IsolatedSource::begin_edit().
  bool begin_edit(uint64_t edit);

 private:
  Result<> seal();
  template <class Lock, class Step>
  auto change(Step step) -> decltype(step(std::declval<TreeWriter&>()));
  Result<std::vector<std::string>> dimension_names(ObjectId id);
  Result<> store_shape(ObjectId id);
  /// Where these names of dimensions are not those of the variable.
  Result<> store_shape_for(ObjectId id, std::span<const std::string> names);
  Result<> store_shape_of_member(ObjectId group, std::string_view name);

  MountedFile& mounted_;
  OpenDatasets& datasets_;
};

}  // namespace codecfs::hdf5
