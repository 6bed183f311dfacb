// The contract of the cache: one decode for concurrent readers, bounded memory, errors not cached.

#include "fs/chunks/chunk_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <new>
#include <semaphore>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/interruption.h"
#include "support/failing_memory.h"

namespace codecfs::fs {
namespace {

constexpr size_t kChunk = size_t{1} << 20;

Result<Buffer> chunk_of(uint8_t value) {
  CODECFS_ASSIGN(Buffer buffer, Buffer::allocate(kChunk));
  std::fill_n(buffer.data(), kChunk, std::byte{value});
  return buffer;
}

TEST(ChunkCache, DecodesOnceForManyReaders) {
  Stats stats;
  ChunkCache cache(16 * kChunk, stats);
  std::atomic<int> decodes = 0;
  std::atomic<int> waiting = 0;
  std::vector<std::jthread> readers;
  for (int i = 0; i < 8; ++i) {
    readers.emplace_back([&] {
      ++waiting;
      const auto chunk = cache.get(7, kChunk, [&] {
        ++decodes;
        while (waiting < 8) std::this_thread::yield();
        return chunk_of(42);
      });
      ASSERT_TRUE(chunk);
      EXPECT_EQ((*chunk)->data()[kChunk - 1], std::byte{42});
    });
  }
  readers.clear();
  EXPECT_EQ(decodes, 1);
  EXPECT_EQ(stats.chunks_decoded, 1);
  EXPECT_EQ(stats.cache_hits + stats.decodes_shared, 7);
}

TEST(ChunkCache, AnInterruptedReaderDoesNotFailOthers) {
  Stats stats;
  ChunkCache cache(16 * kChunk, stats);
  std::atomic<bool> is_decoding = false;
  std::atomic<bool> is_unwanted = false;
  std::jthread first([&] {
    const Interruption::Check check = [&] { return is_unwanted.load(); };
    const Interruption::Scope scope(&check);
    const auto chunk = cache.get(7, kChunk, [&]() -> Result<Buffer> {
      is_decoding = true;
      if (!Interruption::sleep(std::chrono::seconds(100))) return Interruption::error();
      return chunk_of(1);
    });
    EXPECT_EQ(chunk.error().code, EINTR);
  });
  while (!is_decoding) std::this_thread::yield();
  std::jthread second([&] {
    const auto chunk = cache.get(7, kChunk, [] { return chunk_of(2); });
    ASSERT_TRUE(chunk);
    EXPECT_EQ((*chunk)->data()[0], std::byte{2});
  });
  std::jthread third([&] {
    const Interruption::Check yes = [] { return true; };
    const Interruption::Scope scope(&yes);
    EXPECT_EQ(cache.get(7, kChunk, [] { return chunk_of(3); }).error().code, EINTR) << "it does not wait";
  });
  third.join();
  while (stats.decodes_shared < 2) std::this_thread::yield();
  is_unwanted = true;
}

TEST(ChunkCache, KeepsAtMostItsLimit) {
  Stats stats;
  ChunkCache cache(4 * kChunk, stats);
  for (ChunkKey key = 0; key < 20; ++key) ASSERT_TRUE(cache.get(key, kChunk, [&] { return chunk_of(1); }));
  EXPECT_LE(stats.cache_bytes, 4 * kChunk);
  int decodes = 0;
  const auto count = [&] {
    ++decodes;
    return chunk_of(1);
  };
  ASSERT_TRUE(cache.get(19, kChunk, count));
  EXPECT_EQ(decodes, 0) << "the latest is kept";
  ASSERT_TRUE(cache.get(0, kChunk, count));
  EXPECT_EQ(decodes, 1) << "the oldest no longer exists";
}

TEST(ChunkCache, KeepsAChunkLargerThanItsLimitWhileItIsRead) {
  Stats stats;
  ChunkCache cache(kChunk / 2, stats);
  int decodes = 0;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(cache.get(1, 2 * kChunk, [&] {
      ++decodes;
      return chunk_of(1);
    }));
  }
  EXPECT_EQ(decodes, 1);
}

TEST(ChunkCache, DropsAChunkThatTheKernelHas) {
  Stats stats;
  ChunkCache cache(16 * kChunk, stats);
  ASSERT_TRUE(cache.get(1, kChunk, [&] { return chunk_of(1); }));
  cache.served(1, kChunk / 2);
  EXPECT_GT(stats.cache_bytes, 0);
  cache.served(1, kChunk / 2);
  EXPECT_EQ(stats.cache_bytes, 0);
  cache.served(1, kChunk);  // late call for a chunk that was dropped
}

TEST(ChunkCache, KeepsAsManyPushedChunksAsAreDecodedAhead) {
  Stats stats;
  ChunkCache cache(64 * kChunk, stats);
  for (ChunkKey key = 1; key <= 12; ++key) {
    ASSERT_NE(cache.fetch(key, kChunk, [&] { return chunk_of(1); }), nullptr);
    cache.done(key);
    EXPECT_LE(stats.cache_bytes, 9 * kChunk);
  }
  for (ChunkKey key = 4; key <= 12; ++key) ASSERT_TRUE(cache.get(key, kChunk, [&] { return fail(EIO, "again"); }));
}

TEST(ChunkCache, KeepsTheLastPushedChunksForReadsOnTheirWay) {
  Stats stats;
  ChunkCache cache(8 * kChunk, stats);  // a quarter: two chunks
  for (ChunkKey key = 1; key <= 5; ++key) {
    ASSERT_NE(cache.fetch(key, kChunk, [&] { return chunk_of(1); }), nullptr);
    cache.done(key);
    EXPECT_LE(stats.cache_bytes, 2 * kChunk) << "the kernel has the others";
  }
  int decodes = 0;
  const auto count = [&] {
    ++decodes;
    return chunk_of(1);
  };
  ASSERT_TRUE(cache.get(5, kChunk, count));
  ASSERT_TRUE(cache.get(4, kChunk, count));
  EXPECT_EQ(decodes, 0);
  cache.served(5, kChunk);
  cache.drop(4);
  cache.done(4);  // late call for a chunk that was dropped
  EXPECT_EQ(stats.cache_bytes, 0);
  EXPECT_EQ(cache.fetch(5, kChunk, count), nullptr) << "the kernel has it";
  EXPECT_EQ(decodes, 0);
}

TEST(ChunkCache, EvictsPushedChunksFirst) {
  Stats stats;
  ChunkCache cache(4 * kChunk, stats);
  int decodes = 0;
  const auto count = [&] {
    ++decodes;
    return chunk_of(1);
  };
  for (ChunkKey key = 1; key <= 3; ++key) ASSERT_TRUE(cache.get(key, kChunk, count));
  ASSERT_NE(cache.fetch(4, kChunk, count), nullptr);
  cache.done(4);
  ASSERT_TRUE(cache.get(4, kChunk, count));
  EXPECT_EQ(decodes, 4);
  ASSERT_TRUE(cache.get(5, kChunk, count));
  for (ChunkKey key = 1; key <= 3; ++key) ASSERT_TRUE(cache.get(key, kChunk, count));
  EXPECT_EQ(decodes, 5) << "chunks that the kernel does not have stay";
  EXPECT_LE(stats.cache_bytes, 4 * kChunk);
}

TEST(ChunkCache, DropsALargePushedChunk) {
  Stats stats;
  ChunkCache cache(2 * kChunk, stats);
  ASSERT_NE(cache.fetch(1, kChunk, [&] { return chunk_of(1); }), nullptr);
  cache.done(1);
  EXPECT_EQ(stats.cache_bytes, 0) << "it would take more than a quarter of the limit";
}

TEST(ChunkCache, DoesNotKeepWhatItsCallerKeeps) {
  Stats stats;
  ChunkCache cache(4 * kChunk, stats);
  int decodes = 0;
  const auto count = [&] {
    ++decodes;
    return chunk_of(1);
  };
  ASSERT_TRUE(cache.get_uncached(1, kChunk, count));
  EXPECT_EQ(stats.cache_bytes, 0);
  ASSERT_TRUE(cache.get(1, kChunk, count));
  EXPECT_EQ(decodes, 2);
  ASSERT_TRUE(cache.get_uncached(1, kChunk, count)) << "of what is cached, nothing is decoded";
  EXPECT_EQ(decodes, 2);
  EXPECT_EQ(stats.cache_bytes, kChunk);
  EXPECT_FALSE(cache.get_uncached(2, kChunk, [] { return Result<Buffer>(fail(EIO, "damaged")); }));
  EXPECT_TRUE(cache.get_uncached(2, kChunk, count));

  // It is kept if a reader needs it meanwhile.
  std::jthread reader;
  ASSERT_TRUE(cache.get_uncached(3, kChunk, [&] {
    const uint64_t shared = stats.decodes_shared;
    reader = std::jthread([&] { EXPECT_TRUE(cache.get(3, kChunk, count)); });
    while (stats.decodes_shared == shared) std::this_thread::yield();
    return chunk_of(3);
  }));
  reader.join();
  decodes = 0;
  ASSERT_TRUE(cache.get(3, kChunk, count));
  EXPECT_EQ(decodes, 0);
}

TEST(ChunkCache, ForgetsErrors) {
  Stats stats;
  ChunkCache cache(16 * kChunk, stats);
  const auto failed = cache.get(1, kChunk, []() -> Result<Buffer> { return fail(EIO, "broken"); });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, EIO);
  EXPECT_TRUE(cache.get(1, kChunk, [&] { return chunk_of(1); }));
  EXPECT_EQ(stats.decodes_now, 0);
}

TEST(ChunkCache, AdmitsDecodesWithinItsLimit) {
  Stats stats;
  ChunkCache cache(2 * kChunk, stats);
  std::vector<std::jthread> readers;
  for (ChunkKey key = 0; key < 16; ++key) {
    readers.emplace_back([&, key] {
      ASSERT_TRUE(cache.get(key, kChunk, [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        return chunk_of(static_cast<uint8_t>(key));
      }));
    });
  }
  readers.clear();
  EXPECT_LE(stats.decodes_parallel, 2);
  EXPECT_EQ(stats.chunks_decoded, 16);
}

/// A cache whose calls fail at each allocation, after which another reader must get the chunk.
class ChunkCacheMemoryTest : public testing::Test {
 protected:
  static constexpr ChunkKey kKey = 7;

  template <class Call>
  void step_through(Call call) {
    step_through_allocations(
        [&]() -> Result<> {
          auto made = call();
          if constexpr (requires { made.error(); }) {
            if (!made) return std::unexpected(made.error());
          }
          return {};
        },
        [&](bool) {
          EXPECT_EQ(stats_.decodes_now, 0);
          const Result<ChunkPtr> chunk = cache_.get(kKey, 8 * kChunk, [] { return chunk_of(1); });
          EXPECT_TRUE(chunk) << "nothing counts as being decoded for ever";
          cache_.drop(kKey);
          EXPECT_EQ(stats_.cache_bytes, 0);
        });
  }
  Stats stats_;
  ChunkCache cache_{8 * kChunk, stats_};
};

TEST_F(ChunkCacheMemoryTest, AReaderLeavesNothing) {
  step_through([this] { return cache_.get(kKey, 8 * kChunk, [] { return chunk_of(1); }); });
}

TEST_F(ChunkCacheMemoryTest, ReadingAheadLeavesNothing) {
  step_through([this]() -> Result<ChunkPtr> {
    (void)cache_.fetch(kKey, 8 * kChunk, [] { return chunk_of(1); });
    return nullptr;
  });
}

TEST_F(ChunkCacheMemoryTest, PassingAChunkOnLeavesNothing) {
  step_through([this] { return cache_.get_uncached(kKey, 8 * kChunk, [] { return chunk_of(1); }); });
}

TEST_F(ChunkCacheMemoryTest, DroppingNeedsNoMemory) {
  ASSERT_TRUE(cache_.get(kKey, kChunk, [] { return chunk_of(1); }));
  ASSERT_TRUE(cache_.get(kKey | kZarr3Form, kChunk, [] { return chunk_of(1); }));
  const FailingMemory failing(0);
  cache_.drop_forms(kKey - 3, 5);
  EXPECT_EQ(stats_.cache_bytes, 0);
}

TEST_F(ChunkCacheMemoryTest, AnExceptionIsTheErrorOfAllReaders) {
  std::binary_semaphore begun{0};
  std::binary_semaphore leave{0};
  auto first = std::async(std::launch::async, [&] {
    return cache_.get(kKey, kChunk, [&]() -> Result<Buffer> {
      begun.release();
      leave.acquire();
      throw std::runtime_error("a text that is longer than what a string holds without memory");
    });
  });
  begun.acquire();
  auto second = std::async(
      std::launch::async, [&] { return cache_.get(kKey, kChunk, []() -> Result<Buffer> { throw std::bad_alloc(); }); });
  leave.release();
  EXPECT_EQ(first.get().error().code, EIO);
  const int other = second.get().error().code;  // its own, if it came after the first had ended
  EXPECT_TRUE(other == EIO || other == ENOMEM) << other;
}

}  // namespace
}  // namespace codecfs::fs
