#include "fs/nodes/nodes.h"

#include <algorithm>
#include <array>
#include <new>

#include "base/mutex.h"

namespace codecfs::fs {
namespace {

constexpr uint64_t kMaxSlots = kPlainSlot;
constexpr auto kDecoded = static_cast<size_t>(View::decoded);
constexpr uint64_t kFirstChunk = static_cast<uint64_t>(FileKind::chunk);
constexpr uint64_t kChunksInOneSlot = kLocalMask + 1 - kFirstChunk;

NodeKind kind_of(EntryKind kind) {
  switch (kind) {
    case EntryKind::variable: return NodeKind::variable;
    case EntryKind::symlink: return NodeKind::symlink;
    case EntryKind::folder: return NodeKind::folder;
    case EntryKind::file: return NodeKind::file;
    case EntryKind::group: break;
  }
  return NodeKind::group;
}

}  // namespace

/// Keeps an id of the source while the nodes that are to have it are made. Without a source all ids are valid.
class Nodes::KeptId {
 public:
  KeptId(Source* source, ObjectId id) : source_(source), id_(id), is_valid_(source == nullptr || source->keep(id)) {}
  KeptId(const KeptId&) = delete;
  KeptId& operator=(const KeptId&) = delete;
  ~KeptId() {
    if (source_ != nullptr && is_valid_) source_->release(id_);
  }
  [[nodiscard]] bool is_valid() const { return is_valid_; }
  /// For one node, which releases it.
  void keep_again() const {
    if (source_ != nullptr) (void)source_->keep(id_);
  }

 private:
  Source* const source_;
  const ObjectId id_;
  const bool is_valid_;
};

Nodes::Nodes(const Entry& root, View shown, Source* source) : source_(source), shown_(shown) {
  const auto root_of = [&](View view) {
    Node node;
    node.kind = kind_of(root.kind);
    node.view = view;
    node.object = root.object;
    return node;
  };
  const auto special = [&](NodeKind kind, std::string path, Ino parent) CODECFS_REQUIRES(mutex_) {
    Node node;
    node.kind = kind;
    node.path = std::move(path);
    node.parent = parent;
    const Node* added = add(std::move(node));
    forget_path(*added);  // a dataset may have an object of this name
    return added;
  };
  // Slots 0, 1, 2, as described in the header.
  Node top = root_of(shown);
  const uint64_t first_view = 4;
  top.common = shown == View::decoded ? 0 : first_view;
  add(std::move(top));
  control_ = special(NodeKind::control, "/.codecfs", kRootIno);
  special(NodeKind::scratch, "/.codecfs/scratch", kRootIno);
  views_ = special(NodeKind::views, "/.codecfs/view", control_->ino());
  for (size_t i = 0; i < kViews; ++i) {
    if (static_cast<View>(i) == shown) continue;
    Node node = root_of(static_cast<View>(i));
    node.parent = views_->ino();
    node.common = shown == View::decoded ? 0 : first_view;  // the decoded view comes first
    view_entries_[i] = add(std::move(node));
  }
  Node link;
  link.kind = NodeKind::symlink;
  link.view = shown;
  link.target = "../..";
  link.path = fmt::format("/.codecfs/view/{}", name_of(shown));
  link.parent = views_->ino();
  link.slot = slots_.size();
  nodes_.push_back(std::move(link));
  slots_.push_back(&nodes_.back());
  view_entries_[static_cast<size_t>(shown)] = &nodes_.back();
}

/// Adds a node in the next slot. For nodes of the decoded view, the caller sets `common` to that slot if it is needed.
const Node* Nodes::add(Node node) {
  constexpr size_t kAtFirst = 64;
  if (slots_.size() == slots_.capacity()) slots_.reserve(std::max(kAtFirst, 2 * slots_.size()));
  node.slot = slots_.size();
  nodes_.push_back(std::move(node));
  const Node* added = &nodes_.back();
  try {
    note_path(*added);
  } catch (const std::bad_alloc&) {
    nodes_.pop_back();
    throw;
  }
  slots_.push_back(added);  // which needs no memory
  hold_parent(*added);
  return added;
}

/// `id`: of the node, which keeps it from now on.
const Node* Nodes::add_plain(Node node, const Node* decoded, const KeptId& id) {
  const PlainNodes::Item& added = plain_.add(std::move(node), decoded);
  try {
    note_path(added);
  } catch (const std::bad_alloc&) {
    plain_.erase(added);
    throw;
  }
  id.keep_again();
  hold_parent(added);
  if (decoded != nullptr) ++plain_.find(decoded->ino())->holds;
  return &added;
}

Result<Place> Nodes::at(Ino ino) const {
  const uint64_t slot = ino >> kLocalBits;
  const uint64_t local = ino & kLocalMask;
  const SharedLock lock(mutex_);
  if (slot == kPlainSlot) {
    const Node* const plain = given(node_of(ino));
    return plain != nullptr ? Result<Place>(Place{plain}) : std::unexpected(Error{ESTALE, {}});
  }
  // An error without a reason, so that it is not logged: the kernel sends requests for renumbered or removed inodes and
  // then looks the name up again.
  if (slot >= slots_.size()) return std::unexpected(Error{ESTALE, {}});
  if (slots_[slot] == nullptr) {
    const auto former = former_groups_.find(slot);
    const bool is_directory = former != former_groups_.end() && local == static_cast<uint64_t>(FileKind::itself);
    if (!is_directory || slots_[former->second.variable] == nullptr) return std::unexpected(Error{ESTALE, {}});
    return Place{slots_[former->second.variable], FileKind::chunk_directory, former->second.number};
  }
  const Node& node = *slots_[slot];
  const bool is_of_chunks = node.slot != slot || (local >= kFirstChunk && node.kind != NodeKind::scratch);
  if (is_of_chunks && !reshaping_.empty() && reshaping_.contains(node.common))
    return std::unexpected(Error{ESTALE, {}});
  const auto more = more_slots_.find(node.slot);
  if (node.slot != slot && more->second.chunks.contains(slot))
    return Place{&node, FileKind::chunk, ino - more->second.chunks.ino(0)};
  if (node.slot != slot) return Place{&node, FileKind::chunk_directory, ino - more->second.directories.ino(0)};
  const bool has_other_chunks = more != more_slots_.end() && more->second.chunks.count > 0;
  if (local == 0 || (local >= kFirstChunk && node.kind != NodeKind::scratch && has_other_chunks))
    return std::unexpected(Error{ESTALE, {}});
  if (local >= kFirstChunk) return Place{&node, FileKind::chunk, local - kFirstChunk};
  return Place{&node, static_cast<FileKind>(local), 0};
}

Result<const Node*> Nodes::child(const Node& directory, const Entry& entry) {
  const auto view = static_cast<size_t>(directory.view);
  const NodeKind kind = kind_of(entry.kind);
  const auto is_same = [&](const Node& node) {
    return node.kind == kind && node.object == entry.object && node.target == entry.target;
  };
  {
    const SharedLock lock(mutex_);
    const Node* parent = current(directory);
    if (parent == nullptr) return std::unexpected(Error{ESTALE, {}});
    const auto found = by_path_.find(parent->path + "/" + entry.name);
    if (found != by_path_.end() && found->second[view] != nullptr && is_same(*found->second[view]))
      return given(found->second[view]);
  }
  const LockGuard lock(mutex_);
  const Node* parent = current(directory);
  if (parent == nullptr) return std::unexpected(Error{ESTALE, {}});
  std::string path = parent->path + "/" + entry.name;
  // The id of a listing that was read long ago says nothing about what the name refers to now.
  const bool is_plain = PlainNodes::are(*parent, kind);
  const KeptId id(is_plain && kind != NodeKind::symlink ? source_ : nullptr, entry.object);
  if (!id.is_valid()) return std::unexpected(Error{ESTALE, {}});
  if (const auto found = by_path_.find(path); found != by_path_.end() && !is_same(*found->second[kDecoded]))
    for (const Node* node : at_or_below(path)) drop(*node);
  const auto now = by_path_.find(path);
  const InViews known = now == by_path_.end() ? InViews{} : now->second;
  if (known[view] != nullptr) return given(known[view]);
  if (!is_plain && slots_.size() + 1 >= kMaxSlots)
    return fail(ENFILE, "{}: more than {} groups and variables", path, kMaxSlots);
  Node node;
  node.kind = kind;
  node.object = entry.object;
  node.target = entry.target;
  node.path = std::move(path);
  const Node* decoded = known[kDecoded];
  if (decoded == nullptr) {
    Node first = node;
    first.parent = parent->key();
    first.common = slots_.size();
    decoded = is_plain ? add_plain(std::move(first), nullptr, id) : add(std::move(first));
    if (parent->view == View::decoded) return given(decoded);
  }
  node.view = parent->view;
  node.parent = parent->ino();
  node.common = decoded->slot;
  return is_plain ? given(add_plain(std::move(node), decoded, id)) : add(std::move(node));
}

const Node* Nodes::known_child(const Node& directory, std::string_view name) const {
  const SharedLock lock(mutex_);
  const Node* parent = current(directory);
  if (parent == nullptr) return nullptr;
  const auto found = by_path_.find(fmt::format("{}/{}", parent->path, name));
  return found == by_path_.end() ? nullptr : given(found->second[static_cast<size_t>(directory.view)]);
}

std::vector<const Node*> Nodes::in_all_views(const Node& node) const {
  const SharedLock lock(mutex_);
  std::vector<const Node*> nodes;
  for (const Node* other : views_of(node))
    if (other != nullptr) nodes.push_back(given(other));
  return nodes;
}

const Node* Nodes::find(const std::string& path) const {
  const SharedLock lock(mutex_);
  const auto found = by_path_.find(path);
  return found == by_path_.end() ? nullptr : given(found->second[kDecoded]);
}

std::vector<const Node*> Nodes::above(const Node& node) const {
  const SharedLock lock(mutex_);
  std::vector<const Node*> directories;
  for (const Node* at = current(node); at != nullptr && (at = holder(*at)) != nullptr;) directories.push_back(at);
  return directories;
}

Ino Nodes::dataset_of(const Node& node) const {
  const SharedLock lock(mutex_);
  if (slots_.front()->kind != NodeKind::folder) return kRootIno;
  for (const Node* at = current(node); at != nullptr;) {
    const Node* const directory = holder(*at);
    if (directory != nullptr && directory->kind == NodeKind::folder) return at->key();
    at = directory;
  }
  return kRootIno;
}

Result<Nodes::Slots> Nodes::reserve(uint64_t slot, const std::string& path, uint64_t chunks) {
  const Slots slots{slots_.size(), (chunks >> kLocalBits) + 1};
  if (slots_.size() + slots.count > kMaxSlots)
    return fail(ENFILE, "{}: no inode numbers are left for {} chunks", path, chunks);
  slots_.insert(slots_.end(), slots.count, slots_[slot]);
  return slots;
}

Result<Ino> Nodes::chunk_ino(const Node& variable, uint64_t number, uint64_t count) {
  return chunk_of_slot(variable.slot, variable.path, number, count);
}

Result<Ino> Nodes::chunk_key(const Node& variable, uint64_t number, uint64_t count) {
  return chunk_of_slot(variable.common, variable.path, number, count);
}

Result<Ino> Nodes::chunk_of_slot(uint64_t slot, const std::string& path, uint64_t number, uint64_t count) {
  {
    const SharedLock lock(mutex_);
    const auto found = more_slots_.find(slot);
    if (found != more_slots_.end() && found->second.chunks.count > 0) return found->second.chunks.ino(number);
    if (count <= kChunksInOneSlot) return (slot << kLocalBits) + kFirstChunk + number;
  }
  const LockGuard lock(mutex_);
  Slots& slots = more_slots_[slot].chunks;
  if (slots.count == 0) {
    CODECFS_ASSIGN(slots, reserve(slot, path, count));
  }
  return slots.ino(number);
}

Result<Ino> Nodes::directory_ino(const Node& variable, uint64_t number, uint64_t count) {
  const auto holds = [number](const Slots& slots) { return number >> kLocalBits < slots.count; };
  {
    const SharedLock lock(mutex_);
    const auto found = more_slots_.find(variable.slot);
    if (found != more_slots_.end() && holds(found->second.directories)) return found->second.directories.ino(number);
  }
  const LockGuard lock(mutex_);
  if (current(variable) == nullptr) return std::unexpected(Error{ESTALE, {}});
  Slots& slots = more_slots_[variable.slot].directories;
  if (!holds(slots)) {  // none yet, or the variable has grown
    CODECFS_ASSIGN(const Slots larger, reserve(variable.slot, variable.path, count));
    assign(slots, nullptr);
    slots = larger;
  }
  return slots.ino(number);
}

Result<> Nodes::renumber_chunks(const Node& variable, uint64_t count) {
  const LockGuard lock(mutex_);
  for (const Node* node : views_of(variable)) {
    if (node == nullptr) continue;
    CODECFS_ASSIGN(const Slots slots, reserve(node->slot, node->path, count));
    MoreSlots& now = more_slots_[node->slot];
    assign(now.chunks, nullptr);
    assign(now.directories, nullptr);
    now = {slots, {}};
    std::erase_if(former_groups_, [&](const auto& group) { return group.second.variable == node->slot; });
  }
  reshaping_.erase(variable.common);
  return {};
}

Nodes::Reshaping::Reshaping(Nodes& nodes, const Node& variable) : nodes_(nodes), common_(variable.common) {
  const LockGuard lock(nodes_.mutex_);
  nodes_.reshaping_.insert(common_);
}

Nodes::Reshaping::~Reshaping() {
  const LockGuard lock(nodes_.mutex_);
  nodes_.reshaping_.erase(common_);
}

void Nodes::assign(const Slots& slots, const Node* node) {
  for (uint64_t i = 0; i < slots.count; ++i) slots_[slots.first + i] = node;
}

/// The node as it is now, at its present path; null if it was removed.
const Node* Nodes::current(const Node& node) const { return node.is_plain() ? node_of(node.ino()) : slots_[node.slot]; }

/// The node with an inode number of its own; null if it was removed.
const Node* Nodes::node_of(Ino ino) const {
  if (ino >> kLocalBits != kPlainSlot) return slots_[ino >> kLocalBits];
  const PlainNodes::Item* const item = plain_.find(ino);
  return item != nullptr && !item->gone ? item : nullptr;
}

/// The directory that holds a node; null for the root of a view.
const Node* Nodes::holder(const Node& node) const { return node.is_root() ? nullptr : node_of(node.parent); }

Nodes::InViews Nodes::views_of(const Node& node) const {
  const Node* now = current(node);
  if (now == nullptr) return {};
  const auto found = by_path_.find(now->path);
  return found == by_path_.end() ? InViews{} : found->second;
}

std::vector<const Node*> Nodes::at_or_below(const std::string& path) const {
  std::vector<const Node*> found;
  const auto add_views = [&](const InViews& views) {
    for (const Node* node : views)
      if (node != nullptr) found.push_back(node);
  };
  if (const auto itself = by_path_.find(path); itself != by_path_.end()) add_views(itself->second);
  const std::string below = path + "/";
  for (auto at = sorted_paths_.lower_bound(below); at != sorted_paths_.end() && at->starts_with(below); ++at)
    add_views(by_path_.find(std::string(*at))->second);
  return found;
}

/// Replaces a node in all its slots.
void Nodes::replace(const Node& old, Node node) {
  forget_path(old);
  node.slot = old.slot;
  nodes_.push_back(std::move(node));
  const Node* added = &nodes_.back();
  slots_[old.slot] = added;
  if (const auto more = more_slots_.find(old.slot); more != more_slots_.end()) {
    assign(more->second.chunks, added);
    assign(more->second.directories, added);
  }
  note_path(*added);
  hold_parent(*added);
}

void Nodes::drop(const Node& node) {
  if (node.is_plain()) {
    plain_.find(node.ino())->gone = true;
    return forget_path(node);
  }
  slots_[node.slot] = nullptr;
  if (const auto more = more_slots_.find(node.slot); more != more_slots_.end()) {
    assign(more->second.chunks, nullptr);
    assign(more->second.directories, nullptr);
    more_slots_.erase(more);
  }
  forget_path(node);
}

void Nodes::note_path(const Node& node) {
  const auto [views, is_new] = by_path_.try_emplace(node.path);
  try {
    if (is_new) sorted_paths_.insert(views->first);
  } catch (const std::bad_alloc&) {
    by_path_.erase(views);
    throw;
  }
  views->second[static_cast<size_t>(node.view)] = &node;
}

void Nodes::forget_path(const Node& node) {
  const auto views = by_path_.find(node.path);
  if (views == by_path_.end()) return;
  views->second[static_cast<size_t>(node.view)] = nullptr;
  if (views->second != InViews{}) return;
  sorted_paths_.erase(views->first);
  by_path_.erase(views);
}

void Nodes::become_variable(const Node& group, ObjectId variable, std::span<const FormerGroup> former) {
  const LockGuard lock(mutex_);
  for (const auto& [removed, number] : former) {
    if (const Node* now = current(*removed); now != nullptr)
      for (const Node* below : at_or_below(now->path)) drop(*below);
    former_groups_[removed->slot] = {group.slot, number};
  }
  for (const Node* old : views_of(group)) {
    if (old == nullptr) continue;
    Node node = *old;
    node.kind = NodeKind::variable;
    node.object = variable;
    replace(*old, std::move(node));
  }
}

void Nodes::remove(const Node& node) {
  const LockGuard lock(mutex_);
  const Node* now = current(node);
  if (now == nullptr) return;
  for (const Node* below : at_or_below(now->path)) drop(*below);
}

void Nodes::remove_all() {
  const LockGuard lock(mutex_);
  for (const Node* node : at_or_below(""))
    if (!node->is_root()) drop(*node);
  former_groups_.clear();
}

void Nodes::move(const Node& node, const Node& parent, std::string_view name) {
  const LockGuard lock(mutex_);
  if (current(node) == nullptr || current(parent) == nullptr) return;
  const std::string from = current(node)->path;
  const std::string to = fmt::format("{}/{}", current(parent)->path, name);
  const InViews parents = views_of(parent);
  for (const Node* old : at_or_below(from)) {
    const Node* new_parent = parents[static_cast<size_t>(old->view)];
    if (new_parent == nullptr || old->is_plain()) {  // the target directory was not looked up in this view
      drop(*old);
      continue;
    }
    Node moved = *old;
    moved.path = to + old->path.substr(from.size());
    if (old->path == from) moved.parent = new_parent->ino();
    replace(*old, std::move(moved));
  }
}

}  // namespace codecfs::fs
