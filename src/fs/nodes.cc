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

std::string_view name_of(FileKind file) {
  for (const NodeKind kind : {NodeKind::group, NodeKind::variable, NodeKind::control})
    for (const NamedFile& named : files_of(kind))
      if (named.kind == file) return named.name;
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
  if (slot >= slots_.size() || slots_[slot] == nullptr) return fail(ESTALE, "no such inode: {}", ino);
  const Node& node = *slots_[slot];
  if (node.slot != slot) return Place{&node, FileKind::chunk, ino - (chunk_slots_.at(node.slot).first << kLocalBits)};
  if (local == 0 || (local >= kFirstChunk && node.kind != NodeKind::scratch && chunk_slots_.contains(slot)))
    return fail(ESTALE, "no such inode: {}", ino);
  if (local >= kFirstChunk) return Place{&node, FileKind::chunk, local - kFirstChunk};
  return Place{&node, static_cast<FileKind>(local), 0};
}

Result<const Node*> Nodes::child(const Node& parent, const Entry& entry) {
  std::string path = parent.path + "/" + entry.name;
  const NodeKind kind = entry.kind == EntryKind::group      ? NodeKind::group
                        : entry.kind == EntryKind::variable ? NodeKind::variable
                                                            : NodeKind::symlink;
  const auto is_same = [&](const Node& node) {
    return node.kind == kind && node.object == entry.object && node.target == entry.target;
  };
  {
    const std::shared_lock lock(mutex_);
    if (const auto found = by_path_.find(path); found != by_path_.end() && is_same(*found->second))
      return found->second;
  }
  const std::lock_guard lock(mutex_);
  if (const auto found = by_path_.find(path); found != by_path_.end()) {
    if (is_same(*found->second)) return found->second;
    for_each_at_or_below(path, [&](const Node& node) { drop(node); });
  }
  if (slots_.size() >= kMaxSlots) return fail(ENFILE, "{}: more than {} groups and variables", path, kMaxSlots);
  return add({.kind = kind,
              .object = entry.object,
              .target = entry.target,
              .path = std::move(path),
              .parent = parent.ino(),
              .slot = 0});
}

std::vector<Ino> Nodes::variables() const {
  const std::shared_lock lock(mutex_);
  std::vector<Ino> inodes;
  for (const auto& [path, node] : by_path_)
    if (node->kind == NodeKind::variable) inodes.push_back(node->ino());
  return inodes;
}

Result<Nodes::Slots> Nodes::reserve(const Node& variable, uint64_t chunks) {
  const Slots slots{slots_.size(), (chunks >> kLocalBits) + 1};
  if (slots_.size() + slots.count > kMaxSlots)
    return fail(ENFILE, "{}: no inode numbers are left for {} chunks", variable.path, chunks);
  slots_.insert(slots_.end(), slots.count, slots_[variable.slot]);
  return slots;
}

Result<Ino> Nodes::chunk_ino(const Node& variable, uint64_t number, uint64_t count) {
  {
    const std::shared_lock lock(mutex_);
    const auto found = chunk_slots_.find(variable.slot);
    if (found != chunk_slots_.end()) return (found->second.first << kLocalBits) + number;
    if (count <= kChunksInOneSlot)
      return variable.ino() - static_cast<uint64_t>(FileKind::itself) + kFirstChunk + number;
  }
  const std::lock_guard lock(mutex_);
  auto found = chunk_slots_.find(variable.slot);
  if (found == chunk_slots_.end()) {
    CODECFS_ASSIGN(const Slots slots, reserve(variable, count));
    found = chunk_slots_.emplace(variable.slot, slots).first;
  }
  return (found->second.first << kLocalBits) + number;
}

Result<> Nodes::renumber_chunks(const Node& variable, uint64_t count) {
  const std::lock_guard lock(mutex_);
  CODECFS_ASSIGN(const Slots slots, reserve(variable, count));
  Slots& now = chunk_slots_[variable.slot];
  for (uint64_t i = 0; i < now.count; ++i) slots_[now.first + i] = nullptr;
  now = slots;
  return {};
}

// --- under mutex_

template <class Visit>
void Nodes::for_each_at_or_below(const std::string& path, Visit visit) {
  std::vector<const Node*> found;
  for (const auto& [other, node] : by_path_)
    if (other.starts_with(path) && (other.size() == path.size() || other[path.size()] == '/')) found.push_back(node);
  for (const Node* node : found) visit(*node);
}

/// Another node takes the slots of one.
const Node* Nodes::replace(const Node& old, Node node) {
  node.slot = old.slot;
  nodes_.push_back(std::move(node));
  const Node* added = &nodes_.back();
  slots_[old.slot] = added;
  if (const auto chunks = chunk_slots_.find(old.slot); chunks != chunk_slots_.end())
    for (uint64_t i = 0; i < chunks->second.count; ++i) slots_[chunks->second.first + i] = added;
  by_path_.erase(old.path);
  by_path_.emplace(added->path, added);
  return added;
}

void Nodes::drop(const Node& node) {
  slots_[node.slot] = nullptr;
  if (const auto chunks = chunk_slots_.find(node.slot); chunks != chunk_slots_.end()) {
    for (uint64_t i = 0; i < chunks->second.count; ++i) slots_[chunks->second.first + i] = nullptr;
    chunk_slots_.erase(chunks);
  }
  by_path_.erase(node.path);
}

// --- without it

const Node* Nodes::become_variable(const Node& group, ObjectId variable) {
  const std::lock_guard lock(mutex_);
  Node node = group;
  node.kind = NodeKind::variable;
  node.object = variable;
  return replace(group, std::move(node));
}

void Nodes::remove(const Node& node) {
  const std::lock_guard lock(mutex_);
  for_each_at_or_below(node.path, [&](const Node& below) { drop(below); });
}

void Nodes::move(const Node& node, const Node& parent, std::string_view name) {
  const std::lock_guard lock(mutex_);
  const std::string from = node.path;
  const std::string to = fmt::format("{}/{}", parent.path, name);
  for_each_at_or_below(from, [&](const Node& old) {
    Node moved = old;
    moved.path = to + old.path.substr(from.size());
    if (old.path == from) moved.parent = parent.ino();
    replace(old, std::move(moved));
  });
}

}  // namespace codecfs::fs
