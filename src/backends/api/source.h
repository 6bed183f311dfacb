#pragma once
// A mounted dataset: the one interface of all backends.
//
// All calls may come from many threads at once. Calls and answers are plain data: no handle of a library crosses this
// line, so that a backend may one day live in another process. Objects are named by an ObjectId of the backend's own
// choosing, valid as long as the Source lives; a path is looked at once, in find().
//
// Writing. Nothing of a source changes before the first call that writes; that call takes the right to write (EBUSY
// where another program has it). What was written is seen by all readers at once and is durable after commit(). Each
// call does all or nothing.
//
// The tree changes too: groups, variables and links are made, moved and removed. An ObjectId that was given out stays
// the same object's as long as that exists, wherever it is moved to; it is ENOENT afterwards. Names are file names,
// escaped as in Entry. Facts of a variable (Source::variable()) are to be asked for again after each call that changes
// them.
//
// Errors: ENOENT (no such object or chunk), EIO (damaged or unreadable, filter missing), EOPNOTSUPP (no Zarr form),
// ENOMEM; each with a reason.

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

/// Where a folder is mounted (backends/folder): its directories are folders, a dataset file in it is a group (or a
/// variable), everything else is a file, as it is.
enum class EntryKind { group, variable, symlink, folder, file };

/// One name in a group.
struct Entry {
  std::string name;  // as shown: a valid file name, escaped where the source's is not (backends/names.h)
  EntryKind kind = EntryKind::group;
  ObjectId object = 0;  // of all but symlinks
  std::string target;   // of symlinks: relative to the directory that holds the entry
};

/// Where and how a chunk is stored.
struct ChunkInfo {
  bool stored = false;
  uint64_t stored_size = 0;  // bytes as stored, for st_blocks; a share of the whole where there is no chunk storage
  std::optional<uint64_t> offset;  // bytes from the start of the file that holds it, where it lies in one piece
  uint32_t filter_mask = 0;        // HDF5: bit i set = filter i was skipped
};

/// How far a long change has come, and whether it is still wanted.
struct Progress {
  std::atomic<uint64_t> done = 0;   // chunks
  std::atomic<uint64_t> total = 0;  // chunks; 0 until it is known
  std::function<bool()> cancelled;  // asked now and then, from any thread; empty: never
};

class Source {
 public:
  virtual ~Source() = default;

  /// Times, owner and mode of the source file (of a directory store: of its directory).
  [[nodiscard]] virtual const struct stat& status() const = 0;
  /// The same of one object, where they differ: a folder and what is in it. Of files also the size.
  [[nodiscard]] virtual Result<struct stat> status_of(ObjectId) const { return status(); }
  /// The filesystem that holds the source, for what is free there. Zeros where it does not tell.
  [[nodiscard]] virtual struct statvfs filesystem() const { return {}; }
  /// "HDF5", "netCDF-4", "Zarr v2": for messages and stats.
  [[nodiscard]] virtual std::string format() const = 0;
  /// Whether a change of one object may change what others tell of themselves (names and lengths of dimensions).
  [[nodiscard]] virtual bool shares_metadata() const { return false; }
  /// Whether chains that we build are for numcodecs to decode (Zarr).
  [[nodiscard]] virtual bool chains_for_numcodecs() const { return false; }
  /// The same for those of one object, where a folder holds many sources.
  virtual bool chains_for_numcodecs_in(ObjectId) { return chains_for_numcodecs(); }
  /// The place where the source is going to be mounted (absolute, without links), which is not looked at any more.
  /// EINVAL where the source could not be reached then.
  virtual Result<> exclude_path(const std::string&) { return {}; }
  /// The root: a group, or a variable where the source is one array. Its name is empty.
  [[nodiscard]] virtual Entry root() const = 0;

  /// All names in a group, in the source's order (creation order where it is kept).
  virtual Result<std::vector<Entry>> list(ObjectId group) = 0;
  /// One name in a group. ENOENT.
  virtual Result<Entry> find(ObjectId group, std::string_view name) = 0;
  virtual Result<std::vector<Attribute>> group_attributes(ObjectId group) = 0;
  /// Everything about a variable but its chunks. Made anew at each call: the caller caches.
  virtual Result<VariablePtr> variable(ObjectId variable) = 0;
  /// The same without attributes and dimension names, which may take a look at all of the source.
  virtual Result<VariablePtr> facts(ObjectId variable) { return this->variable(variable); }

  /// Looks one chunk up (number < grid.count()) without reading it. Not stored is no error. Cheap: under a microsecond
  /// where the format can.
  virtual Result<ChunkInfo> locate(ObjectId variable, uint64_t number) = 0;
  /// The numbers of stored chunks, ascending, from `from` on, at most `limit` of them; empty at the end. A batch costs
  /// time in proportion to its size also in a sparse grid, and memory does not grow with the variable's number of
  /// chunks.
  virtual Result<std::vector<uint64_t>> stored_chunks(ObjectId variable, uint64_t from, size_t limit) = 0;
  /// Reads and decodes one chunk: exactly Variable::chunk_bytes bytes where that is known, C order, edge chunks padded
  /// with fill. ENOENT where the chunk is not stored.
  virtual Result<Buffer> read_chunk(ObjectId variable, uint64_t number) = 0;

  /// The bytes of a chunk as they are stored, where undoing Variable::filters of exactly these bytes gives what
  /// read_chunk() gives. None where that is not so (a filter mask, elements in another order or of another type, a part
  /// of a larger piece), or is not known: then it takes decoding and encoding. ENOENT where the chunk is not stored.
  virtual Result<std::optional<Buffer>> read_stored(ObjectId, uint64_t) { return std::optional<Buffer>(); }
  /// How many there are, cheaply: ChunkInfo::stored_size, where read_stored() would give the bytes.
  virtual Result<std::optional<uint64_t>> stored_bytes(ObjectId, uint64_t) { return std::optional<uint64_t>(); }
  /// A file of a folder, opened for reading.
  virtual Result<UniqueFd> open_file(ObjectId) { return fail(ENOENT, "there are no such files"); }
  /// Whether another program has changed what is told of an object (or group, by its members) since this was last
  /// asked: what was kept of it is to be forgotten then. Only sources that others may change say so (-o coherent).
  virtual bool changed_outside(ObjectId) { return false; }

  /// Nothing, or EROFS with the reason why this source cannot be written at all.
  virtual Result<> writable() { return fail(EROFS, "this source can only be read"); }
  /// Nothing, or why chunks of this variable cannot be written (EROFS, EOPNOTSUPP; EIO where a filter is missing).
  virtual Result<> variable_writable(ObjectId) { return writable(); }
  /// Takes the right to write, so that a user hears at the first change and not when it is stored that somebody else
  /// has the source. Cheap when it was taken before. EBUSY, ESTALE where the source is not what was opened any more,
  /// EROFS.
  virtual Result<> begin_writing() { return writable(); }
  /// The same for the source of one object, where a folder holds many.
  virtual Result<> begin_writing_to(ObjectId) { return begin_writing(); }
  /// Encodes a chunk (Variable::chunk_bytes bytes where that is known, as read_chunk() gives it) and stores it. The
  /// encoding runs in the calling thread, with those of other threads at the same time. ENOSPC, EBUSY, EINVAL for data
  /// that a filter cannot encode, and the reasons of variable_writable().
  virtual Result<> write_chunk(ObjectId variable, uint64_t, Bytes) { return variable_writable(variable); }
  /// Stores a chunk whose bytes are encoded with Variable::filters already, and were checked to decode. False where
  /// that cannot be (as in read_stored()), so that write_chunk() is to be called.
  virtual Result<bool> write_stored(ObjectId, uint64_t, Bytes) { return false; }
  /// Makes a chunk read as fill. Where the format can, it is not stored any more. No error where it was not.
  virtual Result<> remove_chunk(ObjectId variable, uint64_t) { return variable_writable(variable); }

  // --- Changing what there is. Each call takes the right to write by itself. Errors of all: EROFS, EBUSY, ENOSPC, EIO,
  // and EINVAL or EOPNOTSUPP with a reason for what the format cannot hold.

  /// ENOTDIR where `group` is none; EEXIST.
  virtual Result<Entry> make_group(ObjectId, std::string_view) { return not_changeable(); }
  /// A variable of this type, grid (all chunks absent), fill value, attributes and dimension names; Variable::filters
  /// as of set_filters(), Variable::max_shape as far as the format has such a thing. Takes the place of an empty group
  /// of that name. EEXIST; ENOTEMPTY for a group that is not empty.
  virtual Result<Entry> make_variable(ObjectId, std::string_view, const Variable&) { return not_changeable(); }
  /// A symbolic link, `target` relative to the group's directory or absolute within the source. EEXIST.
  virtual Result<Entry> make_link(ObjectId, std::string_view, std::string_view) { return not_changeable(); }
  /// A variable with all its chunks, an empty group or a link. ENOENT; ENOTEMPTY where the group has members that are
  /// shown.
  virtual Result<> remove(ObjectId, std::string_view) { return not_changeable(); }
  /// Moves a member with all that is below it. ENOENT, EEXIST; EINVAL: into itself.
  virtual Result<> rename(ObjectId, std::string_view, ObjectId, std::string_view) { return not_changeable(); }

  /// Attributes of a group or variable, by name: those in `set` are made or replaced, those in `remove` removed
  /// (ENODATA where one is not there). All or none. An attribute whose value is the same keeps its type in the source;
  /// one that changes keeps it where the new value fits into it.
  virtual Result<> set_attributes(ObjectId, std::span<const Attribute>, std::span<const std::string>) {
    return not_changeable();
  }
  /// The names of a variable's dimensions, one each.
  virtual Result<> set_dimensions(ObjectId, std::span<const std::string>) { return not_changeable(); }
  /// Another shape of the same rank; chunks outside of it are gone. No chunk of the variable is written meanwhile.
  virtual Result<> resize(ObjectId, std::span<const uint64_t>) { return not_changeable(); }
  /// Stores the variable anew with another chain, all of it or nothing; nothing happens where it has this chain
  /// already. `chain` as a user wrote it: parameters that follow from the variable may be missing. Decodes and encodes
  /// on all cores, memory bounded; readers are served meanwhile, but no chunk of the variable is written. ENOENT: a
  /// filter that nobody provides; EINVAL: one that this variable cannot have; ECANCELED.
  virtual Result<> set_filters(ObjectId, std::span<const FilterStage>, Progress&) { return not_changeable(); }
  /// Bytes of the source that nothing uses: compact_source() gives them back.
  virtual uint64_t reclaimable_bytes() { return 0; }

  /// Gives back what has not been used for so long, with the locks that keep other programs from it. To be called now
  /// and then; takes as long as a commit.
  virtual void release_idle(std::chrono::seconds) {}
  /// Where somebody has moved the source, moves what lies beside it (a log) to where it is now. ESTALE where the source
  /// is gone, with what was written to it. release_idle() does it too.
  virtual Result<> relocate_log() { return {}; }
  /// What was written before is durable when this returns. Cheap where nothing was.
  virtual Result<> commit() { return {}; }
  /// The same where nobody waits for it. False: nothing was done, as it would cost too much to be done every few
  /// seconds (an archive that is written as a whole).
  virtual Result<bool> commit_at_interval() {
    CODECFS_TRY(commit());
    return true;
  }
  /// The last call: commits, and leaves the source as other programs want it.
  virtual Result<> finish() { return {}; }

 private:
  [[nodiscard]] static std::unexpected<Error> not_changeable() {
    return fail(EROFS, "only chunks can be written in this kind of source");
  }
};

/// Opens a dataset (file or directory), or a folder of them, recognised by its content; `may_write`: unless that is not
/// possible, so that it can be written (Source::writable() tells). Errors name what the source is where we know the
/// format but do not read it (netCDF-3, Zarr v3).
Result<std::unique_ptr<Source>> open_source(const std::string& path, bool may_write = false);

/// To be called before there are threads: from then on there is a process of which helpers of sources are made. Without
/// it there is one when the first of them is needed.
void prepare_sources();

/// Whether a file or directory is a dataset that open_source() opens, and what its root is: a look at its content, and
/// none at all of it. `fd` may be an O_PATH one of a directory; `status` is its own.
std::optional<EntryKind> dataset_kind(int fd, const struct stat& status);

/// Whether committed changes of a mount that was killed wait in a log beside the source, in words; recover_source()
/// brings them into it. EUCLEAN and the like where the log is not of this state of the source, EBUSY.
Result<std::string> check_source(const std::string& path);
Result<std::string> recover_source(const std::string& path);

/// Makes an empty source, "hdf5", "zarr" or "zip" (Zarr in a zip archive), that must not exist yet (EEXIST). EINVAL for
/// another format.
Result<> create_source(const std::string& path, std::string_view format);

/// Rewrites a source that nobody has open without the space that nothing uses: into a new file, synced and renamed over
/// the old one. Tells in words what was gained. EBUSY; EOPNOTSUPP for what cannot be copied as it is, with the source
/// as it was.
Result<std::string> compact_source(const std::string& path);

/// "libhdf5 1.10.8": the libraries behind the backends with their versions, for --version.
std::string format_versions();

}  // namespace codecfs
