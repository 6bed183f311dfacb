#pragma once
// How many chunks of a dataset are stored, and their size, from its chunk index, read without libhdf5. Source: HDF5
// File Format Specification 3.0, sections III.A (B-trees), VII (appendix C: chunk indexes).
//
// All or nothing: none if anything is damaged, not known exactly, or larger than what is read here (kMaxNodes,
// kMaxCells). B-trees of any usual size are walked once, in constant memory. The input may be hostile: no node is
// visited twice, as keys must ascend throughout the walk.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/hdf5/format/cursor.h"
#include "backends/hdf5/overview/file_window.h"
#include "backends/hdf5/overview/messages.h"

namespace codecfs::hdf5 {

struct StoredTotals {
  uint64_t chunks = 0;
  uint64_t bytes = 0;
  uint64_t masked = 0;  // chunks of which filters were skipped
};

/// A dataset with chunks.
struct ChunkedDataset {
  const LayoutMessage& layout;
  const Dataspace& space;
  size_t filters = 0;  // number of them
  [[nodiscard]] bool has_filters() const { return filters > 0; }
};

class IndexSizes {
 public:
  /// `tree_entries`: the most that a node of an old B-tree has.
  IndexSizes(FileWindow& file, uint64_t tree_entries) : file_(file), tree_entries_(tree_entries) {}

  std::optional<StoredTotals> totals(const ChunkedDataset& dataset);

 private:
  static constexpr unsigned kMaxNodes = 1 << 22;
  static constexpr uint64_t kMaxCells = 1024;  // of the grid, if its index is an array
  using Coordinates = std::vector<uint64_t>;   // of a chunk in the grid

  /// Begins with the next dataset.
  bool set_grid(const ChunkedDataset& dataset);
  bool add(uint64_t address, uint64_t bytes, uint32_t filter_mask = 0);
  bool is_in_grid(const Coordinates& at) const;
  std::optional<std::vector<std::byte>> block(uint64_t address, uint64_t bytes);
  std::optional<std::vector<std::byte>> checked_block(uint64_t address, uint64_t bytes, std::string_view signature);
  struct Key;
  bool get_key(Cursor& in, Key& key) const;
  bool old_node(uint64_t address, unsigned depth, Key& first, Key& last);
  bool old_tree();
  struct Tree;
  bool tree_node(const Tree& tree, uint64_t address, uint64_t depth, uint64_t records, Coordinates& previous);
  bool tree();
  bool single();
  bool implicit();
  bool fixed_array();
  struct Array;
  bool extensible_array();
  bool array_elements(Array& array, uint64_t first, Bytes elements);
  /// The elements of all chunks in an array of this many known ones.
  bool add_elements(std::span<const std::byte> elements, uint64_t known, size_t slowest);
  [[nodiscard]] uint64_t element_bytes() const;
  [[nodiscard]] uint64_t size_bytes() const;

  FileWindow& file_;
  const uint64_t tree_entries_;
  const ChunkedDataset* dataset_ = nullptr;  // during totals(), with what follows
  Coordinates cells_;                        // of the grid along each dimension
  std::vector<std::optional<uint64_t>> most_cells_;
  uint64_t cell_count_ = 0;
  uint64_t chunk_bytes_ = 0;
  unsigned nodes_ = 0;  // that were read
  StoredTotals totals_;
};

}  // namespace codecfs::hdf5
