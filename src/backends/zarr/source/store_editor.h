#pragma once
// What all changes of a store have in common: the right to write, the objects that may be changed, and replacing
// metadata files, also those of netCDF-C's lists.
//
// All functions but begin() require a lock of OpenStore: using_keys() to look up, changing_keys() to replace a file.

#include <atomic>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "backends/zarr/source/nczarr_changes.h"
#include "backends/zarr/source/open_store.h"
#include "backends/zarr/store/store_writer.h"

namespace codecfs::zarr {

class StoreEditor {
 public:
  /// Both must outlive this object.
  StoreEditor(OpenStore& store, StoreWriter& writer) : store_(store), writer_(writer) {}

  /// Acquires the right to write. EROFS, EBUSY.
  Result<> begin();

  // The object, if it may be changed: these acquire the right to write too. ENOENT; EOPNOTSUPP if it is reached through
  // a symbolic link, because its target would be two objects with separate state. A group without metadata, and those
  // above it, get metadata: an implicit group would end with its last member.
  Result<Object> object_to_change(ObjectId id);
  Result<Object> variable_to_change(ObjectId id);
  /// A group whose members will change. ENOTDIR.
  Result<Object> group_to_change(ObjectId id);
  Result<Object> member_to_change(const Object& group, std::string_view name);

  /// Replaces a metadata file of an object.
  Result<> replace(const Object& object, const char* file, const std::string& text);
  /// Writes the edits in their order; with `are_durable`, each is durable before the next. After an error they are
  /// reverted as far as possible.
  Result<> write_edits(std::span<const NczarrEdit> edits, bool are_durable);
  /// Changes names in some groups together with netCDF-C's lists: completely or, as far as the disk permits, not at
  /// all. `undo` reverts the change.
  Result<> with_lists(const NczarrPlan& plan, std::initializer_list<std::string> groups,
                      const std::function<Result<>()>& change, const std::function<void()>& undo);
  /// Whether lists have changed since the last call: arrays may be shorter than their dimensions.
  bool take_lists_changed() { return lists_changed_.exchange(false); }

 private:
  Result<> check_change(const std::string& key);
  Result<> make_explicit(std::string key);
  void undo_edits(std::span<const NczarrEdit> edits);

  OpenStore& store_;
  StoreWriter& writer_;
  std::atomic<bool> lists_changed_ = false;
  std::atomic<bool> searched_beside_ = false;  // leftovers beside a store that is a single array were removed
};

}  // namespace codecfs::zarr
