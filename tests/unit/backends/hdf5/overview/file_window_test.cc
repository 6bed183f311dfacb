#include "backends/hdf5/overview/file_window.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace codecfs::hdf5 {
namespace {

TEST(FileWindowTest, ReadsAnyPartsOfTheFile) {
  constexpr uint64_t kSize = 3'000'001;
  std::vector<std::byte> content(kSize);
  for (size_t i = 0; i < kSize; ++i) content[i] = static_cast<std::byte>(i * 31 + (i >> 13));
  unsigned reads = 0;
  FileWindow window(
      [&](uint64_t offset, MutableBytes to) -> Result<size_t> {
        ++reads;
        const size_t size = std::min<size_t>(to.size(), kSize - offset);
        std::copy_n(content.begin() + static_cast<ptrdiff_t>(offset), size, to.begin());
        return size;
      },
      kSize);
  for (const uint64_t offset : {0, 1, 16'383, 16'384, 50'000, 2'999'990, 100'000, 1'148'576, 3'000'001})
    for (const uint64_t size : {0, 1, 10, 11, 16'384, 70'000}) {
      std::vector<std::byte> bytes(size);
      const bool fits = offset + size <= kSize;
      ASSERT_EQ(window.read(offset, bytes).has_value(), fits) << offset << " " << size;
      if (fits) {
        EXPECT_TRUE(std::ranges::equal(bytes, std::span(content).subspan(offset, size)));
      }
    }
  EXPECT_FALSE(window.read(UINT64_MAX, content));
  reads = 0;
  std::vector<std::byte> bytes(100);
  for (uint64_t offset = 0; offset < 16'000; offset += 100) ASSERT_TRUE(window.read(offset, bytes));
  EXPECT_LE(reads, 1);
}

TEST(FileWindowTest, AnErrorIsNotKept) {
  bool fails = true;
  FileWindow window(
      [&](uint64_t, MutableBytes to) -> Result<size_t> {
        if (fails) return fail(EIO, "bad");
        return to.size();
      },
      100'000);
  std::vector<std::byte> bytes(10);
  EXPECT_FALSE(window.read(0, bytes));
  fails = false;
  EXPECT_TRUE(window.read(0, bytes));
}

}  // namespace
}  // namespace codecfs::hdf5
