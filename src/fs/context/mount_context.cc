#include "fs/context/mount_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <vector>

#include "base/log.h"
#include "fs/nodes/chunk_names.h"
#include "fs/nodes/staged_names.h"

namespace codecfs::fs {

namespace {

/// ESTALE if the place does not mean the same chunk any more.
Result<> check_place(const Nodes& nodes, Dataset& dataset, const ChunkPlace& chunk) {
  CODECFS_TRY(nodes.at(chunk.key));
  // A place that was made while the shape changed may have a number of the old shape and an inode number of the new
  // one.
  CODECFS_ASSIGN(const VariableViewPtr now, dataset.variable(chunk.object));
  if (now == chunk.variable) return {};
  const ChunkGrid& grid = now->facts->grid;
  const std::vector<uint64_t>& before = chunk.variable->facts->grid.cells();
  const bool is_same = chunk.number < grid.count() && before.size() == grid.rank() &&
                       std::ranges::equal(grid.cells() | std::views::drop(1), before | std::views::drop(1));
  if (!is_same) return std::unexpected(Error{ESTALE, {}});
  return {};
}

}  // namespace

MountContext::MountContext(std::unique_ptr<Source> source, const FilesystemOptions& options)
    : rules(options.rules),
      read_only(options.read_only || !source->writable()),
      coherent(options.coherent),
      consolidates_groups(options.consolidates_groups),
      portable(options.portable),
      for_netcdf(options.for_netcdf),
      for_hdf5(options.for_hdf5),
      tells_types(options.tells_types),
      new_are_fixed(options.new_are_fixed),
      nodelete(options.nodelete),
      has_other_users(options.has_other_users),
      mountpoint(options.mountpoint),
      source_counters(options.source_counters),
      make_references(options.make_references),
      dataset(std::move(source), options.has_other_users),
      nodes(dataset.source().root(), options.view, &dataset.source()),
      cache(options.cache_bytes, stats),
      conversions(options.cache_bytes / 4, conversion_stats),
      decoder(dataset, nodes, cache, stats, read_ahead, [this](const ChunkPlace& chunk) { changed_outside(chunk); }),
      kernel(&no_kernel_),
      write_back(
          dataset, cache, conversions, stats, options.write_back,
          [this](const ChunkPlace& chunk) { return decoder.base_of(chunk); },
          [this](const ChunkPlace& chunk) { return check_place(nodes, dataset, chunk); },
          [this](const ChunkPlace& chunk) { changed_outside(chunk); }),
      read_ahead(options.cache_bytes / 2, dataset.source().reads_at_once()) {
  if (options.shows_fill_of_big_endian) dataset.show_fill_of_big_endian();
  dataset.set_real_dimensions(options.real_dimensions);
  if (options.for_hdf5) dataset.show_as_hdf5();
}

Result<Place> MountContext::place_of(Ino ino) {
  CODECFS_ASSIGN(const Place place, nodes.at(ino));
  if (place.node->kind != NodeKind::scratch) return place;
  const std::optional<Ino> chunk = scratch.promoted_to(ino);
  return chunk ? nodes.at(*chunk) : place;
}

bool MountContext::is_still(Ino ino, const Place& place) {
  const Result<Place> now = place_of(ino);
  return now && now->node == place.node && now->file == place.file && now->chunk == place.chunk;
}

Result<Ino> MountContext::ino_of(const Place& directory) {
  if (directory.file != FileKind::chunk_directory) return directory.node->ino();
  CODECFS_ASSIGN(const VariableViewPtr view, dataset.variable(directory.node->object));
  return nodes.directory_ino(*directory.node, directory.chunk,
                             ChunkDirectories(grid_of(directory.node->view, *view->facts)).count());
}

Result<Ino> MountContext::chunk_key(const Node& node, const Variable& variable, uint64_t number) {
  const uint64_t count = grid_of(node.view, variable).count();
  // The state that all views share is that of the chunks in a shard.
  return shows_shards(node.view, variable) ? nodes.chunk_ino(node, number, count)
                                           : nodes.chunk_key(node, number, count);
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
  return view == nodes.shown() ? "" : fmt::format("{}/{}", nodes.views().path, name_of(view));
}

std::string MountContext::path_of(const Place& directory) {
  const Node& node = *directory.node;
  if (directory.file != FileKind::chunk_directory) return node.path;
  const Result<VariableViewPtr> view = dataset.variable(node.object);
  return view ? node.path + "/" + path_of_directory(grid_of(node.view, *(*view)->facts), directory.chunk) : node.path;
}

bool MountContext::shows_absent(const Node& node, const VariableView& view) const {
  return lists_absent(node, view) && !overlay.state_of(node).fresh;
}

bool MountContext::lists_absent(const Node& node, const VariableView& view) const {
  if (!view.shows_absent_chunks() || is_zarr3(node.view)) return false;
  return !is_condemned(node, overlay.state_of(node));
}

std::vector<std::string> MountContext::files_not_stored() {
  std::vector<std::string> paths;
  size_t hidden = 0;
  for (const auto& [directory, name] : scratch.names()) {
    if (is_nczarr_file(name)) continue;
    const Result<Place> place = nodes.at(directory);
    if (has_other_users && place && !is_public(*place->node)) {
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
  const Result<Place> parent = nodes.at(node.parent);
  return parent && is_public(*parent->node);
}

}  // namespace codecfs::fs
