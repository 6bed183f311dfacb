#pragma once
// Inodes: which number stands for which file of the tree.
//
// A directory (group, variable, control directory) or symlink is a Node, made when its name is first looked up. The
// files in a directory need no object of their own, not even a million chunks: their inode number tells which they are.
//
//   ino = slot << 40 | local        local 1        the directory or symlink itself
//                                   local 2..15    its metadata files (FileKind)
//                                   local 16 + n   its chunk number n
//
// Slot 0 is the root, so the root is inode 1 as FUSE wants it. A variable with more than 2^40 - 16 chunks gets as many
// slots in a row as it needs when its first chunk is looked up; so does one whose chunks are numbered anew, as its
// shape has changed. A Node never changes and lives as long as the mount: a directory that is moved or becomes a
// variable gets another Node in its slot, and keeps its inode number.

#include <cstdint>
#include <deque>
#include <memory>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/source.h"
#include "base/result.h"

namespace codecfs::fs {

using Ino = uint64_t;

inline constexpr unsigned kLocalBits = 40;
inline constexpr uint64_t kLocalMask = (uint64_t{1} << kLocalBits) - 1;
inline constexpr Ino kRootIno = 1;

enum class NodeKind { group, variable, symlink, control, scratch };

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
  chunk = 16,  // and all above
};

struct NamedFile {
  std::string_view name;
  FileKind kind;
};

/// The metadata files in a directory of this kind, in the order in which they are listed.
std::span<const NamedFile> files_of(NodeKind kind);

/// The name of a metadata or control file.
std::string_view name_of(FileKind file);

struct Node {
  NodeKind kind = NodeKind::group;
  ObjectId object = 0;  // of groups and variables
  std::string target;   // of symlinks
  std::string path;     // from the root, "" for the root: for messages
  Ino parent = kRootIno;
  uint64_t slot = 0;

  [[nodiscard]] Ino ino(FileKind file = FileKind::itself) const {
    return slot << kLocalBits | static_cast<uint64_t>(file);
  }
};

/// A node and the file in its directory that an inode number names.
struct Place {
  const Node* node = nullptr;
  FileKind file = FileKind::itself;
  uint64_t chunk = 0;  // its number, where file is chunk
};

class Nodes {
 public:
  explicit Nodes(const Entry& root);

  /// What an inode number stands for. ESTALE for one that was never given out, or whose file is gone.
  Result<Place> at(Ino ino) const;
  /// The node of a name in a directory, made if it is new or another object than it was. ENFILE when slots run out.
  Result<const Node*> child(const Node& parent, const Entry& entry);
  /// The node of the control directory, `.codecfs` in the root.
  const Node& control() const { return *control_; }
  /// The inode numbers of the variables that were looked up.
  [[nodiscard]] std::vector<Ino> variables() const;
  /// The inode number of a chunk; reserves more slots for a variable of more than 2^40 - 16 chunks. ENFILE.
  Result<Ino> chunk_ino(const Node& variable, uint64_t number, uint64_t count);

  /// A group is a variable now.
  const Node* become_variable(const Node& group, ObjectId variable);
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

  const Node* add(Node node);
  const Node* replace(const Node& old, Node node);
  Result<Slots> reserve(const Node& variable, uint64_t chunks);
  void drop(const Node& node);
  template <class Visit>
  void for_each_at_or_below(const std::string& path, Visit visit);

  mutable std::shared_mutex mutex_;  // guards all below; nodes themselves never change
  std::deque<Node> nodes_;
  std::vector<const Node*> slots_;  // null: what was there is gone
  std::unordered_map<std::string, const Node*> by_path_;
  std::unordered_map<uint64_t, Slots> chunk_slots_;  // of variables whose chunks have slots of their own
  const Node* control_ = nullptr;
};

}  // namespace codecfs::fs
