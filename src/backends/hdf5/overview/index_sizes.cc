// The conditions are those under which libhdf5's lookup of every chunk in the grid succeeds and finds what is counted
// here: keys ascend, chunks are aligned and in the grid, and their bytes are in the file.

#include "backends/hdf5/overview/index_sizes.h"

#include <algorithm>
#include <bit>
#include <compare>
#include <utility>

#include "backends/hdf5/format/superblock.h"
#include "base/endian.h"
#include "base/worker_process.h"

namespace codecfs::hdf5 {
namespace {

constexpr size_t kChecksumBytes = 4;
constexpr uint64_t kMaxOverviewBlock = uint64_t{1} << 20;  // bytes
constexpr unsigned kDeepestTree = 8;

uint64_t cells_of(uint64_t length, uint64_t chunk) { return length / chunk + (length % chunk != 0 ? 1 : 0); }

/// Bytes of the field that counts up to this number.
uint64_t field_bytes(uint64_t number) { return (static_cast<uint64_t>(std::bit_width(number)) + 7) / 8; }

}  // namespace

/// A key of an old B-tree: its chunk's bytes and coordinates.
struct IndexSizes::Key {
  uint64_t bytes = 0;
  uint32_t mask = 0;
  Coordinates at;
  uint64_t within = 0;  // the offset in bytes of an element

  [[nodiscard]] std::strong_ordering operator<=>(const Key& other) const {
    const std::strong_ordering order = at <=> other.at;
    return order == 0 ? within <=> other.within : order;
  }
  bool operator==(const Key& other) const { return (*this <=> other) == 0; }
};

bool IndexSizes::set_grid(const ChunkedDataset& dataset) {
  const LayoutMessage& layout = dataset.layout;
  const Dataspace& space = dataset.space;
  dataset_ = &dataset;
  totals_ = {};
  nodes_ = 0;
  cells_.clear();
  most_cells_.clear();
  cell_count_ = 1;
  chunk_bytes_ = layout.element;
  if (layout.chunk.size() != space.dims.size() || space.is_null) return false;
  for (size_t d = 0; d < space.dims.size(); ++d) {
    const uint64_t chunk = layout.chunk[d];
    if (__builtin_mul_overflow(chunk_bytes_, chunk, &chunk_bytes_)) return false;
    cells_.push_back(cells_of(space.dims[d], chunk));
    most_cells_.push_back(space.most[d] ? std::optional(cells_of(*space.most[d], chunk)) : std::nullopt);
    if (__builtin_mul_overflow(cell_count_, cells_[d], &cell_count_)) return false;
  }
  using Index = LayoutMessage::Index;
  const bool is_tree = layout.index == Index::old_tree || layout.index == Index::tree;
  return chunk_bytes_ > 0 && chunk_bytes_ <= UINT32_MAX && (is_tree || cell_count_ <= kMaxCells);
}

std::optional<StoredTotals> IndexSizes::totals(const ChunkedDataset& dataset) {
  if (!set_grid(dataset)) return std::nullopt;
  if (dataset.layout.address == kNoAddress) return StoredTotals{};
  if (dataset.layout.address == 0) return std::nullopt;
  using Index = LayoutMessage::Index;
  bool is_known = false;
  switch (dataset.layout.index) {
    case Index::old_tree: is_known = old_tree(); break;
    case Index::single: is_known = single(); break;
    case Index::implicit: is_known = implicit(); break;
    case Index::fixed_array: is_known = fixed_array(); break;
    case Index::extensible_array: is_known = extensible_array(); break;
    case Index::tree: is_known = tree(); break;
  }
  return is_known ? std::optional(totals_) : std::nullopt;
}

bool IndexSizes::add(uint64_t address, uint64_t bytes, uint32_t filter_mask) {
  if (address == 0 || bytes == 0 || bytes > UINT32_MAX || address > file_.file_bytes() ||
      bytes > file_.file_bytes() - address)
    return false;
  ++totals_.chunks;
  totals_.bytes += bytes;
  const uint32_t known = dataset_->filters < 32 ? (uint32_t{1} << dataset_->filters) - 1 : ~uint32_t{0};
  if ((filter_mask & known) != 0) ++totals_.masked;
  return true;
}

bool IndexSizes::is_in_grid(const Coordinates& at) const { return std::ranges::equal(at, cells_, std::less()); }

std::optional<std::vector<std::byte>> IndexSizes::block(uint64_t address, uint64_t bytes) {
  if (++nodes_ > kMaxNodes || bytes > kMaxOverviewBlock || address == 0) return std::nullopt;
  constexpr unsigned kNodesPerSecond = 4096;  // at least
  if (nodes_ % kNodesPerSecond == 0) extend_step(1);
  std::vector<std::byte> found(bytes);
  if (!file_.read(address, found)) return std::nullopt;
  return found;
}

/// One that ends with its checksum, has this signature, and version 0.
std::optional<std::vector<std::byte>> IndexSizes::checked_block(uint64_t address, uint64_t bytes,
                                                                std::string_view signature) {
  auto found = block(address, bytes);
  if (!found || bytes < 5 + kChecksumBytes || !is_marked(*found, signature) || (*found)[4] != std::byte{0})
    return std::nullopt;
  const size_t end = found->size() - kChecksumBytes;
  if (load_le<uint32_t>(found->data() + end) != lookup3(Bytes(*found).first(end))) return std::nullopt;
  found->resize(end);
  return found;
}

bool IndexSizes::get_key(Cursor& in, Key& key) const {
  key.bytes = in.number(4);
  key.mask = static_cast<uint32_t>(in.number(4));
  key.at.clear();
  for (const uint64_t chunk : dataset_->layout.chunk) {
    const uint64_t offset = in.number(8);
    if (offset % chunk != 0) return false;
    key.at.push_back(offset / chunk);
  }
  key.within = in.number(8);
  return key.within % dataset_->layout.element == 0 && !in.failed;
}

// TREE | 1 | level | LE16 entries | left | right | key, child, key, child, ..., key
//   key: LE32 bytes | LE32 filter mask | offset in elements of each dimension | 0
bool IndexSizes::old_node(uint64_t address, unsigned depth, Key& first, Key& last) {
  const size_t key_bytes = 8 + 8 * (cells_.size() + 1);
  constexpr size_t kHead = 24;
  const auto head = block(address, kHead);
  if (!head || !is_marked(*head, "TREE")) return false;
  Cursor in{*head, 4};
  const bool is_of_chunks = in.number(1) == 1;
  const uint64_t level = in.number(1);
  const uint64_t entries = in.number(2);
  if (!is_of_chunks || level != depth || entries == 0 || entries > tree_entries_) return false;
  const auto whole = block(address, kHead + entries * (key_bytes + 8) + key_bytes);
  if (!whole) return false;
  in = {*whole, kHead};
  if (!get_key(in, last)) return false;
  first = last;
  Key key;
  Key child_first;
  Key child_last;
  for (uint64_t i = 0; i < entries; ++i) {
    std::swap(key, last);
    const uint64_t child = in.address();
    // Only the last key, which is beyond all chunks, has an offset within an element, and may differ in it alone.
    if (in.failed || key.within != 0 || !get_key(in, last) || !(key < last)) return false;
    if (level == 0) {
      if (!is_in_grid(key.at) || (!dataset_->has_filters() && key.bytes != chunk_bytes_) ||
          !add(child, key.bytes, key.mask))
        return false;
      continue;
    }
    if (!old_node(child, depth - 1, child_first, child_last)) return false;
    if (child_first != key || child_last != last) return false;
  }
  return true;
}

bool IndexSizes::old_tree() {
  const auto head = block(dataset_->layout.address, 6);
  if (!head) return false;
  const auto depth = std::to_integer<unsigned>((*head)[5]);
  Key first;
  Key last;
  return depth <= kDeepestTree && old_node(dataset_->layout.address, depth, first, last);
}

bool IndexSizes::single() {
  const LayoutMessage& layout = dataset_->layout;
  if (cell_count_ != 1 || layout.is_single_filtered != dataset_->has_filters()) return false;
  return layout.is_single_filtered ? add(layout.address, layout.single_bytes, layout.single_mask)
                                   : add(layout.address, chunk_bytes_);
}

bool IndexSizes::implicit() {
  if (dataset_->has_filters() || std::ranges::any_of(most_cells_, [](const auto& most) { return !most; })) return false;
  for (size_t d = 0; d < cells_.size(); ++d)
    if (*most_cells_[d] != cells_[d]) return false;
  for (uint64_t i = 0; i < cell_count_; ++i)
    if (!add(dataset_->layout.address + i * chunk_bytes_, chunk_bytes_)) return false;
  return true;
}

/// How many bytes the size of a filtered chunk takes in its index.
uint64_t IndexSizes::size_bytes() const {
  if (dataset_->layout.has_wide_sizes) return 8;
  const uint64_t bits = static_cast<uint64_t>(std::bit_width(chunk_bytes_)) - 1;
  return std::min<uint64_t>(1 + (bits + 8) / 8, 8);
}

uint64_t IndexSizes::element_bytes() const { return dataset_->has_filters() ? 8 + size_bytes() + 4 : 8; }

/// `slowest`: the dimension that varies slowest in the array; the others follow in their order.
bool IndexSizes::add_elements(std::span<const std::byte> elements, uint64_t known, size_t slowest) {
  const size_t rank = cells_.size();
  Coordinates at(rank);
  for (uint64_t cell = 0; cell < cell_count_; ++cell) {
    uint64_t number = at[slowest];
    for (size_t d = 0; d < rank; ++d) {
      if (d == slowest) continue;
      if (!most_cells_[d] || __builtin_mul_overflow(number, *most_cells_[d], &number) ||
          __builtin_add_overflow(number, at[d], &number))
        return false;
    }
    if (number < known) {
      if (number >= elements.size() / element_bytes()) return false;
      Cursor in{elements.subspan(number * element_bytes(), element_bytes())};
      const uint64_t address = in.address();
      const uint64_t bytes = dataset_->has_filters() ? in.number(size_bytes()) : chunk_bytes_;
      const auto mask = dataset_->has_filters() ? static_cast<uint32_t>(in.number(4)) : 0;
      if (address == kNoAddress ? dataset_->has_filters() && bytes != 0 : !add(address, bytes, mask)) return false;
    }
    for (size_t d = rank; d-- > 0;) {
      if (++at[d] < cells_[d]) break;
      at[d] = 0;
    }
  }
  return true;
}

// FAHD | 0 | kind | bytes of an element | page bits | elements (8) | data block (8) | checksum
// FADB | 0 | kind | header (8) | elements | checksum
bool IndexSizes::fixed_array() {
  const uint64_t address = dataset_->layout.address;
  const auto header = checked_block(address, 28, "FAHD");
  if (!header) return false;
  Cursor in{*header, 5};
  const uint64_t kind = in.number(1);
  const uint64_t element = in.number(1);
  const uint64_t page_bits = in.number(1);
  const uint64_t count = in.number(8);
  const uint64_t data = in.address();
  uint64_t cells = 1;
  for (const auto& most : most_cells_)
    if (!most || __builtin_mul_overflow(cells, *most, &cells)) return false;
  if (kind != (dataset_->has_filters() ? 1 : 0) || element != element_bytes() || page_bits > 63 || count != cells ||
      page_bits != dataset_->layout.page_bits || count > uint64_t{1} << page_bits || count > kMaxOverviewBlock)
    return false;
  if (data == kNoAddress) return true;
  constexpr size_t kHead = 14;
  const auto found = checked_block(data, kHead + count * element + kChecksumBytes, "FADB");
  if (!found) return false;
  in = {*found, 5};
  if (in.number(1) != kind || in.address() != address) return false;
  return add_elements(Bytes(*found).subspan(kHead), count, 0);
}

// EAHD | 0 | kind | bytes of an element | bits of the most elements | elements of the index block | least of a data
// block
//      | least pointers of a super block | page bits | 4 numbers (8) | known elements (8) | (8) | index block (8) |
//      checksum
// EAIB | 0 | kind | header (8) | elements | data blocks (8) | super blocks (8) | checksum
// EADB | 0 | kind | header (8) | number of its first element | elements | checksum
bool IndexSizes::extensible_array() {
  const uint64_t address = dataset_->layout.address;
  const auto header = checked_block(address, 72, "EAHD");
  if (!header) return false;
  Cursor in{*header, 5};
  const uint64_t kind = in.number(1);
  const uint64_t element = in.number(1);
  const uint64_t bits = in.number(1);
  const uint64_t in_index = in.number(1);
  const uint64_t least = in.number(1);
  const uint64_t pointers = in.number(1);
  const uint64_t page_bits = in.number(1);
  in.skip(32);
  const uint64_t known = in.number(8);
  in.skip(8);
  const uint64_t index = in.address();
  if (in.failed || kind != (dataset_->has_filters() ? 1 : 0) || element != element_bytes() || bits == 0 || bits > 64 ||
      !std::has_single_bit(least) || !std::has_single_bit(pointers) || pointers < 2 || page_bits > 63)
    return false;
  size_t slowest = cells_.size();
  for (size_t d = 0; d < cells_.size(); ++d)
    if (!most_cells_[d]) {
      if (slowest != cells_.size()) return false;
      slowest = d;
    }
  if (slowest == cells_.size()) return false;
  if (index == kNoAddress) return known == 0;

  const auto log2 = [](uint64_t number) { return static_cast<uint64_t>(std::bit_width(number)) - 1; };
  const uint64_t data_blocks = 2 * (pointers - 1);
  const uint64_t levels = 1 + bits - std::min(bits, log2(least));
  const uint64_t direct_levels = 2 * log2(pointers);
  if (levels < direct_levels) return false;
  const uint64_t size = 14 + in_index * element + 8 * (data_blocks + levels - direct_levels) + kChecksumBytes;
  const auto found = checked_block(index, size, "EAIB");
  if (!found) return false;
  in = {*found, 5};
  if (in.number(1) != kind || in.address() != address) return false;
  const Bytes own = in.take(in_index * element);
  std::vector<std::byte> elements(own.begin(), own.end());
  uint64_t block_number = 0;
  for (uint64_t level = 0; level < direct_levels; ++level) {
    const uint64_t count = least << ((level + 1) / 2);
    for (uint64_t i = 0; i < uint64_t{1} << (level / 2); ++i, ++block_number) {
      if (block_number == data_blocks || in.failed) return false;
      const uint64_t data = in.address();
      if (elements.size() / element >= known) continue;  // none of its elements is known
      if (count > uint64_t{1} << page_bits || count * element + elements.size() > kMaxOverviewBlock) return false;
      const size_t head = 14 + (bits + 7) / 8;
      const size_t begin = elements.size();
      elements.resize(begin + count * element, std::byte{0});
      if (data == kNoAddress) {
        // All of them are absent, as far as they are known.
        for (uint64_t e = 0; e < count; ++e) std::fill_n(elements.data() + begin + e * element, 8, std::byte{0xff});
        continue;
      }
      const auto part = checked_block(data, head + count * element + kChecksumBytes, "EADB");
      if (!part) return false;
      Cursor inside{*part, 5};
      if (inside.number(1) != kind || inside.address() != address ||
          inside.number((bits + 7) / 8) != begin / element - in_index)
        return false;
      std::copy(part->begin() + static_cast<ptrdiff_t>(head), part->end(),
                elements.begin() + static_cast<ptrdiff_t>(begin));
    }
  }
  return add_elements(elements, known, slowest);
}

/// What is known of a B-tree of version 2.
struct IndexSizes::Tree {
  uint64_t kind = 0;
  uint64_t node_bytes = 0;
  uint64_t record_bytes = 0;
  uint64_t count_bytes = 0;           // of the number of records in a child
  std::vector<uint64_t> total_bytes;  // by depth: of the number of records in a child and below it
  std::vector<uint64_t> most;         // by depth: records of a node
};

// BTLF | 0 | kind | records | checksum
// BTIN | 0 | kind | records | children: address, records, records with those below | checksum
bool IndexSizes::tree_node(const Tree& tree, uint64_t address, uint64_t depth, uint64_t records,
                           Coordinates& previous) {
  if (records > tree.most[depth]) return false;
  const uint64_t pointer = depth == 0 ? 0 : 8 + tree.count_bytes + tree.total_bytes[depth];
  const uint64_t size = 6 + records * tree.record_bytes + (depth == 0 ? 0 : (records + 1) * pointer) + kChecksumBytes;
  if (size > tree.node_bytes) return false;
  const auto node = checked_block(address, size, depth == 0 ? "BTLF" : "BTIN");
  if (!node) return false;
  Cursor in{*node, 5};
  if (in.number(1) != tree.kind) return false;
  Cursor children{*node, 6 + records * tree.record_bytes};
  Coordinates at;
  for (uint64_t i = 0; i <= records; ++i) {
    if (depth > 0) {
      const uint64_t child = children.address();
      const uint64_t child_records = children.number(tree.count_bytes);
      children.skip(tree.total_bytes[depth]);
      if (children.failed || !tree_node(tree, child, depth - 1, child_records, previous)) return false;
    }
    if (i == records) break;
    const uint64_t chunk = in.address();
    const uint64_t bytes = dataset_->has_filters() ? in.number(size_bytes()) : chunk_bytes_;
    const auto mask = dataset_->has_filters() ? static_cast<uint32_t>(in.number(4)) : 0;
    at.clear();
    for (size_t d = 0; d < cells_.size(); ++d) at.push_back(in.number(8));
    if (in.failed || !(previous.empty() || previous < at) || !is_in_grid(at) || !add(chunk, bytes, mask)) return false;
    std::swap(previous, at);
  }
  return true;
}

// BTHD | 0 | kind | LE32 bytes of a node | LE16 of a record | LE16 depth | 2 bytes | root (8) | LE16 records of it
//      | all records (8) | checksum
bool IndexSizes::tree() {
  const auto header = checked_block(dataset_->layout.address, 38, "BTHD");
  if (!header) return false;
  Cursor in{*header, 5};
  Tree tree;
  tree.kind = in.number(1);
  tree.node_bytes = in.number(4);
  tree.record_bytes = in.number(2);
  const uint64_t depth = in.number(2);
  in.skip(2);
  const uint64_t root = in.address();
  const uint64_t records = in.number(2);
  const uint64_t all = in.number(8);
  if (in.failed || tree.kind != (dataset_->has_filters() ? 11 : 10) || depth > kDeepestTree ||
      tree.record_bytes != element_bytes() + 8 * cells_.size() || tree.node_bytes < 64 ||
      tree.node_bytes > kMaxOverviewBlock || tree.node_bytes < 10 + tree.record_bytes)
    return false;
  if (root == kNoAddress) return all == 0 && records == 0;
  tree.most.push_back((tree.node_bytes - 10) / tree.record_bytes);
  tree.total_bytes.push_back(0);
  tree.count_bytes = field_bytes(tree.most[0]);
  uint64_t total = tree.most[0];
  for (uint64_t d = 1; d <= depth; ++d) {
    // A child at depth 0 has no records below it, of which the number would be stored.
    tree.total_bytes.push_back(d == 1 ? 0 : field_bytes(total));
    const uint64_t pointer = 8 + tree.count_bytes + tree.total_bytes[d];
    if (tree.node_bytes < 10 + pointer) return false;
    tree.most.push_back((tree.node_bytes - 10 - pointer) / (tree.record_bytes + pointer));
    if (__builtin_mul_overflow(tree.most[d] + 1, total, &total) || __builtin_add_overflow(total, tree.most[d], &total))
      return false;
  }
  Coordinates previous;
  return tree_node(tree, root, depth, records, previous) && totals_.chunks == all;
}

}  // namespace codecfs::hdf5
