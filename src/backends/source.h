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
// Errors: ENOENT (no such object or chunk), EIO (damaged or unreadable, filter missing), EOPNOTSUPP (no Zarr form),
// ENOMEM; each with a reason.

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "model/variable.h"

namespace codecfs {

using ObjectId = uint64_t;

enum class EntryKind { group, variable, symlink };

/// One name in a group.
struct Entry {
  std::string name;  // as shown: a valid file name, escaped where the source's is not (backends/names.h)
  EntryKind kind = EntryKind::group;
  ObjectId object = 0;  // of groups and variables
  std::string target;   // of symlinks: relative to the directory that holds the entry
};

/// Where and how a chunk is stored.
struct ChunkInfo {
  bool stored = false;
  uint64_t stored_size = 0;  // bytes as stored, for st_blocks; a share of the whole where there is no chunk storage
  std::optional<uint64_t> offset;  // bytes from the start of the file that holds it, where it lies in one piece
  uint32_t filter_mask = 0;        // HDF5: bit i set = filter i was skipped
};

class Source {
 public:
  virtual ~Source() = default;

  /// Times, owner and mode of the source file (of a directory store: of its directory).
  [[nodiscard]] virtual const struct stat& status() const = 0;
  /// The filesystem that holds the source, for what is free there. Zeros where it does not tell.
  [[nodiscard]] virtual struct statvfs filesystem() const { return {}; }
  /// "HDF5", "netCDF-4", "Zarr v2": for messages and stats.
  [[nodiscard]] virtual std::string format() const = 0;
  /// Whether chains that we build are for numcodecs to decode (Zarr).
  [[nodiscard]] virtual bool chains_for_numcodecs() const { return false; }
  /// The root: a group, or a variable where the source is one array. Its name is empty.
  [[nodiscard]] virtual Entry root() const = 0;

  /// All names in a group, in the source's order (creation order where it is kept).
  virtual Result<std::vector<Entry>> list(ObjectId group) = 0;
  /// One name in a group. ENOENT.
  virtual Result<Entry> find(ObjectId group, std::string_view name) = 0;
  virtual Result<std::vector<Attribute>> group_attributes(ObjectId group) = 0;
  /// Everything about a variable but its chunks. Made anew at each call: the caller caches.
  virtual Result<VariablePtr> variable(ObjectId variable) = 0;

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

  /// Nothing, or EROFS with the reason why this source cannot be written at all.
  virtual Result<> writable() { return fail(EROFS, "this source can only be read"); }
  /// Nothing, or why chunks of this variable cannot be written (EROFS, EOPNOTSUPP; EIO where a filter is missing).
  virtual Result<> variable_writable(ObjectId) { return writable(); }
  /// Takes the right to write, so that a user hears at the first change and not when it is stored that somebody else has
  /// the source. Cheap when it was taken before. EBUSY, ESTALE where the source is not what was opened any more, EROFS.
  virtual Result<> begin_writing() { return writable(); }
  /// Encodes a chunk (Variable::chunk_bytes bytes where that is known, as read_chunk() gives it) and stores it. The
  /// encoding runs in the calling thread, with those of other threads at the same time. ENOSPC, EBUSY, EINVAL for data
  /// that a filter cannot encode, and the reasons of variable_writable().
  virtual Result<> write_chunk(ObjectId variable, uint64_t, Bytes) { return variable_writable(variable); }
  /// Makes a chunk read as fill. Where the format can, it is not stored any more. No error where it was not.
  virtual Result<> remove_chunk(ObjectId variable, uint64_t) { return variable_writable(variable); }
  /// What was written before is durable when this returns. Cheap where nothing was.
  virtual Result<> commit() { return {}; }
  /// The last call: commits, and leaves the source as other programs want it.
  virtual Result<> finish() { return {}; }
};

/// Opens a dataset (file or directory), recognised by its content; `may_write`: unless that is not possible, so that it
/// can be written (Source::writable() tells). Errors name what the source is where we know the format but do not read
/// it (netCDF-3, Zarr v3).
Result<std::unique_ptr<Source>> open_source(const std::string& path, bool may_write = false);

/// Whether committed changes of a mount that was killed wait in a log beside the source, in words; recover_source() brings
/// them into it. EUCLEAN and the like where the log is not of this state of the source, EBUSY.
Result<std::string> check_source(const std::string& path);
Result<std::string> recover_source(const std::string& path);

/// "libhdf5 1.10.8": the libraries behind the backends with their versions, for --version.
std::string format_versions();

}  // namespace codecfs
