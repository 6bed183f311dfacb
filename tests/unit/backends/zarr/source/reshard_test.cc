// Other shards for an array of 8 x 6 bytes in chunks of 2 x 3, of which the last is absent.

#include "backends/zarr/source/reshard.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/zarr/source/zarr_source.h"
#include "model/json.h"
#include "support/zarr_testing.h"

namespace codecfs {
namespace {

using Shape = std::vector<uint64_t>;

constexpr uint64_t kChunkCount = 8;

std::string sharding(const char* chunk_shape, const std::string& codecs, const char* more = "") {
  return fmt::format(R"([{{"name": "sharding_indexed", "configuration": {{"chunk_shape": {}, "codecs": {}{}}}}}])",
                     chunk_shape, codecs, more);
}

class ReshardTest : public zarr_testing::StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    std::filesystem::remove(store() / ".zgroup");
    put("zarr.json", R"({"zarr_format": 3, "node_type": "group"})");
  }
  /// Makes the array with all chunks but the last.
  void make(const char* chunk_grid, const std::string& codecs) {
    put("v/zarr.json", fmt::format(R"({{"zarr_format": 3, "node_type": "array", "shape": [8, 6], "data_type": "uint8",
        "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": {}}}}}, "chunk_key_encoding": "default",
        "fill_value": 46, "codecs": {}, "attributes": {{"units": "m"}}}})",
                                   chunk_grid, codecs));
    put("v/notes.txt", "kept");
    source_ = open_zarr(store(), true).value();
    for (uint64_t number = 0; number + 1 < kChunkCount; ++number) {
      const std::string text = content(number);
      ASSERT_TRUE(source_->write_chunk(id(), number, std::as_bytes(std::span(text))));
    }
    ASSERT_TRUE(source_->commit());
  }
  ObjectId id() { return source_->find(source_->root().object, "v").value().object; }
  static std::string content(uint64_t number) {
    std::string text(6, static_cast<char>('a' + number));
    text[1] = 'X';  // not the same when it is transposed
    return text;
  }
  Variable now() { return *source_->facts(id()).value(); }
  /// What describes the array in these shards; {}: without shards.
  Variable wanted(const Shape& shards, const std::string& codecs) {
    Variable variable = now();
    variable.shards.reset();
    if (!shards.empty()) variable.shards = Sharding{*ChunkGrid::make({8, 6}, shards), *parse_json(codecs)};
    return variable;
  }
  Result<> change(const Variable& variable) { return source_->set_sharding(id(), variable, progress_); }
  void expect_all_chunks() {
    for (const bool is_reopened : {false, true}) {
      if (is_reopened) {
        ASSERT_TRUE(source_->finish());
        source_ = open_zarr(store(), true).value();
      }
      for (uint64_t number = 0; number + 1 < kChunkCount; ++number) {
        const auto chunk = source_->read_chunk(id(), number);
        ASSERT_TRUE(chunk) << chunk.error().reason;
        EXPECT_EQ(std::string(reinterpret_cast<const char*>(chunk->data()), chunk->size()), content(number));
      }
      EXPECT_EQ(source_->read_chunk(id(), kChunkCount - 1).error().code, ENOENT);
    }
    EXPECT_EQ(get("v/notes.txt"), "kept");
    EXPECT_EQ(source_->variable(id()).value()->attributes.size(), 1);
  }
  std::vector<std::string> files() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(store() / "v"))
      if (entry.is_regular_file() && entry.path().extension().empty())
        names.push_back(std::filesystem::relative(entry.path(), store() / "v"));
    std::ranges::sort(names);
    return names;
  }
  using Names = std::vector<std::string>;

  Progress progress_;
  const std::string plain_ = sharding("[2, 3]", R"(["bytes"])");
};

TEST_F(ReshardTest, ShardsAreMadeChangedAndTakenAway) {
  make("[2, 3]", R"(["bytes"])");
  EXPECT_EQ(files().size(), 7);
  ASSERT_TRUE(change(wanted({4, 6}, plain_)));
  EXPECT_EQ(files(), (Names{"c/0/0", "c/1/0"}));
  EXPECT_EQ(now().shards->grid.chunks(), (Shape{4, 6}));
  EXPECT_EQ(progress_.done, 2);
  expect_all_chunks();
  ASSERT_TRUE(change(wanted({2, 6}, sharding("[2, 3]", R"(["bytes"])", R"(, "index_location": "start")"))));
  EXPECT_EQ(files(), (Names{"c/0/0", "c/1/0", "c/2/0", "c/3/0"}));
  expect_all_chunks();
  ASSERT_TRUE(change(wanted({8, 3}, plain_)));
  EXPECT_EQ(files(), (Names{"c/0/0", "c/0/1"}));
  expect_all_chunks();
  ASSERT_TRUE(change(wanted({}, "")));
  EXPECT_FALSE(now().shards);
  EXPECT_EQ(get("v/c/2/1"), content(5));
  EXPECT_EQ(files().size(), 7);
  expect_all_chunks();
}

TEST_F(ReshardTest, CodecsChangeWithTheShards) {
  make("[4, 6]", plain_);
  const std::string zlib = R"(["bytes", {"name": "numcodecs.zlib", "configuration": {"level": 1}}])";
  ASSERT_TRUE(change(wanted({8, 6}, sharding("[2, 3]", zlib))));
  EXPECT_EQ(now().filters.size(), 1);
  expect_all_chunks();
  const std::string transposed = R"([{"name": "transpose", "configuration": {"order": [1, 0]}}, "bytes"])";
  ASSERT_TRUE(change(wanted({8, 6}, sharding("[2, 3]", transposed))));
  EXPECT_TRUE(now().filters.empty());
  expect_all_chunks();
}

TEST_F(ReshardTest, ShardsMayBeNestedAndEncodedAsAWhole) {
  make("[4, 6]", plain_);
  const std::string nested = sharding("[4, 6]", plain_, R"(, "index_location": "start")");
  const std::string encoded =
      plain_.substr(0, plain_.size() - 1) + R"(, {"name": "numcodecs.zlib", "configuration": {"level": 1}}])";
  ASSERT_TRUE(change(wanted({8, 6}, nested)));
  EXPECT_EQ(files(), (Names{"c/0/0"}));
  expect_all_chunks();
  ASSERT_TRUE(change(wanted({4, 3}, encoded)));
  EXPECT_EQ(files(), (Names{"c/0/0", "c/0/1", "c/1/0", "c/1/1"}));
  expect_all_chunks();
  ASSERT_TRUE(change(wanted({8, 6}, sharding("[4, 3]", encoded))));
  expect_all_chunks();
  const std::vector<FilterStage> zlib = {{.id = 1, .parameters = {1}, .codec = {}, .name = {}, .optional = false}};
  ASSERT_TRUE(source_->set_filters(id(), zlib, progress_));
  expect_all_chunks();
  ASSERT_TRUE(change(wanted({}, "")));
  expect_all_chunks();
}

TEST_F(ReshardTest, TheSameShardsAreNotWrittenAgain) {
  make("[4, 6]", plain_);
  const auto time = std::filesystem::last_write_time(store() / "v");
  const std::string text = get("v/zarr.json");
  ASSERT_TRUE(change(wanted({4, 6}, sharding("[2, 3]", R"([{"name": "bytes"}])", R"(, "index_location": "end")"))));
  EXPECT_EQ(get("v/zarr.json"), text);
  EXPECT_EQ(std::filesystem::last_write_time(store() / "v"), time);
}

TEST_F(ReshardTest, WhatCannotBeDoneChangesNothing) {
  make("[4, 6]", plain_);
  const std::string text = get("v/zarr.json");
  EXPECT_EQ(change(wanted({4, 6}, sharding("[4, 3]", R"(["bytes"])"))).error().code, EINVAL);
  EXPECT_EQ(change(wanted({3, 6}, plain_)).error().code, EINVAL);
  const std::string unknown = plain_.substr(0, plain_.size() - 1) + R"(, {"name": "unknown"}])";
  EXPECT_EQ(change(wanted({8, 6}, unknown)).error().code, EINVAL);
  EXPECT_EQ(change(wanted({8, 6}, sharding("[2, 3]", R"(["bytes", {"name": "unknown"}])"))).error().code, ENOENT);
  progress_.cancelled = [] { return true; };
  EXPECT_EQ(change(wanted({8, 6}, plain_)).error().code, ECANCELED);
  progress_.cancelled = {};
  EXPECT_EQ(get("v/zarr.json"), text);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(store()), {}), 2) << "nothing is left";
  expect_all_chunks();
}

TEST_F(ReshardTest, ADamagedShardIsAnError) {
  make("[4, 6]", plain_);
  std::string shard = get("v/c/0/0");
  shard[shard.size() - 30] ^= 1;
  put("v/c/0/0", shard);
  const auto changed = change(wanted({8, 6}, plain_));
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, EIO);
  EXPECT_NE(changed.error().reason.find("checksum"), std::string::npos) << changed.error().reason;
  EXPECT_EQ(get("v/c/0/0"), shard);
}

}  // namespace
}  // namespace codecfs
