#pragma once
// Changes the attributes, dimension names, shapes and codecs of a store's groups and arrays. See Source of
// backends/api for the functions. Thread-safe; takes the locks of OpenStore itself. In a store that other programs may
// write, EAGAIN: metadata has changed, so the change must be made anew (repeat_change()).

#include <cstdint>
#include <span>
#include <string>

#include "backends/zarr/metadata/metadata_write.h"
#include "backends/zarr/source/open_store.h"
#include "backends/zarr/source/shard_writer.h"
#include "backends/zarr/source/store_editor.h"
#include "backends/zarr/store/shared_store.h"
#include "backends/zarr/store/store_writer.h"

namespace codecfs::zarr {

class MetadataChanges {
 public:
  /// All must outlive this object.
  MetadataChanges(OpenStore& store, StoreEditor& editor, StoreWriter& writer, ShardWriter& shards)
      : store_(store), editor_(editor), writer_(writer), shards_(shards) {}

  Result<> set_attributes(ObjectId id, std::span<const Attribute> set, std::span<const std::string> remove);
  Result<> set_dimensions(ObjectId id, std::span<const std::string> names);
  Result<> define_dimensions(ObjectId id, std::span<const GroupDimension> dimensions);
  Result<> set_dimension_names(ObjectId id, const std::optional<OptionalNames>& names);
  Result<> resize(ObjectId id, std::span<const uint64_t> shape);
  /// Extends arrays to the length of their dimensions, as netCDF-C does when it closes a file.
  Result<> extend_arrays();
  /// Corrects codecs in .zarray that other readers would misinterpret. Must be called before a chunk is stored with
  /// them. The errors of OpenStore::writable_array().
  Result<> correct_codecs(ObjectId id);

 private:
  [[nodiscard]] bool is_v3() const { return store_.hierarchy().format() == ZarrFormat::v3; }
  Result<> set_zarr3_attributes(const Object& object, ObjectId id, const AttributeChange& change);
  Result<> resize_array(const Object& object, const OpenArray& array, std::span<const uint64_t> shape);
  Result<bool> remove_chunks_outside(const OpenArray& array, const ChunkGrid& listed, const ChunkGrid& kept,
                                     bool is_only_asked = false);

  OpenStore& store_;
  StoreEditor& editor_;
  StoreWriter& writer_;
  ShardWriter& shards_;
};

}  // namespace codecfs::zarr
