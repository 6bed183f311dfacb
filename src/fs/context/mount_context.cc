#include "fs/context/mount_context.h"

#include <fmt/format.h>

#include <vector>

#include "base/log.h"
#include "fs/nodes/chunk_names.h"
#include "fs/nodes/staged_names.h"

namespace codecfs::fs {

namespace {

FilesystemOptions options_for(FilesystemOptions options, Source& source) {
  options.read_only = options.read_only || !source.writable();
  return options;
}

}  // namespace

MountContext::MountContext(std::unique_ptr<Source> source, const FilesystemOptions& wanted)
    : options(options_for(wanted, *source)),
      dataset(std::move(source), options.has_other_users),
      tree(dataset.source().root(), options.view, &dataset.source()),
      chunks(dataset, tree.nodes, stats, options.cache_bytes, options.write_back,
             [this](const ChunkPlace& chunk) { changed_outside(chunk); }) {
  if (options.shows_fill_of_big_endian) dataset.show_fill_of_big_endian();
  dataset.set_real_dimensions(options.real_dimensions);
  if (options.for_hdf5) dataset.show_as_hdf5();
}

Result<bool> MountContext::is_empty() {
  const Entry root = dataset.source().root();
  if (root.kind != EntryKind::group) return false;
  CODECFS_ASSIGN(const Members members, dataset.source().overview(root.object));
  if (!members.entries.empty() || !members.unreadable.empty()) return false;
  CODECFS_ASSIGN(const std::vector<Attribute> attributes, dataset.source().group_attributes(root.object));
  return attributes.empty();
}

DirectoryState MountContext::state_of(const Node& directory) {
  DirectoryState state = tree.overlay.state_of(directory);
  if (!directory.is_root() || !state.empty) return state;
  const Result<bool> is_still = is_empty();
  if (is_still && *is_still) return state;
  if (is_still) tree.overlay.end_fresh(directory);
  // After an error it is shown this time, as something may be there.
  state.fresh = state.empty = false;
  state.hidden.clear();
  return state;
}

Result<Ino> MountContext::ino_of(const Place& directory) {
  if (directory.file != FileKind::chunk_directory) return directory.node->ino();
  CODECFS_ASSIGN(const VariableViewPtr view, dataset.variable(directory.node->object));
  return tree.nodes.directory_ino(*directory.node, directory.chunk,
                                  ChunkDirectories(grid_of(directory.node->view, *view->facts)).count());
}

Result<Ino> MountContext::chunk_key(const Node& node, const Variable& variable, uint64_t number) {
  const uint64_t count = grid_of(node.view, variable).count();
  // The state that all views share is that of the chunks in a shard.
  return node.form().shows_shards(variable) ? tree.nodes.chunk_ino(node, number, count)
                                            : tree.nodes.chunk_key(node, number, count);
}

Result<ChunkPlace> MountContext::chunk_place(Ino ino) {
  CODECFS_ASSIGN(const Place place, tree.place_of(ino));
  if (place.file != FileKind::chunk) return std::unexpected(Error{ESTALE, {}});
  CODECFS_ASSIGN(ChunkPlace chunk, chunk_place(*place.node, place.chunk));
  CODECFS_TRY(tree.place_of(ino));  // otherwise the key may be one of another shape, for which the number is another
  return chunk;
}

Result<ChunkPlace> MountContext::chunk_place(const Node& node, uint64_t number) {
  CODECFS_ASSIGN(const VariableViewPtr view, dataset.variable(node.object));
  CODECFS_ASSIGN(const Ino key, chunk_key(node, *view->facts, number));
  return ChunkPlace{key, node.object, number, view};
}

void MountContext::note_error(Ino ino, const Error& error, RequestKind kind) {
  if (error.reason.empty()) return;
  ++stats.errors;
  log::error("{}", error.reason);
  errors.failed(ino, kind, error.reason);
}

std::string MountContext::path_of(View view) const {
  return view == tree.nodes.shown() ? "" : fmt::format("{}/{}", tree.nodes.views().path, name_of(view));
}

std::string MountContext::path_of(const Place& directory) {
  const Node& node = *directory.node;
  if (directory.file != FileKind::chunk_directory) return node.path;
  const Result<VariableViewPtr> view = dataset.variable(node.object);
  return view ? node.path + "/" + path_of_directory(grid_of(node.view, *(*view)->facts), directory.chunk) : node.path;
}

bool MountContext::shows_absent(const Node& node, const VariableView& view) const {
  return lists_absent(node, view) && !tree.overlay.state_of(node).fresh;
}

bool MountContext::lists_absent(const Node& node, const VariableView& view) const {
  return view.shows_absent_chunks() && node.form().format().shows_absent_chunks;
}

std::vector<std::string> MountContext::files_not_stored() {
  std::vector<std::string> paths;
  size_t hidden = 0;
  for (const auto& [directory, name] : tree.scratch.names()) {
    if (is_nczarr_file(name)) continue;
    const Result<Place> place = tree.nodes.at(directory);
    if (options.has_other_users && place && !is_public(*place->node)) {
      ++hidden;
      continue;
    }
    paths.push_back(fmt::format("{}/{}", place ? path_of(place->node->view) + path_of(*place) : "", name));
  }
  if (hidden > 0) paths.push_back(fmt::format("{} files in directories that not all users may read", hidden));
  return paths;
}

bool MountContext::is_public(const Node& node) {
  if (node.is_root()) return true;
  if (!dataset.is_as_readable(node.object, dataset.source().root().object)) return false;
  const Result<Place> parent = tree.nodes.at(node.parent);
  return parent && is_public(*parent->node);
}

}  // namespace codecfs::fs
