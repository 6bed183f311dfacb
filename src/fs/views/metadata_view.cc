#include "fs/views/metadata_view.h"

#include <unistd.h>

#include "backends/api/processes.h"
#include "backends/api/source.h"
#include "base/log.h"
#include "filters/core/filter_table.h"
#include "fs/nodes/metadata_files.h"
#include "model/json.h"

namespace codecfs::fs {
namespace {

std::string filters_text() {
  const std::string protections = protections_of_sources().text;
  return filters::filter_table() + (protections.empty() ? "" : "# " + protections + "\n");
}

}  // namespace

std::optional<FileKind> metadata_named(const Place& directory, std::string_view name) {
  if (directory.file == FileKind::chunk_directory) return std::nullopt;
  const Node& node = *directory.node;
  for (const NamedFile& file : files_of(node))
    if (file.name == name) return file.kind;
  const MetadataFormat* const format = node.form().metadata;
  if (node.kind == NodeKind::group && format != nullptr && name == name_of(format->of_array)) return format->of_array;
  return std::nullopt;
}

Result<Text> MetadataView::text_of(const Node& node, FileKind file) {
  note_given(node, file);
  switch (file) {
    case FileKind::filters: return std::make_shared<const std::string>(filters_text());
    case FileKind::log: return std::make_shared<const std::string>(log::recent());
    case FileKind::stats: return std::make_shared<const std::string>(stats_text());
    case FileKind::references:
      if (references_.exists()) return references_.text();
      return not_there();
    case FileKind::zgroup: return Dataset::zgroup();
    case FileKind::zmetadata: look_below(node); return forms_.zmetadata_of(node);
    case FileKind::zarr_json: return zarr_json_of(node);
    default: break;
  }
  if (node.kind == NodeKind::group && file == FileKind::zattrs)
    return mount_.dataset.zattrs(node.object, mount_.options.tells_types);
  if (node.kind != NodeKind::variable) return not_there();
  CODECFS_ASSIGN(const VariableViewPtr view, mount_.dataset.variable(node.object));
  switch (file) {
    case FileKind::zarray: {
      Text text = view->zarray;
      if (node.form().is_encoded) {
        CODECFS_ASSIGN(const EncodedFormPtr form, forms_.of(node));
        text = form->zarray;
      }
      if (!mount_.options.tells_types) return text;
      CODECFS_ASSIGN(Json json, parse_json(*text));
      put_limits(json, *view->facts);
      return std::make_shared<const std::string>(file_text(json));
    }
    case FileKind::zattrs: {
      CODECFS_ASSIGN(const VariablePtr variable, mount_.dataset.described(node.object));
      if (variable->unreadable_attributes) return std::unexpected(*variable->unreadable_attributes);
      Json json = zattrs_json(*variable);
      if (mount_.options.tells_types) put_types(json, variable->attributes);
      return std::make_shared<const std::string>(file_text(json));
    }
    case FileKind::codecs: return node.form().format().codecs_of(*view);
    case FileKind::filter:
      if (view->filter) return view->filter;
      return not_there();  // _Codecs tells the chain; no spec can
    default: return not_there();
  }
}

/// For files whose texts change with other objects. Must be called before the text is made.
void MetadataView::note_given(const Node& node, FileKind file) {
  if (!mount_.kernel.invalidator->has_kernel() || mount_.options.read_only) return;
  const bool is_of_variable = file == FileKind::zarray || file == FileKind::zattrs || file == FileKind::zarr_json;
  const bool is_shared = node.kind == NodeKind::variable && is_of_variable && mount_.dataset.source().shares_metadata();
  const bool has_members = node.kind == NodeKind::group && file == FileKind::zattrs;  // in NCZarr
  if (is_shared || has_members || is_consolidated(node, file))
    mount_.kernel.metadata_given.add(mount_.tree.nodes.dataset_of(node), node.ino(file));
}

/// zarr.json. EOPNOTSUPP for a variable that Zarr v3 cannot describe.
Result<Text> MetadataView::zarr_json_of(const Node& node) {
  if (node.kind == NodeKind::group) {
    look_below(node);
    return forms_.zarr_json_of_group(node);
  }
  if (node.kind != NodeKind::variable) return not_there();
  CODECFS_ASSIGN(const VariablePtr variable, mount_.dataset.described(node.object));
  Result<Json> json = forms_.zarr_json(node.view, node.path, *variable);
  if (!json) return fail(json.error().code, "{}: {}", node.path, json.error().reason);
  return std::make_shared<const std::string>(file_text(*json));
}

/// For what tells of all that is below a group.
void MetadataView::look_below(const Node& group) {
  if (!mount_.options.coherent || !coherence_.is_due(~group.object)) return;
  mount_.dataset.forget(group.object);
  forms_.forget_zmetadata();
}

Result<struct stat> MetadataView::attributes(const Node& node, FileKind file) {
  if (node.kind == NodeKind::control) {
    if (!has_control(file)) return not_there();
    uint64_t size = references_.size();
    if (file != FileKind::references) {
      CODECFS_ASSIGN(const Text text, text_of(node, file));
      size = text->size();
    }
    struct stat status = inodes_.make(node, node.ino(file), S_IFREG, size);
    status.st_mode &= ~mode_t{0222};
    // The log names what is in directories that not all users may read.
    if (file == FileKind::log && mount_.options.has_other_users) {
      status.st_mode &= ~mode_t{0077};
      status.st_uid = ::geteuid();
      status.st_gid = ::getegid();
    }
    return status;
  }
  if (file == FileKind::array) return arrays_.attributes(node);
  if (const std::shared_ptr<StagedFile> staged = mount_.tree.staged_files.find(node.ino(file)))
    if (const std::optional<uint64_t> size = staged->shown_size())
      return inodes_.make(node, node.ino(file), S_IFREG, *size);
  if (mount_.state_of(node).hidden.contains(file)) return not_there();
  Result<Text> text = text_of(node, file);
  // A variable that Zarr v3 cannot describe is shown all the same; opening the file says why.
  const bool is_shown = text || (file == FileKind::zarr_json && text.error().code == EOPNOTSUPP);
  if (!is_shown) return pass_on(text);
  if (may_defer_size(node, file)) mount_.kernel.metadata_given.add_size(node.ino(file));
  return inodes_.make(node, node.ino(file), S_IFREG, text ? (*text)->size() : 0);
}

bool MetadataView::may_defer_size(const Node& node, FileKind file) const {
  if (!mount_.kernel.invalidator->has_kernel() || mount_.options.read_only || mount_.options.coherent) return false;
  if (is_consolidated(node, file)) return true;
  // HDF5's names of dimensions: after each change of names they are made anew from all objects of the file.
  const bool has_names = file == FileKind::zattrs || file == FileKind::zarr_json;
  return node.kind == NodeKind::variable && has_names && mount_.dataset.source().shares_metadata();
}

bool MetadataView::defers_size(const Node& node, FileKind file) const {
  return may_defer_size(node, file) && (is_consolidated(node, file) || mount_.kernel.metadata_given.is_changing());
}

Result<struct stat> MetadataView::looked_up(const Node& node, FileKind file) {
  const Ino ino = node.ino(file);
  const bool is_in_use = mount_.tree.staged_files.find(ino) != nullptr || mount_.kernel.metadata_given.had_size(ino);
  if (is_in_use || !defers_size(node, file)) return attributes(node, file);
  if (mount_.state_of(node).hidden.contains(file)) return not_there();
  mount_.kernel.metadata_given.add_name(ino);
  struct stat status = inodes_.make(node, ino, S_IFREG, 0);
  status.st_size = kUnknownSize;
  return status;
}

std::string MetadataView::stats_text() {
  std::string text = mount_.stats.print() + fmt::format("chunks_converted {}\nconversions_ahead {}\n",
                                                        mount_.chunks.conversion_stats.chunks_decoded.load(),
                                                        mount_.chunks.conversion_stats.decodes_ahead.load());
  const Recodings::Chunks recoding = mount_.recodings.of_all();
  Source& source = mount_.dataset.source();
  // In an object store there is none, and asking may wait for requests.
  const uint64_t reclaimable = source.reads_at_once() == 0 ? source.reclaimable_bytes() : 0;
  text += fmt::format("recode_chunks_done {}\nrecode_chunks_total {}\nreclaimable_bytes {}\nnodes {}\n", recoding.done,
                      recoding.total, reclaimable, mount_.tree.nodes.count());
  return text + (mount_.options.source_counters ? mount_.options.source_counters() : std::string());
}

}  // namespace codecfs::fs
