#include "fs/namespace/listing.h"

#include <algorithm>
#include <set>
#include <span>

#include "base/mutex.h"

namespace codecfs::fs {
namespace {

constexpr off_t kFirstFile = 2;
constexpr off_t kFirstEntry = 16;
constexpr uint64_t kFirstScratch = uint64_t{1} << 61;  // above all chunk numbers
constexpr uint64_t kMaxListed = uint64_t{1} << 32;     // chunks that no index names
constexpr size_t kBatch = 128;  // chunk numbers asked for at once; a readdir request holds about 30 to 130 names

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
  if (place.file != FileKind::itself || node.kind == NodeKind::symlink || node.kind == NodeKind::file)
    return fail(ENOTDIR, "{}: not a directory", node.path);
  if (node.kind == NodeKind::variable && shows_arrays(node.view) && !node.is_root())
    return fail(ESTALE, "{}: is a variable now", node.path);
  // From now on everything is shown that there is.
  mount_.overlay.end_fresh(node);
  auto directory = std::make_unique<OpenDirectory>();
  directory->place = place;
  if (node.kind == NodeKind::group || node.kind == NodeKind::folder) {
    directory->changes = mount_.dataset.changes();
    CODECFS_ASSIGN(directory->entries, mount_.dataset.source().list(node.object));
    // In a folder it may be a name like any other.
    if (node.is_root()) std::erase_if(directory->entries, [](const Entry& entry) { return entry.name == ".codecfs"; });
    if (shows_arrays(node.view)) array_names_.show(node, *directory);
  } else if (node.kind == NodeKind::variable) {
    CODECFS_ASSIGN(directory->variable, mount_.dataset.variable(node.object));
  }
  return directory;
}

Result<> Listing::read(OpenDirectory& directory, off_t from, const TakeItem& take) {
  const Node& node = *directory.place.node;
  for (off_t at = from; at < kFirstFile; ++at) {
    const Ino ino = at == 0 ? node.ino() : node.parent;
    if (!take({at == 0 ? "." : "..", at + 1, S_IFDIR, ino, {}})) return {};
  }

  const DirectoryState state = mount_.overlay.state_of(node);
  const std::span<const NamedFile> files = files_of(node);
  for (off_t at = std::max(from, kFirstFile); at < kFirstEntry; ++at) {
    const auto index = static_cast<size_t>(at - kFirstFile);
    if (index >= files.size()) break;
    const FileKind kind = files[index].kind;
    if (kind == FileKind::filter && !directory.variable->filter) continue;
    // In the encoded view .zarray tells the codecs.
    if (node.view == View::encoded && (kind == FileKind::filter || kind == FileKind::codecs)) continue;
    if (state.hidden.contains(kind)) continue;
    DirectoryItem item{std::string(files[index].name), at + 1, S_IFREG, node.ino(kind), {}};
    // .zmetadata takes the reading of everything: its size is told when it is looked up. Control files have none.
    if (kind != FileKind::zmetadata && node.kind != NodeKind::control)
      item.attributes = [&, kind] { return metadata_.attributes(node, kind); };
    if (!take(item)) return {};
  }

  if (node.kind == NodeKind::group || node.kind == NodeKind::folder)
    return read_group(directory, std::max(from, kFirstEntry), take);
  if (node.kind == NodeKind::control && from <= kFirstEntry)
    take({"view", kFirstEntry + 1, S_IFDIR, mount_.nodes.views().ino(),
          [this] { return names_.attributes(mount_.nodes.views().ino()); }});
  if (node.kind == NodeKind::views) return read_views(std::max(from, kFirstEntry), take);
  if (node.kind != NodeKind::variable || shows_arrays(node.view)) return {};
  return read_chunks(directory, static_cast<uint64_t>(std::max(from, kFirstEntry) - kFirstEntry), take);
}

Result<> Listing::read_group(OpenDirectory& directory, off_t from, const TakeItem& take) {
  const Node& node = *directory.place.node;
  for (auto index = static_cast<size_t>(from - kFirstEntry); index < directory.entries.size(); ++index) {
    const Entry& entry = directory.entries[index];
    const std::string& name = directory.names.empty() ? entry.name : directory.names[index];
    const bool file = entry.kind == EntryKind::variable && shows_arrays(node.view);
    const DirectoryItem item{name, kFirstEntry + static_cast<off_t>(index) + 1, file ? S_IFREG : mode_of(entry.kind), 0,
                             [&] { return listed_attributes(directory, entry); }};
    if (!take(item)) return {};
  }
  return read_scratch(directory, std::max(static_cast<uint64_t>(from - kFirstEntry), kFirstScratch), take);
}

Result<> Listing::read_views(off_t from, const TakeItem& take) {
  for (auto index = static_cast<size_t>(from - kFirstEntry); index < kViews; ++index) {
    const Node& entry = mount_.nodes.view_entry(static_cast<View>(index));
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
  const ChunkGrid& grid = view.facts->grid;
  const DirectoryState state = mount_.overlay.state_of(node);
  const bool all = view.shows_absent_chunks() && !is_condemned(node, state);
  // With another shape its numbers mean other chunks.
  const Result<VariableViewPtr> now = mount_.dataset.variable(node.object);
  const bool is_same = now && (*now)->facts->grid.shape() == grid.shape();
  // Where it takes the work of decoding or encoding to know a size, it is done when the chunk is looked up.
  const auto is_size_known = [&](uint64_t number) {
    if (!is_same) return false;
    if (node.view != View::encoded) return view.facts->chunk_bytes.has_value();
    const Result<ChunkPlace> chunk = mount_.chunk_place(node, number);
    return chunk && encoded_.passed_bytes(node, *chunk).has_value();
  };
  const auto tell = [&](uint64_t number) {
    DirectoryItem item{grid.name_of(number), kFirstEntry + static_cast<off_t>(number) + 1, S_IFREG, 0, {}};
    if (is_size_known(number))
      item.attributes = [&, number] { return chunk_files_.attributes(node, directory.variable, number); };
    return take(item);
  };
  if (from >= kFirstScratch) return read_scratch(directory, from, take);
  // Each of these is there without an index of chunks that would have to name it: a few bytes of a file can claim any
  // number.
  if ((all || view.facts->storage != Storage::chunked) && grid.count() > kMaxListed)
    return fail(EFBIG, "{}: its {} chunks are too many to be listed (each can be opened by its name)", node.path,
                grid.count());
  const WriteBack::Changes changes = coherence_.changes_of(node);
  if (all) {
    for (; from < grid.count(); ++from)
      if (!changes.removed.contains(from) && !mount_.overlay.is_unlinked(node, from) && !tell(from)) return {};
    return read_scratch(directory, kFirstScratch, take);
  }
  for (bool more = true; more;) {
    CODECFS_ASSIGN(std::vector<uint64_t> numbers, mount_.dataset.source().stored_chunks(node.object, from, kBatch));
    more = numbers.size() == kBatch;
    // Chunks that were written but are not stored yet come in between; removed ones do not come.
    const uint64_t last = more ? numbers.back() : UINT64_MAX;
    std::set<uint64_t> names(numbers.begin(), numbers.end());
    names.insert(changes.written.lower_bound(from), changes.written.upper_bound(last));
    for (const uint64_t number : names)
      if (!changes.removed.contains(number) && !mount_.overlay.is_unlinked(node, number) && !tell(number)) return {};
    from = last + 1;
  }
  return read_scratch(directory, kFirstScratch, take);
}

Result<> Listing::read_scratch(OpenDirectory& directory, uint64_t from, const TakeItem& take) {
  // A position is an inode number, which stays the same when other files are removed or renamed.
  auto files = mount_.scratch.list(directory.place.node->ino());
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
    const SharedLock names(mount_.names);
    if (mount_.dataset.changes() == directory.changes) {
      CODECFS_ASSIGN(child, mount_.nodes.child(node, entry));
    } else {
      CODECFS_ASSIGN(const Entry now, mount_.dataset.source().find(node.object, entry.name));
      CODECFS_ASSIGN(child, mount_.nodes.child(node, now));
    }
  }
  return names_.child_attributes(*child);
}

}  // namespace codecfs::fs
