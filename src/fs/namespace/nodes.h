#pragma once
// Inodes: maps inode numbers to the files of the tree.
//
// A directory (group, variable, folder, control directory), symlink or file of a folder is a Node, created when its
// name is first looked up. The files in a directory need no object of their own, even if there are a million chunks:
// the inode number identifies them.
//
//   ino = slot << 40 | local        local 1        the directory, symlink or file itself
//                                   local 2..15    its metadata files (FileKind)
//                                   local 16 + n   its chunk number n
//
// The dataset is shown in several views (View). Each view has its own Node for a path that was looked up in it, and the
// first lookup in any view also creates a Node in the decoded view. The inode numbers of the latter are the keys under
// which all views share state, edits and cached chunks.
//
// Slot 0 is the root of the mount, so the root is inode 1 as FUSE requires. A variable with more than 2^40 - 16 chunks
// gets as many consecutive slots as it needs when its first chunk is looked up; so does one whose chunks are renumbered
// because its shape has changed. The directories of chunks in a view of Zarr v3 (c, c/0, ...) have slots of their own,
// in which their numbers (ChunkDirectories) are the local parts. A Node is immutable and lives as long as the mount: a
// directory that is moved or becomes a variable gets another Node in its slot, and keeps its inode number.

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/api/source.h"
#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::fs {

using Ino = uint64_t;

inline constexpr unsigned kLocalBits = 40;
inline constexpr uint64_t kLocalMask = (uint64_t{1} << kLocalBits) - 1;
inline constexpr Ino kRootIno = 1;

/// The form in which the dataset is shown.
enum class View : uint8_t {
  decoded,   // chunks as raw bytes, Zarr v2
  encoded,   // chunks as stored, with their codecs in .zarray
  decoded3,  // chunks as raw bytes, Zarr v3
  encoded3,  // chunks as stored, with their codecs in zarr.json
  npy,       // each variable is a file of numpy's format, NAME.npy
  raw,       // the same without the header, NAME
};
inline constexpr size_t kViews = 6;
/// The views in which a variable is one file instead of a directory of chunks.
inline constexpr bool shows_arrays(View view) { return view == View::npy || view == View::raw; }
/// The views with encoded chunk files.
inline constexpr bool is_encoded(View view) { return view == View::encoded || view == View::encoded3; }
/// The views with the metadata files and the names of chunks of Zarr v3.
inline constexpr bool is_zarr3(View view) { return view == View::decoded3 || view == View::encoded3; }
/// "decoded", "encoded", ...: the name for users.
std::string_view name_of(View view);
std::optional<View> view_named(std::string_view name);
/// The view that a mount of this source shows if the user does not choose one: its own format.
inline View default_view(const Source& source) { return source.is_zarr3() ? View::decoded3 : View::decoded; }

enum class NodeKind {
  group,
  variable,
  symlink,
  folder,   // of a mounted folder, without metadata files
  file,     // likewise, but a file instead of a directory
  control,  // .codecfs
  views,    // .codecfs/view
  scratch,
};

/// The slot of all scratch files; ScratchFiles assigns their local parts.
inline constexpr uint64_t kScratchSlot = 2;

/// The files beside the chunks; the value is the local part of the inode number.
enum class FileKind : uint8_t {
  itself = 1,
  zgroup = 2,
  zarray = 3,
  zattrs = 4,
  zmetadata = 5,
  filter = 6,
  codecs = 7,
  log = 8,
  stats = 9,
  filters = 10,
  array = 11,  // a variable as one file; a root that is an array is a directory with this file
  zarr_json = 12,
  references = 13,
  unknown = 14,          // all names of a variable's directory, while the variable cannot be read (Namespace::known())
  chunk_directory = 15,  // of Place only: see the top
  chunk = 16,            // and all values above
};

struct Node;

struct NamedFile {
  std::string_view name;
  FileKind kind;
};

/// The metadata files in a directory of this kind, in the order in which they are listed (_Filter and _Codecs are not).
std::span<const NamedFile> files_of(NodeKind kind);

/// The same for a view.
std::span<const NamedFile> files_of(const Node& node);

/// The name of a metadata or control file.
std::string_view name_of(FileKind file);

struct Node {
  NodeKind kind = NodeKind::group;
  View view = View::decoded;
  ObjectId object = 0;  // of groups, variables, folders and files
  std::string target;   // of symlinks
  std::string path;     // from the root of the dataset, which is "": for messages
  Ino parent = kRootIno;
  uint64_t slot = 0;
  uint64_t common = 0;  // the slot of the same path in the decoded view

  [[nodiscard]] Ino ino(FileKind file = FileKind::itself) const {
    return slot << kLocalBits | static_cast<uint64_t>(file);
  }
  /// The key that all views share.
  [[nodiscard]] Ino key() const { return common << kLocalBits | static_cast<uint64_t>(FileKind::itself); }
  /// In its directory; empty for the root.
  [[nodiscard]] std::string_view name() const { return std::string_view(path).substr(path.rfind('/') + 1); }
  /// Whether this is the root of a view.
  [[nodiscard]] bool is_root() const { return path.empty(); }
};

/// The node and the file in its directory that an inode number refers to.
struct Place {
  const Node* node = nullptr;
  FileKind file = FileKind::itself;
  uint64_t chunk = 0;  // its number, if file is chunk or chunk_directory
};

/// All functions take nodes from before a move as well: they apply to the node as it is now.
class Nodes {
 public:
  /// `shown`: the view that the root of the mount shows.
  Nodes(const Entry& root, View shown);

  /// Resolves an inode number. ESTALE if it was never assigned, or its file was removed. A former group may have become
  /// a directory of chunks.
  Result<Place> at(Ino ino) const;
  /// The node of a directory entry, created if the entry is new or refers to another object than before. ENFILE when
  /// slots run out; ESTALE if the directory was removed.
  Result<const Node*> child(const Node& directory, const Entry& entry);
  /// The node of a name that was looked up in the directory before; null if there is none.
  [[nodiscard]] const Node* known_child(const Node& directory, std::string_view name) const;
  /// The node of the control directory, `.codecfs` in the root, and of the directory of views in it.
  const Node& control() const { return *control_; }
  const Node& views() const { return *views_; }
  /// The root of a view; a link if the view is the root of the mount.
  const Node& view_entry(View view) const { return *view_entries_[static_cast<size_t>(view)]; }
  /// The view that the root of the mount shows.
  [[nodiscard]] View shown() const { return shown_; }
  /// The nodes of the same path in all views in which it was looked up, including this one.
  [[nodiscard]] std::vector<const Node*> in_all_views(const Node& node) const;
  /// The node of a path in the decoded view; null if it was not looked up.
  [[nodiscard]] const Node* find(const std::string& path) const;
  /// The directories that hold a node, in its view, from the inside to the root; none if it was removed.
  [[nodiscard]] std::vector<const Node*> above(const Node& node) const;
  /// The key of the dataset that holds a node: of the directory in the innermost folder above it, else of the root.
  [[nodiscard]] Ino dataset_of(const Node& node) const;
  /// The inode number of a chunk; reserves more slots for a variable of more than 2^40 - 16 chunks. ENFILE.
  Result<Ino> chunk_ino(const Node& variable, uint64_t number, uint64_t count);
  /// The inode number of a directory of chunks. `count`: of all of them. ENFILE.
  Result<Ino> directory_ino(const Node& variable, uint64_t number, uint64_t count);
  /// The inode number of the same chunk in the decoded view.
  Result<Ino> chunk_key(const Node& variable, uint64_t number, uint64_t count);

  // The following functions apply to all views.
  /// A group below one that became a variable, which was removed. Programs have it open, so its inode number stands for
  /// a directory of chunks of the variable from now on, in the view of that group.
  struct FormerGroup {
    const Node* group = nullptr;
    uint64_t number = 0;  // of the directory
  };
  // A group became a variable. All inode numbers change their meaning at once.
  void become_variable(const Node& group, ObjectId variable, std::span<const FormerGroup> former = {});
  /// A name and everything below it was removed.
  void remove(const Node& node);
  /// Everything but the roots of the views and the control directory was removed.
  void remove_all();
  /// A node and everything below it has a new path.
  void move(const Node& node, const Node& parent, std::string_view name);
  /// Assigns new inode numbers to chunks, because their numbers refer to other chunks now. ENFILE.
  Result<> renumber_chunks(const Node& variable, uint64_t count);

 private:
  struct Slots {
    uint64_t first = 0;
    uint64_t count = 0;  // 0: none

    [[nodiscard]] bool contains(uint64_t slot) const { return slot - first < count; }
    [[nodiscard]] Ino ino(uint64_t number) const { return (first << kLocalBits) + number; }
  };
  /// Beside the slot of a variable itself.
  struct MoreSlots {
    Slots chunks;
    Slots directories;
  };

  using InViews = std::array<const Node*, kViews>;  // null: not looked up in this view

  [[nodiscard]] const Node* current(const Node& node) const CODECFS_REQUIRES_SHARED(mutex_);
  [[nodiscard]] const Node* holder(const Node& node) const CODECFS_REQUIRES_SHARED(mutex_);
  [[nodiscard]] InViews views_of(const Node& node) const CODECFS_REQUIRES_SHARED(mutex_);
  void note_path(const Node& node) CODECFS_REQUIRES(mutex_);

  const Node* add(Node node) CODECFS_REQUIRES(mutex_);
  void replace(const Node& old, Node node) CODECFS_REQUIRES(mutex_);
  void drop(const Node& node) CODECFS_REQUIRES(mutex_);
  void assign(const Slots& slots, const Node* node) CODECFS_REQUIRES(mutex_);
  void forget_path(const Node& node) CODECFS_REQUIRES(mutex_);
  Result<Slots> reserve(uint64_t slot, const std::string& path, uint64_t chunks) CODECFS_REQUIRES(mutex_);
  Result<Ino> chunk_of_slot(uint64_t slot, const std::string& path, uint64_t number, uint64_t count);
  std::vector<const Node*> at_or_below(const std::string& path) const CODECFS_REQUIRES_SHARED(mutex_);

  mutable SharedMutex mutex_;
  std::deque<Node> nodes_ CODECFS_GUARDED_BY(mutex_);          // which are immutable
  std::vector<const Node*> slots_ CODECFS_GUARDED_BY(mutex_);  // null: removed
  std::unordered_map<std::string, InViews> by_path_ CODECFS_GUARDED_BY(mutex_);
  std::set<std::string_view> sorted_paths_ CODECFS_GUARDED_BY(mutex_);  // its keys: those below a path are together
  std::unordered_map<uint64_t, MoreSlots> more_slots_ CODECFS_GUARDED_BY(mutex_);  // by the slot of a variable
  struct Directory {
    uint64_t variable = 0;  // slot
    uint64_t number = 0;
  };
  std::unordered_map<uint64_t, Directory> former_groups_ CODECFS_GUARDED_BY(mutex_);  // by the slot of the group
  const View shown_;
  const Node* control_ = nullptr;
  const Node* views_ = nullptr;
  InViews view_entries_{};
};

}  // namespace codecfs::fs
