// What can be told about a written metadata file before it is closed. See metadata_editor.cc for the rest.

#include "fs/namespace/metadata_editor.h"
#include "fs/nodes/metadata_files.h"
#include "model/json.h"

namespace codecfs::fs {
namespace {

/// A longer text is parsed only where it seems to be complete: it may arrive in many small writes.
constexpr size_t kParsedAlways = size_t{1} << 18;

bool is_json_file(FileKind file) {
  return file == FileKind::zgroup || file == FileKind::zattrs || file == FileKind::zarray ||
         file == FileKind::zarr_json;
}

}  // namespace

Result<> MetadataEditor::check_text(const Place& place, std::string_view text) {
  const Node& node = *place.node;
  const auto with_path = [&](const auto& parsed) -> Result<> {
    if (parsed) return {};
    return fail(parsed.error().code, "{}: {}", node.path, parsed.error().reason);
  };
  switch (place.file) {
    case FileKind::zgroup: return check_zgroup(text);
    case FileKind::zattrs: return with_path(parse_zattrs(text));
    case FileKind::zarray: return with_path(parse_zarray(text, node.form().is_encoded));
    case FileKind::zarr_json: return with_path(parse_zarr_json(text, node.form().is_encoded));
    default: return filters_.check_text(node, place.file == FileKind::filter, text);
  }
}

Result<> MetadataEditor::check(Ino ino, std::string_view text) {
  CODECFS_ASSIGN(const Place place, mount_.tree.nodes.at(ino));
  const size_t last = text.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos) return {};
  if (is_json_file(place.file)) {
    if (text.size() > kParsedAlways && text[last] != '}') return {};
  } else if ((place.file != FileKind::filter && place.file != FileKind::codecs) || !text.ends_with('\n')) {
    return {};
  }
  Result<> checked = check_text(place, text);
  if (checked || (checked.error().code != EINVAL && checked.error().code != ENOENT)) return {};
  if (place.file != FileKind::filter && is_beginning_of_json(text)) return {};
  // As in apply(): the file may not exist after its close.
  mount_.errors.failed(place.node->ino(), RequestKind::attributes, checked.error().reason);
  return checked;
}

}  // namespace codecfs::fs
