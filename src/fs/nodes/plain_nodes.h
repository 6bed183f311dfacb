#pragma once
// The nodes of a mounted folder's own names: its files, folders and symlinks, which belong to no dataset. A bucket may
// have millions, so each lasts only while something uses it: the kernel (counted look-ups), a request, an open
// directory, or a node below it. Not thread-safe, but for the counts, which change under a shared lock of Nodes.
//
// Inode numbers: kPlainSlot, and as the local part a hash of the path and kind, so that a name that the kernel forgets
// and looks up again keeps its number. Its last bits are the view. A number that another name still has is not used:
// the name gets one that never comes again.

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "fs/nodes/node.h"

namespace codecfs::fs {

class PlainNodes {
 public:
  struct Item : Node {
    explicit Item(Node node) : Node(std::move(node)) {}
    [[nodiscard]] bool is_used() const { return lookups != 0 || holds != 0 || stays; }

    // Sequentially consistent: of two threads that end the last uses, one must see that there are none.
    std::atomic<uint64_t> lookups = 0;  // by the kernel, which it has not forgotten
    std::atomic<uint64_t> holds = 0;    // by requests, open directories, nodes below, and the same path in other views
    std::atomic<bool> stays = false;    // until the mount ends: a thread without a request was given it
    bool gone = false;                  // its name was removed or refers to something else
  };

  /// Whether a name in a directory is of this kind.
  static bool are(const Node& directory, NodeKind kind) {
    return directory.kind == NodeKind::folder &&
           (kind == NodeKind::file || kind == NodeKind::folder || kind == NodeKind::symlink);
  }

  [[nodiscard]] Item* find(Ino ino) const {
    if (ino >> kLocalBits != kPlainSlot) return nullptr;
    const auto found = items_.find(ino & kLocalMask);
    return found == items_.end() ? nullptr : found->second.get();
  }
  /// Assigns the number. `decoded`: the node of the same path in the decoded view; null if this is that.
  Item& add(Node node, const Node* decoded);
  void erase(const Item& item) { items_.erase(item.number); }
  [[nodiscard]] size_t size() const { return items_.size(); }

 private:
  [[nodiscard]] uint64_t free_number(const Node& node);

  std::unordered_map<uint64_t, std::unique_ptr<Item>> items_;  // by Node::number
  uint64_t others_ = 0;                                        // numbers of colliding paths that were assigned
};

}  // namespace codecfs::fs
