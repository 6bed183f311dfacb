#pragma once
// Inodes: which number stands for which file of the tree.
//
// A directory (group, variable, folder, control directory), symlink or file of a folder is a Node, made when its name
// is first looked up. The files in a directory need no object of their own, not even a million chunks: their inode
// number tells which they are.
//
//   ino = slot << 40 | local        local 1        the directory, symlink or file itself
//                                   local 2..15    its metadata files (FileKind)
//                                   local 16 + n   its chunk number n
//
// The dataset is shown in several views (View). Each has a Node of its own for a path that was looked up in it, and the
// first of them brings one in the decoded view. By that one's inode numbers, its keys, all views know an object: state,
// edits and cached chunks are kept under these.
//
// Slot 0 is the root of the mount, so the root is inode 1 as FUSE wants it. A variable with more than 2^40 - 16 chunks
// gets as many slots in a row as it needs when its first chunk is looked up; so does one whose chunks are numbered
// anew, as its shape has changed. A Node never changes and lives as long as the mount: a directory that is moved or
// becomes a variable gets another Node in its slot, and keeps its inode number.

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/api/source.h"
#include "base/result.h"

namespace codecfs::fs {

using Ino = uint64_t;

inline constexpr unsigned kLocalBits = 40;
inline constexpr uint64_t kLocalMask = (uint64_t{1} << kLocalBits) - 1;
inline constexpr Ino kRootIno = 1;

/// In which form the dataset is shown.
enum class View : uint8_t {
  decoded,  // chunks as raw bytes
  encoded,  // chunks as they are stored, with their codecs in .zarray
  npy,      // each variable is a file of numpy's format, NAME.npy
  raw,      // the same without the header, NAME
};
inline constexpr size_t kViews = 4;
/// Those in which a variable is no directory of chunks, but one file.
inline constexpr bool shows_arrays(View view) { return view == View::npy || view == View::raw; }
/// "decoded", "encoded", ...: what users call them.
std::string_view name_of(View view);
std::optional<View> view_named(std::string_view name);

enum class NodeKind {
  group,
  variable,
  symlink,
  folder,   // of a mounted folder, without metadata files
  file,     // the same; no directory, but the file itself
  control,  // .codecfs
  views,    // .codecfs/view
  scratch,
};

/// The slot of all scratch files (fs/scratch_files.h), whose local parts only those know.
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
  array = 11,  // a variable as one file; where the root is one, that is a directory with this file
  chunk = 16,  // and all above
};

struct Node;

struct NamedFile {
  std::string_view name;
  FileKind kind;
};

/// The metadata files in a directory of this kind, in the order in which they are listed.
std::span<const NamedFile> files_of(NodeKind kind);

/// The same as a view has them.
std::span<const NamedFile> files_of(const Node& node);

/// The name of a metadata or control file.
std::string_view name_of(FileKind file);

struct Node {
  NodeKind kind = NodeKind::group;
  View view = View::decoded;
  ObjectId object = 0;  // of groups, variables, folders and files
  std::string target;   // of symlinks
  std::string path;     // from the root of the dataset, "" for that: for messages
  Ino parent = kRootIno;
  uint64_t slot = 0;
  uint64_t common = 0;  // the slot of the same path in the decoded view

  [[nodiscard]] Ino ino(FileKind file = FileKind::itself) const {
    return slot << kLocalBits | static_cast<uint64_t>(file);
  }
  /// By which all views know it.
  [[nodiscard]] Ino key() const { return common << kLocalBits | static_cast<uint64_t>(FileKind::itself); }
  /// The top of a view.
  [[nodiscard]] bool is_root() const { return path.empty(); }
};

/// A node and the file in its directory that an inode number names.
struct Place {
  const Node* node = nullptr;
  FileKind file = FileKind::itself;
  uint64_t chunk = 0;  // its number, where file is chunk
};

class Nodes {
 public:
  /// `shown`: the view that the root of the mount is.
  Nodes(const Entry& root, View shown);

  /// What an inode number stands for. ESTALE for one that was never given out, or whose file is gone.
  Result<Place> at(Ino ino) const;
  /// The node of a name in a directory, made if it is new or another object than it was. ENFILE when slots run out.
  Result<const Node*> child(const Node& parent, const Entry& entry);
  /// The node of the control directory, `.codecfs` in the root, and of the directory of views in it.
  const Node& control() const { return *control_; }
  const Node& views() const { return *views_; }
  /// The root of a view; where that is the root of the mount, a link to it.
  const Node& view_entry(View view) const { return *view_entries_[static_cast<size_t>(view)]; }
  /// The view that the root of the mount is.
  [[nodiscard]] View shown() const { return shown_; }
  /// The nodes of the same path in all views where it was looked up, this one included.
  [[nodiscard]] std::vector<const Node*> in_all_views(const Node& node) const;
  /// The node of a path in the decoded view; null where nobody has looked it up.
  [[nodiscard]] const Node* find(const std::string& path) const;
  /// The inode numbers of the variables that were looked up, in all views.
  [[nodiscard]] std::vector<Ino> variables() const;
  /// The inode number of a chunk; reserves more slots for a variable of more than 2^40 - 16 chunks. ENFILE.
  Result<Ino> chunk_ino(const Node& variable, uint64_t number, uint64_t count);
  /// That of the same chunk in the decoded view.
  Result<Ino> chunk_key(const Node& variable, uint64_t number, uint64_t count);

  // These are of all views.
  /// A group is a variable now.
  void become_variable(const Node& group, ObjectId variable);
  /// The name and all below it are gone.
  void remove(const Node& node);
  /// The node and all below it have another path.
  void move(const Node& node, const Node& parent, std::string_view name);
  /// Chunks get other inode numbers, as their numbers mean other chunks now. ENFILE.
  Result<> renumber_chunks(const Node& variable, uint64_t count);

 private:
  struct Slots {
    uint64_t first = 0;
    uint64_t count = 0;
  };

  using InViews = std::array<const Node*, kViews>;  // null: not looked up there

  const Node* add(Node node);
  void replace(const Node& old, Node node);
  void drop(const Node& node);
  void forget_path(const Node& node);
  Result<Slots> reserve(uint64_t slot, const std::string& path, uint64_t chunks);
  Result<Ino> chunk_of_slot(uint64_t slot, const std::string& path, uint64_t number, uint64_t count);
  template <class Visit>
  void for_each_at_or_below(const std::string& path, Visit visit);

  mutable std::shared_mutex mutex_;  // guards all below; nodes themselves never change
  std::deque<Node> nodes_;
  std::vector<const Node*> slots_;  // null: what was there is gone
  std::unordered_map<std::string, InViews> by_path_;
  std::unordered_map<uint64_t, Slots> chunk_slots_;  // of variables whose chunks have slots of their own
  const View shown_;
  const Node* control_ = nullptr;
  const Node* views_ = nullptr;
  InViews view_entries_{};
};

}  // namespace codecfs::fs
