#pragma once
// The mounted source with caches: the metadata of recently used variables with the texts of their metadata files, and
// recent `.zmetadata` texts. Thread-safe; returned objects are immutable and stay valid while they are held.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "backends/api/source.h"
#include "base/lru_map.h"
#include "base/mutex.h"
#include "base/result.h"
#include "model/memory_estimate.h"

namespace codecfs::fs {

using Text = std::shared_ptr<const std::string>;

/// A variable and the texts that describe it, without its attributes.
struct VariableView {
  VariablePtr facts;  // Source::facts()
  Text zarray;
  Text filter;  // null if a codec of the pipeline has no HDF5 id, so that a filter spec cannot represent it
  Text codecs;
  /// `codecs` in the form of Zarr v3, if that can represent the pipeline.
  [[nodiscard]] Text codecs3() const;

  /// Zarr readers return uninitialised memory for absent chunks if fill_value is null, so absent chunks are then shown
  /// as files of fill.
  [[nodiscard]] bool shows_absent_chunks() const {
    return (facts->fill_value.is_null() || shows_fill) && !facts->unreadable;
  }
  bool shows_fill = false;  // Dataset::show_fill_of_big_endian()
};

using VariableViewPtr = std::shared_ptr<const VariableView>;

class Dataset {
 public:
  /// `has_other_users`: consolidated metadata leaves out what some users must not read.
  explicit Dataset(std::unique_ptr<Source> source, bool has_other_users = false)
      : source_(std::move(source)), has_other_users_(has_other_users) {}

  [[nodiscard]] Source& source() const { return *source_; }

  Result<VariableViewPtr> variable(ObjectId id);
  /// The cached state; null if there is none.
  VariableViewPtr known(ObjectId id) { return variables_.get(id); }
  /// With attributes and dimension names. Callers check Variable::unreadable_attributes.
  Result<VariablePtr> described(ObjectId id);
  /// From now on, chunks of big-endian variables are shown that are not stored: netCDF-C, up to 4.10.1, swaps the bytes
  /// of the fill value that it takes in their place in NCZarr. Not thread-safe.
  void show_fill_of_big_endian() { shows_fill_of_big_endian_ = true; }
  /// Variables with a generated name (phony_dim_N) that is one of these are described without kPhonyDimensions: a
  /// program that copied the dataset has made a dimension of it. Before there are requests.
  void set_real_dimensions(std::set<std::string> names) { real_dimensions_ = std::move(names); }
  /// Variables are described without what a new HDF5 file cannot have: other names of chunks than the usual ones, and
  /// names of some dimensions only. Before there are requests.
  void show_as_hdf5() { shows_as_hdf5_ = true; }
  /// The texts of a group's files.
  static Text zgroup();
  Result<Text> zattrs(ObjectId group, bool with_types);
  /// Whether all readers of group `whole` may read `part`, by the owners and modes of both. Always, where only
  /// one user reads.
  [[nodiscard]] bool is_as_readable(ObjectId part, ObjectId whole) const;
  /// The consolidated metadata of everything below a group that is_as_readable() as the group: {"metadata": {".zgroup":
  /// ..., "a/.zarray": ...}, "zarr_consolidated_format": 1}. Reads all metadata below it, which may take long. For
  /// attributes that cannot be read it has the reason as the attribute "_Error".
  Result<Text> zmetadata(ObjectId group);
  /// As zmetadata(), with a .zarray from `zarray_of` for each variable, whose path is relative to the group.
  using ZarrayOf = std::function<Json(const std::string& path, const Variable& facts)>;
  Result<Text> consolidate(ObjectId group, const ZarrayOf& zarray_of);
  /// As consolidate(), for Zarr v3: the zarr.json of each group and variable, `"a": ..., "a/b": ...`, as
  /// zarr3_group_text() takes it. `zarr_json_of` gets the variable with its attributes; one for which it fails is left
  /// out.
  using ZarrJsonOf = std::function<Result<Json>(const std::string& path, const Variable& variable)>;
  Result<std::string> consolidate3(ObjectId group, const ZarrJsonOf& zarr_json_of);

  /// Must be called after the object's metadata has changed.
  void forget(ObjectId object);
  /// As forget(), for all objects, because some HDF5 metadata belongs to several (the length of a dimension, a
  /// coordinate's name).
  void forget_all();
  /// Counts these calls. Data derived from metadata must not be cached if this has changed meanwhile.
  [[nodiscard]] uint64_t changes() const { return changes_; }

 private:
  [[nodiscard]] VariablePtr in_form(VariablePtr variable) const;

  const std::unique_ptr<Source> source_;
  const bool has_other_users_;
  bool shows_fill_of_big_endian_ = false;
  bool shows_as_hdf5_ = false;
  std::set<std::string> real_dimensions_;
  std::atomic<uint64_t> changes_ = 0;
  LruMap<ObjectId, VariableView> variables_{512, kMaxHeld};
  LruMap<ObjectId, Variable> described_{64, kMaxHeld};
  LruMap<ObjectId, std::string> consolidated_{8, kMaxHeld};
  Mutex consolidating_{LockRank::consolidating};  // serializes the creation of .zmetadata
};

}  // namespace codecfs::fs
