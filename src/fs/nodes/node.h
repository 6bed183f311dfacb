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

namespace codecfs::fs {

using Ino = uint64_t;

inline constexpr unsigned kLocalBits = 40;
inline constexpr uint64_t kLocalMask = (uint64_t{1} << kLocalBits) - 1;
inline constexpr Ino kRootIno = 1;
/// The slot of all nodes of PlainNodes: the last one, as inode numbers stay positive as off_t.
inline constexpr uint64_t kPlainSlot = (uint64_t{1} << (63 - kLocalBits)) - 1;
/// The last bits of their numbers.
inline constexpr uint64_t kViewBits = 7;

/// The form in which the dataset is shown.
enum class View : uint8_t {
  decoded,   // chunks as raw bytes, Zarr v2
  encoded,   // chunks as stored, with their codecs in .zarray
  decoded3,  // chunks as raw bytes, Zarr v3
  encoded3,  // chunks as stored, with their codecs in zarr.json
  npy,       // each variable is a file of numpy's format, NAME.npy
  raw,       // each variable is a file of its elements alone, NAME
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
  file,     // a file of a mounted folder
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

/// The metadata files of a node, in its view and in the order in which they are listed.
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
  uint64_t common = 0;                                        // the slot of the same path in the decoded view
  uint64_t number = static_cast<uint64_t>(FileKind::itself);  // the local part of its own inode number

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
