#pragma once
// Compares the elements of two variables of the same shape and of the same type, but for byte order; or of texts.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "base/lru_map.h"
#include "base/mutex.h"
#include "commands/elements.h"
#include "commands/grid_regions.h"

namespace codecfs::commands {

/// A variable of a source.
struct VariableOf {
  Source& source;
  ObjectId object;
  VariablePtr facts;
};

class VariableComparison {
 public:
  /// `as_texts`: the types are different, and both has_texts().
  VariableComparison(const VariableOf& one, const VariableOf& other, bool as_texts = false)
      : one_(one), other_(other), as_texts_(as_texts) {}

  /// Compares all chunks that one of the variables stores, on all cores; calls `advance` with the decoded bytes of
  /// each. The errors of reading, EOPNOTSUPP if elements cannot be compared, ECANCELED.
  Result<> run(const std::function<void(uint64_t bytes)>& advance);

  [[nodiscard]] uint64_t differing() const { return differing_; }  // elements
  [[nodiscard]] uint64_t compared_bytes() const { return compared_; }
  /// The first element that differs, in C order: "at [3, 0]: 1.5, 2.5"; else how the fills of absent chunks differ;
  /// empty if all is the same.
  [[nodiscard]] std::string first_text() const;

 private:
  using ElementsPtr = std::shared_ptr<const Elements>;

  /// What a chunk that is not stored reads as. Made once.
  struct Fill {
    Mutex mutex;
    ElementsPtr elements CODECFS_GUARDED_BY(mutex);
  };

  Result<> compare_chunk(uint64_t number);
  Result<> compare_whole_chunk(uint64_t number);
  Result<> compare_where_absent(const std::function<Result<>(const std::vector<uint64_t>&)>& compare_all,
                                uint64_t& compared);
  Result<ElementsPtr> elements_of(const VariableOf& variable, Fill& fill, uint64_t number);
  Result<ElementsPtr> cached_of_other(uint64_t number);
  void compare_part(const Region& region, const Elements& one, const Block& block, const Elements& other,
                    const Block& other_block);
  void note_difference(uint64_t index_in_block, const Block& block, std::string text);
  Result<> compare_fills();
  [[nodiscard]] std::string text_of(const VariableOf& variable, Bytes element) const;

  const VariableOf one_;
  const VariableOf other_;
  const bool as_texts_;
  Fill fill_of_one_;
  Fill fill_of_other_;
  LruMap<uint64_t, Elements> cache_{4096, uint64_t{256} << 20};  // chunks of `other_` that several of `one_` overlap
  std::atomic<uint64_t> differing_ = 0;
  std::atomic<uint64_t> compared_ = 0;
  mutable Mutex mutex_;
  std::optional<std::vector<uint64_t>> first_ CODECFS_GUARDED_BY(mutex_);  // its coordinates
  std::string first_text_ CODECFS_GUARDED_BY(mutex_);
  std::string fills_text_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace codecfs::commands
