#pragma once
// The mounted source with what we keep of it: the facts of recently used variables with the texts of their metadata
// files, and recently made `.zmetadata` texts. Safe from all threads; what it hands out never changes and stays valid
// while held.

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "backends/source.h"
#include "base/result.h"

namespace codecfs::fs {

using Text = std::shared_ptr<const std::string>;

/// A variable and the files that describe it.
struct VariableView {
  VariablePtr facts;
  Text zarray;
  Text zattrs;
  Text filter;  // null where a codec of the chain has no HDF5 id, so that no spec can say it
  Text codecs;

  /// A reader of a null fill_value hands out uninitialised memory for absent chunks, so they are shown as files of
  /// fill.
  [[nodiscard]] bool shows_absent_chunks() const { return facts->fill_value.is_null() && !facts->unreadable; }
};

using VariableViewPtr = std::shared_ptr<const VariableView>;

/// Keeps the values of the most recently used keys.
template <class Value>
class RecentlyUsed {
 public:
  explicit RecentlyUsed(size_t capacity) : capacity_(capacity) {}

  Value find(ObjectId key) {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->second;
  }
  void put(ObjectId key, Value value) {
    const std::lock_guard lock(mutex_);
    if (const auto found = places_.find(key); found != places_.end()) {
      found->second->second = std::move(value);
      return;
    }
    entries_.emplace_front(key, std::move(value));
    places_[key] = entries_.begin();
    if (entries_.size() <= capacity_) return;
    places_.erase(entries_.back().first);
    entries_.pop_back();
  }

 private:
  const size_t capacity_;
  std::mutex mutex_;
  std::list<std::pair<ObjectId, Value>> entries_;  // most recently used first
  std::unordered_map<ObjectId, typename decltype(entries_)::iterator> places_;
};

class Dataset {
 public:
  explicit Dataset(std::unique_ptr<Source> source) : source_(std::move(source)) {}

  [[nodiscard]] Source& source() const { return *source_; }

  Result<VariableViewPtr> variable(ObjectId id);
  /// The texts of a group's files.
  static Text zgroup();
  Result<Text> zattrs(ObjectId group);
  /// Everything below a group, consolidated: {"metadata": {".zgroup": ..., "a/.zarray": ...},
  /// "zarr_consolidated_format": 1}. Reads all metadata below it, so it takes as long as that takes.
  Result<Text> zmetadata(ObjectId group);

 private:
  const std::unique_ptr<Source> source_;
  RecentlyUsed<VariableViewPtr> variables_{512};
  RecentlyUsed<Text> consolidated_{8};
  std::mutex consolidating_;  // one .zmetadata is made at a time
};

}  // namespace codecfs::fs
