#include "base/shared_mirror.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace codecfs {
namespace {

constexpr uint64_t kPage = SharedMirror::kPage;

std::vector<std::byte> filled(size_t size, int value) { return std::vector<std::byte>(size, std::byte(value)); }

TEST(SharedMirror, HasWhatWasStored) {
  SharedMirror mirror = SharedMirror::make(3 * kPage + 10).value();
  EXPECT_FALSE(mirror.has(0, 1));
  EXPECT_TRUE(mirror.has(0, 0));
  ASSERT_TRUE(mirror.store(kPage, filled(kPage, 7)));
  ASSERT_TRUE(mirror.store(3 * kPage, filled(10, 8)));
  EXPECT_TRUE(mirror.has(kPage, kPage));
  EXPECT_TRUE(mirror.has(3 * kPage + 2, 8));
  EXPECT_FALSE(mirror.has(kPage - 1, 2));
  EXPECT_FALSE(mirror.has(2 * kPage - 1, 2));
  EXPECT_FALSE(mirror.has(3 * kPage, 11)) << "beyond the end";
  std::vector<std::byte> bytes(20);
  EXPECT_TRUE(mirror.read(kPage + 5, bytes).value());
  EXPECT_EQ(bytes, filled(20, 7));
  EXPECT_FALSE(mirror.read(2 * kPage - 5, bytes).value());
  mirror.drop(kPage, kPage);
  EXPECT_FALSE(mirror.read(kPage + 5, bytes).value());
  struct stat status;
  ASSERT_EQ(::fstat(mirror.content().get(), &status), 0);
  EXPECT_EQ(status.st_size, static_cast<off_t>(3 * kPage + 10));
  EXPECT_LE(status.st_blocks * 512, static_cast<blkcnt_t>(kPage)) << "memory is given back";
}

TEST(SharedMirror, AReaderSeesItAndCannotWrite) {
  SharedMirror mirror = SharedMirror::make(uint64_t{1} << 40).value();
  const SharedMirror reader = SharedMirror::attach(mirror.for_reader().value()).value();
  const uint64_t far = uint64_t{1} << 39;
  EXPECT_EQ(reader.size(), mirror.size());
  EXPECT_FALSE(reader.has(far, 1));
  ASSERT_TRUE(mirror.store(far, filled(kPage, 3)));
  std::vector<std::byte> bytes(10);
  EXPECT_TRUE(reader.read(far + 100, bytes).value());
  EXPECT_EQ(bytes, filled(10, 3));
  EXPECT_LT(::pwrite(reader.content().get(), "x", 1, 0), 0);
}

TEST(SharedMirror, NoReaderGetsTheZerosOfADroppedPage) {
  SharedMirror mirror = SharedMirror::make(8 * kPage).value();
  const SharedMirror reader = SharedMirror::attach(mirror.for_reader().value()).value();
  std::atomic<bool> ends = false;
  std::atomic<uint64_t> good = 0;
  std::atomic<bool> is_wrong = false;
  std::vector<std::jthread> readers;
  for (int i = 0; i < 2; ++i)
    readers.emplace_back([&] {
      std::vector<std::byte> bytes(4 * kPage);
      while (!ends) {
        const auto read = reader.read(2 * kPage, bytes);
        if (!read || !*read) continue;
        ++good;
        if (std::ranges::any_of(bytes, [](std::byte byte) { return byte != std::byte{9}; })) is_wrong = true;
      }
    });
  const auto page = filled(2 * kPage, 9);
  for (int i = 0; i < 20'000 || good < 100; ++i) {
    ASSERT_TRUE(mirror.store(2 * kPage, page));
    ASSERT_TRUE(mirror.store(4 * kPage, page));
    if (i % 3 == 0) std::this_thread::yield();
    mirror.drop(i % 2 == 0 ? 2 * kPage : 4 * kPage, 2 * kPage);
  }
  ends = true;
  readers.clear();
  EXPECT_FALSE(is_wrong);
}

}  // namespace
}  // namespace codecfs
