#include "remote/cached_client.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/generated_object.h"

namespace codecfs::remote {
namespace {

constexpr uint64_t kSize = 100'000;

class CachedClientTest : public testing::Test {
 protected:
  CachedClientTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "codecfs_parts_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~CachedClientTest() override { std::filesystem::remove_all(folder_); }

  /// A program that starts later. `most_bytes`: of the cache.
  [[nodiscard]] std::shared_ptr<ObjectClient> later(uint64_t most_bytes = uint64_t{64} << 20) const {
    return with_disk_cache(object_, DiskCache::open(folder_ / "cache", most_bytes).value());
  }
  static Result<std::optional<ObjectPart>> read(ObjectClient& client, const std::string& key, const ByteRange& range,
                                                const std::string& etag = {}) {
    return client.get(key, ObjectRange{range.offset, range.size}, range.size, etag);
  }
  void expect_right(const Result<std::optional<ObjectPart>>& part, const ByteRange& range) const {
    ASSERT_TRUE(part && *part);
    EXPECT_EQ((*part)->total, kSize);
    EXPECT_EQ((*part)->etag, object_->etag);
    EXPECT_EQ((*part)->bytes.size(), std::min(kSize, range.end()) - range.offset);
    EXPECT_TRUE(GeneratedObject::is_right(range.offset, (*part)->bytes.bytes()));
  }
  [[nodiscard]] std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "cache"))
      if (entry.is_regular_file()) found.push_back(entry.path());
    return found;
  }

  std::filesystem::path folder_;
  std::shared_ptr<GeneratedObject> object_ = std::make_shared<GeneratedObject>(kSize);
};

TEST_F(CachedClientTest, AsksOnlyWhetherTheStateIsTheSame) {
  const ByteRange first{0, uint64_t{8} << 20};
  expect_right(read(*later(), "a/0.0", first), first);
  EXPECT_EQ(object_->take_requests().size(), 1U);
  const auto again = later();
  expect_right(read(*again, "a/0.0", first), first);
  EXPECT_TRUE(object_->take_requests().empty());
  EXPECT_EQ(object_->unchanged, 1);
  EXPECT_EQ(again->statistics().disk_hits, 1U);
  // Other objects and other parts are not taken for it.
  for (const auto& [key, range] : {std::pair("a/0.1", first), std::pair("b/0.0", first), std::pair("0.0", first),
                                   std::pair("a/0.0", ByteRange{0, 50}), std::pair("a/0.0", ByteRange{50, 50})})
    expect_right(read(*again, key, range), range);
  EXPECT_EQ(object_->take_requests().size(), 5U);
}

TEST_F(CachedClientTest, AnotherStateTakesItsPlace) {
  expect_right(read(*later(), "a/0", {0, 500}), {0, 500});
  object_->etag = "\"2\"";
  expect_right(read(*later(), "a/0", {0, 500}), {0, 500});
  EXPECT_EQ(object_->take_requests().size(), 2U);
  expect_right(read(*later(), "a/0", {0, 500}), {0, 500});
  EXPECT_EQ(object_->unchanged, 1);
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(CachedClientTest, PartsOfANamedStateNeedNoRequest) {
  const auto client = later();
  expect_right(read(*client, "a/0", {400, 500}, object_->etag), {400, 500});
  expect_right(read(*later(), "a/0", {400, 500}, object_->etag), {400, 500});
  EXPECT_EQ(object_->take_requests().size(), 1U);
  EXPECT_EQ(object_->unchanged, 0);
  EXPECT_EQ(read(*client, "a/0", {400, 500}, "\"2\"").error().code, ESTALE) << "the server is asked for another state";
}

TEST_F(CachedClientTest, StatesThatCannotBeToldApartAreNotKept) {
  for (const char* etag : {"", "~17 100", "W/\"1\""}) {
    object_->etag = etag;
    for (int round = 0; round < 2; ++round) expect_right(read(*later(), "a/0", {0, 500}), {0, 500});
    EXPECT_EQ(object_->take_requests().size(), 2U) << etag;
  }
  EXPECT_TRUE(files().empty());
}

TEST_F(CachedClientTest, ErrorsAreThoseOfTheServer) {
  expect_right(read(*later(), "a/0", {0, 500}), {0, 500});
  object_->etag = "\"2\"";
  object_->fails = [](const ObjectRange&) { return true; };
  EXPECT_EQ(read(*later(), "a/0", {0, 500}).error().code, EIO);
}

TEST_F(CachedClientTest, DamagedFilesAreNotUsed) {
  expect_right(read(*later(), "a/0", {0, 500}), {0, 500});
  const auto file = files().at(0);
  const auto size = std::filesystem::file_size(file);
  std::string content(size, '\0');
  std::ifstream(file, std::ios::binary).read(content.data(), static_cast<std::streamsize>(size));
  const auto expect_unused = [&](const std::string& damaged) {
    std::ofstream(file, std::ios::binary) << damaged;
    (void)object_->take_requests();
    expect_right(read(*later(), "a/0", {0, 500}), {0, 500});
    EXPECT_EQ(object_->take_requests().size(), 1U);
  };
  for (size_t at = 0; at < size; ++at) {  // with the ETag, which decides what the server is asked
    std::string damaged = content;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    expect_unused(damaged);
  }
  for (size_t length : {size_t{0}, size_t{10}, size_t{60}, size - 1}) expect_unused(content.substr(0, length));
  expect_unused(content + "x");
  EXPECT_EQ(object_->unchanged, 0);
}

TEST_F(CachedClientTest, StaysWithinItsSize) {
  const auto client = later(uint64_t{1} << 20);
  for (int i = 0; i < 100; ++i) (void)read(*client, "a/" + std::to_string(i), {0, 50'000});
  uint64_t bytes = 0;
  for (const auto& file : files()) bytes += std::filesystem::file_size(file);
  EXPECT_LE(bytes, uint64_t{1} << 20);
  EXPECT_GT(bytes, uint64_t{1} << 19);
}

}  // namespace
}  // namespace codecfs::remote
