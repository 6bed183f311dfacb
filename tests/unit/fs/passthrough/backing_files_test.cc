#include "fs/passthrough/backing_files.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "fs/context/mount_context.h"
#include "support/failing_memory.h"

namespace codecfs::fs {
namespace {

constexpr uint64_t kChunk = 4096;

/// Keeps the content of files, as the kernel does.
class FakeDevice final : public BackingDevice {
 public:
  Result<int32_t> store(Bytes content) override {
    const LockGuard lock(mutex_);
    if (refuse_ != 0) return fail(refuse_, "refused");
    bytes_ += content.size();
    if (bytes_ > limit_) {
      bytes_ -= content.size();
      return fail(ENOSPC, "full");
    }
    files_.emplace(++last_, std::string(reinterpret_cast<const char*>(content.data()), content.size()));
    return last_;
  }
  Result<int32_t> open(int) override { return fail(ELOOP, "refused"); }
  void close(int32_t id) override {
    const LockGuard lock(mutex_);
    const auto found = files_.find(id);
    ASSERT_NE(found, files_.end()) << "closed twice";
    bytes_ -= found->second.size();
    files_.erase(found);
  }

  /// "" if the file is not there.
  std::string content(int32_t id) {
    const LockGuard lock(mutex_);
    const auto found = files_.find(id);
    return found == files_.end() ? "" : found->second;
  }
  size_t count() {
    const LockGuard lock(mutex_);
    return files_.size();
  }
  void set_limit(uint64_t bytes) {
    const LockGuard lock(mutex_);
    limit_ = bytes;
  }
  void refuse(int code) {
    const LockGuard lock(mutex_);
    refuse_ = code;
  }

 private:
  Mutex mutex_;
  std::map<int32_t, std::string> files_ CODECFS_GUARDED_BY(mutex_);
  uint64_t bytes_ CODECFS_GUARDED_BY(mutex_) = 0;
  uint64_t limit_ CODECFS_GUARDED_BY(mutex_) = uint64_t{1} << 40;
  int refuse_ CODECFS_GUARDED_BY(mutex_) = 0;
  int32_t last_ CODECFS_GUARDED_BY(mutex_) = 0;
};

/// Keeps nothing; takes as long to write as the test says.
class TimedDevice final : public BackingDevice {
 public:
  explicit TimedDevice(std::function<void()> on_store) : on_store_(std::move(on_store)) {}
  Result<int32_t> store(Bytes) override {
    on_store_();
    return ++last_;
  }
  Result<int32_t> open(int) override { return fail(ELOOP, "refused"); }
  void close(int32_t) override {}

 private:
  const std::function<void()> on_store_;
  int32_t last_ = 0;
};

std::string content_of(ChunkKey key) {
  std::string text(kChunk, static_cast<char>('a' + key % 26));
  text.replace(0, 8, std::to_string(10'000'000 + key));
  return text;
}

Result<ChunkPtr> decode(ChunkKey key) {
  const std::string text = content_of(key);
  CODECFS_ASSIGN(Buffer bytes, Buffer::copy_of(std::as_bytes(std::span(text))));
  return std::make_shared<const Buffer>(std::move(bytes));
}

struct BackingFilesTest : testing::Test {
  BackingPtr get(ChunkKey key) {
    return files.get(key, kChunk, [this, key] {
      ++decoded;
      return decode(key);
    });
  }
  bool make(ChunkKey key) {
    return files.make(key, kChunk, [this, key] {
      ++decoded;
      return decode(key);
    });
  }
  bool is_there(ChunkKey key) { return files.find(key) != nullptr; }

  FakeDevice device;
  Stats stats;
  BackingFiles files{device, 4 * kChunk, [] { return UINT64_MAX; }, stats};
  std::atomic<int> decoded = 0;
};

TEST_F(BackingFilesTest, AFileIsMadeOnceAndStaysWhileThereIsRoom) {
  EXPECT_FALSE(is_there(1));
  EXPECT_TRUE(make(1));
  EXPECT_TRUE(make(1));
  const BackingPtr one = get(1);
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(device.content(one->id()), content_of(1));
  EXPECT_EQ(files.find(1)->id(), one->id());
  EXPECT_EQ(decoded, 1);
  for (ChunkKey key = 2; key < 10; ++key) EXPECT_TRUE(make(key));
  EXPECT_TRUE(is_there(1)) << "it is open";
  EXPECT_FALSE(is_there(2));
  EXPECT_TRUE(is_there(9));
  EXPECT_EQ(device.count(), 4U);
  EXPECT_EQ(stats.passthrough_bytes, 4 * kChunk);
  EXPECT_EQ(stats.passthrough_chunks, 9U);
}

TEST_F(BackingFilesTest, TheLeastRecentlyUsedFileGoes) {
  for (ChunkKey key = 1; key <= 3; ++key) get(key);
  make(4);
  EXPECT_TRUE(is_there(1));  // a use
  make(5);
  EXPECT_TRUE(is_there(1));
  EXPECT_FALSE(is_there(2));
  make(6);
  make(7);
  EXPECT_TRUE(is_there(4)) << "what was made ahead of its reader stays longest";
  EXPECT_FALSE(is_there(1));
}

TEST_F(BackingFilesTest, FilesThatAreOpenLeaveNoRoom) {
  std::vector<BackingPtr> open;
  for (ChunkKey key = 1; key <= 4; ++key) open.push_back(get(key));
  EXPECT_EQ(get(5), nullptr);
  EXPECT_FALSE(make(5));
  EXPECT_EQ(decoded, 4) << "nothing is decoded that has no room";
  EXPECT_EQ(stats.passthrough_fallbacks, 2U);
  open.pop_back();
  EXPECT_NE(get(5), nullptr);
  EXPECT_EQ(device.content(open[0]->id()), content_of(1));
}

TEST_F(BackingFilesTest, AChunkThatCannotBeDecodedIsTriedOnce) {
  int tries = 0;
  const auto damaged = [&]() -> Result<ChunkPtr> {
    ++tries;
    return fail(EIO, "damaged");
  };
  EXPECT_EQ(files.get(1, kChunk, damaged), nullptr);
  EXPECT_EQ(files.get(1, kChunk, damaged), nullptr);
  EXPECT_FALSE(files.make(1, kChunk, damaged));
  EXPECT_EQ(tries, 1);
  // What is not stored now may be stored later.
  EXPECT_EQ(files.get(2, kChunk, [] { return Result<ChunkPtr>(fail(ENOENT, "not stored")); }), nullptr);
  EXPECT_NE(get(2), nullptr);
  EXPECT_EQ(files.get(3, kChunk + 1, [] { return decode(3); }), nullptr) << "another size than that of its attributes";
  EXPECT_EQ(files.get(4, kChunk, []() -> Result<ChunkPtr> { throw std::bad_alloc(); }), nullptr);
  EXPECT_NE(get(4), nullptr);
}

TEST_F(BackingFilesTest, AFullFilesystemGetsRoomByRemovingFiles) {
  for (ChunkKey key = 1; key <= 3; ++key) make(key);
  device.set_limit(3 * kChunk);  // the rest is held by mappings
  EXPECT_NE(get(4), nullptr);
  EXPECT_FALSE(is_there(1));
  device.set_limit(0);
  EXPECT_EQ(get(5), nullptr);
  device.refuse(EPERM);
  EXPECT_EQ(get(6), nullptr);
  device.refuse(0);
  device.set_limit(1 << 20);
  EXPECT_NE(get(5), nullptr);
  EXPECT_NE(get(6), nullptr);
}

TEST_F(BackingFilesTest, WaitersShareOneDecode) {
  std::latch begun(1);
  std::latch go_on(1);
  std::thread maker([&] {
    files.make(1, kChunk, [&] {
      begun.count_down();
      go_on.wait();
      return decode(1);
    });
  });
  begun.wait();
  EXPECT_TRUE(files.is_coming(1));
  EXPECT_EQ(files.find(1), nullptr);
  std::atomic<int> got = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) readers.emplace_back([&] { got += get(1) != nullptr ? 1 : 0; });
  go_on.count_down();
  maker.join();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(got, 3);
  EXPECT_EQ(decoded, 0);
  EXPECT_FALSE(files.is_coming(1));
}

TEST_F(BackingFilesTest, WaitersOfAFailureGetNothing) {
  std::latch begun(1);
  std::latch go_on(1);
  std::thread maker([&] {
    files.make(1, kChunk, [&]() -> Result<ChunkPtr> {
      begun.count_down();
      go_on.wait();
      return fail(EIO, "damaged");
    });
  });
  begun.wait();
  std::thread reader([&] { EXPECT_EQ(get(1), nullptr); });
  go_on.count_down();
  maker.join();
  reader.join();
  EXPECT_EQ(decoded, 0);
}

constexpr uint64_t kMiB = uint64_t{1} << 20;

Result<ChunkPtr> large() {
  static const Result<ChunkPtr> content = []() -> Result<ChunkPtr> {
    CODECFS_ASSIGN(Buffer bytes, Buffer::allocate(kMiB));
    std::ranges::fill(bytes.mutable_bytes(), std::byte{0});
    return std::make_shared<const Buffer>(std::move(bytes));
  }();
  return content;
}

TEST(BackingFiles, LeaveMemoryToOthers) {
  TimedDevice device([] {});
  Stats stats;
  std::atomic<uint64_t> available = 1024 * kMiB;
  BackingFiles files(device, 512 * kMiB, [&] { return available.load(); }, stats);
  for (ChunkKey key = 0; key < 256; ++key) ASSERT_TRUE(files.make(key, kMiB, large));
  EXPECT_EQ(stats.passthrough_bytes, 256 * kMiB);
  available = 400 * kMiB;
  for (ChunkKey key = 256; key < 1024; ++key) ASSERT_TRUE(files.make(key, kMiB, large));
  EXPECT_LE(stats.passthrough_bytes, 273 * kMiB) << "it does not grow";
  EXPECT_GE(stats.passthrough_bytes, 256 * kMiB);
  available = 40 * kMiB;
  for (ChunkKey key = 1024; key < 2048; ++key) ASSERT_TRUE(files.make(key, kMiB, large));
  EXPECT_EQ(stats.passthrough_bytes, 64 * kMiB) << "it gives back";
}

TEST(BackingFiles, PressureHalvesWhatIsHeld) {
  TimedDevice device([] {});
  Stats stats;
  BackingFiles files(device, 1024 * kMiB, [] { return UINT64_MAX; }, stats);
  for (ChunkKey key = 0; key < 256; ++key) ASSERT_TRUE(files.make(key, kMiB, large));
  std::vector<BackingPtr> open;
  for (ChunkKey key = 0; key < 96; ++key) open.push_back(files.find(key));
  files.shrink();
  EXPECT_EQ(stats.passthrough_bytes, 128 * kMiB);
  files.shrink();
  EXPECT_EQ(stats.passthrough_bytes, 96 * kMiB) << "files that are open stay";
  open.clear();
  EXPECT_EQ(stats.passthrough_bytes, 64 * kMiB);
  files.shrink();
  EXPECT_EQ(stats.passthrough_bytes, 64 * kMiB) << "that much always stays";
  for (ChunkKey key = 0; key < 256; ++key) ASSERT_TRUE(files.make(key, kMiB, large));
  EXPECT_EQ(stats.passthrough_bytes, 64 * kMiB);
  files.shrink(BackingFiles::Clock::now() - std::chrono::minutes(1));
  for (ChunkKey key = 0; key < 256; ++key) ASSERT_TRUE(files.make(key, kMiB, large));
  EXPECT_EQ(stats.passthrough_bytes, 128 * kMiB) << "the pressure is long ago";
}

TEST(BackingFiles, PressureLeavesWhatIsReadAhead) {
  TimedDevice device([] {});
  Stats stats;
  BackingFiles files(device, 256 * kMiB, [] { return UINT64_MAX; }, stats, BackingFiles::Policy::if_better);
  for (ChunkKey key = 0; key < 64; ++key) files.get(key, kMiB, large);
  const uint64_t ahead = FilesystemOptions{}.cache_bytes / 2 / kMiB;
  for (ChunkKey key = 64; key < 64 + ahead; ++key) ASSERT_TRUE(files.make(key, kMiB, large));
  for (int i = 0; i < 8; ++i) files.shrink();
  for (ChunkKey key = 64; key < 64 + ahead; ++key) EXPECT_NE(files.find(key), nullptr) << key;
  EXPECT_EQ(stats.passthrough_bytes, 64 * kMiB);
}

TEST_F(BackingFilesTest, ConcurrentReadersWithLittleRoom) {
  const auto reader = [this](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<ChunkKey, BackingPtr>> open;
    for (int i = 0; i < 20'000; ++i) {
      const ChunkKey key = random() % 12;
      switch (random() % 4) {
        case 0: make(key); break;
        case 1:
          if (BackingPtr file = files.find(key)) open.emplace_back(key, std::move(file));
          break;
        default:
          if (BackingPtr file = get(key)) open.emplace_back(key, std::move(file));
      }
      for (const auto& [number, file] : open) ASSERT_EQ(device.content(file->id()), content_of(number));
      while (open.size() > random() % 3) open.erase(open.begin());
      if (random() % 500 == 0) files.shrink(BackingFiles::Clock::now() - std::chrono::minutes(1));
      ASSERT_LE(stats.passthrough_bytes, 4 * kChunk);
    }
  };
  std::vector<std::thread> readers;
  for (unsigned i = 0; i < 4; ++i) readers.emplace_back(reader, i);
  for (std::thread& thread : readers) thread.join();
  EXPECT_LE(device.count(), 4U);
}

struct BackingFilesIfBetterTest : testing::Test {
  BackingPtr get(ChunkKey key) {
    return files.get(key, kMiB, [this] {
      ++made;
      now += making;
      waited += waiting;
      return content;
    });
  }
  bool make(ChunkKey key) {
    return files.make(key, kMiB, [this] {
      ++made;
      now += making;
      waited += waiting;
      return content;
    });
  }
  /// Files of these keys that are there.
  uint64_t count(ChunkKey first, ChunkKey last) {
    uint64_t there = 0;
    for (ChunkKey key = first; key <= last; ++key) there += files.find(key) != nullptr ? 1 : 0;
    return there;
  }

  using Time = std::chrono::microseconds;
  static constexpr Time kCopy{50};
  static constexpr Time kDear{2300};
  std::chrono::nanoseconds now{};
  Time making = kCopy;
  Time waiting{};  // for the source
  std::chrono::nanoseconds waited{};
  const Result<ChunkPtr> content = large();
  std::function<Time()> writing = [] { return kCopy; };
  int made = 0;
  TimedDevice device{[this] { now += writing(); }};
  Stats stats;
  BackingFiles files{device,
                     256 * kMiB,
                     [] { return UINT64_MAX; },
                     stats,
                     BackingFiles::Policy::if_better,
                     {.elapsed = [this] { return now + waited; }, .processor = [this] { return now; }}};
};

TEST_F(BackingFilesIfBetterTest, FilesThatAreMadeFastGoForNewOnes) {
  for (ChunkKey key = 1; key <= 300; ++key) EXPECT_NE(get(key), nullptr);
  EXPECT_EQ(stats.passthrough_bytes, 256 * kMiB);
  EXPECT_EQ(count(1, 44), 0U);
  EXPECT_EQ(count(45, 300), 256U);
}

TEST_F(BackingFilesIfBetterTest, FilesThatAreMadeSlowlyStay) {
  making = 100 * kCopy;
  for (ChunkKey key = 1; key <= 256; ++key) EXPECT_NE(get(key), nullptr);
  for (ChunkKey key = 257; key <= 300; ++key) EXPECT_EQ(get(key), nullptr) << "it goes into the page cache";
  EXPECT_EQ(made, 256);
  EXPECT_EQ(count(1, 256), 256U);
  for (ChunkKey key = 1000; key < 2200; ++key) (void)make(key);
  EXPECT_LE(count(1, 256), 100U) << "the page cache would have lost the others";
}

TEST_F(BackingFilesIfBetterTest, FilesWhoseSourceIsSlowStay) {
  waiting = 100 * kCopy;
  for (ChunkKey key = 1; key <= 256; ++key) EXPECT_NE(get(key), nullptr);
  EXPECT_EQ(get(257), nullptr);
}

TEST_F(BackingFilesIfBetterTest, FilesThatWereNotReadYetStayForAWhile) {
  for (ChunkKey key = 1; key <= 256; ++key) EXPECT_TRUE(make(key));
  EXPECT_FALSE(make(257));
  EXPECT_EQ(count(1, 1), 1U);
  EXPECT_TRUE(make(258)) << "in place of the one that was read";
  EXPECT_EQ(count(1, 1), 0U);
  for (ChunkKey key = 1000; key < 1300; ++key) (void)make(key);
  EXPECT_TRUE(make(2000)) << "they have not been read";
}

TEST_F(BackingFilesIfBetterTest, WhereMemoryIsDearChunksGoIntoThePageCache) {
  writing = [] { return kDear; };
  uint64_t passed = 0;
  for (ChunkKey key = 1; key <= 1000; ++key) passed += get(key) != nullptr ? 1 : 0;
  EXPECT_LE(passed, 20U);
}

TEST_F(BackingFilesTest, NothingIsClosedAfterTheEnd) {
  BackingPtr open = get(1);
  files.stop();
  EXPECT_FALSE(make(2));
  device.refuse(EIO);
  open = nullptr;
  EXPECT_EQ(device.count(), 1U) << "it ends with the session";
}

TEST_F(BackingFilesTest, NoFileIsForgottenWhenMemoryRunsOut) {
  ChunkKey key = 0;
  step_through_allocations(
      [&]() -> Result<> {
        (void)get(++key);
        return {};
      },
      [&](bool) {
        ASSERT_NE(get(key), nullptr) << "it is not being made for ever";
        EXPECT_EQ(stats.passthrough_bytes, device.count() * kChunk) << "no file of the device is forgotten";
      });
}

}  // namespace
}  // namespace codecfs::fs
