#pragma once
// Creates, removes and moves the groups and arrays of a store. See Source of backends/api for the functions. Each
// replaces a directory atomically. Thread-safe; takes the locks of OpenStore itself.

#include <string>
#include <string_view>

#include "backends/zarr/source/open_store.h"
#include "backends/zarr/source/shard_writer.h"
#include "backends/zarr/source/store_editor.h"
#include "backends/zarr/store/store_writer.h"

namespace codecfs::zarr {

class MemberChanges {
 public:
  /// All must outlive this object.
  MemberChanges(OpenStore& store, StoreEditor& editor, StoreWriter& writer, ShardWriter& shards)
      : store_(store), editor_(editor), writer_(writer), shards_(shards) {}

  Result<Entry> make_group(ObjectId parent, std::string_view name);
  Result<Entry> make_variable(ObjectId parent, std::string_view name, const Variable& variable);
  Result<> remove(ObjectId parent, std::string_view name);
  Result<> rename(ObjectId from, std::string_view name, ObjectId to, std::string_view to_name);

 private:
  [[nodiscard]] bool is_v3() const { return store_.hierarchy().format() == ZarrFormat::v3; }
  Result<bool> is_empty_group(const Object& parent, std::string_view name);
  Entry made(const std::string& group, const std::string& name, EntryKind kind);
  void discard(const std::string& group, const std::string& name) { (void)writer_.remove_directory(group, name); }

  OpenStore& store_;
  StoreEditor& editor_;
  StoreWriter& writer_;
  ShardWriter& shards_;
};

}  // namespace codecfs::zarr
