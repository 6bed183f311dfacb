#pragma once
// Changes the tree of a source and its metadata. Thread-safe. Each call acquires the right to write
// (Lifecycle::begin_writing_to()) and succeeds completely or changes nothing.
//
// Errors of all: EROFS, EBUSY, ENOSPC, EIO, and EINVAL or EOPNOTSUPP with a reason if the format cannot represent the
// change. The defaults are those of a source whose chunks alone can be written.

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "backends/api/object.h"
#include "base/result.h"
#include "model/variable.h"

namespace codecfs {

/// The progress of a long operation, and its cancellation.
struct Progress {
  std::atomic<uint64_t> done = 0;   // chunks
  std::atomic<uint64_t> total = 0;  // chunks; 0 until it is known
  std::function<bool()> cancelled;  // called repeatedly, from any thread; empty: never
};

class TreeEditor {
 public:
  virtual ~TreeEditor() = default;

  /// ENOTDIR if `group` is not a group; EEXIST.
  virtual Result<Entry> make_group(ObjectId, std::string_view) { return not_changeable(); }
  /// Creates the dimensions that the group does not have, in formats where arrays refer to dimensions; elsewhere, and
  /// for names that are in use, does nothing. EINVAL for names that the format does not have.
  virtual Result<> define_dimensions(ObjectId, std::span<const GroupDimension>) { return {}; }
  /// Creates a variable with this type, grid (all chunks absent), fill value, attributes and dimension names;
  /// Variable::filters as for set_filters(), Variable::max_shape if the format supports it. Replaces an empty group of
  /// that name. EEXIST; ENOTEMPTY for a group that is not empty.
  virtual Result<Entry> make_variable(ObjectId, std::string_view, const Variable&) { return not_changeable(); }
  /// Creates a symbolic link; `target` is relative to the group's directory or absolute within the source. EEXIST.
  virtual Result<Entry> make_link(ObjectId, std::string_view, std::string_view) { return not_changeable(); }
  /// Creates a link of which TreeReader::link_notes() has this note, a JSON text, but with file names of this dataset
  /// in "hard", "symlink" and "link". What it leads to need not exist, but for another name of an object: ENOENT.
  /// EEXIST; EOPNOTSUPP if the format has no such link.
  virtual Result<> restore_link(ObjectId, std::string_view /*name*/, std::string_view /*note*/) {
    return not_changeable();
  }
  /// Removes a variable with all its chunks, an empty group or a link. ENOENT; ENOTEMPTY if the group has visible
  /// members.
  virtual Result<> remove(ObjectId, std::string_view) { return not_changeable(); }
  /// Moves a member with all its descendants. ENOENT, EEXIST; EINVAL for a move into itself.
  virtual Result<> rename(ObjectId, std::string_view, ObjectId, std::string_view) { return not_changeable(); }

  /// Changes attributes of a group or variable atomically: creates or replaces those in `set`, removes those in
  /// `remove` (ENODATA if one does not exist). An attribute with an unchanged value keeps its type in the source; a
  /// changed one keeps it if the new value fits.
  virtual Result<> set_attributes(ObjectId, std::span<const Attribute>, std::span<const std::string>) {
    return not_changeable();
  }
  /// Sets the names of a variable's dimensions, one per dimension.
  virtual Result<> set_dimensions(ObjectId, std::span<const std::string>) { return not_changeable(); }
  /// Sets the dimension_names of an array in a store of Zarr v3, which need not name all dimensions; none: removes
  /// them.
  virtual Result<> set_dimension_names(ObjectId, const std::optional<OptionalNames>&) { return not_changeable(); }
  /// Changes the extents, not the rank; chunks outside are deleted. Writes of the variable's chunks wait.
  virtual Result<> resize(ObjectId, std::span<const uint64_t>) { return not_changeable(); }
  /// Atomically re-encodes all chunks of a variable with another filter pipeline; does nothing if it has this pipeline
  /// already. `chain` is as the user wrote it: parameters that follow from the variable may be missing. Uses all cores
  /// and bounded memory. Readers continue meanwhile, writes of the variable's chunks wait. ENOENT for an unknown
  /// filter; EINVAL for a filter that does not apply to this variable; ECANCELED.
  virtual Result<> set_filters(ObjectId, std::span<const FilterStage>, Progress&) { return not_changeable(); }
  /// Encodes again all chunks of which filters were skipped (ChunkInfo::filter_mask), with the pipeline that is there.
  /// Each chunk is replaced by itself. ECANCELED. Only HDF5 skips filters.
  virtual Result<> encode_masked_chunks(ObjectId, Progress&) { return {}; }
  /// As set_filters() for the shards: stores all chunks in the shards of `wanted`, with the codecs there, or with its
  /// filters and without shards. Of `wanted`, `grid`, `shards` and `filters` count; the grid must be that of the
  /// variable. EINVAL for shards that cannot be written.
  virtual Result<> set_sharding(ObjectId, const Variable& /*wanted*/, Progress&) { return not_changeable(); }

 private:
  [[nodiscard]] static std::unexpected<Error> not_changeable() {
    return fail(EROFS, "only chunks can be written in this kind of source");
  }
};

}  // namespace codecfs
