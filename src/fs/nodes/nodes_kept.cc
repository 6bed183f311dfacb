// How long the nodes of PlainNodes last. All that ends a use first counts it under a shared lock; a node without uses
// is freed under the exclusive one, if it has none there: meanwhile another thread may have been given it.

#include <algorithm>
#include <cstddef>
#include <utility>

#include "fs/nodes/nodes.h"

namespace codecfs::fs {
namespace {

constexpr size_t kFewGiven = 8;

}  // namespace

thread_local Nodes::Request* Nodes::Request::current_ = nullptr;

Nodes::Request::Request(Nodes& nodes) : nodes_(nodes), before_(std::exchange(current_, this)) {}

Nodes::Request::~Request() {
  current_ = before_;
  for (const PlainNodes::Item* item : given_) nodes_.end_hold(item->ino());
}

/// To be returned to the caller.
const Node* Nodes::given(const Node* node) const {
  if (node == nullptr || !node->is_plain()) return node;
  PlainNodes::Item* const item = plain_.find(node->ino());
  Request* const request = Request::current_;
  if (request == nullptr || &request->nodes_ != this) {
    item->stays = true;
    return node;
  }
  // Most requests are given one or two nodes, several times; a listing is given many, once each.
  const size_t first = request->given_.size() > kFewGiven ? request->given_.size() - kFewGiven : 0;
  if (std::find(request->given_.begin() + static_cast<ptrdiff_t>(first), request->given_.end(), item) !=
      request->given_.end())
    return node;
  request->given_.push_back(item);
  ++item->holds;
  return node;
}

Nodes::Hold::Hold(Nodes& nodes, const Node& node) : nodes_(nodes), ino_(node.ino()) {
  const SharedLock lock(nodes.mutex_);
  if (PlainNodes::Item* const item = nodes.plain_.find(ino_); item != nullptr) ++item->holds;
}

void Nodes::end_hold(Ino ino) {
  if (ino >> kLocalBits != kPlainSlot) return;
  {
    const SharedLock lock(mutex_);
    PlainNodes::Item* const item = plain_.find(ino);
    --item->holds;
    if (item->is_used()) return;
  }
  free_unused(ino);
}

void Nodes::looked_up(Ino ino) {
  if (ino >> kLocalBits != kPlainSlot) return;
  const SharedLock lock(mutex_);
  if (PlainNodes::Item* const item = plain_.find(ino); item != nullptr) ++item->lookups;
}

void Nodes::forgotten(Ino ino, uint64_t count) {
  if (ino >> kLocalBits != kPlainSlot) return;
  {
    const SharedLock lock(mutex_);
    PlainNodes::Item* const item = plain_.find(ino);
    if (item == nullptr) return;
    uint64_t lookups = item->lookups;
    while (!item->lookups.compare_exchange_weak(lookups, lookups - std::min(count, lookups))) {
    }
    if (item->is_used()) return;
  }
  free_unused(ino);
}

void Nodes::free_unused(Ino ino) {
  const LockGuard lock(mutex_);
  free_if_unused(plain_.find(ino));
}

/// With those that it was the last to hold. Allocates nothing.
void Nodes::free_if_unused(PlainNodes::Item* item) {
  if (item == nullptr || item->is_used()) return;
  if (!item->gone) forget_path(*item);
  if (item->kind != NodeKind::symlink && source_ != nullptr) source_->release(item->object);
  PlainNodes::Item* const parent = plain_.find(item->parent);
  PlainNodes::Item* const decoded = item->view == View::decoded ? nullptr : plain_.find(item->key());
  plain_.erase(*item);
  for (PlainNodes::Item* const held : {decoded, parent}) {
    if (held == nullptr) continue;
    --held->holds;
    free_if_unused(held);
  }
}

/// A node holds its directory. Those of datasets do so until the mount ends.
void Nodes::hold_parent(const Node& node) {
  if (PlainNodes::Item* const parent = plain_.find(node.parent); parent != nullptr) ++parent->holds;
}

size_t Nodes::count() const {
  const SharedLock lock(mutex_);
  return nodes_.size() + plain_.size();
}

}  // namespace codecfs::fs
