// Which chunks are outside of a shape, and what is asked of the store for that.

#include "backends/zarr/source/chunk_listing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backends/zarr/store/directory_store.h"
#include "support/zarr_testing.h"

namespace codecfs::zarr {
namespace {

/// A directory that counts what is asked.
class CountingStore final : public Store {
 public:
  explicit CountingStore(const std::string& path) : files_(DirectoryStore::open(path).value()) {}

  mutable size_t looked_up = 0;
  mutable size_t listed = 0;  // names

  [[nodiscard]] const struct stat& status() const override { return files_.status(); }
  [[nodiscard]] struct statvfs filesystem() const override { return files_.filesystem(); }
  [[nodiscard]] Result<std::optional<struct stat>> stat(const std::string& key) const override {
    ++looked_up;
    return files_.stat(key);
  }
  [[nodiscard]] bool passes_link(const std::string& key) const override { return files_.passes_link(key); }
  [[nodiscard]] Result<std::optional<Buffer>> read(const std::string& key, uint64_t limit) const override {
    return files_.read(key, limit);
  }
  [[nodiscard]] Result<std::shared_ptr<const StoredFile>> open_file(const std::string& key) const override {
    return files_.open_file(key);
  }
  [[nodiscard]] Result<> may_change(const std::string& key) const override { return files_.may_change(key); }
  Result<> for_each(const std::string& key,
                    const std::function<Result<>(const char* name, EntryType type)>& visit) const override {
    return files_.for_each(key, [&](const char* name, EntryType type) {
      ++listed;
      return visit(name, type);
    });
  }
  [[nodiscard]] Result<std::unique_ptr<Store>> below(const std::string& key) const override {
    return files_.below(key);
  }

 private:
  DirectoryStore files_;
};

class ListOutside : public zarr_testing::StoreTest, public ::testing::WithParamInterface<ChunkKeys> {
 protected:
  /// All chunks of the grid are there.
  void make(const ChunkGrid& grid) {
    for (uint64_t number = 0; number < grid.count(); ++number) put("v/" + GetParam().name_of(grid, number), "x");
    files_ = std::make_unique<CountingStore>(store());
  }
  std::vector<uint64_t> outside(const ChunkGrid& grid, const std::vector<uint64_t>& kept) {
    return list_chunks_outside(*files_, nullptr, "v", grid, kept, GetParam()).value();
  }

  std::unique_ptr<CountingStore> files_;
};

TEST_P(ListOutside, EachIsFoundOnce) {
  const ChunkGrid grid = ChunkGrid::make({4, 3, 5}, {1, 1, 1}).value();
  make(grid);
  for (uint64_t a = 0; a <= 5; ++a)
    for (uint64_t b = 0; b <= 4; ++b)
      for (uint64_t c = 0; c <= 6; ++c) {
        std::vector<uint64_t> expected;
        for (uint64_t number = 0; number < grid.count(); ++number)
          if (number / 15 >= a || number / 5 % 3 >= b || number % 5 >= c) expected.push_back(number);
        EXPECT_EQ(outside(grid, {a, b, c}), expected) << a << " " << b << " " << c;
      }
}

TEST_P(ListOutside, AnArrayThatGrowsIsNotListed) {
  make(ChunkGrid::make({200, 2}, {1, 1}).value());
  const ChunkGrid longer = ChunkGrid::make({203, 2}, {1, 1}).value();
  EXPECT_EQ(outside(longer, {200, 2}), std::vector<uint64_t>());
  EXPECT_EQ(files_->looked_up, 6U);
  EXPECT_EQ(files_->listed, 0U);
  EXPECT_EQ(outside(longer, {203, 2}), std::vector<uint64_t>());
  EXPECT_EQ(files_->looked_up, 6U) << "all are kept";
}

TEST_P(ListOutside, ManyAreListed) {
  make(ChunkGrid::make({3, 2}, {1, 1}).value());
  const ChunkGrid huge = ChunkGrid::make({1'000'000, 1'000}, {1, 1}).value();
  EXPECT_EQ(outside(huge, {2, 1'000}), (std::vector<uint64_t>{2000, 2001}));
  EXPECT_LT(files_->looked_up + files_->listed, 20U);
}

class ListingsTest : public zarr_testing::StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    put("v/0", "x");
    files_ = std::make_unique<CountingStore>(store());
  }
  /// As a reader does it: pages of 1000.
  uint64_t list(uint64_t count, bool is_flat) {
    uint64_t listed = 0;
    for (uint64_t from = 0;;) {
      const auto numbers = listings_.next(
          *files_, "v", is_flat,
          [&]() -> Result<std::vector<uint64_t>> {
            ++scans_;
            std::vector<uint64_t> all(count);
            std::iota(all.begin(), all.end(), 0);
            return all;
          },
          from, 1000);
      EXPECT_TRUE(numbers);
      if (!numbers || numbers->empty()) return listed;
      listed += numbers->size();
      from = numbers->back() + 1;
    }
  }

  ChunkListings listings_;
  std::unique_ptr<CountingStore> files_;
  size_t scans_ = 0;
};

TEST_F(ListingsTest, AreGivenBackWhenTheyWereNotUsed) {
  EXPECT_EQ(list(10'000, true), 10'000U);
  EXPECT_EQ(list(10'000, true), 10'000U);
  EXPECT_EQ(scans_, 1U) << "of a flat directory, the second listing uses the first";
  EXPECT_GE(listings_.kept_chunks(), 10'000U);
  listings_.drop_unused(std::chrono::seconds(100));
  EXPECT_GE(listings_.kept_chunks(), 10'000U);
  listings_.drop_unused(std::chrono::seconds(0));
  EXPECT_EQ(listings_.kept_chunks(), 0U);
  EXPECT_EQ(list(10, true), 10U) << "as it is now";
}

INSTANTIATE_TEST_SUITE_P(Keys, ListOutside,
                         ::testing::Values(ChunkKeys{.has_prefix = false, .separator = '.'},
                                           ChunkKeys{.has_prefix = false, .separator = '/'},
                                           ChunkKeys{.has_prefix = true, .separator = '/'}));

}  // namespace
}  // namespace codecfs::zarr
