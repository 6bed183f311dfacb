#include "fs/nodes.h"

#include <array>
#include <mutex>

namespace codecfs::fs {
namespace {

constexpr std::array kGroupFiles{NamedFile{".zgroup", FileKind::zgroup}, NamedFile{".zattrs", FileKind::zattrs},
                                 NamedFile{".zmetadata", FileKind::zmetadata}};
constexpr std::array kVariableFiles{NamedFile{".zarray", FileKind::zarray}, NamedFile{".zattrs", FileKind::zattrs},
                                    NamedFile{"_Filter", FileKind::filter}, NamedFile{"_Codecs", FileKind::codecs}};
constexpr std::array kControlFiles{NamedFile{"filters", FileKind::filters}, NamedFile{"log", FileKind::log},
                                   NamedFile{"stats", FileKind::stats}};

constexpr uint64_t kMaxSlots = uint64_t{1} << (63 - kLocalBits);  // inode numbers stay positive as off_t
constexpr uint64_t kFirstChunk = static_cast<uint64_t>(FileKind::chunk);
constexpr uint64_t kChunksInOneSlot = kLocalMask + 1 - kFirstChunk;

}  // namespace

std::span<const NamedFile> files_of(NodeKind kind) {
  switch (kind) {
    case NodeKind::group: return kGroupFiles;
    case NodeKind::variable: return kVariableFiles;
    case NodeKind::control: return kControlFiles;
    case NodeKind::scratch:
    case NodeKind::symlink: break;
  }
  return {};
}

Nodes::Nodes(const Entry& root) {
  add({.kind = root.kind == EntryKind::variable ? NodeKind::variable : NodeKind::group,
       .object = root.object,
       .target = {},
       .path = {},
       .parent = kRootIno,
       .slot = 0});
  control_ =
      add({.kind = NodeKind::control, .object = 0, .target = {}, .path = "/.codecfs", .parent = kRootIno, .slot = 1});
  add({.kind = NodeKind::scratch,
       .object = 0,
       .target = {},
       .path = "/.codecfs/scratch",
       .parent = kRootIno,
       .slot = kScratchSlot});
}

const Node* Nodes::add(Node node) {
  node.slot = slots_.size();
  nodes_.push_back(std::move(node));
  const Node* added = &nodes_.back();
  slots_.push_back(added);
  by_path_.emplace(added->path, added);
  return added;
}

Result<Place> Nodes::at(Ino ino) const {
  const uint64_t slot = ino >> kLocalBits;
  const uint64_t local = ino & kLocalMask;
  const std::shared_lock lock(mutex_);
  if (slot >= slots_.size()) return fail(ESTALE, "no such inode: {}", ino);
  const Node& node = *slots_[slot];
  if (node.slot != slot) return Place{&node, FileKind::chunk, ino - (large_.at(node.slot) << kLocalBits)};
  if (local >= kFirstChunk) return Place{&node, FileKind::chunk, local - kFirstChunk};
  if (local == 0) return fail(ESTALE, "no such inode: {}", ino);
  return Place{&node, static_cast<FileKind>(local), 0};
}

Result<const Node*> Nodes::child(const Node& parent, const Entry& entry) {
  std::string path = parent.path + "/" + entry.name;
  {
    const std::shared_lock lock(mutex_);
    if (const auto found = by_path_.find(path); found != by_path_.end()) return found->second;
  }
  const std::lock_guard lock(mutex_);
  if (const auto found = by_path_.find(path); found != by_path_.end()) return found->second;
  if (slots_.size() >= kMaxSlots) return fail(ENFILE, "{}: more than {} groups and variables", path, kMaxSlots);
  const NodeKind kind = entry.kind == EntryKind::group      ? NodeKind::group
                        : entry.kind == EntryKind::variable ? NodeKind::variable
                                                            : NodeKind::symlink;
  return add({.kind = kind,
              .object = entry.object,
              .target = entry.target,
              .path = std::move(path),
              .parent = parent.ino(),
              .slot = 0});
}

Result<Ino> Nodes::chunk_ino(const Node& variable, uint64_t number, uint64_t count) {
  if (count <= kChunksInOneSlot) return variable.ino() - static_cast<uint64_t>(FileKind::itself) + kFirstChunk + number;
  const std::lock_guard lock(mutex_);
  auto found = large_.find(variable.slot);
  if (found == large_.end()) {
    const uint64_t slots = (count >> kLocalBits) + 1;
    if (slots_.size() + slots > kMaxSlots)
      return fail(ENFILE, "{}: no inode numbers are left for {} chunks", variable.path, count);
    found = large_.emplace(variable.slot, slots_.size()).first;
    slots_.insert(slots_.end(), slots, slots_[variable.slot]);
  }
  return (found->second << kLocalBits) + number;
}

}  // namespace codecfs::fs
