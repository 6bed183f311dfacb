#include "fs/nodes/metadata_format.h"

#include <algorithm>

namespace codecfs::fs {

bool MetadataFormat::has_file(std::string_view name) const {
  const auto is_it = [&](const NamedFile& file) {
    // The files of a variable that are codecfs' own are in both.
    return file.name == name && file.kind != FileKind::filter && file.kind != FileKind::codecs;
  };
  return std::ranges::any_of(of_groups, is_it) || std::ranges::any_of(of_variables, is_it);
}

}  // namespace codecfs::fs
