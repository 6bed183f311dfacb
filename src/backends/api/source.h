#pragma once
// A mounted dataset: what all backends implement.
//
// All functions are thread-safe. Arguments and results are plain data without handles of a library, so that a backend
// can run in another process. The defaults are those of a source that can only be read.
//
// Errors of all: ENOENT (no such object or chunk), EIO (damaged or unreadable, missing filter), kNewerFormat
// (newer_format.h), EOPNOTSUPP (cannot be represented as Zarr), ENOMEM; each with a reason. Of changes, see below.

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/api/chunk.h"
#include "backends/api/object.h"
#include "backends/api/progress.h"
#include "backends/api/variable_summary.h"
#include "base/buffer.h"
#include "base/byte_set.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "model/variable.h"

namespace codecfs {

class Source {
 public:
  virtual ~Source() = default;

  /// "HDF5", "netCDF-4", "Zarr v3": for messages and stats.
  [[nodiscard]] virtual std::string format() const = 0;
  /// Whether it is a store of Zarr v3, which is shown as one by default.
  [[nodiscard]] virtual bool is_zarr3() const { return false; }
  /// Times, owner and mode of the source file (for a directory store: of its directory).
  [[nodiscard]] virtual const struct stat& status() const = 0;
  /// Statistics of the filesystem that contains the source. Zeros if unknown.
  [[nodiscard]] virtual struct statvfs filesystem() const { return {}; }
  /// How many chunks are best read or written at a time: more than there are cores if each waits for a network. 0: one
  /// a core.
  [[nodiscard]] virtual size_t reads_at_once() const { return 0; }
  /// Whether a change of one object may change the metadata of other objects (names and lengths of dimensions).
  [[nodiscard]] virtual bool shares_metadata() const { return false; }
  /// Whether new filter pipelines must be decodable by numcodecs (Zarr) in what stores this object.
  virtual bool chains_for_numcodecs_in(ObjectId) { return false; }

  /// Another source of the same file, for reading by another thread, in which objects have the same numbers as here:
  /// those that this one has told so far. It may outlive this one. ENOTSUP if there is no such source. Other errors of
  /// opening the file.
  virtual Result<std::unique_ptr<Source>> open_twin() { return fail(ENOTSUP, "it is opened by its path"); }

  // --- The tree: groups, variables and their metadata, and the files of a folder. Only find() resolves names, which
  // are file names, escaped as in Entry.

  /// The root: a group, or a variable if the source is one array. Its name is empty.
  [[nodiscard]] virtual Entry root() const = 0;
  /// Times, owner and mode of one object; for files of a folder also the size. Those of the source, unless the format
  /// stores others.
  [[nodiscard]] virtual Result<struct stat> status_of(ObjectId) const { return status(); }
  /// All members of a group, in the source's order (creation order if that is stored), but for those that cannot be
  /// read.
  virtual Result<std::vector<Entry>> list(ObjectId group) = 0;
  /// The members that list() leaves out. Takes as long.
  virtual Result<std::vector<UnreadableMember>> unreadable_members(ObjectId) { return std::vector<UnreadableMember>(); }
  /// What list() and unreadable_members() return, for code that only describes: the source may read them in a quicker
  /// way.
  virtual Result<Members> overview(ObjectId group) {
    CODECFS_ASSIGN(std::vector<Entry> entries, list(group));
    CODECFS_ASSIGN(std::vector<UnreadableMember> unreadable, unreadable_members(group));
    return Members{std::move(entries), std::move(unreadable)};
  }
  /// All groups and variables below a group will be described soon: a source that waits for a network requests their
  /// metadata together, and waits for it. Errors show again when they are described.
  virtual Result<> expect_tree(ObjectId /*group*/) { return {}; }
  /// One member of a group. ENOENT.
  virtual Result<Entry> find(ObjectId group, std::string_view name) = 0;
  virtual Result<std::vector<Attribute>> group_attributes(ObjectId group) = 0;
  /// The attributes that group_attributes() leaves out. Reads them all. Errors as group_attributes().
  virtual Result<std::vector<LeftOutAttribute>> left_out_attributes(ObjectId group) {
    CODECFS_TRY(group_attributes(group));
    return std::vector<LeftOutAttribute>();
  }
  /// The links of a group as a conversion to HDF5 makes them, and which names it restores (link_notes.h), by file
  /// names. A store of Zarr has some links that list() does not show, or shows as what they lead to.
  virtual Result<std::vector<Attribute>> link_notes(ObjectId) { return std::vector<Attribute>(); }
  /// From now on, the links that link_notes() has are shown as such, or no longer. No other call may run meanwhile, and
  /// what others have returned before is no longer valid where there are links.
  virtual void show_links(bool /*shown*/) {}
  /// The dimensions that a group defines, in their order. Empty where arrays only name their dimensions.
  virtual Result<std::vector<GroupDimension>> dimensions(ObjectId) { return std::vector<GroupDimension>(); }
  /// None, but for the groups of an NCZarr store.
  virtual Result<std::optional<NczarrMembers>> nczarr_members(ObjectId) { return std::optional<NczarrMembers>(); }
  /// All metadata of a variable. Built at each call; callers cache it, and must fetch it again after each call that
  /// changes the variable's metadata.
  virtual Result<VariablePtr> variable(ObjectId variable) = 0;
  /// As variable(), without attributes and dimension names, which may require scanning the whole source.
  virtual Result<VariablePtr> facts(ObjectId variable) { return this->variable(variable); }
  /// The attributes alone. EIO if they cannot be read.
  virtual Result<std::vector<Attribute>> variable_attributes(ObjectId variable) {
    CODECFS_ASSIGN(const VariablePtr all, this->variable(variable));
    if (all->unreadable_attributes) return std::unexpected(*all->unreadable_attributes);
    return all->attributes;
  }
  /// What a variable takes data from and is not there, for messages ("/v in other.h5"): readers find the fill value in
  /// its place.
  virtual Result<std::vector<std::string>> missing_sources(ObjectId) { return std::vector<std::string>(); }
  /// Opens a file of a folder for reading.
  virtual Result<UniqueFd> open_file(ObjectId) { return fail(ENOENT, "there are no such files"); }
  /// Opens a file of a folder that is not on this machine; null for one that open_file() can open.
  virtual Result<std::shared_ptr<const ContentReader>> open_content(ObjectId) {
    return std::shared_ptr<const ContentReader>();
  }
  /// Keeps the id of a file or folder of a folder: an id from list() or find() is valid for some seconds, and until
  /// release() if it is kept. False if it is not valid any more: the name must be looked up again. Each takes one lock,
  /// of its own, and makes no calls.
  virtual bool keep(ObjectId) { return true; }
  virtual void release(ObjectId) noexcept {}
  /// Whether another program has changed the metadata of an object (for a group also its members) since the previous
  /// call; the caller must then drop its caches of it. Only with -o coherent.
  virtual bool changed_outside(ObjectId) { return false; }
  /// The summaries of many variables, in the order of `variables`. Sources in another process answer them together;
  /// callers should ask for some hundred at a time.
  virtual std::vector<VariableSummary> summaries(std::span<const ObjectId> variables);

  // --- Changes of the tree. Each acquires the right to write (begin_writing_to()) and succeeds completely or changes
  // nothing. Errors of all: EROFS, EBUSY, ENOSPC, EIO, and EINVAL or EOPNOTSUPP with a reason if the format cannot
  // represent the change.

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
  /// Creates a link of which link_notes() has this note, a JSON text, but with file names of this dataset
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
  /// set_dimensions() and set_attributes() of a variable as one change. Errors of both; nothing has changed
  /// then. By default the names are taken back if the attributes cannot be set.
  virtual Result<> set_metadata(ObjectId variable, std::span<const std::string> dimensions,
                                std::span<const Attribute> set, std::span<const std::string> remove);
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

  // --- Chunks. They have numbers below ChunkGrid::count() of the variable's grid.

  /// Looks up one chunk without reading it. A chunk that is not stored is not an error. Takes less than a microsecond
  /// if the format permits.
  virtual Result<ChunkInfo> locate(ObjectId variable, uint64_t number) = 0;
  /// The numbers of at most `limit` stored chunks from `from` on, ascending; empty at the end. The time is proportional
  /// to the size of the batch even in a sparse grid, and the memory does not depend on the variable's number of chunks.
  virtual Result<std::vector<uint64_t>> stored_chunks(ObjectId variable, uint64_t from, size_t limit) = 0;
  /// Reads and decodes one chunk. ENOENT if it is not stored.
  virtual Result<DecodedChunk> fetch_chunk(ObjectId variable, uint64_t number) = 0;
  /// A part of a decoded chunk, if the source can read it without the rest: chunks without filters are stored so. None
  /// if it cannot, or the chunk is not stored. `offset` + `size` is at most Variable::chunk_bytes.
  virtual Result<std::optional<Buffer>> read_part(ObjectId, uint64_t /*number*/, uint64_t /*offset*/,
                                                  uint64_t /*size*/) {
    return std::optional<Buffer>();
  }
  /// These chunks will be read soon: a source that waits for a network requests them together. May wait for their
  /// places. Errors show again when the chunks are read.
  virtual Result<> expect(ObjectId, std::span<const uint64_t> /*numbers*/) { return {}; }
  /// It will soon be asked where these chunks are: a source that needs requests to know that begins them. Does not
  /// wait.
  virtual Result<> expect_places(ObjectId, std::span<const uint64_t> /*numbers*/) { return {}; }
  /// The bytes alone of what fetch_chunk() returns.
  Result<Buffer> read_chunk(ObjectId variable, uint64_t number) {
    CODECFS_ASSIGN(DecodedChunk chunk, fetch_chunk(variable, number));
    return std::move(chunk.bytes);
  }

  /// The encoded bytes of a chunk, if decoding them with Variable::filters gives what read_chunk() returns. None if
  /// that is not the case (a filter mask, another element order or type, a part of a larger block) or unknown; the
  /// caller must then decode and encode. ENOENT if the chunk is not stored.
  virtual Result<std::optional<Buffer>> read_stored(ObjectId, uint64_t) { return std::optional<Buffer>(); }
  /// The size of what read_stored() would return, from ChunkInfo::stored_size; none in the same cases.
  virtual Result<std::optional<uint64_t>> stored_bytes(ObjectId, uint64_t) { return std::optional<uint64_t>(); }

  /// Opens, for reading, the file that has exactly the bytes that read_stored() returns; none in the same cases, and if
  /// there is no such file.
  virtual Result<std::optional<UniqueFd>> open_stored(ObjectId, uint64_t) { return std::optional<UniqueFd>(); }

  /// The offset of the same bytes in the file of the source; none in the same cases, and if they are not there in one
  /// piece. May read the file where locate() does not. Only for sources that are one file.
  virtual Result<std::optional<uint64_t>> stored_offset(ObjectId, uint64_t) { return std::optional<uint64_t>(); }

  // For variables with Variable::shards: the shards as they are stored, with all chunks that were written before.
  // Shards have numbers below Sharding::grid.count().

  /// The numbers of at most `limit` stored shards from `from` on, ascending.
  virtual Result<std::vector<uint64_t>> stored_shards(ObjectId, uint64_t /*from*/, size_t /*limit*/) {
    return std::vector<uint64_t>();
  }
  /// Opens a shard; null if it is not stored.
  virtual Result<std::shared_ptr<const ContentReader>> open_shard(ObjectId, uint64_t /*shard*/) {
    return std::shared_ptr<const ContentReader>();
  }

  // --- Changes of chunks. Each acquires the right to write (begin_writing_to()) and succeeds completely or changes
  // nothing. All readers see a change at once; it is durable after commit().

  /// Succeeds, or returns why chunks of this variable cannot be written (EROFS, EOPNOTSUPP; EIO if a filter is
  /// missing).
  virtual Result<> variable_writable(ObjectId) { return writable(); }
  /// Encodes a chunk (Variable::chunk_bytes bytes if that is known, in the form of read_chunk()) and stores it. The
  /// encoding runs in the calling thread, in parallel with other calls. ENOSPC, EBUSY, EINVAL for data that a filter
  /// cannot encode, and the errors of variable_writable().
  virtual Result<> write_chunk(ObjectId variable, uint64_t, Bytes) { return variable_writable(variable); }
  /// Whether write_chunks() of this variable stores small chunks at less expense than write_chunk().
  virtual bool writes_together(ObjectId) { return false; }
  /// Stores chunks of one size, from the first on, and returns how many it has stored, perhaps none. The others must be
  /// stored by write_chunk(), which also says why one cannot be stored.
  virtual Result<uint64_t> write_chunks(ObjectId, std::span<const NumberedChunk>) { return uint64_t{0}; }
  /// Stores a chunk that is already encoded with Variable::filters; the caller has checked that it can be decoded.
  /// False if encoded bytes cannot be stored (see read_stored()), so that the caller must use
  /// write_chunk().
  virtual Result<bool> write_stored(ObjectId, uint64_t, Bytes) { return false; }

  // --- Sources that other programs may write at the same time. There, a chunk of a fixed length of which not all bytes
  // were written must be stored by update_chunk(), so that what others store meanwhile is kept.

  [[nodiscard]] virtual bool is_shared() const { return false; }
  /// Must succeed before the first update_chunk(): EOPNOTSUPP with the reason if parts of chunks cannot be stored
  /// safely, and the errors of variable_writable().
  virtual Result<> begin_updates(ObjectId variable) { return variable_writable(variable); }
  /// A chunk as it is now, to change a part of it.
  virtual Result<ChunkBase> fetch_base(ObjectId variable, uint64_t) {
    CODECFS_TRY(variable_writable(variable));
    return fail(EOPNOTSUPP, "no part of a chunk can be changed");
  }
  /// write_chunk() that keeps what others have stored, except for the `written` bytes of `chunk`. `version`: the one of
  /// which all other bytes of `chunk` are; none: they are not used.
  virtual Result<UpdatedChunk> update_chunk(ObjectId variable, uint64_t number, Bytes chunk, const ByteSet& /*written*/,
                                            const std::optional<std::string>& /*version*/) {
    CODECFS_TRY(write_chunk(variable, number, chunk));
    return UpdatedChunk{};
  }

  /// Makes a chunk read as fill; it is deleted if the format permits. Not an error if the chunk is not stored.
  virtual Result<> remove_chunk(ObjectId variable, uint64_t) { return variable_writable(variable); }

  // Changes of shards, for variables with Variable::shards. See open_shard().

  /// EINVAL with the reason if the bytes are no shard of the variable: its index and all of its chunks are decoded.
  virtual Result<> check_shard(ObjectId variable, uint64_t /*shard*/, Bytes) { return no_shards(variable); }
  /// Replaces a shard with all of its chunks by bytes that check_shard() has accepted. EINVAL if the index is damaged.
  virtual Result<> write_shard(ObjectId variable, uint64_t /*shard*/, Bytes) { return no_shards(variable); }
  /// Removes a shard with all of its chunks. Not an error if it is not stored.
  virtual Result<> remove_shard(ObjectId variable, uint64_t /*shard*/) { return no_shards(variable); }

  // --- The right to write, commits, and the end. A source is not modified before the first call that writes. That call
  // acquires the right to write. What was written is durable after commit().

  /// Excludes a path (absolute, without links), the future mount point, from all further access. EINVAL if that would
  /// make the source itself inaccessible.
  virtual Result<> exclude_path(const std::string&) { return {}; }

  /// Succeeds, or returns EROFS with the reason why this source is read-only.
  virtual Result<> writable() { return fail(EROFS, "this source can only be read"); }
  /// Acquires the right to write what stores this object (the source, or one dataset of a folder), so that a user
  /// learns at the first change, not when it is stored, that another program has it open. Cheap if already acquired.
  /// EBUSY; ESTALE if the path no longer refers to the opened source; EROFS.
  virtual Result<> begin_writing_to(ObjectId) { return writable(); }

  /// For a program that makes very many changes and can begin again: they need not survive the end of the process that
  /// makes them, nor be read, before the next commit. If it ends, all calls fail (EIO), and the source has the state of
  /// a commit. A failure may undo all since then. As begin_writing_to(). Must be called before the first change.
  virtual Result<> change_in_bulk() { return {}; }
  /// Makes all previous writes durable. Cheap if there are none.
  virtual Result<> commit() { return {}; }
  /// The periodic commit, for which no caller waits. False: nothing was done, because a commit costs too much to run
  /// every few seconds (an archive that is rewritten completely).
  virtual Result<bool> commit_at_interval() {
    CODECFS_TRY(commit());
    return true;
  }
  /// Unused bytes in the source, which `codecfs compact` frees.
  virtual uint64_t reclaimable_bytes() { return 0; }

  /// Releases resources that were not used for `unused_for`, including the locks that exclude other programs. The
  /// caller runs it periodically; it may take as long as commit().
  virtual void release_idle(std::chrono::seconds) {}
  /// Whether close_idle() and wake() do something.
  [[nodiscard]] virtual bool can_rest() const { return false; }
  /// Gives up everything that the source holds, as finish() does, so that other programs may write it; the next call
  /// opens it again. False if a call is running. Everything must be committed.
  virtual bool close_idle() { return false; }
  /// After close_idle(), before the next other call: opens the source again. False if another program has changed it:
  /// the id of its root stands for the root of what it is now, all other ids are ESTALE. ESTALE if it is gone or cannot
  /// be shown in its place; other errors of opening it.
  virtual Result<bool> wake() { return true; }
  /// If another program has moved the source, moves the log beside it to the new place. ESTALE if the source no longer
  /// exists. release_idle() does this too.
  virtual Result<> relocate_log() { return {}; }
  /// Whether another program has deleted the source after it was written, so that commit() must be asked again even if
  /// nothing was written since the last one: what was committed may be in no file that has a name. Cheap.
  [[nodiscard]] virtual bool is_deleted() { return false; }
  /// The last call: commits, and leaves the source as other programs expect it. If the source was deleted, writes its
  /// content with all changes to a new file beside it (only of HDF5 files and archives): ESTALE, with the path.
  virtual Result<> finish() { return {}; }

 private:
  [[nodiscard]] std::unexpected<Error> not_changeable() {
    if (const Result<> allowed = writable(); !allowed) return std::unexpected(allowed.error());
    return fail(EROFS, "only chunks can be written in this kind of source");
  }
  Result<> no_shards(ObjectId variable) {
    CODECFS_TRY(variable_writable(variable));
    return fail(EOPNOTSUPP, "there are no shards in this kind of source");
  }
};

}  // namespace codecfs
