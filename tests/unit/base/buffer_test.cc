// The memory that buffers take.

#include "base/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "support/failing_memory.h"

namespace codecfs {
namespace {

TEST(Buffer, SmallOnesTakeLittleMemory) {
  for (const size_t size : {0U, 1U, 63U, 64U, 65U, 500U, 4031U, 4032U}) {
    const Buffer buffer = Buffer::allocate(size).value();
    EXPECT_EQ(buffer.size(), size);
    EXPECT_GE(buffer.capacity(), size);
    EXPECT_LE(buffer.capacity(), size + 64);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0U);
  }
}

TEST(Buffer, LargeOnesBeginAtAPageAndWasteAtMostAQuarter) {
  for (const size_t size : {4096U, 4097U, 65'536U, 65'537U, 1'000'000U}) {
    const Buffer buffer = Buffer::allocate(size).value();
    EXPECT_GE(buffer.capacity(), size);
    EXPECT_LE(buffer.capacity(), size + size / 4 + Buffer::kAlignment);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % Buffer::kAlignment, 0U);
  }
}

TEST(Buffer, IsGivenBackWithoutMemory) {
  for (size_t size = 64 << 10; size < size_t{8} << 20; size *= 2) {
    Result<Buffer> buffer = Buffer::allocate(size + 1);
    ASSERT_TRUE(buffer);
    const FailingMemory failing(0);
    *buffer = {};
  }
}

}  // namespace
}  // namespace codecfs
