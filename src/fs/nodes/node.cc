#include "fs/nodes/node.h"

#include <array>

namespace codecfs::fs {
namespace {

constexpr std::array kControlFiles{NamedFile{"filters", FileKind::filters}, NamedFile{"log", FileKind::log},
                                   NamedFile{"stats", FileKind::stats},
                                   NamedFile{"references.json", FileKind::references}};

}  // namespace

std::span<const NamedFile> files_of(const Node& node) {
  if (node.kind == NodeKind::control) return kControlFiles;
  const ViewForm& form = node.form();
  if (node.kind == NodeKind::group && form.metadata != nullptr) return form.metadata->of_groups;
  if (node.kind == NodeKind::variable && form.metadata != nullptr) return form.metadata->of_variables;
  if (node.kind == NodeKind::variable && node.is_root()) return {&form.array->root_file, 1};
  return {};
}

std::string_view name_of(FileKind file) {
  for (const std::span<const NamedFile> files : {kZarr2Format.of_groups, kZarr2Format.of_variables,
                                                 kZarr3Format.of_groups, std::span<const NamedFile>(kControlFiles)})
    for (const NamedFile& named : files)
      if (named.kind == file) return named.name;
  return {};
}

}  // namespace codecfs::fs
