#pragma once
// The mounted source with what we keep of it: the facts of recently used variables with the texts of their metadata
// files, and recently made `.zmetadata` texts. Safe from all threads; what it hands out never changes and stays valid
// while held.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "backends/api/source.h"
#include "base/lru_map.h"
#include "base/result.h"
#include "model/memory_estimate.h"

namespace codecfs::fs {

using Text = std::shared_ptr<const std::string>;

/// A variable and the files that describe it, but for its attributes.
struct VariableView {
  VariablePtr facts;  // Source::facts()
  Text zarray;
  Text filter;  // null where a codec of the chain has no HDF5 id, so that no spec can say it
  Text codecs;

  /// A reader of a null fill_value hands out uninitialised memory for absent chunks, so they are shown as files of
  /// fill.
  [[nodiscard]] bool shows_absent_chunks() const { return facts->fill_value.is_null() && !facts->unreadable; }
};

using VariableViewPtr = std::shared_ptr<const VariableView>;

class Dataset {
 public:
  explicit Dataset(std::unique_ptr<Source> source) : source_(std::move(source)) {}

  [[nodiscard]] Source& source() const { return *source_; }

  Result<VariableViewPtr> variable(ObjectId id);
  /// What is kept of it; null: nothing.
  VariableViewPtr known(ObjectId id) { return variables_.get(id); }
  /// With attributes and dimension names.
  Result<VariablePtr> described(ObjectId id);
  /// The texts of a group's files.
  static Text zgroup();
  Result<Text> zattrs(ObjectId group);
  /// Everything below a group, consolidated: {"metadata": {".zgroup": ..., "a/.zarray": ...},
  /// "zarr_consolidated_format": 1}. Reads all metadata below it, so it takes as long as that takes.
  Result<Text> zmetadata(ObjectId group);
  /// The same as JSON, with another .zarray of each variable, which is given by its path from the group.
  using ZarrayOf = std::function<Json(const std::string& path, const Variable& facts)>;
  Result<Json> consolidate(ObjectId group, const ZarrayOf& zarray_of);

  /// The object's metadata has changed.
  void forget(ObjectId object);
  /// Any object's may have, as some of HDF5 belongs to several (the length of a dimension, a coordinate's name).
  void forget_all();
  /// How often that was so: what was made of metadata is not to be kept where this has moved meanwhile.
  [[nodiscard]] uint64_t changes() const { return changes_; }

 private:
  const std::unique_ptr<Source> source_;
  std::atomic<uint64_t> changes_ = 0;
  LruMap<ObjectId, VariableView> variables_{512, kMaxHeld};
  LruMap<ObjectId, Variable> described_{64, kMaxHeld};
  LruMap<ObjectId, std::string> consolidated_{8, kMaxHeld};
  std::mutex consolidating_;  // one .zmetadata is made at a time
};

}  // namespace codecfs::fs
