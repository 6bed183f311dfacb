#include "fs/nodes/node.h"

#include <array>

namespace codecfs::fs {
namespace {

constexpr std::array kGroupFiles{NamedFile{".zgroup", FileKind::zgroup}, NamedFile{".zattrs", FileKind::zattrs},
                                 NamedFile{".zmetadata", FileKind::zmetadata}};
constexpr std::array kVariableFiles{NamedFile{".zarray", FileKind::zarray}, NamedFile{".zattrs", FileKind::zattrs},
                                    NamedFile{"_Filter", FileKind::filter}, NamedFile{"_Codecs", FileKind::codecs}};
constexpr std::array kGroupFiles3{NamedFile{"zarr.json", FileKind::zarr_json}};
constexpr std::array kVariableFiles3{NamedFile{"zarr.json", FileKind::zarr_json},
                                     NamedFile{"_Filter", FileKind::filter}, NamedFile{"_Codecs", FileKind::codecs}};
constexpr std::array kControlFiles{NamedFile{"filters", FileKind::filters}, NamedFile{"log", FileKind::log},
                                   NamedFile{"stats", FileKind::stats},
                                   NamedFile{"references.json", FileKind::references}};

constexpr std::array<std::string_view, kViews> kViewNames{"decoded", "encoded", "decoded3", "encoded3", "npy", "raw"};

// For a root that is an array, which has no name of its own.
constexpr std::array kNpyRootFiles{NamedFile{"array.npy", FileKind::array}};
constexpr std::array kRawRootFiles{NamedFile{"array", FileKind::array}};

}  // namespace

std::string_view name_of(View view) { return kViewNames[static_cast<size_t>(view)]; }

std::optional<View> view_named(std::string_view name) {
  for (size_t i = 0; i < kViews; ++i)
    if (kViewNames[i] == name) return static_cast<View>(i);
  return std::nullopt;
}

std::span<const NamedFile> files_of(NodeKind kind) {
  switch (kind) {
    case NodeKind::group: return kGroupFiles;
    case NodeKind::variable: return kVariableFiles;
    case NodeKind::control: return kControlFiles;
    case NodeKind::folder:
    case NodeKind::file:
    case NodeKind::views:
    case NodeKind::scratch:
    case NodeKind::symlink: break;
  }
  return {};
}

std::span<const NamedFile> files_of(const Node& node) {
  if (is_zarr3(node.view) && node.kind == NodeKind::group) return kGroupFiles3;
  if (is_zarr3(node.view) && node.kind == NodeKind::variable) return kVariableFiles3;
  if (!shows_arrays(node.view)) return files_of(node.kind);
  if (node.kind != NodeKind::variable || !node.is_root()) return {};
  if (node.view == View::npy) return kNpyRootFiles;
  return kRawRootFiles;
}

std::string_view name_of(FileKind file) {
  if (file == FileKind::zarr_json) return kGroupFiles3.front().name;
  for (const NodeKind kind : {NodeKind::group, NodeKind::variable, NodeKind::control})
    for (const NamedFile& named : files_of(kind))
      if (named.kind == file) return named.name;
  return {};
}

}  // namespace codecfs::fs
