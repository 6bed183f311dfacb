// Source of all layouts: HDF5 File Format Specification 3.0. Numbers in comments are offsets in bytes.

#include "backends/hdf5/format/structure_hints.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "backends/hdf5/format/cursor.h"

namespace codecfs::hdf5 {
namespace {

constexpr uint64_t kUndefined = UINT64_MAX;
constexpr uint64_t kOldHeader = UINT64_MAX;    // Part::context
constexpr uint64_t kMax = uint64_t{64} << 20;  // bytes returned for one file
constexpr uint64_t kMaxWithIndexes = uint64_t{192} << 20;
constexpr uint64_t kMaxOfPart = uint64_t{1} << 20;  // bytes
constexpr uint64_t kHeader = 1024;                  // bytes that are requested of an object header
constexpr uint64_t kGroupNode = 24 + 32 * 16 + 8;   // bytes, with the default number of entries
constexpr uint64_t kSymbolNode = 8 + 8 * 40;        // bytes, with the default number of symbols
constexpr uint64_t kOldChunkNodes = 64;             // entries of a node, by default
constexpr unsigned kMaxDepth = 4;

/// Bytes of the field that counts up to this number.
uint64_t bytes_for(uint64_t number) { return (static_cast<uint64_t>(std::bit_width(number)) + 7) / 8; }

/// The size of a key of a chunk's B-tree node with this number of entries: it depends on the rank, which the node does
/// not tell, but the offset in the last dimension, that of bytes in an element, is 0 in all keys. 0: it is no such
/// node.
uint64_t chunk_key_size(Bytes bytes, uint64_t entries) {
  constexpr uint64_t kMaxDimensions = 33;
  for (uint64_t dimensions = 2; dimensions <= kMaxDimensions; ++dimensions) {
    const uint64_t key = 8 + 8 * dimensions;
    Cursor in{bytes, 24};
    bool fits = true;
    for (uint64_t i = 0; i < entries && fits; ++i) {
      in.skip(key - 8);
      fits = in.address() == 0 && !in.failed;
      const uint64_t child = in.address();
      fits = fits && child != 0 && child != kUndefined && !in.failed;
    }
    if (fits) return key;
  }
  return 0;
}

}  // namespace

void StructureHints::add(uint64_t address, const Part& part) {
  if (address == kUndefined || address > INT64_MAX - base_ || part.size == 0 || part.size > kMaxOfPart) return;
  if (total_ + part.size > (follows_indexes_ ? kMaxWithIndexes : kMax)) return;
  if (!parts_.emplace(base_ + address, part).second) return;
  total_ += part.size;
  added_.push_back(base_ + address);
}

std::vector<remote::ByteRange> StructureHints::note(uint64_t offset, Bytes bytes) {
  const LockGuard lock(mutex_);
  added_.clear();
  if (offset == 0 && !is_usable_) parse_superblock(bytes);
  if (!is_usable_) return {};
  const uint64_t end = offset + bytes.size();
  const auto parse_at = [&](uint64_t at) CODECFS_REQUIRES(mutex_) {
    Part& part = parts_.at(at);
    if (part.is_parsed) return;
    part.is_parsed = at + part.size <= end;  // else as far as it is there, and again when all of it is
    parse(at - base_, part, bytes.subspan(at - offset));
  };
  for (auto at = parts_.lower_bound(offset); at != parts_.end() && at->first < end; ++at) parse_at(at->first);
  std::vector<remote::ByteRange> wanted;
  for (size_t i = 0; i < added_.size(); ++i) {
    const uint64_t at = added_[i];
    const uint64_t size = parts_.at(at).size;
    if (at >= offset && at + size <= end)
      parse_at(at);  // may add others
    else
      wanted.push_back({at, size});
  }
  return wanted;
}

std::vector<remote::ByteRange> StructureHints::follow_indexes() {
  const LockGuard lock(mutex_);
  std::vector<remote::ByteRange> nodes;
  if (std::exchange(follows_indexes_, true)) return nodes;
  for (auto& [offset, part] : parts_) {
    if (!part.has_more) continue;
    part.is_parsed = false;
    nodes.push_back({offset, part.size});
  }
  return nodes;
}

void StructureHints::parse(uint64_t address, Part& part, Bytes bytes) {
  if (is_marked(bytes, "OHDR")) return parse_header(bytes);
  if (is_marked(bytes, "OCHK") && part.kind == Kind::continuation && bytes.size() >= 8)
    return parse_messages(bytes.subspan(4, std::clamp<uint64_t>(part.size, 8, bytes.size()) - 8), part.context);
  if (is_marked(bytes, "TREE")) return parse_old_tree(part, bytes);
  if (is_marked(bytes, "SNOD")) return parse_symbols(bytes);
  if (is_marked(bytes, "HEAP")) {  // 8 size of the data, 24 its address
    Cursor in{bytes, 8};
    const uint64_t size = in.number(8);
    in.skip(8);
    const uint64_t data = in.address();
    if (!in.failed) add(data, {.size = std::min(size, kMaxOfPart)});
    return;
  }
  if (is_marked(bytes, "FRHP")) return parse_heap(address, part, bytes);
  if (is_marked(bytes, "FHDB")) return parse_direct_block(part, bytes);
  if (is_marked(bytes, "FHIB")) return parse_indirect_block(part, bytes);
  if (is_marked(bytes, "BTHD")) return parse_tree(address, bytes);
  if (is_marked(bytes, "BTIN")) return parse_node(part, bytes);
  if (part.kind == Kind::header) return parse_header(bytes);
  if (part.kind == Kind::continuation && part.context == kOldHeader)
    parse_messages(bytes.first(std::min<uint64_t>(part.size, bytes.size())), kOldHeader);
}

void StructureHints::parse_superblock(Bytes bytes) {
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  Cursor in{bytes};
  if (bytes.size() < 96 || std::memcmp(bytes.data(), kSignature.data(), kSignature.size()) != 0) return;
  in.skip(8);
  const uint64_t version = in.number(1);
  const bool is_new = version == 2 || version == 3;
  if (!is_new && version > 1) return;
  in.at = is_new ? 9 : 13;
  const uint64_t offset_size = in.number(1);
  const uint64_t length_size = in.number(1);
  if (offset_size != 8 || length_size != 8) return;
  in.at = is_new ? 12 : version == 0 ? 24 : 28;
  base_ = in.address();
  if (base_ == kUndefined) return;
  is_usable_ = true;
  // Base, free space or extension, end of file, driver; or the root group's header.
  in.skip(is_new ? 16 : 24);
  if (is_new) return add(in.address(), {.kind = Kind::header, .size = kHeader});
  in.skip(8);  // the name of the root
  add(in.address(), {.kind = Kind::header, .size = kHeader});
}

void StructureHints::parse_header(Bytes bytes) {
  Cursor in{bytes};
  if (is_marked(bytes, "OHDR")) {
    in.skip(5);
    const uint64_t flags = in.number(1);
    if ((flags & 0x20) != 0) in.skip(16);
    if ((flags & 0x10) != 0) in.skip(4);
    const uint64_t size = in.number(size_t{1} << (flags & 3));
    if (in.failed) return;
    return parse_messages(in.remaining().first(std::min<uint64_t>(size, in.remaining().size())), flags);
  }
  if (in.number(1) != 1) return;
  in.skip(7);  // 1 reserved, 2 messages, 4 references
  const uint64_t size = in.number(4);
  in.skip(4);
  if (in.failed) return;
  parse_messages(in.remaining().first(std::min<uint64_t>(size, in.remaining().size())), kOldHeader);
}

void StructureHints::parse_messages(Bytes bytes, uint64_t context) {
  const bool is_old = context == kOldHeader;
  Cursor in{bytes};
  while (!in.failed && in.at < bytes.size()) {
    const uint64_t type = in.number(is_old ? 2 : 1);
    const uint64_t size = in.number(2);
    const uint64_t flags = in.number(1);
    if (is_old) in.skip(3);
    if (!is_old && (context & 4) != 0) in.skip(2);
    if (in.failed || size > in.remaining().size()) return;
    constexpr uint64_t kShared = 2;
    if ((flags & kShared) == 0) parse_message(static_cast<unsigned>(type), in.remaining().first(size), context);
    in.skip(size);
  }
}

void StructureHints::parse_message(unsigned type, Bytes bytes, uint64_t context) {
  Cursor in{bytes};
  switch (type) {
    case 0x02:    // link info
    case 0x15: {  // attribute info
      in.skip(1);
      const uint64_t flags = in.number(1);
      if ((flags & 1) != 0) in.skip(type == 0x02 ? 8 : 2);  // the largest creation order
      const uint64_t heap = in.address();
      const uint64_t names = in.address();
      if (in.failed) return;
      add(heap, {.size = 160, .has_links = type == 0x02});
      add(names, {.size = 64});
      if ((flags & 2) == 0) return;
      const uint64_t order = in.address();
      if (!in.failed) add(order, {.size = 64});
      return;
    }
    case 0x06: (void)parse_link(bytes); return;
    case 0x08: {  // layout: version 3, chunked, of so many dimensions, by a B-tree of version 1
      if (in.number(1) != 3 || in.number(1) != 2) return;
      const uint64_t dimensions = in.number(1);
      const uint64_t tree = in.address();
      const uint64_t key = 8 + 8 * dimensions;
      if (!in.failed) add(tree, {.kind = Kind::chunk_tree, .size = 24 + kOldChunkNodes * (key + 8) + key});
      return;
    }
    case 0x10: {  // continuation
      const uint64_t address = in.address();
      const uint64_t size = in.number(8);
      if (!in.failed) add(address, {.kind = Kind::continuation, .size = size, .context = context});
      return;
    }
    case 0x11: {  // symbol table
      const uint64_t tree = in.address();
      const uint64_t heap = in.address();
      if (in.failed) return;
      add(tree, {.size = kGroupNode});
      add(heap, {.size = 32});
      return;
    }
    default: return;
  }
}

size_t StructureHints::parse_link(Bytes bytes) {
  Cursor in{bytes};
  if (in.number(1) != 1) return 0;
  const uint64_t flags = in.number(1);
  if (flags > 0x1f) return 0;
  const uint64_t type = (flags & 8) != 0 ? in.number(1) : 0;
  if ((flags & 4) != 0) in.skip(8);
  if ((flags & 0x10) != 0) in.skip(1);
  in.skip(in.number(size_t{1} << (flags & 3)));
  if (type == 0) {
    const uint64_t address = in.address();
    if (in.failed) return 0;
    add(address, {.kind = Kind::header, .size = kHeader});
  } else {
    in.skip(in.number(2));
  }
  return in.failed ? 0 : in.at;
}

void StructureHints::parse_old_tree(Part& part, Bytes bytes) {
  Cursor in{bytes, 4};  // 4 type, 5 level, 6 entries, 8 left, 16 right, 24 keys and children in turn
  const uint64_t type = in.number(1);
  const uint64_t level = in.number(1);
  const uint64_t entries = in.number(2);
  const uint64_t left = in.address();
  const uint64_t right = in.address();
  if (in.failed) return;
  if (type == 0) {
    for (uint64_t i = 0; i < entries; ++i) {
      in.skip(8);
      const uint64_t child = in.address();
      if (in.failed) return;
      add(child, {.size = level == 0 ? kSymbolNode : kGroupNode});
    }
    return;
  }
  if (type != 1 || part.kind != Kind::chunk_tree || level == 0) return;
  const bool is_small = level == 1 && left == kUndefined && right == kUndefined;  // a root with leaves
  part.has_more = !is_small && !follows_indexes_;
  if (part.has_more) return;
  const uint64_t key = chunk_key_size(bytes, entries);
  for (uint64_t i = 0; key != 0 && i < entries; ++i) {
    in.skip(key);
    const uint64_t child = in.address();
    if (in.failed) return;
    add(child, {.kind = Kind::chunk_tree, .size = 24 + kOldChunkNodes * (key + 8) + key});
  }
}

void StructureHints::parse_symbols(Bytes bytes) {
  Cursor in{bytes, 6};  // 6 symbols, 8 entries: name, header, 16 kind of the cache, 24 B-tree, 32 heap
  const uint64_t count = in.number(2);
  for (uint64_t i = 0; i < count; ++i) {
    in.skip(8);
    const uint64_t header = in.address();
    const uint64_t cached = in.number(4);
    in.skip(4);
    const uint64_t tree = in.address();
    const uint64_t heap = in.address();
    if (in.failed) return;
    if (cached != 2) add(header, {.kind = Kind::header, .size = kHeader});  // 2: a symbolic link
    if (cached != 1) continue;
    add(tree, {.size = kGroupNode});
    add(heap, {.size = 32});
  }
}

void StructureHints::parse_heap(uint64_t address, const Part& part, Bytes bytes) {
  Cursor in{bytes, 7};
  Heap heap;
  heap.has_links = part.has_links;
  heap.is_filtered = in.number(2) != 0;
  heap.has_checksums = (in.number(1) & 2) != 0;
  in.at = 110;
  heap.width = in.number(2);
  heap.first_block = in.number(8);
  heap.largest_block = in.number(8);
  heap.offset_bytes = (in.number(2) + 7) / 8;
  in.skip(2);
  const uint64_t root = in.address();
  heap.rows = in.number(2);
  if (in.failed || heap.first_block == 0 || heap.width == 0 || heap.offset_bytes > 8) return;
  heaps_[address] = heap;
  const uint64_t indirect = 5 + 8 + heap.offset_bytes + heap.rows * heap.width * (heap.is_filtered ? 24 : 8) + 4;
  add(root, {.size = heap.rows == 0 ? heap.first_block : indirect, .context = address});
}

void StructureHints::parse_direct_block(const Part& part, Bytes bytes) {
  const auto heap = heaps_.find(part.context);
  if (heap == heaps_.end() || !heap->second.has_links || heap->second.is_filtered) return;
  Cursor in{bytes.first(std::min<uint64_t>(part.size, bytes.size()))};
  in.skip(5 + 8 + heap->second.offset_bytes + (heap->second.has_checksums ? 4 : 0));
  // Its objects are links, one after the other, with gaps where some were removed.
  while (!in.failed && !in.remaining().empty()) in.skip(std::max<size_t>(parse_link(in.remaining()), 1));
}

void StructureHints::parse_indirect_block(const Part& part, Bytes bytes) {
  const auto found = heaps_.find(part.context);
  if (found == heaps_.end() || found->second.is_filtered) return;
  const Heap heap = found->second;
  Cursor in{bytes, 5 + 8 + static_cast<size_t>(heap.offset_bytes)};
  for (uint64_t row = 0; row < heap.rows && row < 40; ++row) {
    const uint64_t size = heap.first_block << (row == 0 ? 0 : row - 1);
    if (size > heap.largest_block) return;  // further rows have indirect blocks
    for (uint64_t i = 0; i < heap.width; ++i) {
      const uint64_t block = in.address();
      if (in.failed) return;
      add(block, {.size = size, .context = part.context});
    }
  }
}

void StructureHints::parse_tree(uint64_t address, Bytes bytes) {
  Cursor in{bytes, 5};  // 5 type, 6 size of nodes, 10 of records, 12 depth, 16 root, 24 its records
  const uint64_t type = in.number(1);
  Tree tree;
  tree.of_chunks = type == 10 || type == 11;
  tree.node = in.number(4);
  tree.record = in.number(2);
  const uint64_t depth = in.number(2);
  in.skip(2);
  const uint64_t root = in.address();
  const uint64_t records = in.number(2);
  if (in.failed || depth > kMaxDepth || tree.node <= 32 || tree.record == 0) return;
  if (tree.of_chunks && depth > 1) return;
  trees_[address] = tree;
  add(root, {.size = tree.node,
             .context = address,
             .depth = static_cast<uint8_t>(depth),
             .records = static_cast<uint16_t>(records)});
}

void StructureHints::parse_node(const Part& part, Bytes bytes) {
  const auto found = trees_.find(part.context);
  if (found == trees_.end() || part.depth == 0) return;
  const Tree tree = found->second;
  // The sizes of the numbers beside a child's address depend on how many records a node of each depth may have.
  uint64_t most = (tree.node - 10) / tree.record;  // of a node
  const uint64_t count_size = bytes_for(most);
  uint64_t total = most;  // of a node with its children
  uint64_t total_size = 0;
  for (unsigned depth = 1; depth < part.depth; ++depth) {
    const uint64_t pointer = 8 + count_size + total_size;
    if (tree.node < 10 + pointer) return;
    most = (tree.node - 10 - pointer) / (tree.record + pointer);
    total = (most + 1) * total + most;
    total_size = bytes_for(total);
  }
  Cursor in{bytes, 6};
  in.skip(part.records * tree.record);
  for (unsigned i = 0; i <= part.records; ++i) {
    const uint64_t child = in.address();
    const uint64_t records = in.number(count_size);
    in.skip(total_size);
    if (in.failed) return;
    add(child, {.size = tree.node,
                .context = part.context,
                .depth = static_cast<uint8_t>(part.depth - 1),
                .records = static_cast<uint16_t>(records)});
  }
}

}  // namespace codecfs::hdf5
