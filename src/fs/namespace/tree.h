#pragma once
// The mounted tree: the attributes and the content of each file, and all changes of them. Independent of FUSE;
// fs/kernel/operations.cc translates requests and replies. All public functions are safe from all threads.

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/fair_shared_mutex.h"
#include "filters/core/filter_rules.h"
#include "filters/core/pipeline.h"
#include "fs/chunks/chunk_cache.h"
#include "fs/chunks/page_copies.h"
#include "fs/chunks/read_ahead.h"
#include "fs/chunks/stats.h"
#include "fs/chunks/write_back.h"
#include "fs/handles/open_file.h"
#include "fs/kernel/invalidator.h"
#include "fs/kernel/kernel_pages.h"
#include "fs/namespace/directory_overlay.h"
#include "fs/namespace/error_book.h"
#include "fs/namespace/inode_times.h"
#include "fs/namespace/nodes.h"
#include "fs/namespace/scratch_files.h"
#include "fs/namespace/staged_files.h"
#include "fs/views/array_file.h"
#include "fs/views/dataset.h"
#include "fs/views/recodings.h"
#include "fs/views/xattrs.h"

namespace codecfs::fs {

struct XattrView {
  std::shared_ptr<const std::vector<Xattr>> stored;
  std::vector<Xattr> live;  // user._Error, user._ErrorTime, user._Progress and user._NotStored, if they exist
};

/// Called from time to time by long operations; true: the user has cancelled the request.
using Cancelled = std::function<bool()>;

class Tree {
 public:
  struct Options {
    uint64_t cache_bytes = uint64_t{64} << 20;
    filters::FilterRules rules = {};
    WriteBack::Options write_back = {};
    bool read_only = true;        // -o ro; a source that cannot be written is read-only too
    View view = View::decoded;    // the view that the root of the mount shows
    bool coherent = false;        // -o coherent: changes of the source by other programs become visible
    std::string mountpoint = {};  // absolute; link targets below it are inside the mount
  };

  Tree(std::unique_ptr<Source> source, const Options& options);
  /// Before the first request.
  void set_invalidator(Invalidator& kernel) {
    kernel_ = &kernel;
    page_copies_.set_invalidator(kernel);
  }

  /// ENOENT without a reason for an absent name, which is no failure; and the errors of the source.
  Result<struct stat> lookup(Ino parent, std::string_view name);
  /// Whether the kernel may cache that a name is absent: it can appear only through requests of this mount.
  [[nodiscard]] bool remembers_absence(Ino parent, std::string_view name);
  Result<struct stat> attributes(Ino ino);
  /// As attributes(), of an open chunk that was removed since its open.
  Result<struct stat> attributes_of_removed(Ino ino, const OpenFile& file);
  Result<std::string> link_target(Ino ino);
  /// Whether other programs may change its attributes or content.
  [[nodiscard]] bool may_change_outside(Ino ino) const;

  Result<std::unique_ptr<OpenDirectory>> open_directory(Ino ino);
  /// Calls `take` with each name from position `from` on, until it returns false (no room) or the names end.
  Result<> read_directory(OpenDirectory& directory, off_t from, const std::function<bool(const DirectoryItem&)>& take);

  /// Reply to an open for writing, and to create(), only from after_pushes() of kernel_pages().
  Result<std::unique_ptr<OpenFile>> open(Ino ino, bool for_writing, bool truncate);
  Result<Slice> read(const OpenFile& file, off_t offset, size_t size);

  // Writing files: handles/tree_write.cc. Errors beside those of WriteBack: EROFS, and EPERM for what cannot be
  // changed. EINTR: cancelled, and nothing has changed.
  struct Created {
    struct stat status;
    std::unique_ptr<OpenFile> file;
  };
  /// `flags`: of open(2); O_TRUNC and O_EXCL matter if the file exists by now.
  Result<Created> create(Ino parent, std::string_view name, mode_t permissions, int flags,
                         const Cancelled& cancelled = {});
  /// `written_back`: the bytes are pages that a mapping wrote back, and `file` is any open file of this inode. Only the
  /// bytes that changed are stored.
  Result<size_t> write(const OpenFile& file, off_t offset, Bytes bytes,
                       const PageCopies::WrittenBack* written_back = nullptr, const Cancelled& cancelled = {});
  /// close(2): applies a metadata file that was written.
  Result<> flush(const OpenFile& file, const Cancelled& cancelled = {});
  /// True if the length of the file changes with it, so that the kernel's attributes of the inode are invalid.
  bool close(const OpenFile& file);
  Result<> sync(const OpenFile& file, const Cancelled& cancelled = {});
  Result<> sync_all();
  /// chmod, chown, truncate, utimens: only the members that are set.
  struct Change {
    std::optional<mode_t> permissions;
    std::optional<uid_t> owner;
    std::optional<gid_t> group;
    std::optional<uint64_t> size;
    std::optional<timespec> accessed;
    std::optional<timespec> modified;
  };
  /// `file`: that of ftruncate(2), else null.
  Result<struct stat> change(Ino ino, const Change& change, const Cancelled& cancelled = {},
                             const OpenFile* file = nullptr);
  Result<> unlink(Ino parent, std::string_view name);
  /// EXDEV for chunks and metadata files: mv then copies them.
  Result<> rename(Ino parent, std::string_view name, Ino to_parent, std::string_view to_name, bool replace,
                  const Cancelled& cancelled = {});

  /// link(2): EPERM, and EINVAL for names that are never stored.
  Result<> make_hard_link(Ino parent, std::string_view name);

  // Changes of the tree: namespace/tree_change.cc.
  Result<struct stat> make_directory(Ino parent, std::string_view name);
  Result<> remove_directory(Ino parent, std::string_view name);
  Result<struct stat> make_link(Ino parent, std::string_view name, std::string_view target);
  enum class XattrMode { any, create, replace };  // create: EEXIST; replace: ENODATA
  Result<> set_xattr(Ino ino, std::string_view name, std::string_view value, XattrMode mode,
                     const Cancelled& cancelled = {});
  Result<> remove_xattr(Ino ino, std::string_view name, const Cancelled& cancelled = {});

  void forgotten(Ino ino, uint64_t lookups) { scratch_.forgotten(ino, lookups); }
  void looked_up(Ino ino) { scratch_.looked_up(ino); }
  /// The chunk that a scratch file has become.
  [[nodiscard]] std::optional<Ino> promoted_to(Ino ino) const { return scratch_.promoted_to(ino); }
  [[nodiscard]] bool read_only() const { return read_only_; }
  /// The paths, from the root, of the chunks and arrays that are open for writing (a mapped file is).
  std::vector<std::string> paths_open_for_writing();
  /// The paths, from the root of the mount, of scratch files, which an unmount would lose.
  std::vector<std::string> files_not_stored();
  /// Stores everything at the end of the mount. EIO if scratch files are lost.
  Result<> finish();

  /// Extended attributes. If those of the source cannot be read, user._Error is the reason.
  Result<XattrView> xattrs(Ino ino);
  /// Logs a warning for each filter rule whose variable does not exist.
  void check_rules();
  [[nodiscard]] struct statvfs filesystem() const;

  Stats& stats() { return stats_; }
  KernelPages& kernel_pages() { return kernel_pages_; }
  PageCopies& page_copies() { return page_copies_; }
  /// Ends read-ahead and pushes to the kernel. Must be called while requests are still answered.
  void stop_reading_ahead() {
    kernel_pages_.stop();
    read_ahead_.stop();
    page_copies_.stop();
  }
  Dataset& dataset() { return dataset_; }
  /// Records why a request failed, for user._Error of that inode, the log and the statistics. Ignores errors without a
  /// reason: these are answers, not failures.
  void note_error(Ino ino, const Error& error, RequestKind kind = RequestKind::other);
  ErrorBook& errors() { return errors_; }

 private:
  Result<struct stat> child_attributes(const Node& child);
  Result<struct stat> metadata_attributes(const Node& node, FileKind file);
  Result<struct stat> chunk_attributes(const Node& node, const VariableViewPtr& view, uint64_t number);
  /// Whether the directory shows files of chunks that are neither stored nor written.
  [[nodiscard]] bool shows_absent(const Node& node, const VariableView& view) const;
  [[nodiscard]] struct stat make_attributes(const Node& node, Ino ino, mode_t type, uint64_t size) const;
  /// The text of a metadata or control file. ENOENT if the directory has no such file.
  Result<Text> text_of(const Node& node, FileKind file);
  [[nodiscard]] std::string stats_text();
  Result<std::unique_ptr<OpenFile>> open_file(Ino ino, bool for_writing, bool truncate);
  Result<Created> create_file(Ino parent, std::string_view name, mode_t permissions, int flags,
                              const Cancelled& cancelled);
  bool is_in_motion(Ino ino);
  Result<std::shared_ptr<Snapshot>> take_snapshot(Ino ino);
  Result<Slice> make_whole(Ino ino);
  Result<Slice> look_at(Snapshot& snapshot);
  /// The decoded chunk of the source, or a fill chunk if readers see one for it.
  Result<ChunkPtr> decoded(const ChunkPlace& chunk);
  /// An estimate of the memory that decoding a chunk takes, bytes.
  static uint64_t decoding_bytes(const Variable& variable);
  Result<Buffer> decode(const ChunkPlace& chunk);
  /// Decodes a chunk into the cache, if it is stored and not being edited. Null if a reader has asked for it already.
  ChunkPtr fetch_decoded(const ChunkPlace& chunk);

  // chunks/tree_ahead.cc, read-ahead:
  /// The chunk's file was opened for reading.
  void opened_to_read(const Node& node, const ChunkPlace& chunk);
  void fetch_file(const Node& node, const ChunkPlace& chunk);
  ChunkPtr fetch_encoded(const Node& node, const ChunkPlace& chunk);
  static ChunkPlace place_beside(ChunkPlace chunk, uint64_t number);
  /// A sequential reader of an array has reached this chunk.
  void chunk_of_array(const ChunkPlace& chunk);
  /// Pushes a chunk that a random reader of an array has touched: it may return to it, and decoding again is expensive.
  void give_chunk(const OpenArray& array, uint64_t number, const ChunkPtr& chunk, uint64_t changes);
  /// Pushes content of a file, produced when changes() was `changes`, to the kernel. Whether the kernel has it now.
  bool push_pages(Ino ino, uint64_t offset, Bytes content, uint64_t changes);
  /// A counter that changes with each change of content or metadata.
  [[nodiscard]] uint64_t changes() const { return write_back_.changes_made() + dataset_.changes(); }
  /// The chunk as a writer needs it: fill if it is not stored.
  Result<ChunkPtr> base_of(const ChunkPlace& chunk);
  Result<Place> place_of(Ino ino) const;
  Result<ChunkPlace> chunk_place(const Node& node, uint64_t number);
  /// The chunk that a name in a variable's directory denotes; none for other names. EINVAL for one outside the grid.
  Result<std::optional<ChunkPlace>> chunk_named(const Node& node, std::string_view name);
  /// `new_name`: the name that is about to be created in it. EINVAL with a reason for names that are never stored.
  Result<const Node*> changeable_directory(Ino ino, std::string_view new_name = {});
  /// Success for a file that is neither chunk nor metadata but may become one. EINVAL with a reason for all others,
  /// which the unmount would lose.
  Result<> may_stage(const Node& node, std::string_view name);
  /// The root of the source, or of a dataset of a folder: a group that cannot become a variable.
  [[nodiscard]] bool is_dataset_root(const Node& node) const;
  /// In the directory `c` of a group where zarr.json was refused.
  [[nodiscard]] bool is_below_v3_array(const Node& node) const;
  /// The metadata file of this name, shown or hidden; also one that would make the directory a variable.
  static std::optional<FileKind> metadata_named(const Node& node, std::string_view name);
  Result<Created> create_metadata(const Node& node, FileKind file);
  /// The chunk that an open file is, or has become; its variable is null if it is none.
  Result<ChunkPlace> chunk_of(const OpenFile& file);
  /// The pipeline that the filter rules give a variable; none if no rule applies.
  [[nodiscard]] std::optional<std::vector<FilterStage>> chain_of_rules(const std::string& path,
                                                                       const Variable& variable);
  /// user._FilterOut: the same as a spec, "none" for no filters.
  [[nodiscard]] std::optional<std::string> filter_out(const Node& node, const Variable& variable);
  /// The pipeline of a user in netCDF's order, or in that of numcodecs if the source needs it.
  [[nodiscard]] std::vector<FilterStage> arranged(std::vector<FilterStage> chain, const Variable& variable,
                                                  std::string_view path);

  // namespace/tree_outside.cc, changes by other programs:
  /// Of a folder, or of a file in it.
  Result<struct stat> plain_attributes(const Node& node) const;
  Result<std::unique_ptr<OpenFile>> open_plain(const Node& node, bool for_writing);
  static Result<Slice> read_plain(const OpenFile& file, uint64_t offset, size_t size);
  /// -o coherent: drops cached metadata of a group or variable that another program has changed. If the shape of a
  /// variable has changed, its chunks get new inode numbers.
  void look_outside(const Node& node);
  void note_numbering(ObjectId variable, VariablePtr facts);
  void look_at_variable(const Node& node);
  /// Whether the last check of the object was long enough ago; if so, records a check now.
  bool is_due(ObjectId object);
  bool is_open_for_writing(ObjectId variable);
  /// As place_of(), after a check for changes by other programs.
  Result<Place> current_place_of(Ino ino);
  /// Whether a chunk was removed in this mount, and not written since, by this mount or another program.
  bool is_removed(const Node& node, uint64_t number, Ino key);
  WriteBack::Changes changes_of(const Node& node);
  void note_removed(const ChunkPlace& chunk);
  Result<> read_array_afresh(const Node& node, OpenFile& file);
  void open_afresh(const ChunkPlace& chunk, OpenFile& file);
  /// Whether the source of a path stores pipelines of numcodecs.
  bool chains_for_numcodecs(std::string_view path);

  // namespace/tree_change.cc:
  Result<> remove_entry(const Node& directory, std::string_view name, const Node& entry);
  Result<> may_remove_variable(const Node& node);
  Result<> move_entry(Ino parent, std::string_view name, Ino to_parent, std::string_view to_name);
  /// Invalidates a chunk in the other views after a change through the view of `node`.
  /// `written_through`: the inode number of the scratch file that the chunk was, where it was written through that.
  void chunk_changed(const Node& node, uint64_t number, Ino written_through = 0);
  void former_files_changed(Ino chunk, Ino written_through = 0);
  /// Names of a directory that have changed, and with them its times. The destructor invalidates them in the other
  /// views. Construct it before taking a lock, so that the lock is not held while the kernel is notified.
  class ChangedNames {
   public:
    explicit ChangedNames(Tree& tree) : tree_(tree) {}
    ChangedNames(const ChangedNames&) = delete;
    ChangedNames& operator=(const ChangedNames&) = delete;
    ~ChangedNames();
    void add(const Node& directory, std::string_view name);

   private:
    Tree& tree_;
    std::vector<std::pair<const Node*, std::string>> names_;
  };
  /// Invalidates the names under which a view may show a member. `wait`: only outside of requests that change this
  /// directory; none does in the views of arrays.
  void member_changed(const Node& directory, std::string_view name, bool wait);
  void contents_changed(const Node& shown, Ino first, uint64_t count);
  void forget_xattrs(const Node& node);
  void kernel_name_changed(Ino ino, bool wait);
  /// The path of a view's root in the mount, "" or "/.codecfs/view/NAME".
  [[nodiscard]] std::string path_of(View view) const;
  [[nodiscard]] std::string target_from(const Node& directory, std::string_view target) const;
  /// Invalidates the metadata of an object, in the caches and in the kernel.
  void metadata_changed(const Node& node, bool wait = true);
  /// The common prefix of the paths of all objects in the same dataset of a folder; empty without a folder.
  [[nodiscard]] std::string path_of_dataset(const Node& node) const;
  /// As metadata_changed(), also of all variables if the source shares metadata between them.
  void layout_changed(const Node& node, bool wait = true);
  Result<> apply(Ino ino, std::string_view text, const Cancelled& cancelled);
  Result<> apply_zattrs(Ino directory, std::string_view text);
  Result<> apply_zarray(Ino directory, std::string_view text, const Cancelled& cancelled);
  Result<> make_variable(Ino directory, Variable variable);
  void adopt_spooled(const Node& variable);
  Result<> resize(const Node& node, const std::vector<uint64_t>& shape);
  /// Gives the chunks of a paused variable new inode numbers. `before` and `now`: the number of chunks.
  Result<> renumber_chunks(const Node& node, uint64_t before, uint64_t now, bool wait);

  // views/tree_encoded.cc, the encoded view:
  /// How the encoded view shows a variable.
  struct EncodedForm {
    std::vector<FilterStage> chain;             // the pipeline in .zarray, in the order of encoding
    bool as_stored = false;                     // chunk files hold the stored bytes, unless a chunk has a filter mask
    std::optional<filters::Pipeline> pipeline;  // none: see `unusable`
    std::optional<Error> unusable;
    Text zarray;
  };
  using EncodedFormPtr = std::shared_ptr<const EncodedForm>;
  Result<EncodedFormPtr> encoded_form(const Node& node);
  [[nodiscard]] EncodedForm make_encoded_form(const std::string& path, const Variable& facts);
  Result<struct stat> encoded_attributes(const Node& node, const VariableViewPtr& view, uint64_t number);
  Result<std::unique_ptr<OpenFile>> open_encoded(const Node& node, const ChunkPlace& chunk, bool for_writing,
                                                 bool truncate);
  /// The content of a chunk's file.
  Result<ChunkPtr> encoded(const Node& node, const ChunkPlace& chunk);
  Result<Buffer> convert(const ChunkPlace& chunk, const EncodedForm& form);
  Result<ChunkPtr> passed_on(const ChunkPlace& chunk);
  std::optional<uint64_t> passed_bytes(const Node& node, const ChunkPlace& chunk);
  Result<ChunkPtr> converted(const Node& node, const ChunkPlace& chunk, const EncodedForm& form);
  /// Stores the content of a whole chunk file of the node's view.
  Result<> put_chunk(const Node& node, const ChunkPlace& chunk, Bytes bytes, const Cancelled& cancelled);
  Result<> put_encoded(const Node& node, const ChunkPlace& chunk, Bytes bytes, const Cancelled& cancelled);
  Result<Created> create_encoded(const Node& node, const ChunkPlace& chunk);
  /// Gives an existing variable the codecs of a .zarray, if they differ.
  Result<> apply_codecs(Ino directory, const Variable& wanted, const Cancelled& cancelled);
  Result<Text> zmetadata_of(const Node& node);
  /// The pipeline for the source that corresponds to the codecs of a .zarray.
  Result<std::vector<FilterStage>> chain_for_codecs(const Node& node, const Variable& wanted);

  // views/tree_arrays.cc, the npy and raw views. `directory` and `group` are of one of these.
  /// EOPNOTSUPP if numpy has no such type.
  Result<ArrayFile> array_of(View view, ObjectId variable);
  Result<struct stat> array_attributes(const Node& node);
  /// The path of a variable's file in its view: with ".npy"; "/array.npy" if the variable is the root.
  static std::string array_path(const Node& node);
  /// The entry that a name in the directory denotes: NAME.npy is the variable NAME.
  Result<Entry> array_entry(const Node& group, std::string_view name);
  /// The variable that an entry is, or is a link to.
  std::optional<ObjectId> variable_behind(const Node& directory, const Entry& entry);
  /// Reduces the entries to those that the view shows, and sets their names.
  void show_arrays(const Node& group, OpenDirectory& directory);
  Result<std::string> array_link_target(const Node& link);
  Result<std::unique_ptr<OpenFile>> open_array(const Node& node, bool for_writing, bool truncate);
  struct ArrayNow {
    const Node* node = nullptr;
    VariableViewPtr variable;
  };
  /// The current variable. ESTALE if its shape differs from that of the open file.
  Result<ArrayNow> array_now(const OpenArray& array);
  Result<Slice> read_array(const OpenArray& array, uint64_t offset, uint64_t size);
  /// Reads an array whose rows cross so many chunks that the chunks of a few rows exceed the cache: it is assembled in
  /// blocks, each of which decodes a chunk once.
  Result<ArrayFile::Part> read_blocks(const OpenArray& array, uint64_t offset, uint64_t size,
                                      const ArrayFile::ReadChunk& read_chunk);
  Result<ArrayFile::Part> block_of(const OpenArray& array, uint64_t index, const ArrayFile::ReadChunk& read_chunk);
  Result<size_t> write_array(OpenArray& array, uint64_t offset, Bytes bytes,
                             const PageCopies::WrittenBack* written_back, const Cancelled& cancelled);
  /// Whether a page that a mapping wrote back unchanged makes this chunk: it is absent, and readers of the source would
  /// not get the fill that the mapping shows.
  Result<bool> is_made_by_unchanged(const ChunkPlace& chunk);
  enum class Purpose { data, zeros };  // zeros: nothing is done where zeros are already
  Result<size_t> put_array(const OpenArray& array, uint64_t offset, Bytes bytes, Bytes mask, Purpose purpose,
                           const Cancelled& cancelled);
  /// Writes zeros from the end of the last write to `end`.
  Result<> put_zeros(OpenArray& array, uint64_t end, const Cancelled& cancelled);
  Result<> resize_array(const Node& node, uint64_t size, const OpenFile* file, const Cancelled& cancelled);
  /// As chunk_changed(), for a range of the array without header, and its chunks.
  void part_changed(const Node& node, ArrayFile::Range data, const std::vector<uint64_t>& chunks);
  void array_file_changed(const Node& shown, const VariableView& view, uint64_t chunk);
  /// After a change of the shape.
  void array_files_changed(const Node& node);

  // views/tree_chains.cc:
  Result<std::vector<FilterStage>> chain_for_new(const Node& node, const Variable& variable);
  Result<std::vector<FilterStage>> find_chain_for_new(const Node& node, const Variable& variable);
  Result<std::optional<std::vector<FilterStage>>> spooled_chain(const Node& group, const Variable& variable);
  Result<> set_spec(const Node& node, std::string_view spec, const Cancelled& cancelled);
  Result<> set_codecs(const Node& node, std::string_view json, const Cancelled& cancelled);
  /// Whether a rule of the mount takes precedence over a file _Filter or _Codecs that is copied into a new variable.
  [[nodiscard]] bool is_overruled(const Node& node);
  Result<> set_special(const Node& node, std::string_view name, std::string_view value, const Cancelled& cancelled);
  Result<> set_default_chain(const Node& group, std::string_view name, std::string_view value);
  Result<> chunks_stored_anew(const Node& node);
  /// `made_of`: the state that the pipeline was derived from; EAGAIN if the variable has another pipeline now.
  Result<> set_chain(const Node& node, const std::vector<FilterStage>& chain, const Cancelled& cancelled,
                     const VariableView* made_of = nullptr);
  Result<> edit_chain(const Node& node, std::string_view name, std::string_view value, const Cancelled& cancelled);
  /// Applies the rules of the mount before the first change of a chunk.
  Result<> apply_rules(const ChunkPlace& chunk, const Cancelled& cancelled);

  Result<std::vector<Xattr>> make_xattrs(const Place& place);
  Result<struct stat> listed_attributes(const OpenDirectory& directory, const Entry& entry);
  Result<> read_group(OpenDirectory& directory, off_t from, const std::function<bool(const DirectoryItem&)>& take);
  Result<> read_views(off_t from, const std::function<bool(const DirectoryItem&)>& take);
  Result<> read_chunks(OpenDirectory& directory, uint64_t from, const std::function<bool(const DirectoryItem&)>& take);

  Result<> read_scratch(OpenDirectory& directory, uint64_t from, const std::function<bool(const DirectoryItem&)>& take);

  Stats stats_;
  Dataset dataset_;
  Nodes nodes_;
  ChunkCache cache_;
  Stats conversion_stats_;  // of the next
  ChunkCache conversions_;  // chunks of the encoded view that are not as in the source, by their keys
  const filters::FilterRules rules_;
  const bool read_only_;
  const bool coherent_;
  const std::string mountpoint_;  // see Options
  mutable ScratchFiles scratch_;
  StagedFiles staged_files_;
  Invalidator no_kernel_;
  Invalidator* kernel_ = &no_kernel_;

  // Exclusive for removals and moves, shared for other changes of the tree. Taken before all other locks.
  std::shared_mutex layout_;
  // Shared between finding a name in the source and getting its node; exclusive while both change. After layout_.
  FairSharedMutex names_;

  DirectoryOverlay overlay_;
  Recodings recodings_;
  std::once_flag told_placement_;

  // By inode number, not for chunks: getfattr requests each value of the list separately.
  LruMap<Ino, std::vector<Xattr>> xattrs_{16, kMaxHeld};
  LruMap<Ino, EncodedForm> encoded_forms_{256, kMaxHeld};    // by key
  LruMap<Ino, std::string> encoded_zmetadata_{4, kMaxHeld};  // by key
  std::atomic<std::chrono::steady_clock::time_point> metadata_changed_at_{};

  std::mutex gone_mutex_;
  // -o coherent: keys of chunks that were removed and are not stored in the source; guarded by gone_mutex_.
  std::unordered_set<Ino> gone_;
  /// When look_outside() last checked an object.
  struct LookedAt {
    std::chrono::steady_clock::time_point at;
    VariablePtr facts;  // of a variable: the shape that its chunk numbers are based on
  };
  LruMap<ObjectId, LookedAt> looked_at_{4096};

  InodeTimes times_;

  /// The latest blocks of arrays that are read in blocks; few and small beside the cache.
  struct ArrayBlock {
    Ino ino = 0;
    uint64_t index = 0;
    uint64_t state = 0;      // changes() when its assembly began
    std::mutex mutex;        // held during the assembly
    ArrayFile::Part part{};  // guarded by mutex; empty before the assembly
  };
  const uint64_t block_size_;  // bytes
  std::mutex blocks_mutex_;
  std::list<std::shared_ptr<ArrayBlock>> blocks_;  // guarded by blocks_mutex_; most recently used first

  ErrorBook errors_;

  KernelPages kernel_pages_;
  PageCopies page_copies_;
  WriteBack write_back_;  // its threads use the members above, and end before them
  ReadAhead read_ahead_;  // last, as its threads use all members above
};

}  // namespace codecfs::fs
