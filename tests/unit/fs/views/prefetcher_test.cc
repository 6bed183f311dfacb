// What is decoded ahead of a sequential reader, and what the kernel gets of it.

#include "fs/views/prefetcher.h"

#include <atomic>
#include <thread>

#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

constexpr uint64_t kChunk = 64 << 10;  // bytes
constexpr uint64_t kCount = 6;         // chunks

class PrefetcherTest : public FilesystemTest {
 protected:
  PrefetcherTest() {
    source_->add_variable("/big", text_variable({kCount * kChunk}, {kChunk}));
    for (uint64_t number = 0; number < kCount; ++number) source_->put("/big", number, content(number));
  }
  static std::string content(uint64_t number) { return std::string(kChunk, static_cast<char>('0' + number)); }
  /// Opens and closes the files of the first chunks in order.
  void open_in_order(uint64_t count, View view = View::decoded) {
    for (uint64_t number = 0; number < count; ++number) {
      const auto file = fs().files().open(chunk(number, view), false, false);
      EXPECT_TRUE(file);
    }
  }
  Ino chunk(uint64_t number, View view = View::decoded) { return ino(fmt::format("/big/{}", number), view); }
  /// Whether the kernel gets all of a file within some seconds.
  bool is_pushed(Ino ino, const std::string& expected) {
    for (int i = 0; i < 1000; ++i) {
      if (kernel_.pages()[ino] == expected) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
};

TEST_F(PrefetcherTest, ASequentialReadersNextChunksArePushed) {
  open_in_order(3);
  for (uint64_t number = 3; number < kCount; ++number) EXPECT_TRUE(is_pushed(chunk(number), content(number))) << number;
  fs().stop_reading_ahead();
  EXPECT_FALSE(kernel_.pages().contains(chunk(0))) << "the reader has it";
  EXPECT_EQ(mount().stats.bytes_pushed % kChunk, 0);
}

TEST_F(PrefetcherTest, EncodedChunksArePushedAsTheyAreStored) {
  open_in_order(3, View::encoded);
  EXPECT_TRUE(is_pushed(chunk(4, View::encoded), content(4)));
  fs().stop_reading_ahead();
  EXPECT_FALSE(kernel_.pages().contains(chunk(4)));
  EXPECT_EQ(mount().stats.chunks_decoded, 0);
}

TEST_F(PrefetcherTest, SmallStoredChunksAreNotWorthAThread) {
  source_->add_variable("/small", text_variable({400}, {4}));
  for (uint64_t number = 0; number < 100; ++number) source_->put("/small", number, "abcd");
  for (uint64_t number = 0; number < 20; ++number)
    ASSERT_TRUE(fs().files().open(ino(fmt::format("/small/{}", number), View::encoded), false, false));
  fs().stop_reading_ahead();
  EXPECT_TRUE(kernel_.pages().empty());
}

TEST_F(PrefetcherTest, AbsentAndEditedChunksAreNotPushed) {
  ASSERT_TRUE(source_->remove_chunk(source_->object("/big"), 4));
  ASSERT_TRUE(write_file("/big/3", content(9)));
  open_in_order(3);
  EXPECT_TRUE(is_pushed(chunk(5), content(5)));
  fs().stop_reading_ahead();
  // The one before them may be pushed before the reader opens it.
  for (const auto& [pushed, text] : kernel_.pages()) EXPECT_TRUE(pushed == chunk(5) || pushed == chunk(2)) << pushed;
}

/// Counts files.
class CountingDevice final : public BackingDevice {
 public:
  Result<int32_t> store(Bytes) override { return ++files_; }
  Result<int32_t> open(int) override { return ++files_; }
  void close(int32_t) override {}

 private:
  std::atomic<int32_t> files_ = 0;
};

TEST_F(PrefetcherTest, LargeChunksArePassedThrough) {
  constexpr uint64_t kLarge = 256 << 10;
  options_.read_only = true;
  source_->add_variable("/large", text_variable({kCount * kLarge}, {kLarge}));
  for (uint64_t number = 0; number < kCount; ++number) source_->put("/large", number, std::string(kLarge, 'x'));
  mount().kernel.passthrough =
      std::make_unique<Passthrough>(std::make_unique<CountingDevice>(), 64 << 20, mount().stats);
  BackingFiles& files = mount().kernel.passthrough->files();
  for (uint64_t number = 0; number < 3; ++number) {
    const auto file = fs().files().open(ino(fmt::format("/large/{}", number)), false, false);
    ASSERT_TRUE(file);
    ASSERT_TRUE((*file)->passable);
    EXPECT_EQ((*file)->passable->bytes, kLarge);
    EXPECT_EQ((*file)->passable->is_expected, number > 0) << "the reader is sequential";
  }
  for (uint64_t number = 3; number < kCount; ++number) {
    const Ino key = ino(fmt::format("/large/{}", number));
    for (int i = 0; i < 1000 && files.find(key) == nullptr; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_NE(files.find(key), nullptr) << number;
  }
  const auto small = fs().files().open(chunk(0), false, false);
  ASSERT_TRUE(small);
  EXPECT_FALSE((*small)->passable);
  fs().stop_reading_ahead();
  EXPECT_EQ(mount().stats.stores, 0);
  EXPECT_EQ(mount().stats.cache_bytes, 0) << "the chunks are not in the cache, too";
}

TEST_F(PrefetcherTest, NothingIsPushedToACoherentMount) {
  options_.coherent = true;
  open_in_order(3);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  fs().stop_reading_ahead();
  EXPECT_TRUE(kernel_.pages().empty());
}

// The invalidation of the change has been sent, and would not reach these pages.
TEST_F(PrefetcherTest, ContentOfAnEarlierStateIsNotPushed) {
  Components parts(mount());
  const auto array = ArrayFile::make(source_->variable(source_->object("/big")).value(), *form_of(View::raw).array);
  const Ino file = ino("/big", View::raw);
  const Result<ChunkPtr> decoded = mount().chunks.decoder.decoded(chunk_place("/big", 1));
  const uint64_t changes = mount().changes();
  mount().chunks.write_back.note_change();
  mount().dataset.forget(0);
  ASSERT_NE(mount().changes(), changes);
  parts.prefetcher.give_chunk(file, *array, 1, *decoded, changes);
  // A push is left out while another to the same file is running, even one that will be refused.
  const std::string expected = std::string(2 * kChunk, '\0') + content(1);
  for (int i = 0; i < 1000 && kernel_.pages()[file] != expected; ++i) {
    parts.prefetcher.give_chunk(file, *array, 2, *decoded, mount().changes());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  fs().stop_reading_ahead();
  EXPECT_EQ(kernel_.pages()[file], expected) << "the chunk that is not current was not pushed";
}

TEST_F(PrefetcherTest, AWriterKeepsPushesAway) {
  Components parts(mount());
  const auto array = ArrayFile::make(source_->variable(source_->object("/big")).value(), *form_of(View::raw).array);
  const Ino file = ino("/big", View::raw);
  const Result<ChunkPtr> decoded = mount().chunks.decoder.decoded(chunk_place("/big", 1));
  const KernelPages::Writer writer(mount().kernel.pages, file);
  parts.prefetcher.give_chunk(file, *array, 1, *decoded, mount().changes());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  fs().stop_reading_ahead();
  EXPECT_TRUE(kernel_.pages().empty());
}

}  // namespace
}  // namespace codecfs::fs
