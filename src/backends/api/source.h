#pragma once
// A mounted dataset: the interface that all backends implement.
//
// All functions are thread-safe. Arguments and results are plain data without handles of a library, so that a backend
// can run in another process. Objects are identified by an ObjectId, which the backend chooses and which stays valid as
// long as the Source exists; only find() resolves names.
//
// Writing: a source is not modified before the first call that writes. That call acquires the right to write (EBUSY if
// another program has it). All readers see a write at once; it is durable after commit(). Each call succeeds completely
// or changes nothing.
//
// Groups, variables and links can be created, moved and removed. An ObjectId keeps identifying the same object while
// that exists, even if it is moved; afterwards calls return ENOENT. Names are file names, escaped as in Entry. Callers
// must fetch Source::variable() again after each call that changes a variable's metadata.
//
// Errors: ENOENT (no such object or chunk), EIO (damaged or unreadable, missing filter), EOPNOTSUPP (cannot be
// represented as Zarr), ENOMEM; each with a reason.

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "model/variable.h"

namespace codecfs {

using ObjectId = uint64_t;

/// In a mounted folder (backends/folder), directories are folders, a dataset file is a group (or a variable), and every
/// other file is a file.
enum class EntryKind { group, variable, symlink, folder, file };

/// A member of a group.
struct Entry {
  std::string name;  // as shown: a valid file name, escaped if the source's name is not one (names.h)
  EntryKind kind = EntryKind::group;
  ObjectId object = 0;  // of all but symlinks
  std::string target;   // of symlinks: relative to the directory that holds the entry
};

/// Where and how a chunk is stored.
struct ChunkInfo {
  bool stored = false;
  uint64_t stored_size = 0;        // bytes as stored, for st_blocks; a proportional share if the layout is not chunked
  std::optional<uint64_t> offset;  // offset in the file that stores the chunk, if it is contiguous
  uint32_t filter_mask = 0;        // HDF5: bit i set = filter i was skipped
};

/// The progress of a long operation, and its cancellation.
struct Progress {
  std::atomic<uint64_t> done = 0;   // chunks
  std::atomic<uint64_t> total = 0;  // chunks; 0 until it is known
  std::function<bool()> cancelled;  // called repeatedly, from any thread; empty: never
};

class Source {
 public:
  virtual ~Source() = default;

  /// Times, owner and mode of the source file (for a directory store: of its directory).
  [[nodiscard]] virtual const struct stat& status() const = 0;
  /// The same for one object where it differs: a folder and its files. For files also the size.
  [[nodiscard]] virtual Result<struct stat> status_of(ObjectId) const { return status(); }
  /// Statistics of the filesystem that contains the source. Zeros if unknown.
  [[nodiscard]] virtual struct statvfs filesystem() const { return {}; }
  /// "HDF5", "netCDF-4", "Zarr v2": for messages and stats.
  [[nodiscard]] virtual std::string format() const = 0;
  /// Whether a change of one object may change the metadata of other objects (names and lengths of dimensions).
  [[nodiscard]] virtual bool shares_metadata() const { return false; }
  /// Whether new filter pipelines must be decodable by numcodecs (Zarr).
  [[nodiscard]] virtual bool chains_for_numcodecs() const { return false; }
  /// The same for the source of one object, as a folder contains many sources.
  virtual bool chains_for_numcodecs_in(ObjectId) { return chains_for_numcodecs(); }
  /// Excludes a path (absolute, without links), the future mount point, from all further access. EINVAL if that would
  /// make the source itself inaccessible.
  virtual Result<> exclude_path(const std::string&) { return {}; }
  /// The root: a group, or a variable if the source is one array. Its name is empty.
  [[nodiscard]] virtual Entry root() const = 0;

  /// All members of a group, in the source's order (creation order if that is stored).
  virtual Result<std::vector<Entry>> list(ObjectId group) = 0;
  /// One member of a group. ENOENT.
  virtual Result<Entry> find(ObjectId group, std::string_view name) = 0;
  virtual Result<std::vector<Attribute>> group_attributes(ObjectId group) = 0;
  /// All metadata of a variable. Built at each call; callers cache it.
  virtual Result<VariablePtr> variable(ObjectId variable) = 0;
  /// The same without attributes and dimension names, which may require scanning the whole source.
  virtual Result<VariablePtr> facts(ObjectId variable) { return this->variable(variable); }

  /// Looks up one chunk (number < grid.count()) without reading it. A chunk that is not stored is not an error. Takes
  /// less than a microsecond if the format permits.
  virtual Result<ChunkInfo> locate(ObjectId variable, uint64_t number) = 0;
  /// The numbers of at most `limit` stored chunks from `from` on, ascending; empty at the end. The time is proportional
  /// to the size of the batch even in a sparse grid, and the memory does not depend on the variable's number of chunks.
  virtual Result<std::vector<uint64_t>> stored_chunks(ObjectId variable, uint64_t from, size_t limit) = 0;
  /// Reads and decodes one chunk: exactly Variable::chunk_bytes bytes if that is known, C order, edge chunks padded
  /// with fill. ENOENT if the chunk is not stored.
  virtual Result<Buffer> read_chunk(ObjectId variable, uint64_t number) = 0;

  /// The encoded bytes of a chunk, if decoding them with Variable::filters gives what read_chunk() returns. None if
  /// that is not the case (a filter mask, another element order or type, a part of a larger block) or unknown; the
  /// caller must then decode and encode. ENOENT if the chunk is not stored.
  virtual Result<std::optional<Buffer>> read_stored(ObjectId, uint64_t) { return std::optional<Buffer>(); }
  /// The size of what read_stored() would return, from ChunkInfo::stored_size; none in the same cases.
  virtual Result<std::optional<uint64_t>> stored_bytes(ObjectId, uint64_t) { return std::optional<uint64_t>(); }
  /// Opens a file of a folder for reading.
  virtual Result<UniqueFd> open_file(ObjectId) { return fail(ENOENT, "there are no such files"); }
  /// Whether another program has changed the metadata of an object (for a group also its members) since the previous
  /// call; the caller must then drop its caches of it. Only with -o coherent.
  virtual bool changed_outside(ObjectId) { return false; }

  /// Succeeds, or returns EROFS with the reason why this source is read-only.
  virtual Result<> writable() { return fail(EROFS, "this source can only be read"); }
  /// Succeeds, or returns why chunks of this variable cannot be written (EROFS, EOPNOTSUPP; EIO if a filter is
  /// missing).
  virtual Result<> variable_writable(ObjectId) { return writable(); }
  /// Acquires the right to write, so that a user learns at the first change, not when it is stored, that another
  /// program has the source open. Cheap if already acquired. EBUSY; ESTALE if the path no longer refers to the opened
  /// source; EROFS.
  virtual Result<> begin_writing() { return writable(); }
  /// The same for the source of one object, as a folder contains many sources.
  virtual Result<> begin_writing_to(ObjectId) { return begin_writing(); }
  /// Encodes a chunk (Variable::chunk_bytes bytes if that is known, in the form of read_chunk()) and stores it. The
  /// encoding runs in the calling thread, in parallel with other calls. ENOSPC, EBUSY, EINVAL for data that a filter
  /// cannot encode, and the errors of variable_writable().
  virtual Result<> write_chunk(ObjectId variable, uint64_t, Bytes) { return variable_writable(variable); }
  /// Stores a chunk that is already encoded with Variable::filters; the caller has checked that it can be decoded.
  /// False if encoded bytes cannot be stored (see read_stored()), so that the caller must use write_chunk().
  virtual Result<bool> write_stored(ObjectId, uint64_t, Bytes) { return false; }
  /// Makes a chunk read as fill; it is deleted if the format permits. Not an error if the chunk is not stored.
  virtual Result<> remove_chunk(ObjectId variable, uint64_t) { return variable_writable(variable); }

  // --- Changes of the tree and of metadata. Each call acquires the right to write. Errors of all: EROFS, EBUSY,
  // ENOSPC, EIO, and EINVAL or EOPNOTSUPP with a reason if the format cannot represent the change.

  /// ENOTDIR if `group` is not a group; EEXIST.
  virtual Result<Entry> make_group(ObjectId, std::string_view) { return not_changeable(); }
  /// Creates a variable with this type, grid (all chunks absent), fill value, attributes and dimension names;
  /// Variable::filters as for set_filters(), Variable::max_shape if the format supports it. Replaces an empty group of
  /// that name. EEXIST; ENOTEMPTY for a group that is not empty.
  virtual Result<Entry> make_variable(ObjectId, std::string_view, const Variable&) { return not_changeable(); }
  /// Creates a symbolic link; `target` is relative to the group's directory or absolute within the source. EEXIST.
  virtual Result<Entry> make_link(ObjectId, std::string_view, std::string_view) { return not_changeable(); }
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
  /// Changes the extents, not the rank; chunks outside are deleted. Writes of the variable's chunks wait.
  virtual Result<> resize(ObjectId, std::span<const uint64_t>) { return not_changeable(); }
  /// Atomically re-encodes all chunks of a variable with another filter pipeline; does nothing if it has this pipeline
  /// already. `chain` is as the user wrote it: parameters that follow from the variable may be missing. Uses all cores
  /// and bounded memory. Readers continue meanwhile, writes of the variable's chunks wait. ENOENT for an unknown
  /// filter; EINVAL for a filter that does not apply to this variable; ECANCELED.
  virtual Result<> set_filters(ObjectId, std::span<const FilterStage>, Progress&) { return not_changeable(); }
  /// Unused bytes in the source, which compact_source() frees.
  virtual uint64_t reclaimable_bytes() { return 0; }

  /// Releases resources that were not used for `unused_for`, including the locks that exclude other programs. The
  /// caller runs it periodically; it may take as long as commit().
  virtual void release_idle(std::chrono::seconds) {}
  /// If another program has moved the source, moves the log beside it to the new place. ESTALE if the source no longer
  /// exists; writes to it are lost. release_idle() does this too.
  virtual Result<> relocate_log() { return {}; }
  /// Makes all previous writes durable. Cheap if there are none.
  virtual Result<> commit() { return {}; }
  /// The periodic commit, for which no caller waits. False: nothing was done, because a commit costs too much to run
  /// every few seconds (an archive that is rewritten completely).
  virtual Result<bool> commit_at_interval() {
    CODECFS_TRY(commit());
    return true;
  }
  /// The last call: commits, and leaves the source as other programs expect it.
  virtual Result<> finish() { return {}; }

 private:
  [[nodiscard]] static std::unexpected<Error> not_changeable() {
    return fail(EROFS, "only chunks can be written in this kind of source");
  }
};

/// Opens a dataset (file or directory) or a folder of datasets; the content determines the format. `may_write`: open it
/// for writing if possible (Source::writable() tells). The errors for known but unsupported formats (netCDF-3, Zarr v3)
/// name the format.
Result<std::unique_ptr<Source>> open_source(const std::string& path, bool may_write = false);

/// Starts the process from which helper processes of sources are forked. Should be called before any thread is created;
/// otherwise it is started when it is first needed.
void prepare_sources();

/// Whether open_source() would open this file or directory as a dataset, and the kind of its root. Reads only what is
/// needed to recognise the format. `fd` may be an O_PATH descriptor for a directory; `status` is its stat.
std::optional<EntryKind> dataset_kind(int fd, const struct stat& status);

/// Describes whether a log beside the source holds committed changes of a mount that was killed; recover_source()
/// writes them into the source. EUCLEAN and others if the log does not belong to this state of the source, EBUSY.
Result<std::string> check_source(const std::string& path);
Result<std::string> recover_source(const std::string& path);

/// Creates an empty source, "hdf5", "zarr" or "zip" (Zarr in a zip archive). EEXIST if the path exists, EINVAL for
/// another format.
Result<> create_source(const std::string& path, std::string_view format);

/// Removes the unused space of a source that no program has open: writes a new file, syncs it and renames it over the
/// old one. Returns a summary of what was saved. EBUSY; EOPNOTSUPP for content that cannot be copied exactly; the
/// source is then unchanged.
Result<std::string> compact_source(const std::string& path);

/// "libhdf5 1.10.8": the libraries of the backends with their versions, for --version.
std::string format_versions();

}  // namespace codecfs
