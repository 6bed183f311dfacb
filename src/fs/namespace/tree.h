#pragma once
// The mounted tree: what each file is and holds. Knows nodes, the dataset and the chunk cache, but nothing of FUSE;
// fs/operations.cc puts these answers into FUSE replies. All calls are safe from all threads.

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

/// An open file of the npy or raw view.
struct OpenArray {
  Ino ino = 0;
  VariableViewPtr variable;  // as it was at open
  ArrayFile file;
  // Opened with O_TRUNC: what is left out before the end of what was written are zeros, as in any file; the rest stays.
  bool truncated = false;
  std::mutex mutex;                             // held while something is written to a truncated one
  uint64_t end = 0;                             // of what was written; guarded by mutex
  mutable std::atomic<uint64_t> next_read = 0;  // where a sequential reader goes on
};

/// An open file: text that was made at open, a metadata file that is being written, a chunk, an array, a scratch file,
/// or a file of a folder.
/// Bytes for a reader, and what keeps them alive.
struct Slice {
  Bytes bytes;
  std::shared_ptr<const void> owner;
};

/// What a file held that is made as a whole: one reader gets all parts of one state, unless it changes meanwhile; the
/// kernel shows everybody what that reader gets.
struct Snapshot {
  Ino ino = 0;
  std::mutex mutex;                 // guards what follows
  std::optional<uint64_t> changes;  // none: nobody has looked yet
  Slice held;
};

struct OpenFile {
  std::shared_ptr<Snapshot> snapshot;  // of metadata files and chunks whose size only the work itself tells
  std::shared_ptr<StagedFile> staged;
  // Made anew at each open, no size beforehand, no page cache: control files, metadata that is changing (the kernel
  // would cut what it reads to the length that it had), and see -o coherent.
  bool live = false;
  bool outside = false;  // other programs may have changed it: pages from before this open are not to be used
  UniqueFd plain;        // of a file of a folder
  ChunkPlace chunk;      // of the decoded view; its variable is null for what is no chunk
  std::shared_ptr<OpenArray> array;
  Ino scratch = 0;  // of a scratch file, which may become a chunk while it is open
  bool writer = false;
  KernelPages::Writer pages;  // of one that is open for writing
  PageCopies::Writer copies;  // of a chunk or an array that may be mapped for writing
  bool direct = false;        // what is written goes past the page cache
};

/// An open directory. Groups are listed once, at open; chunks are asked for as the reader goes on.
struct OpenDirectory {
  Place place;
  std::vector<Entry> entries;      // of a group or folder
  std::vector<std::string> names;  // under which a view shows them, where these are others
  uint64_t changes = 0;            // of the dataset, when these were made
  VariableViewPtr variable;        // of a variable
};

/// One name that a directory shows.
struct DirectoryItem {
  std::string name;
  off_t next = 0;   // position behind it
  mode_t type = 0;  // S_IFREG, S_IFDIR or S_IFLNK
  Ino ino = 0;      // 0 where no inode number was given out yet
  /// Its attributes, if they are cheap to have.
  std::function<Result<struct stat>()> attributes;
};

struct XattrView {
  std::shared_ptr<const std::vector<Xattr>> stored;
  std::vector<Xattr> live;  // user._Error and user._Progress, where there is one
};

/// Asked now and then in what may take long; true: the user does not want it any more.
using Cancelled = std::function<bool()>;

class Tree {
 public:
  struct Options {
    uint64_t cache_bytes = uint64_t{64} << 20;
    filters::FilterRules rules = {};
    WriteBack::Options write_back = {};
    bool read_only = true;        // -o ro; a source that cannot be written is read-only too
    View view = View::decoded;    // what the root of the mount is
    bool coherent = false;        // other programs change the source, and that is to be seen
    std::string mountpoint = {};  // absolute; where links with absolute targets below it lead
  };

  Tree(std::unique_ptr<Source> source, const Options& options);
  /// Before the first request.
  void set_invalidator(Invalidator& kernel) {
    kernel_ = &kernel;
    page_copies_.set_invalidator(kernel);
  }

  /// ENOENT for a name that is not there, which is no failure; and the backend's errors.
  Result<struct stat> lookup(Ino parent, std::string_view name);
  /// Whether a name that is not there comes into being only by requests that the kernel sees.
  [[nodiscard]] bool remembers_absence(Ino parent, std::string_view name);
  Result<struct stat> attributes(Ino ino);
  /// The same of a chunk that is open, and has been removed since.
  Result<struct stat> attributes_of_removed(Ino ino, const OpenFile& file);
  Result<std::string> link_target(Ino ino);
  /// Whether what is told of it may become wrong without the kernel's knowledge.
  [[nodiscard]] bool may_change_outside(Ino ino) const;

  Result<std::unique_ptr<OpenDirectory>> open_directory(Ino ino);
  /// Calls `take` with the names from position `from` on until it says that it has no room (false) or all are told.
  Result<> read_directory(OpenDirectory& directory, off_t from, const std::function<bool(const DirectoryItem&)>& take);

  /// Who opens for writing is to be answered by after_pushes() of kernel_pages(); the same for create().
  Result<std::unique_ptr<OpenFile>> open(Ino ino, bool for_writing, bool truncate);
  Result<Slice> read(const OpenFile& file, off_t offset, size_t size);

  /// Writing files: tree_write.cc. Errors beside those of WriteBack: EROFS, and EPERM for what cannot be changed. What
  /// `cancelled` ends is EINTR, and nothing has changed.
  struct Created {
    struct stat status;
    std::unique_ptr<OpenFile> file;
  };
  /// `flags`: of open(2), of which O_TRUNC and O_EXCL matter where the file came into being meanwhile.
  Result<Created> create(Ino parent, std::string_view name, mode_t permissions, int flags,
                         const Cancelled& cancelled = {});
  /// `written_back`: it comes from pages that are mapped, and `file` is any of those that are open of this inode. Only
  /// what changed in them is stored.
  Result<size_t> write(const OpenFile& file, off_t offset, Bytes bytes,
                       const PageCopies::WrittenBack* written_back = nullptr, const Cancelled& cancelled = {});
  /// close(2): a metadata file that was written is done as it says.
  Result<> flush(const OpenFile& file, const Cancelled& cancelled = {});
  /// True where the length of the file changes with it: what the kernel knows of the inode is to be forgotten.
  bool close(const OpenFile& file);
  Result<> sync(const OpenFile& file, const Cancelled& cancelled = {});
  Result<> sync_all();
  /// chmod, chown, truncate, utimens: what is not set in `to_set` (FUSE_SET_ATTR_*) is left alone.
  struct Change {
    std::optional<mode_t> permissions;
    std::optional<uid_t> owner;
    std::optional<gid_t> group;
    std::optional<uint64_t> size;
    std::optional<timespec> accessed;
    std::optional<timespec> modified;
  };
  /// `file`: by which ftruncate(2) came.
  Result<struct stat> change(Ino ino, const Change& change, const Cancelled& cancelled = {},
                             const OpenFile* file = nullptr);
  Result<> unlink(Ino parent, std::string_view name);
  /// EXDEV for chunks and metadata files, which mv then copies.
  Result<> rename(Ino parent, std::string_view name, Ino to_parent, std::string_view to_name, bool replace,
                  const Cancelled& cancelled = {});

  /// link(2): EPERM, and EINVAL for names that are never stored.
  Result<> make_hard_link(Ino parent, std::string_view name);

  /// Changing the tree: tree_change.cc.
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
  /// The paths, from the root, of the chunks that are open for writing (a mapped file is).
  std::vector<std::string> paths_open_for_writing();
  /// The paths, from the root of the mount, of files that live in memory alone and would be lost with the mount.
  std::vector<std::string> files_not_stored();
  /// The end of the mount: stores what is not stored yet.
  Result<> finish();

  /// Extended attributes. Where they cannot be read, there is still user._Error, which tells why.
  Result<XattrView> xattrs(Ino ino);
  /// Warns in the log of filter rules for variables that are not there.
  void check_rules();
  [[nodiscard]] struct statvfs filesystem() const;

  Stats& stats() { return stats_; }
  KernelPages& kernel_pages() { return kernel_pages_; }
  PageCopies& page_copies() { return page_copies_; }
  /// Nothing more is decoded ahead or given to the kernel. Before requests are not answered any more.
  void stop_reading_ahead() {
    kernel_pages_.stop();
    read_ahead_.stop();
    page_copies_.stop();
  }
  Dataset& dataset() { return dataset_; }
  /// Records why a request failed: for user._Error of that inode, the log and the statistics. Nothing for an error
  /// without a reason, which is an answer and no failure.
  void note_error(Ino ino, const Error& error, RequestKind kind = RequestKind::other);
  ErrorBook& errors() { return errors_; }

 private:
  Result<struct stat> child_attributes(const Node& child);
  Result<struct stat> metadata_attributes(const Node& node, FileKind file);
  Result<struct stat> chunk_attributes(const Node& node, const VariableViewPtr& view, uint64_t number);
  /// Whether a chunk's file is there although neither is it stored nor was it written.
  [[nodiscard]] bool shows_absent(const Node& node, const VariableView& view) const;
  [[nodiscard]] struct stat make_attributes(const Node& node, Ino ino, mode_t type, uint64_t size) const;
  /// The text of a metadata or control file. ENOENT where the directory has no such file.
  Result<Text> text_of(const Node& node, FileKind file);
  [[nodiscard]] std::string stats_text();
  Result<std::unique_ptr<OpenFile>> open_file(Ino ino, bool for_writing, bool truncate);
  Result<Created> create_file(Ino parent, std::string_view name, mode_t permissions, int flags,
                              const Cancelled& cancelled);
  bool is_in_motion(Ino ino);
  Result<std::shared_ptr<Snapshot>> take_snapshot(Ino ino);
  Result<Slice> make_whole(Ino ino);
  Result<Slice> look_at(Snapshot& snapshot);
  /// The chunk as the source has it, or its fill where that is what readers see.
  Result<ChunkPtr> decoded(const ChunkPlace& chunk);
  /// What decoding a chunk takes, for the cache. Bytes, roughly.
  static uint64_t decoding_bytes(const Variable& variable);
  Result<Buffer> decode(const ChunkPlace& chunk);
  /// Gets it into the cache, where it is stored and not being changed; the chunk where nobody has asked for it yet.
  ChunkPtr fetch_decoded(const ChunkPlace& chunk);

  // tree_ahead.cc, what readers get before they ask:
  /// Somebody has opened the chunk's file to read it.
  void opened_to_read(const Node& node, const ChunkPlace& chunk);
  void fetch_file(const Node& node, const ChunkPlace& chunk);
  ChunkPtr fetch_encoded(const Node& node, const ChunkPlace& chunk);
  static ChunkPlace place_beside(ChunkPlace chunk, uint64_t number);
  /// Somebody reads this chunk of an array after those before it.
  void chunk_of_array(const ChunkPlace& chunk);
  /// Somebody reads a part of this chunk of an array, and then any other: he may come back to it, and to decode it
  /// again takes long.
  void give_chunk(const OpenArray& array, uint64_t number, const ChunkPtr& chunk, uint64_t changes);
  /// Gives the kernel content of a file as it was when changes() was `changes`. Whether it has it now.
  bool push_pages(Ino ino, uint64_t offset, Bytes content, uint64_t changes);
  /// Moves when anything that files hold changes.
  [[nodiscard]] uint64_t changes() const { return write_back_.changes_made() + dataset_.changes(); }
  /// The same as a writer needs it: always fill where it is not stored.
  Result<ChunkPtr> base_of(const ChunkPlace& chunk);
  Result<Place> place_of(Ino ino) const;
  Result<ChunkPlace> chunk_place(const Node& node, uint64_t number);
  /// A name in a variable's directory that is that of a chunk: none for other names. EINVAL for one outside of the
  /// grid.
  Result<std::optional<ChunkPlace>> chunk_named(const Node& node, std::string_view name);
  /// `new_name`: of what is about to be made in it. EINVAL with the reason for names that are never stored.
  Result<const Node*> changeable_directory(Ino ino, std::string_view new_name = {});
  /// Nothing for a file that is neither chunk nor metadata but may become one. EINVAL with the reason for all others,
  /// which would be lost at the unmount.
  Result<> may_stage(const Node& node, std::string_view name);
  /// The root of the source, or of a dataset of a folder: a group that cannot become a variable.
  [[nodiscard]] bool is_dataset_root(const Node& node) const;
  /// In the directory `c` of a group where zarr.json was refused.
  [[nodiscard]] bool is_below_v3_array(const Node& node) const;
  /// A metadata file in the directory, whether it is shown or not; also one that would make it a variable.
  static std::optional<FileKind> metadata_named(const Node& node, std::string_view name);
  Result<Created> create_metadata(const Node& node, FileKind file);
  /// The chunk that an open file is, or has become; its variable is null for what is none.
  Result<ChunkPlace> chunk_of(const OpenFile& file);
  /// What the filter rules make of a variable; nothing where no rule applies.
  [[nodiscard]] std::optional<std::vector<FilterStage>> chain_of_rules(const std::string& path,
                                                                       const Variable& variable);
  /// user._FilterOut: the same as a spec, "none" for no filters.
  [[nodiscard]] std::optional<std::string> filter_out(const Node& node, const Variable& variable);
  /// netCDF's order for a chain that a user wrote, or numcodecs' where that differs.
  [[nodiscard]] std::vector<FilterStage> arranged(std::vector<FilterStage> chain, const Variable& variable,
                                                  std::string_view path);

  // tree_outside.cc, what other programs change:
  /// Of a folder, or of a file in it.
  Result<struct stat> plain_attributes(const Node& node) const;
  Result<std::unique_ptr<OpenFile>> open_plain(const Node& node, bool for_writing);
  static Result<Slice> read_plain(const OpenFile& file, uint64_t offset, size_t size);
  /// -o coherent: forgets what is kept of a group or variable where another program has changed it. Where that is a
  /// variable's shape, its chunks get other inode numbers.
  void look_outside(const Node& node);
  void note_numbering(ObjectId variable, VariablePtr facts);
  void look_at_variable(const Node& node);
  /// Whether the last look was long enough ago; it is now then.
  bool is_due(ObjectId object);
  bool is_open_for_writing(ObjectId variable);
  /// The same before what was found is used.
  Result<Place> current_place_of(Ino ino);
  /// An open file of what other programs change.
  /// Whether a chunk was removed in this mount, and not written since, be it by another program.
  bool is_removed(const Node& node, uint64_t number, Ino key);
  WriteBack::Changes changes_of(const Node& node);
  void note_removed(const ChunkPlace& chunk);
  Result<> read_array_afresh(const Node& node, OpenFile& file);
  void open_afresh(const ChunkPlace& chunk, OpenFile& file);
  /// Whether the source of a path takes the chains of numcodecs.
  bool chains_for_numcodecs(std::string_view path);

  // tree_change.cc:
  Result<> remove_entry(const Node& directory, std::string_view name, const Node& entry);
  Result<> may_remove_variable(const Node& node);
  Result<> move_entry(Ino parent, std::string_view name, Ino to_parent, std::string_view to_name);
  /// A chunk is another, or has come or gone, by what was done to a file of this view: in the others it is to be seen
  /// too.
  /// `written_through`: the inode number of the scratch file that the chunk was, where it was written through that.
  void chunk_changed(const Node& node, uint64_t number, Ino written_through = 0);
  void former_files_changed(Ino chunk, Ino written_through = 0);
  /// Names in a directory that are others now, and so its times. The other views are told of them when the call
  /// returns, at the end of this: to be made before a lock is taken, so that nobody waits for the kernel with it.
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
  /// For the kernel: the names under which a view may show a member. `wait`: not in a request that changes this very
  /// directory, as none does in the views of arrays.
  void member_changed(const Node& directory, std::string_view name, bool wait);
  void contents_changed(const Node& shown, Ino first, uint64_t count);
  void forget_xattrs(const Node& node);
  void kernel_name_changed(Ino ino, bool wait);
  /// Where a view's root is in the mount, "" or "/.codecfs/view/NAME".
  [[nodiscard]] std::string path_of(View view) const;
  [[nodiscard]] std::string target_from(const Node& directory, std::string_view target) const;
  /// Everybody is to see the new metadata of an object.
  void metadata_changed(const Node& node, bool wait = true);
  /// The path that those of all objects in the same dataset of a folder begin with; empty where no folder is mounted.
  [[nodiscard]] std::string path_of_dataset(const Node& node) const;
  /// The same, and of all variables, where the change may be one of theirs too.
  void layout_changed(const Node& node, bool wait = true);
  Result<> apply(Ino ino, std::string_view text, const Cancelled& cancelled);
  Result<> apply_zattrs(Ino directory, std::string_view text);
  Result<> apply_zarray(Ino directory, std::string_view text, const Cancelled& cancelled);
  Result<> make_variable(Ino directory, Variable variable);
  void adopt_spooled(const Node& variable);
  Result<> resize(const Node& node, const std::vector<uint64_t>& shape);
  /// In a pause of the variable: its chunks get other inode numbers. `before` and `now`: how many there are.
  Result<> renumber_chunks(const Node& node, uint64_t before, uint64_t now, bool wait);

  // tree_encoded.cc, the encoded view:
  /// How a variable is shown in it.
  struct EncodedForm {
    std::vector<FilterStage> chain;             // as .zarray tells it, in the order of encoding
    bool as_stored = false;                     // chunks are those of the source, but for such as are stored otherwise
    std::optional<filters::Pipeline> pipeline;  // of this chain; none: see `unusable`
    std::optional<Error> unusable;
    Text zarray;
  };
  using EncodedFormPtr = std::shared_ptr<const EncodedForm>;
  Result<EncodedFormPtr> encoded_form(const Node& node);
  [[nodiscard]] EncodedForm make_encoded_form(const std::string& path, const Variable& facts);
  Result<struct stat> encoded_attributes(const Node& node, const VariableViewPtr& view, uint64_t number);
  Result<std::unique_ptr<OpenFile>> open_encoded(const Node& node, const ChunkPlace& chunk, bool for_writing,
                                                 bool truncate);
  /// What the chunk's file holds.
  Result<ChunkPtr> encoded(const Node& node, const ChunkPlace& chunk);
  Result<Buffer> convert(const ChunkPlace& chunk, const EncodedForm& form);
  Result<ChunkPtr> passed_on(const ChunkPlace& chunk);
  std::optional<uint64_t> passed_bytes(const Node& node, const ChunkPlace& chunk);
  Result<ChunkPtr> converted(const Node& node, const ChunkPlace& chunk, const EncodedForm& form);
  /// Takes the bytes of a whole chunk file of the node's view.
  Result<> put_chunk(const Node& node, const ChunkPlace& chunk, Bytes bytes, const Cancelled& cancelled);
  Result<> put_encoded(const Node& node, const ChunkPlace& chunk, Bytes bytes, const Cancelled& cancelled);
  Result<Created> create_encoded(const Node& node, const ChunkPlace& chunk);
  /// Gives an existing variable the codecs of a .zarray, where it has others.
  Result<> apply_codecs(Ino directory, const Variable& wanted, const Cancelled& cancelled);
  Result<Text> zmetadata_of(const Node& node);
  /// The chain of the source for the codecs of a .zarray that was written here.
  Result<std::vector<FilterStage>> chain_for_codecs(const Node& node, const Variable& wanted);

  // tree_arrays.cc, the npy and raw views. `directory` and `group` are of one of these.
  /// EOPNOTSUPP where numpy cannot hold it.
  Result<ArrayFile> array_of(View view, ObjectId variable);
  Result<struct stat> array_attributes(const Node& node);
  /// The path of a variable's file in its view: with ".npy", or where the variable is the root "/array.npy".
  static std::string array_path(const Node& node);
  /// What a name in the directory stands for: NAME.npy for the variable NAME.
  Result<Entry> array_entry(const Node& group, std::string_view name);
  /// The variable that an entry is, or is a link to.
  std::optional<ObjectId> variable_behind(const Node& directory, const Entry& entry);
  /// Leaves what is shown, with its names.
  void show_arrays(const Node& group, OpenDirectory& directory);
  Result<std::string> array_link_target(const Node& link);
  Result<std::unique_ptr<OpenFile>> open_array(const Node& node, bool for_writing, bool truncate);
  struct ArrayNow {
    const Node* node = nullptr;
    VariableViewPtr variable;
  };
  /// The variable as it is now. ESTALE where its shape is not that of the open file.
  Result<ArrayNow> array_now(const OpenArray& array);
  Result<Slice> read_array(const OpenArray& array, uint64_t offset, uint64_t size);
  /// A part of an array whose chunks cut rows, so that all that a few rows touch are more than the cache holds: it is
  /// assembled in blocks, in which each chunk is decoded once.
  Result<ArrayFile::Part> read_blocks(const OpenArray& array, uint64_t offset, uint64_t size,
                                      const ArrayFile::ReadChunk& read_chunk);
  Result<ArrayFile::Part> block_of(const OpenArray& array, uint64_t index, const ArrayFile::ReadChunk& read_chunk);
  Result<size_t> write_array(OpenArray& array, uint64_t offset, Bytes bytes,
                             const PageCopies::WrittenBack* written_back, const Cancelled& cancelled);
  /// Whether a page that a mapping wrote back unchanged makes this chunk: it is absent, and readers of the source would
  /// not get the fill that the mapping shows.
  Result<bool> is_made_by_unchanged(const ChunkPlace& chunk);
  enum class Purpose { data, zeros };  // zeros: where there are some already, nothing is to be done
  Result<size_t> put_array(const OpenArray& array, uint64_t offset, Bytes bytes, Bytes mask, Purpose purpose,
                           const Cancelled& cancelled);
  /// Up to `end`, from where the last write has ended.
  Result<> put_zeros(OpenArray& array, uint64_t end, const Cancelled& cancelled);
  Result<> resize_array(const Node& node, uint64_t size, const OpenFile* file, const Cancelled& cancelled);
  /// A part of the array without header is another, or one chunk of it: as chunk_changed().
  void part_changed(const Node& node, ArrayFile::Range data, const std::vector<uint64_t>& chunks);
  void array_file_changed(const Node& shown, const VariableView& view, uint64_t chunk);
  /// Its shape is another.
  void array_files_changed(const Node& node);

  // tree_chains.cc:
  Result<std::vector<FilterStage>> chain_for_new(const Node& node, const Variable& variable);
  Result<std::vector<FilterStage>> find_chain_for_new(const Node& node, const Variable& variable);
  Result<std::optional<std::vector<FilterStage>>> spooled_chain(const Node& group, const Variable& variable);
  Result<> set_spec(const Node& node, std::string_view spec, const Cancelled& cancelled);
  Result<> set_codecs(const Node& node, std::string_view json, const Cancelled& cancelled);
  /// A file _Filter or _Codecs that came with a copy, where a rule of the mount has decided.
  [[nodiscard]] bool is_overruled(const Node& node);
  Result<> set_special(const Node& node, std::string_view name, std::string_view value, const Cancelled& cancelled);
  Result<> set_default_chain(const Node& group, std::string_view name, std::string_view value);
  Result<> chunks_stored_anew(const Node& node);
  /// `made_of`: what the chain was made of; EAGAIN where the variable has another one now.
  Result<> set_chain(const Node& node, const std::vector<FilterStage>& chain, const Cancelled& cancelled,
                     const VariableView* made_of = nullptr);
  Result<> edit_chain(const Node& node, std::string_view name, std::string_view value, const Cancelled& cancelled);
  /// Before a chunk is changed for the first time.
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

  // Who removes or moves something has it alone; before all other locks.
  std::shared_mutex layout_;
  // Shared from finding a name in the source to knowing its node; alone while both change.
  FairSharedMutex names_;

  DirectoryOverlay overlay_;
  Recodings recodings_;
  std::once_flag told_placement_;

  // getfattr asks for one value after the other, so what was made for the list is kept. By inode number; not for
  // chunks.
  LruMap<Ino, std::vector<Xattr>> xattrs_{16, kMaxHeld};
  LruMap<Ino, EncodedForm> encoded_forms_{256, kMaxHeld};    // by key
  LruMap<Ino, std::string> encoded_zmetadata_{4, kMaxHeld};  // by key
  std::atomic<std::chrono::steady_clock::time_point> metadata_changed_at_{};

  std::mutex gone_mutex_;
  // -o coherent: keys of chunks that were removed and are not stored in the source; guarded by gone_mutex_.
  std::unordered_set<Ino> gone_;
  /// When an object was last looked at by look_outside().
  struct LookedAt {
    std::chrono::steady_clock::time_point at;
    VariablePtr facts;  // of a variable: by which its chunks have their numbers; the Dataset may have forgotten them
  };
  LruMap<ObjectId, LookedAt> looked_at_{4096};

  InodeTimes times_;

  /// Of arrays that are read in blocks, the latest: by all readers few enough to be no matter beside the cache.
  struct ArrayBlock {
    Ino ino = 0;
    uint64_t index = 0;
    uint64_t state = 0;      // of what chunks hold, when it was begun
    std::mutex mutex;        // held while it is assembled
    ArrayFile::Part part{};  // guarded by mutex; no bytes before it is assembled
  };
  const uint64_t block_size_;  // bytes
  std::mutex blocks_mutex_;
  std::list<std::shared_ptr<ArrayBlock>> blocks_;  // guarded by blocks_mutex_; the latest first

  ErrorBook errors_;

  KernelPages kernel_pages_;
  PageCopies page_copies_;
  WriteBack write_back_;  // its threads end before the rest goes
  ReadAhead read_ahead_;  // last: the same
};

}  // namespace codecfs::fs
