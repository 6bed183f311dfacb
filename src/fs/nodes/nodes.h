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
// in which their numbers (ChunkDirectories) are the local parts. A Node is immutable: a directory that is moved or
// becomes a variable gets another Node in its slot, and keeps its inode number.
//
// A Node lives as long as the mount, but for those of a mounted folder's own names (PlainNodes): they end when the
// kernel has forgotten them and nothing else uses them. A thread is given such a node for the lifetime of its Request;
// one without a Request makes the node stay. What keeps it longer has a Hold.

#include <array>
#include <cstdint>
#include <deque>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backends/api/source.h"
#include "base/mutex.h"
#include "base/result.h"
#include "fs/nodes/node.h"
#include "fs/nodes/plain_nodes.h"

namespace codecfs::fs {

/// All functions take nodes from before a move as well: they apply to the node as it is now.
class Nodes {
 public:
  /// `shown`: the view that the root of the mount shows. `source`: the nodes keep its ids; null if all ids stay.
  Nodes(const Entry& root, View shown, Source* source = nullptr);
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  /// The nodes that this thread is given during the lifetime of the object stay for that long.
  class Request {
   public:
    explicit Request(Nodes& nodes);
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;
    ~Request();

   private:
    friend class Nodes;
    static thread_local Request* current_;
    Nodes& nodes_;
    Request* const before_;
    std::vector<PlainNodes::Item*> given_;
  };
  /// Makes a node that the thread was given stay for the lifetime of the object.
  class Hold {
   public:
    Hold(Nodes& nodes, const Node& node);
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() { nodes_.end_hold(ino_); }

   private:
    Nodes& nodes_;
    const Ino ino_;
  };
  /// The kernel is going to learn of an inode, from the reply to the present Request.
  void looked_up(Ino ino);
  /// The kernel has forgotten an inode, of which it was told `count` times, or was not told.
  void forgotten(Ino ino, uint64_t count);
  /// How many nodes there are.
  [[nodiscard]] size_t count() const;

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
  /// Assigns new inode numbers to chunks, because their numbers refer to other chunks now, and ends Reshaping. ENFILE.
  Result<> renumber_chunks(const Node& variable, uint64_t count);
  /// While the numbers of chunks change their meaning in the source, the inode numbers of the chunks of a variable, and
  /// of directories of chunks, refer to nothing: at() is ESTALE. It ends with the object, or when they are
  /// renumbered. One at a time for a variable.
  class Reshaping {
   public:
    Reshaping(Nodes& nodes, const Node& variable);
    Reshaping(const Reshaping&) = delete;
    Reshaping& operator=(const Reshaping&) = delete;
    ~Reshaping();

   private:
    Nodes& nodes_;
    const uint64_t common_;
  };

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

  const Node* given(const Node* node) const CODECFS_REQUIRES_SHARED(mutex_);
  [[nodiscard]] const Node* node_of(Ino ino) const CODECFS_REQUIRES_SHARED(mutex_);
  void end_hold(Ino ino);
  void free_unused(Ino ino);
  void free_if_unused(PlainNodes::Item* item) CODECFS_REQUIRES(mutex_);
  void hold_parent(const Node& node) CODECFS_REQUIRES(mutex_);
  class KeptId;
  const Node* add_plain(Node node, const Node* decoded, const KeptId& id) CODECFS_REQUIRES(mutex_);

  const Node* add(Node node) CODECFS_REQUIRES(mutex_);
  void replace(const Node& old, Node node) CODECFS_REQUIRES(mutex_);
  void drop(const Node& node) CODECFS_REQUIRES(mutex_);
  void assign(const Slots& slots, const Node* node) CODECFS_REQUIRES(mutex_);
  void forget_path(const Node& node) CODECFS_REQUIRES(mutex_);
  Result<Slots> reserve(uint64_t slot, const std::string& path, uint64_t chunks) CODECFS_REQUIRES(mutex_);
  Result<Ino> chunk_of_slot(uint64_t slot, const std::string& path, uint64_t number, uint64_t count);
  std::vector<const Node*> at_or_below(const std::string& path) const CODECFS_REQUIRES_SHARED(mutex_);

  Source* const source_;
  mutable SharedMutex mutex_{LockRank::nodes};
  PlainNodes plain_ CODECFS_GUARDED_BY(mutex_);
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
  std::unordered_set<uint64_t> reshaping_ CODECFS_GUARDED_BY(mutex_);                 // Node::common
  const View shown_;
  const Node* control_ = nullptr;
  const Node* views_ = nullptr;
  InViews view_entries_{};
};

}  // namespace codecfs::fs
