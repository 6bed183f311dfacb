#include "remote/disk_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "remote/object_file.h"
#include "support/generated_object.h"

namespace codecfs::remote {
namespace {

constexpr uint64_t kMebi = uint64_t{1} << 20;

class DiskCacheTest : public testing::Test {
 protected:
  DiskCacheTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "codecfs_cache_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~DiskCacheTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::shared_ptr<DiskCache> open(uint64_t bytes = 100 * kMebi) const {
    return DiskCache::open(path(), bytes).value();
  }
  [[nodiscard]] std::string path() const { return (folder_ / "cache").string(); }
  [[nodiscard]] std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path()))
      if (entry.is_regular_file() && entry.path().filename() != "state") found.push_back(entry.path());
    return found;
  }
  [[nodiscard]] uint64_t bytes() const {
    uint64_t sum = 0;
    for (const auto& file : files()) sum += std::filesystem::file_size(file);
    return sum;
  }

  std::filesystem::path folder_;
};

Buffer generated(const ByteRange& range) {
  GeneratedObject object(range.end());
  return std::move(object.get("", ObjectRange{range.offset, range.size}, range.size, {}).value()->bytes);
}

bool has(DiskCache::Object& object, const ByteRange& range) {
  const auto bytes = object.find(range);
  EXPECT_TRUE(!bytes || (bytes->size() == range.size && GeneratedObject::is_right(range.offset, bytes->bytes())));
  return bytes.has_value();
}

const DiskCache::Object::State kFirstState{"\"one\"", 100 * kMebi, 17};

TEST_F(DiskCacheTest, FindsRangesInOneFileOrSeveral) {
  const auto cache = open();
  const auto object = cache->object("server/bucket/key");
  EXPECT_FALSE(object->state());
  object->use(kFirstState);
  EXPECT_EQ(object->state()->etag, "\"one\"");
  EXPECT_EQ(object->state()->modified, 17);
  for (const ByteRange range : {ByteRange{1000, 500}, ByteRange{1500, 700}, ByteRange{5000, 100}})
    object->store(range, generated(range).bytes());
  EXPECT_TRUE(has(*object, {1000, 500}));
  EXPECT_TRUE(has(*object, {1100, 50}));
  EXPECT_TRUE(has(*object, {1400, 600}));
  EXPECT_FALSE(has(*object, {900, 200}));
  EXPECT_FALSE(has(*object, {2100, 200}));
  EXPECT_FALSE(has(*object, {1600, 3450}));

  const auto later = open()->object("server/bucket/key");
  later->use(kFirstState);
  EXPECT_TRUE(has(*later, {1400, 600}));
  const auto other = cache->object("server/bucket/other");
  other->use(kFirstState);
  EXPECT_FALSE(has(*other, {1400, 600}));
}

TEST_F(DiskCacheTest, SeesWhatOtherProcessesStore) {
  const auto one = open()->object("key");
  const auto cache = open();
  const auto two = cache->object("key");
  one->use(kFirstState);
  two->use(kFirstState);
  EXPECT_FALSE(has(*one, {0, 100}));
  ::usleep(20'000);  // the time of a directory has steps
  two->store({0, 100}, generated({0, 100}).bytes());
  EXPECT_TRUE(has(*one, {10, 50}));
}

TEST_F(DiskCacheTest, ForgetsOtherStates) {
  const auto cache = open();
  const auto object = cache->object("key");
  object->use(kFirstState);
  object->store({0, 100}, generated({0, 100}).bytes());
  object->use({"\"two\"", 100 * kMebi, 18});
  EXPECT_FALSE(has(*object, {0, 100}));
  EXPECT_TRUE(files().empty());
}

TEST_F(DiskCacheTest, DamagedFilesAreNotUsed) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const auto cache = open();
    const auto object = cache->object("key");
    object->use(kFirstState);
    object->store({4096, 5000}, generated({4096, 5000}).bytes());
    ASSERT_EQ(files().size(), 1U);
    const std::string file = files()[0].string();
    const auto size = std::filesystem::file_size(file);
    if (round % 3 == 0) {
      std::filesystem::resize_file(file, random() % size);
    } else {
      std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
      const auto at = static_cast<std::streamoff>(random() % size);
      stream.seekg(at);
      const char byte = static_cast<char>(stream.get());
      stream.seekp(at);
      stream.put(static_cast<char>(byte ^ (1 << (round % 8))));
    }
    EXPECT_FALSE(object->find({4096, 5000}));
    EXPECT_TRUE(files().empty()) << "it is deleted";
  }
}

TEST_F(DiskCacheTest, FilesOfOtherNamesAndRangesAreNotUsed) {
  const auto cache = open();
  const auto object = cache->object("key");
  object->use(kFirstState);
  object->store({0, 5000}, generated({0, 5000}).bytes());
  const std::filesystem::path file = files()[0];
  std::string name = file.filename().string();
  name.replace(name.find("-0-"), 3, "-4096-");
  std::filesystem::rename(file, file.parent_path() / name);
  std::filesystem::create_symlink("/etc/passwd", file);
  const auto again = open()->object("key");
  again->use(kFirstState);
  EXPECT_FALSE(again->find({4096, 5000}));
  EXPECT_FALSE(again->find({0, 5000}));
}

TEST_F(DiskCacheTest, StaysWithinItsSize) {
  const auto cache = open(8 * kMebi);
  const auto object = cache->object("key");
  object->use(kFirstState);
  for (uint64_t i = 0; i < 40; ++i) object->store({i * kMebi, kMebi}, generated({i * kMebi, kMebi}).bytes());
  EXPECT_LE(bytes(), 9 * kMebi);
  EXPECT_TRUE(has(*object, {39 * kMebi, kMebi})) << "the latest stay";
  EXPECT_FALSE(has(*object, {0, kMebi}));
  const auto smaller = open(2 * kMebi);
  EXPECT_LE(bytes(), 2 * kMebi) << "at the start, too";
}

TEST_F(DiskCacheTest, DeletesNothingThatIsNotItsOwn) {
  (void)open();
  const std::string hash(64, 'a');
  const std::vector<std::string> others = {"Documents/thesis.odt", "Documents/" + hash, hash + "/thesis.odt", "state",
                                           std::string(63, 'a') + "/state"};
  for (const std::string& name : others) {
    std::filesystem::create_directories((std::filesystem::path(path()) / name).parent_path());
    std::ofstream(std::filesystem::path(path()) / name) << std::string(kMebi, 'x');
  }
  std::ofstream(std::filesystem::path(path()) / hash / "state") << std::string(kMebi, 'x');
  (void)open(kMebi / 2);
  for (const std::string& name : others)
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(path()) / name)) << name;
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(path()) / hash / "state"));
}

TEST_F(DiskCacheTest, RefusesDirectoriesOfOthers) {
  std::filesystem::create_directory(path());
  ::chmod(path().c_str(), 0777);
  EXPECT_EQ(DiskCache::open(path(), kMebi).error().code, EACCES);
  ::chmod(path().c_str(), 0700);
  EXPECT_TRUE(DiskCache::open(path(), kMebi));
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(path().c_str(), 12345, 12345), 0);
  EXPECT_EQ(DiskCache::open(path(), kMebi).error().code, EACCES);
}

TEST_F(DiskCacheTest, OneRequestOpensAFileAgain) {
  const auto object = std::make_shared<GeneratedObject>(100 * kMebi);
  const auto use = [&] {
    const auto file = ObjectFile::open(object, "key", "name", 8, open()).value();
    std::vector<std::byte> bytes(200'000);
    EXPECT_TRUE(file->read_mirrored(50 * kMebi, bytes));
    EXPECT_TRUE(GeneratedObject::is_right(50 * kMebi, bytes));
    const auto data = file->read(70 * kMebi + 5, 300'000);
    EXPECT_TRUE(data && GeneratedObject::is_right(70 * kMebi + 5, data->bytes()));
  };
  use();
  EXPECT_EQ(object->take_requests().size(), 3U);
  use();
  EXPECT_TRUE(object->take_requests().empty());
  EXPECT_EQ(object->unchanged, 1);
  object->etag = "\"another\"";
  use();
  EXPECT_EQ(object->take_requests().size(), 3U);
  object->etag = "~17 100";  // of a server without ETags
  use();
  use();
  EXPECT_EQ(object->take_requests().size(), 6U);
}

TEST_F(DiskCacheTest, ManyThreadsUseIt) {
  const auto cache = open(5 * kMebi);
  std::vector<std::jthread> threads;
  std::atomic<int> found = 0;
  for (unsigned i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      const auto object = cache->object("key");
      object->use(kFirstState);
      std::mt19937_64 random(i);
      for (int round = 0; round < 200; ++round) {
        const ByteRange range{random() % 20 * 100'000, 100'000};
        if (has(*object, range))
          ++found;
        else
          object->store(range, generated(range).bytes());
      }
    });
  threads.clear();
  EXPECT_GT(found, 100);
}

}  // namespace
}  // namespace codecfs::remote
