#include "fs/namespace/listing.h"

#include <algorithm>
#include <set>
#include <span>

#include "base/mutex.h"
#include "fs/nodes/chunk_names.h"

namespace codecfs::fs {
namespace {

constexpr off_t kFirstFile = 2;
constexpr off_t kFirstEntry = 16;
constexpr uint64_t kFirstScratch = uint64_t{1} << 61;  // above all chunk numbers
constexpr uint64_t kMaxListed = uint64_t{1} << 32;     // chunks that no index names
constexpr size_t kBatch = 128;    // chunk numbers asked for at once; a readdir request holds about 30 to 130 names
constexpr size_t kFewChunks = 8;  // chunk numbers asked for at once, where only one of each directory matters

mode_t mode_of(EntryKind kind) {
  switch (kind) {
    case EntryKind::symlink: return S_IFLNK;
    case EntryKind::file: return S_IFREG;
    default: return S_IFDIR;
  }
}

}  // namespace

Result<std::unique_ptr<OpenDirectory>> Listing::open(Ino ino) {
  CODECFS_ASSIGN(const Place place, coherence_.current_place_of(ino));
  const Node& node = *place.node;
  const bool is_directory = place.file == FileKind::itself || place.file == FileKind::chunk_directory;
  if (!is_directory || node.kind == NodeKind::symlink || node.kind == NodeKind::file)
    return fail(ENOTDIR, "{}: not a directory", node.path);
  if (node.is_array_file()) return fail(ESTALE, "{}: is a variable now", node.path);
  auto directory = std::make_unique<OpenDirectory>();
  directory->place = place;
  directory->hold.emplace(mount_.tree.nodes, node);
  if (node.kind == NodeKind::group || node.kind == NodeKind::folder) {
    bool is_still = false;
    {
      const SharedLock names(mount_.tree.names);
      is_still = mount_.tree.is_still(ino, place);
      if (is_still) {
        directory->changes = mount_.dataset.changes();
        CODECFS_ASSIGN(directory->entries, mount_.dataset.source().list(node.object));
      }
    }
    if (!is_still) return open(ino);
    // In a folder it may be a name like any other.
    if (node.is_root()) std::erase_if(directory->entries, [](const Entry& entry) { return entry.name == ".codecfs"; });
    if (node.form().array != nullptr) array_names_.show(node, *directory);
    // zarr-python makes a directory and then tests whether it is empty: a new one shows nothing until something is in
    // it.
    const bool may_be_empty = node.form().format().lists_new_groups_empty || mount_.state_of(node).empty;
    if (may_be_empty && directory->entries.empty()) return directory;
  } else if (node.kind == NodeKind::variable) {
    CODECFS_ASSIGN(directory->variable, mount_.dataset.variable(node.object));
  }
  // From now on everything is shown that there is.
  if (place.file == FileKind::itself) mount_.tree.overlay.end_fresh(node);
  return directory;
}

Result<> Listing::read(OpenDirectory& directory, off_t from, const TakeItem& take) {
  const Node& node = *directory.place.node;
  const bool of_chunks = directory.place.file == FileKind::chunk_directory;
  for (off_t at = from; at < kFirstFile; ++at) {
    Ino ino = at == 0 ? node.ino() : node.parent;
    if (of_chunks) {
      const ChunkGrid& grid = grid_of(node.view, *directory.variable->facts);
      const uint64_t number = directory.place.chunk;
      CODECFS_ASSIGN(ino, at == 0 ? mount_.tree.nodes.directory_ino(node, number, ChunkDirectories(grid).count())
                                  : parent_of_directory(mount_.tree.nodes, node, grid, number));
    }
    if (!take({at == 0 ? "." : "..", at + 1, S_IFDIR, ino, {}})) return {};
  }
  const auto first_entry = static_cast<uint64_t>(std::max(from, kFirstEntry) - kFirstEntry);
  if (of_chunks) return read_chunk_directory(directory, first_entry, take);

  const DirectoryState state = mount_.state_of(node);
  const std::span<const NamedFile> files = files_of(node);
  for (off_t at = std::max(from, kFirstFile); at < kFirstEntry; ++at) {
    const auto index = static_cast<size_t>(at - kFirstFile);
    if (index >= files.size()) break;
    const FileKind kind = files[index].kind;
    // Zarr readers take every file of an array that they do not know for a chunk.
    if (kind == FileKind::filter || kind == FileKind::codecs) continue;
    if (state.hidden.contains(kind)) continue;
    if (node.kind == NodeKind::control && !metadata_.has_control(kind)) continue;
    DirectoryItem item{std::string(files[index].name), at + 1, S_IFREG, node.ino(kind), {}};
    // Consolidated metadata takes the reading of everything: its size is told when it is looked up, as
    // are those of control files.
    const bool is_told_later = MetadataView::is_consolidated(node, kind) || metadata_.defers_size(node, kind);
    if (!is_told_later && node.kind != NodeKind::control)
      item.attributes = [&, kind] { return metadata_.attributes(node, kind); };
    if (!take(item)) return {};
  }

  if (node.kind == NodeKind::group || node.kind == NodeKind::folder)
    return read_group(directory, std::max(from, kFirstEntry), take);
  if (node.kind == NodeKind::control && from <= kFirstEntry)
    take({"view", kFirstEntry + 1, S_IFDIR, mount_.tree.nodes.views().ino(),
          [this] { return names_.attributes(mount_.tree.nodes.views().ino()); }});
  if (node.kind == NodeKind::views) return read_views(std::max(from, kFirstEntry), take);
  if (node.kind != NodeKind::variable || node.form().array != nullptr) return {};
  if (!has_directories(node.view, *directory.variable->facts)) return read_chunks(directory, first_entry, take);
  if (first_entry == 0) {
    CODECFS_ASSIGN(const bool has_room, take_top_of_chunks(directory, take));
    if (!has_room) return {};
  }
  return read_scratch(node.ino(), std::max(first_entry, kFirstScratch), take);
}

Result<> Listing::read_group(OpenDirectory& directory, off_t from, const TakeItem& take) {
  const Node& node = *directory.place.node;
  for (auto index = static_cast<size_t>(from - kFirstEntry); index < directory.entries.size(); ++index) {
    const Entry& entry = directory.entries[index];
    const std::string& name = directory.names.empty() ? entry.name : directory.names[index];
    const bool file = entry.kind == EntryKind::variable && node.form().array != nullptr;
    const DirectoryItem item{name, kFirstEntry + static_cast<off_t>(index) + 1, file ? S_IFREG : mode_of(entry.kind), 0,
                             [&] { return listed_attributes(directory, entry); }};
    if (!take(item)) return {};
  }
  return read_scratch(node.ino(), std::max(static_cast<uint64_t>(from - kFirstEntry), kFirstScratch), take);
}

Result<> Listing::read_views(off_t from, const TakeItem& take) {
  for (auto index = static_cast<size_t>(from - kFirstEntry); index < kViews; ++index) {
    const Node& entry = mount_.tree.nodes.view_entry(static_cast<View>(index));
    const mode_t type = entry.kind == NodeKind::symlink ? S_IFLNK : S_IFDIR;
    const DirectoryItem item{std::string(name_of(static_cast<View>(index))),
                             kFirstEntry + static_cast<off_t>(index) + 1, type, entry.ino(),
                             [this, &entry] { return names_.attributes(entry.ino()); }};
    if (!take(item)) return {};
  }
  return {};
}

Result<> Listing::read_chunks(OpenDirectory& directory, uint64_t from, const TakeItem& take) {
  const Node& node = *directory.place.node;
  const VariableView& view = *directory.variable;
  if (from >= kFirstScratch) return read_scratch(node.ino(), from, take);
  ShownChunks shown(mount_, coherence_, node, view, kBatch);
  CODECFS_TRY(check_count(node, view, shown));
  ListedChunk chunk = first_chunk(directory);
  for (;; ++from) {
    CODECFS_ASSIGN(const std::optional<uint64_t> number, shown.next(from));
    if (!number) return read_scratch(node.ino(), kFirstScratch, take);
    std::string name = path_of_chunk(node.view, *view.facts, *number);
    chunk.number = *number;
    if (!take(chunk_item(chunk, std::move(name), *number))) return {};
    from = *number;
  }
}

/// The directory that holds all chunks. False if there is no room.
Result<bool> Listing::take_top_of_chunks(OpenDirectory& directory, const TakeItem& take) {
  const Node& node = *directory.place.node;
  const ChunkGrid& grid = grid_of(node.view, *directory.variable->facts);
  ShownChunks shown(mount_, coherence_, node, *directory.variable, 1);
  CODECFS_ASSIGN(const std::optional<uint64_t> first, shown.next(0));
  const uint64_t count = ChunkDirectories(grid).count();
  CODECFS_ASSIGN(const Ino ino, mount_.tree.nodes.directory_ino(node, 0, count));
  if (!first && mount_.tree.scratch.directories_within(ino, count).empty()) return true;
  return take(
      {path_of_directory(grid, 0), kFirstEntry + 1, S_IFDIR, ino, [this, ino] { return names_.attributes(ino); }});
}

Result<> Listing::read_chunk_directory(OpenDirectory& directory, uint64_t from, const TakeItem& take) {
  const Node& node = *directory.place.node;
  const VariableView& view = *directory.variable;
  const ChunkDirectories directories(grid_of(node.view, *view.facts));
  std::vector<uint64_t> prefix = directories.prefix_of(directory.place.chunk);
  const size_t length = prefix.size();
  const bool holds_chunks = directories.holds_chunks(length);
  CODECFS_ASSIGN(const Ino own, mount_.tree.nodes.directory_ino(node, directory.place.chunk, directories.count()));
  const auto with_scratch = [&] { return read_scratch(own, std::max(from, kFirstScratch), take); };
  if (from >= kFirstScratch) return with_scratch();

  // Files that wait for their names keep their directories in the list.
  std::set<uint64_t> coordinates;
  if (!holds_chunks) {
    const uint64_t each = directories.count_below(length + 1);
    for (const Ino ino : mount_.tree.scratch.directories_within(own + 1, directories.count_below(length) - 1))
      coordinates.insert((ino - own - 1) / each);
  }
  ShownChunks shown(mount_, coherence_, node, view, holds_chunks ? kBatch : kFewChunks);
  CODECFS_TRY(check_count(node, view, shown));
  ListedChunk chunk = first_chunk(directory);
  const ChunkDirectories::Range chunks = directories.chunks_below(prefix);
  const uint64_t chunks_of_each = (chunks.end - chunks.first) / std::max<uint64_t>(directories.entries(length), 1);
  for (; from < directories.entries(length); ++from) {
    CODECFS_ASSIGN(const std::optional<uint64_t> number, shown.next(chunks.first + from * chunks_of_each));
    const auto waiting = coordinates.lower_bound(from);
    uint64_t coordinate = UINT64_MAX;
    if (number && *number < chunks.end) coordinate = (*number - chunks.first) / chunks_of_each;
    if (waiting != coordinates.end()) coordinate = std::min(coordinate, *waiting);
    if (coordinate == UINT64_MAX) break;
    from = coordinate;
    std::string name = fmt::format("{}", coordinate);
    if (holds_chunks) {
      chunk.number = *number;
      if (!take(chunk_item(chunk, std::move(name), coordinate))) return {};
      continue;
    }
    prefix.push_back(coordinate);
    const uint64_t below = directories.number_of(prefix);
    prefix.pop_back();
    CODECFS_ASSIGN(const Ino ino, mount_.tree.nodes.directory_ino(node, below, directories.count()));
    const off_t next = kFirstEntry + static_cast<off_t>(coordinate) + 1;
    if (!take({std::move(name), next, S_IFDIR, ino, [this, ino] { return names_.attributes(ino); }})) return {};
  }
  return with_scratch();
}

Listing::ListedChunk Listing::first_chunk(const OpenDirectory& directory) {
  const Result<VariableViewPtr> now = mount_.dataset.variable(directory.place.node->object);
  const bool is_current = now && (*now)->facts->grid.shape() == directory.variable->facts->grid.shape();
  return {directory, is_current};
}

DirectoryItem Listing::chunk_item(const ListedChunk& chunk, std::string name, uint64_t position) {
  const Node& node = *chunk.directory.place.node;
  bool is_size_known = chunk.is_shape_current;
  // Where it takes the work of decoding or encoding to know a size, it is done when the chunk is looked up.
  const Variable& facts = *chunk.directory.variable->facts;
  if (node.form().shows_shards(facts)) {
    is_size_known = false;  // each file would have to be opened
  } else if (is_size_known && !node.form().is_encoded) {
    is_size_known = facts.chunk_bytes.has_value();
  } else if (is_size_known) {
    const Result<ChunkPlace> place = mount_.chunk_place(node, chunk.number);
    is_size_known = place && encoded_.passed_bytes(node, *place).has_value();
  }
  DirectoryItem item{std::move(name), kFirstEntry + static_cast<off_t>(position) + 1, S_IFREG, 0, {}};
  if (is_size_known)
    item.attributes = [this, &chunk] {
      return chunk_files_.attributes(*chunk.directory.place.node, chunk.directory.variable, chunk.number);
    };
  return item;
}

/// EFBIG if each chunk is there without an index that would have to name it: a few bytes of a file can claim any
/// number.
Result<> Listing::check_count(const Node& node, const VariableView& view, const ShownChunks& shown) {
  const uint64_t count = view.facts->grid.count();
  if ((!shown.all() && view.facts->storage == Storage::chunked) || count <= kMaxListed) return {};
  return fail(EFBIG, "{}: its {} chunks are too many to be listed (each can be opened by its name)", node.path, count);
}

Result<> Listing::read_scratch(Ino directory, uint64_t from, const TakeItem& take) {
  // A position is an inode number, which stays the same when other files are removed or renamed.
  auto files = mount_.tree.scratch.list(directory);
  std::ranges::sort(files, {}, &std::pair<std::string, Ino>::second);
  for (const auto& [name, ino] : files) {
    const uint64_t position = kFirstScratch + (ino & kLocalMask);
    if (position < from) continue;
    const DirectoryItem item{name, kFirstEntry + static_cast<off_t>(position) + 1, S_IFREG, ino,
                             [this, ino] { return names_.attributes(ino); }};
    if (!take(item)) return {};
  }
  return {};
}

/// The kernel keeps the names that it is told with attributes: none that went after the directory was opened.
Result<struct stat> Listing::listed_attributes(const OpenDirectory& directory, const Entry& entry) {
  const Node& node = *directory.place.node;
  const Node* child = nullptr;
  {
    const SharedLock names(mount_.tree.names);
    if (mount_.dataset.changes() == directory.changes)
      if (const Result<const Node*> listed = mount_.tree.nodes.child(node, entry)) child = *listed;
    // The id in a listing lasts only for some time: see Source::keep().
    if (child == nullptr) {
      CODECFS_ASSIGN(const Entry now, mount_.dataset.source().find(node.object, entry.name));
      CODECFS_ASSIGN(child, mount_.tree.nodes.child(node, now));
    }
  }
  return names_.child_attributes(*child);
}

}  // namespace codecfs::fs
