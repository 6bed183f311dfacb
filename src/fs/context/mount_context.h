#pragma once
// What all components of a mounted filesystem share: the dataset, its inodes, the caches, the edits, and the state that
// this mount keeps beside its source. Each member has its own lock and can be used from all threads; docs/locking.md
// gives their order.

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/fair_shared_mutex.h"
#include "base/lru_map.h"
#include "base/mutex.h"
#include "filters/core/filter_rules.h"
#include "fs/chunks/chunk_cache.h"
#include "fs/chunks/chunk_decoder.h"
#include "fs/chunks/page_copies.h"
#include "fs/chunks/read_ahead.h"
#include "fs/nodes/stats.h"
#include "fs/chunks/write_back.h"
#include "fs/given/absent_chunks.h"
#include "fs/given/invalidator.h"
#include "fs/given/kernel_pages.h"
#include "fs/given/metadata_given.h"
#include "fs/given/pages_given.h"
#include "fs/passthrough/passthrough.h"
#include "fs/passthrough/transport.h"
#include "fs/context/directory_overlay.h"
#include "fs/context/error_book.h"
#include "fs/context/inode_times.h"
#include "fs/nodes/nodes.h"
#include "fs/context/scratch_files.h"
#include "fs/context/staged_files.h"
#include "fs/nodes/dataset.h"
#include "fs/context/recodings.h"
#include "fs/nodes/xattrs.h"

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
  bool nodelete = false;                // -o nodelete: variables and groups cannot be removed
  bool has_other_users = false;         // -o allow_other: users without the right to read all of the source
  std::string mountpoint = {};          // absolute; link targets below it are inside the mount
  std::function<std::string()> source_counters = {};  // for `.codecfs/stats`: of SourceOpener
  MakeReferences make_references = {};  // for `.codecfs/references.json`; none: there is no such file
};

struct MountContext {
  MountContext(std::unique_ptr<Source> source, const FilesystemOptions& options);
  MountContext(const MountContext&) = delete;
  MountContext& operator=(const MountContext&) = delete;

  /// Resolves an inode number; that of a scratch file that has become a chunk is the chunk's. ESTALE.
  [[nodiscard]] Result<Place> place_of(Ino ino);
  /// Whether an inode number still refers to this place: a group may have become an array. It stays so while the caller
  /// holds `names`.
  [[nodiscard]] bool is_still(Ino ino, const Place& place) CODECFS_REQUIRES_SHARED(names);
  /// The inode number of a directory, under which its temporary files are kept: a group that has become a directory of
  /// chunks has two. ENFILE.
  Result<Ino> ino_of(const Place& directory);
  /// `number`: of a file of the node's view, see chunk_names.h.
  Result<ChunkPlace> chunk_place(const Node& node, uint64_t number);
  /// ChunkPlace::key. ENFILE.
  Result<Ino> chunk_key(const Node& node, const Variable& variable, uint64_t number);
  /// A counter that changes with each change of content or metadata.
  [[nodiscard]] uint64_t changes() const { return write_back.changes_made() + dataset.changes(); }
  /// The path of a view's root in the mount, "" or "/.codecfs/view/NAME".
  [[nodiscard]] std::string path_of(View view) const;
  /// The path of a directory in the dataset, for messages: of a node, or of chunks.
  [[nodiscard]] std::string path_of(const Place& directory);
  /// Whether the directory shows files of chunks that are neither stored nor written. Views of Zarr v3 do not: there
  /// every array has a fill value, which readers take for an absent chunk.
  [[nodiscard]] bool shows_absent(const Node& node, const VariableView& view) const;
  /// The same for a directory that is listed: it shows everything that it has.
  [[nodiscard]] bool lists_absent(const Node& node, const VariableView& view) const;
  /// The paths, from the root of the mount, of scratch files, which an unmount would lose.
  [[nodiscard]] std::vector<std::string> files_not_stored();
  /// Whether all readers of the root may read a directory, too.
  [[nodiscard]] bool is_public(const Node& node);
  /// Another program was found to have changed a chunk.
  void changed_outside(const ChunkPlace& chunk) const {
    if (on_changed_outside) on_changed_outside(chunk);
  }
  /// Records why a request failed, for user._Error of that inode, the log and the statistics. Ignores errors without a
  /// reason: these are answers, not failures.
  void note_error(Ino ino, const Error& error, RequestKind kind = RequestKind::other);

  const filters::FilterRules rules;
  const bool read_only;
  const bool coherent;
  const bool consolidates_groups;
  const bool portable;
  const bool for_netcdf;
  const bool for_hdf5;
  const bool tells_types;
  const bool new_are_fixed;
  const bool nodelete;
  const bool has_other_users;
  const std::string mountpoint;
  const std::function<std::string()> source_counters;
  const MakeReferences make_references;
  WriteBack::ChangedOutside on_changed_outside;  // set before there are requests

  Stats stats;
  Dataset dataset;
  Nodes nodes;
  ChunkCache cache;
  Stats conversion_stats;  // of the next
  ChunkCache conversions;  // chunks of the encoded view that are not as in the source, by their keys
  ChunkDecoder decoder;

  ScratchFiles scratch;
  StagedFiles staged_files;
  DirectoryOverlay overlay;
  Recodings recodings;
  InodeTimes times;
  ErrorBook errors;
  // By inode number, not for chunks: getfattr requests each value of the list separately.
  LruMap<Ino, std::vector<Xattr>> xattrs{16, kMaxHeld};

  // Exclusive for removals and moves, shared for other changes of the tree. Taken before all other locks.
  SharedMutex layout{LockRank::layout};
  // Shared between finding a name in the source and getting its node, and while a temporary file gets its name;
  // exclusive while names and nodes change. After `layout`.
  FairSharedMutex names{LockRank::names};

  Invalidator* kernel;
  AbsentChunks absent_chunks;
  MetadataGiven metadata_given;
  /// Whether names of chunks were ever shown although their look-up had failed: Namespace::known().
  std::atomic<bool> shows_unfound = false;
  // How decoded chunks reach their readers: not automatic. Constant from the first request on.
  Transport transport = Transport::push;
  std::unique_ptr<Passthrough> passthrough;  // for that transport, else null
  KernelPages kernel_pages;
  PagesGiven pages_given;
  PageCopies page_copies;
  WriteBack write_back;  // its threads use the members above, and end before them
  ReadAhead read_ahead;  // last, as its threads use all members above

 private:
  Invalidator no_kernel_;
};

}  // namespace codecfs::fs
