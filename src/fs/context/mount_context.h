#pragma once
// What all components of a mounted filesystem share: the dataset, its tree, its chunks, and what the kernel has of
// them. Each member can be used from all threads.

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/lru_map.h"
#include "filters/core/filter_rules.h"
#include "fs/chunks/chunks.h"
#include "fs/context/error_book.h"
#include "fs/context/recodings.h"
#include "fs/context/tree.h"
#include "fs/nodes/dataset.h"
#include "fs/nodes/stats.h"
#include "fs/nodes/xattrs.h"
#include "fs/passthrough/kernel_side.h"

namespace codecfs::fs {

/// Called from time to time by long operations; true: the user has cancelled the request.
using Cancelled = std::function<bool()>;

/// Kerchunk references to the chunks of a source, as JSON. EOPNOTSUPP if it cannot be referenced; EBUSY if committed
/// changes are not in its file.
using MakeReferences = std::function<Result<std::string>(Source&)>;

struct FilesystemOptions {
  uint64_t cache_bytes = uint64_t{64} << 20;
  filters::FilterRules rules = {};
  WriteBack::Options write_back = {};
  bool read_only = true;            // -o ro; a source that cannot be written is read-only too
  View view = View::decoded;        // the view that the root of the mount shows
  bool coherent = false;            // -o coherent: changes of the source by other programs become visible
  bool consolidates_groups = true;  // in views of Zarr v3 not only the root has consolidated metadata
  bool portable = false;            // -o portable: encoded3 has only codecs that every reader of Zarr v3 has
  bool for_netcdf = false;          // encoded has only codecs that netCDF-C has
  bool for_hdf5 = false;            // views have only codecs and metadata that a new HDF5 file can have
  bool tells_types = false;         // metadata files of v2 say more than Zarr does: put_types() of metadata_files.h
  std::set<std::string> real_dimensions = {};  // see Dataset
  bool shows_fill_of_big_endian = false;       // see Dataset
  /// New variables have their shape as maximum shape if nothing says otherwise, as h5py and xarray make them; else they
  /// are unlimited.
  bool new_are_fixed = false;
  bool is_new = false;           // -o create has made the source: see DirectoryOverlay::add_empty_root()
  bool nodelete = false;         // -o nodelete: variables and groups cannot be removed
  bool has_other_users = false;  // -o allow_other: users without the right to read all of the source
  std::string mountpoint = {};   // absolute; link targets below it are inside the mount
  std::function<std::string()> source_counters = {};  // for `.codecfs/stats`: of SourceOpener
  MakeReferences make_references = {};                // for `.codecfs/references.json`; none: there is no such file
};

struct MountContext {
  MountContext(std::unique_ptr<Source> source, const FilesystemOptions& options);
  MountContext(const MountContext&) = delete;
  MountContext& operator=(const MountContext&) = delete;

  /// The inode number of a directory, under which its temporary files are kept: a group that has become a directory of
  /// chunks has two. ENFILE.
  Result<Ino> ino_of(const Place& directory);
  /// The chunk that an inode number refers to. ESTALE if it is no file of a chunk any more.
  Result<ChunkPlace> chunk_place(Ino ino);
  /// `number`: of a file of the node's view, see chunk_names.h.
  Result<ChunkPlace> chunk_place(const Node& node, uint64_t number);
  /// ChunkPlace::key. ENFILE.
  Result<Ino> chunk_key(const Node& node, const Variable& variable, uint64_t number);
  /// check_place() of chunk_decoder.h, for what was read of a chunk past the decoder.
  Result<> still_means(const ChunkPlace& chunk) { return check_place(tree.nodes, dataset, chunk); }
  /// A counter that changes with each change of content or metadata.
  [[nodiscard]] uint64_t changes() const { return chunks.write_back.changes_made() + dataset.changes(); }
  /// The path of a view's root in the mount, "" or "/.codecfs/view/NAME".
  [[nodiscard]] std::string path_of(View view) const;
  /// The path of a directory in the dataset, for messages: of a node, or of chunks.
  [[nodiscard]] std::string path_of(const Place& directory);
  /// Whether the directory shows files of chunks that are neither stored nor written. Views of Zarr v3 do not: there
  /// every array has a fill value, which readers take for an absent chunk.
  [[nodiscard]] bool shows_absent(const Node& node, const VariableView& view) const;
  /// As shows_absent(), for a directory that is listed: it shows everything that it has.
  [[nodiscard]] bool lists_absent(const Node& node, const VariableView& view) const;
  /// The paths, from the root of the mount, of scratch files, which an unmount would lose.
  [[nodiscard]] std::vector<std::string> files_not_stored();
  /// What the overlay has of a directory. Of a source that the mount has made, the root shows its metadata as soon as
  /// another program has made something.
  [[nodiscard]] DirectoryState state_of(const Node& directory);
  /// Whether there is nothing in the dataset, and its root has no attributes. Errors of the source.
  [[nodiscard]] Result<bool> is_empty();
  /// Whether all readers of the root may read a directory, too.
  [[nodiscard]] bool is_public(const Node& node);
  /// Another program was found to have changed a chunk.
  void changed_outside(const ChunkPlace& chunk) const {
    if (on_changed_outside) on_changed_outside(chunk);
  }
  /// Records why a request failed, for user._Error of that inode, the log and the statistics. Ignores errors without a
  /// reason: these are answers, not failures.
  void note_error(Ino ino, const Error& error, RequestKind kind = RequestKind::other);

  const FilesystemOptions options;               // read_only is set, too, if the source cannot be written
  WriteBack::ChangedOutside on_changed_outside;  // set before there are requests

  Stats stats;
  Dataset dataset;
  Tree tree;
  Recodings recodings;
  ErrorBook errors;
  // By inode number, not for chunks: getfattr requests each value of the list separately.
  LruMap<Ino, std::vector<Xattr>> xattrs{16, kMaxHeld};
  KernelSide kernel;
  Chunks chunks;  // last, as its threads use all members above
};

}  // namespace codecfs::fs
