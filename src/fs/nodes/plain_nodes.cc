#include "fs/nodes/plain_nodes.h"

#include <utility>

#include "base/text_hash.h"

namespace codecfs::fs {

uint64_t PlainNodes::free_number(const Node& node) {
  // The upper half of the numbers is for paths with colliding hashes, also where an attacker chose them.
  constexpr uint64_t kOthers = (kLocalMask + 1) / 2;
  const uint64_t hash = text_hash(node.path) * 0x9E3779B97F4A7C15 + static_cast<uint64_t>(node.kind);
  const uint64_t number = (hash ^ hash >> kLocalBits) & (kOthers - 1) & ~kViewBits;
  if (!items_.contains(number)) return number;
  return kOthers | (++others_ * (kViewBits + 1) & (kOthers - 1));
}

PlainNodes::Item& PlainNodes::add(Node node, const Node* decoded) {
  node.slot = node.common = kPlainSlot;
  node.number = decoded == nullptr ? free_number(node) : decoded->number | static_cast<uint64_t>(node.view);
  const uint64_t number = node.number;
  return *(items_[number] = std::make_unique<Item>(std::move(node)));
}

}  // namespace codecfs::fs
