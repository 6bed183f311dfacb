#include "fs/filesystem.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "fs/nodes/chunk_names.h"

namespace codecfs::fs {

Filesystem::Filesystem(std::unique_ptr<Source> source, const FilesystemOptions& options)
    : mount_(std::move(source), options),
      rules_(mount_),
      forms_(mount_, rules_),
      notifier_(mount_, forms_),
      coherence_(mount_, forms_, notifier_),
      filters_(mount_, rules_, forms_, notifier_),
      inode_attributes_(mount_),
      encoded_(mount_, forms_, coherence_, inode_attributes_, filters_),
      prefetcher_(mount_, encoded_),
      blocks_(mount_, std::max<uint64_t>(options.cache_bytes / 4, 1)),
      arrays_(mount_, inode_attributes_, filters_, notifier_, prefetcher_, blocks_),
      array_names_(mount_),
      chunk_files_(mount_, coherence_, inode_attributes_, encoded_, filters_, notifier_),
      metadata_(mount_, forms_, coherence_, inode_attributes_, arrays_),
      editor_(mount_, forms_, coherence_, filters_, notifier_, chunk_files_),
      xattrs_(mount_, rules_, notifier_, filters_),
      names_(mount_, coherence_, inode_attributes_, chunk_files_, arrays_, array_names_, metadata_),
      listing_(mount_, coherence_, encoded_, chunk_files_, array_names_, metadata_, names_),
      policy_(mount_),
      tree_changes_(mount_, coherence_, notifier_, chunk_files_, editor_, names_, policy_),
      inode_changes_(mount_, filters_, notifier_, arrays_, names_, policy_),
      opener_({mount_, coherence_, notifier_, inode_attributes_, filters_, encoded_, chunk_files_, arrays_, metadata_,
               editor_, prefetcher_, names_, policy_}) {
  // zarr's mode "w-" fails on a directory with metadata.
  if (options.is_new && !mount_.options.read_only && !options.coherent)
    if (const Result<Place> root = mount_.tree.nodes.at(kRootIno)) mount_.tree.overlay.add_empty_root(*root->node);
  mount_.on_changed_outside = [this](const ChunkPlace& chunk) { coherence_.chunk_changed_outside(chunk); };
}

// Threads of the context call the components, which end before it.
Filesystem::~Filesystem() { mount_.chunks.read_ahead.stop(); }

void Filesystem::set_invalidator(Invalidator& kernel) {
  mount_.kernel.invalidator = &kernel;
  mount_.chunks.page_copies.set_invalidator(kernel);
}

void Filesystem::stop_reading_ahead() {
  mount_.kernel.pages.stop();
  mount_.chunks.read_ahead.stop();
  mount_.chunks.page_copies.stop();
}

std::vector<std::string> Filesystem::paths_open_for_writing() {
  std::vector<std::string> paths;
  for (const ChunkKey key : mount_.chunks.write_back.open_writers()) {
    const Result<Place> place = mount_.tree.place_of(key);
    if (!place) continue;
    if (place->file == FileKind::array)
      paths.push_back(mount_.path_of(place->node->view) + array_path(*place->node));
    else if (const auto view = mount_.dataset.variable(place->node->object))
      paths.push_back(mount_.path_of(place->node->view) + place->node->path + "/" +
                      path_of_chunk(place->node->view, *(*view)->facts, place->chunk));
  }
  return paths;
}

void Filesystem::drop_caches() {
  mount_.dataset.forget_all();
  mount_.chunks.drop_cached();
  mount_.xattrs.clear();
  forms_.forget_all();
  forms_.forget_zmetadata();
  blocks_.clear();
}

void Filesystem::source_rests() {
  drop_caches();
  mount_.chunks.write_back.forget_all_removed();
}

void Filesystem::source_replaced() {
  drop_caches();
  for (const auto& [directory, name] : mount_.tree.scratch.names()) {
    if (directory == kRootIno) continue;
    std::string free = name;
    for (int i = 1; mount_.tree.scratch.find(kRootIno, free); ++i) free = fmt::format("{}.{}", name, i);
    const Result<> moved = mount_.tree.scratch.rename(directory, name, kRootIno, free);
    log::warning(
        "{}: this file is neither chunk nor metadata; its directory may not exist any more, so it is /{} now{}", name,
        free, moved ? "" : ": " + moved.error().reason);
  }
  mount_.tree.nodes.remove_all();
  const Node& root = *mount_.tree.nodes.at(kRootIno)->node;
  if (root.kind != NodeKind::variable) return;
  // Its chunks have inode numbers of the root.
  const Result<VariableViewPtr> view = mount_.dataset.variable(root.object);
  const Result<> renumbered =
      view ? mount_.tree.nodes.renumber_chunks(root, (*view)->facts->grid.count()) : std::unexpected(view.error());
  if (!renumbered) log::error("{}", renumbered.error().reason);
}

Result<> Filesystem::finish() {
  const std::vector<std::string> lost = mount_.files_not_stored();
  for (const std::string& name : lost)
    log::error("{}: this file is neither a chunk nor metadata, so it is not stored: it is lost with the mount", name);
  CODECFS_TRY(mount_.chunks.write_back.finish());
  if (!lost.empty())
    return fail(EIO, "{} file{} neither chunk nor metadata and not stored ({})", lost.size(),
                lost.size() == 1 ? " was" : "s were", lost.front());
  return {};
}

struct statvfs Filesystem::statistics() const {
  struct statvfs numbers{};
  numbers.f_namemax = 255;
  if (mount_.options.read_only) {
    // Like any read-only image: as large as its source, and full.
    numbers.f_bsize = numbers.f_frsize = 4096;
    numbers.f_blocks = (static_cast<uint64_t>(mount_.dataset.source().status().st_size) + 4095) / 4096;
    numbers.f_flag = ST_RDONLY;
  } else {
    // What is free where the source lies, in stored bytes.
    numbers = mount_.dataset.source().filesystem();
    numbers.f_namemax = 255;
  }
  return numbers;
}

}  // namespace codecfs::fs
