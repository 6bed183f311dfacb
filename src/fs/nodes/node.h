#pragma once
// What an inode number refers to: the directories, symlinks and plain files of the tree (Node), and the files in them
// (Place). nodes.h describes the numbers.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backends/api/source.h"
#include "fs/nodes/file_kind.h"
#include "fs/nodes/view.h"

namespace codecfs::fs {

using Ino = uint64_t;

inline constexpr unsigned kLocalBits = 40;
inline constexpr uint64_t kLocalMask = (uint64_t{1} << kLocalBits) - 1;
inline constexpr Ino kRootIno = 1;
/// The slot of all nodes of PlainNodes: the last one, as inode numbers stay positive as off_t.
inline constexpr uint64_t kPlainSlot = (uint64_t{1} << (63 - kLocalBits)) - 1;
/// The last bits of their numbers.
inline constexpr uint64_t kViewBits = 7;
static_assert(kViews <= kViewBits + 1);

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

struct Node;

/// The metadata files in the directory of a node, in the order in which they are listed (_Filter and _Codecs are not).
std::span<const NamedFile> files_of(const Node& node);

struct Node {
  NodeKind kind = NodeKind::group;
  View view = View::decoded;
  ObjectId object = 0;  // of groups, variables, folders and files
  std::string target;   // of symlinks
  std::string path;     // from the root of the dataset, which is "": for messages
  Ino parent = kRootIno;
  uint64_t slot = 0;
  uint64_t common = 0;                                        // the slot of the same path in the decoded view
  uint64_t number = static_cast<uint64_t>(FileKind::itself);  // the local part of its own inode number

  [[nodiscard]] const ViewForm& form() const { return form_of(view); }
  /// Whether it is a variable that its view shows as one file. A root is a directory with that file.
  [[nodiscard]] bool is_array_file() const {
    return kind == NodeKind::variable && form().array != nullptr && !is_root();
  }
  [[nodiscard]] bool is_plain() const { return slot == kPlainSlot; }
  [[nodiscard]] Ino ino(FileKind file = FileKind::itself) const {
    return slot << kLocalBits | (file == FileKind::itself ? number : static_cast<uint64_t>(file));
  }
  /// The key that all views share.
  [[nodiscard]] Ino key() const { return common << kLocalBits | (is_plain() ? number & ~kViewBits : number); }
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

}  // namespace codecfs::fs
