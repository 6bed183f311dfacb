// Shards as whole files, of an array of 8 x 6 bytes in shards of 4 x 6 with chunks of 2 x 3.

#include "backends/zarr/source/shard_files.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/zarr/source/zarr_source.h"
#include "model/json.h"
#include "support/zarr_testing.h"

namespace codecfs {
namespace {

constexpr std::string_view kShardedArray =
    R"({"zarr_format": 3, "node_type": "array", "shape": [8, 6], "data_type": "uint8",
  "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 6]}},
  "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 46,
  "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 3], "codecs": [{"name": "bytes"}],
    "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]}}], "attributes": {}})";

/// A shard with these chunks, "" for an absent one.
std::string shard_with(const std::vector<std::string>& chunks) {
  zarr::ShardLevel level;
  level.cells = {2, 2};
  level.count = 4;
  level.index.has_checksum = true;
  std::vector<zarr::ShardEntry> entries;
  std::string bytes;
  for (const std::string& chunk : chunks) {
    const bool is_stored = !chunk.empty();
    entries.push_back(
        {is_stored ? bytes.size() : zarr::ShardEntry::kAbsent, is_stored ? chunk.size() : zarr::ShardEntry::kAbsent});
    bytes += chunk;
  }
  const Buffer index = zarr::encode_shard_index(level, entries).value();
  return bytes.append(reinterpret_cast<const char*>(index.data()), index.size());
}

class ShardFilesTest : public zarr_testing::StoreTest {
 protected:
  static Bytes as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }
  void SetUp() override {
    StoreTest::SetUp();
    std::filesystem::remove(store() / ".zgroup");
    put("zarr.json", R"({"zarr_format": 3, "node_type": "group", "attributes": {}})");
    put("v/zarr.json", kShardedArray);
    put("v/c/0/0", first_);
    source_ = open_zarr(store(), true).value();
    id_ = source_->find(source_->root().object, "v").value().object;
  }
  std::string content(uint64_t shard) {
    const auto file = source_->open_shard(id_, shard);
    if (!file) return fmt::format("error {}", file.error().code);
    if (!*file) return "absent";
    const Buffer bytes = (*file)->read(0, (*file)->size()).value();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::string chunk(uint64_t number) {
    const auto bytes = source_->read_chunk(id_, number);
    return bytes ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size())
                 : fmt::format("error {}", bytes.error().code);
  }
  std::vector<uint64_t> shards(uint64_t from = 0, size_t limit = 10) {
    return source_->stored_shards(id_, from, limit).value();
  }
  int check(const std::string& bytes) {
    const auto checked = source_->check_shard(id_, 1, as_bytes(bytes));
    return checked ? 0 : checked.error().code;
  }

  const std::string first_ = shard_with({"aaaaaa", "bbbbbb", "", "dddddd"});
  const std::string second_ = shard_with({"", "222222", "333333", ""});
  ObjectId id_ = 0;
};

TEST_F(ShardFilesTest, TheVariableHasItsShards) {
  const VariablePtr facts = source_->facts(id_).value();
  ASSERT_TRUE(facts->shards);
  EXPECT_EQ(facts->shards->grid.chunks(), (std::vector<uint64_t>{4, 6}));
  EXPECT_EQ(facts->grid.chunks(), (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(Json(facts->shards->codecs)[0]["name"], "sharding_indexed");
}

TEST_F(ShardFilesTest, ShardsAreReadAsTheyAreStored) {
  EXPECT_EQ(shards(), (std::vector<uint64_t>{0}));
  EXPECT_EQ(content(0), first_);
  EXPECT_EQ(content(1), "absent");
  EXPECT_EQ(content(2), fmt::format("error {}", ENOENT));
}

TEST_F(ShardFilesTest, AnOpenShardKeepsItsContent) {
  const auto open = source_->open_shard(id_, 0).value();
  ASSERT_TRUE(source_->write_shard(id_, 0, as_bytes(second_)));
  const Buffer bytes = open->read(0, open->size()).value();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), first_);
  EXPECT_EQ(content(0), second_);
}

TEST_F(ShardFilesTest, AWrittenShardReplacesAllOfItsChunks) {
  EXPECT_EQ(chunk(0), "aaaaaa");
  ASSERT_TRUE(source_->write_shard(id_, 0, as_bytes(second_)));
  EXPECT_EQ(get("v/c/0/0"), second_);
  EXPECT_EQ(chunk(0), fmt::format("error {}", ENOENT));
  EXPECT_EQ(chunk(1), "222222");
  EXPECT_EQ(source_->stored_chunks(id_, 0, 10).value(), (std::vector<uint64_t>{1, 2}));
}

TEST_F(ShardFilesTest, ChunksThatAreHeldAreInTheirShard) {
  ASSERT_TRUE(source_->write_chunk(id_, 2, as_bytes("CCCCCC")));
  ASSERT_TRUE(source_->write_chunk(id_, 5, as_bytes("FFFFFF")));
  EXPECT_EQ(shards(), (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(shards(1, 1), (std::vector<uint64_t>{1}));
  EXPECT_EQ(content(0), shard_with({"aaaaaa", "bbbbbb", "CCCCCC", "dddddd"}));
  EXPECT_EQ(content(1), shard_with({"", "FFFFFF", "", ""}));
}

TEST_F(ShardFilesTest, AShardReplacesWhatIsHeldForItsChunks) {
  ASSERT_TRUE(source_->write_chunk(id_, 0, as_bytes("AAAAAA")));
  ASSERT_TRUE(source_->write_chunk(id_, 4, as_bytes("EEEEEE")));
  ASSERT_TRUE(source_->write_shard(id_, 0, as_bytes(second_)));
  ASSERT_TRUE(source_->commit());
  EXPECT_EQ(get("v/c/0/0"), second_);
  EXPECT_EQ(get("v/c/1/0"), shard_with({"EEEEEE", "", "", ""}));
  ASSERT_TRUE(source_->write_chunk(id_, 0, as_bytes("AAAAAA")));
  ASSERT_TRUE(source_->commit());
  EXPECT_EQ(get("v/c/0/0"), shard_with({"AAAAAA", "222222", "333333", ""}));
}

TEST_F(ShardFilesTest, ARemovedShardTakesItsChunksWithIt) {
  ASSERT_TRUE(source_->write_chunk(id_, 2, as_bytes("CCCCCC")));
  ASSERT_TRUE(source_->remove_shard(id_, 0));
  ASSERT_TRUE(source_->remove_shard(id_, 1));  // is not there
  ASSERT_TRUE(source_->commit());
  EXPECT_EQ(content(0), "absent");
  EXPECT_TRUE(shards().empty());
  EXPECT_EQ(chunk(2), fmt::format("error {}", ENOENT));
  EXPECT_FALSE(std::filesystem::exists(store() / "v/c/0/0"));
}

TEST_F(ShardFilesTest, WhatIsNoShardIsRefused) {
  EXPECT_EQ(check(second_), 0);
  EXPECT_EQ(check(shard_with({"", "", "", ""})), 0);
  EXPECT_EQ(check(""), EINVAL);
  EXPECT_EQ(check(second_.substr(1)), EINVAL) << "a chunk that overlaps the index";
  EXPECT_EQ(check(second_ + "x"), EINVAL) << "the checksum";
  EXPECT_EQ(check(shard_with({"short", "", "", ""})), EINVAL) << "a chunk of another size";
  EXPECT_EQ(check(shard_with({std::string(100'000, 'x'), "", "", ""})), EINVAL) << "a chunk that is too large";
  const auto written = source_->write_shard(id_, 0, as_bytes(second_ + "x"));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, EINVAL);
  EXPECT_NE(written.error().reason.find("v/c/0/0: this is no shard of this array"), std::string::npos);
  EXPECT_EQ(get("v/c/0/0"), first_);
  EXPECT_EQ(source_->write_shard(id_, 2, as_bytes(second_)).error().code, ENOENT);
}

TEST_F(ShardFilesTest, AnArrayThatAnotherProgramHasChangedRefusesShards) {
  ASSERT_TRUE(source_->facts(id_));
  std::string changed(kShardedArray);
  changed.replace(changed.find("[2, 3]"), 6, "[4, 3]");
  put("v/zarr.json", changed);
  EXPECT_EQ(source_->write_shard(id_, 0, as_bytes(second_)).error().code, ESTALE);
  EXPECT_EQ(source_->remove_shard(id_, 0).error().code, ESTALE);
  EXPECT_EQ(get("v/c/0/0"), first_);
}

TEST_F(ShardFilesTest, ANewArrayHasTheShardsThatWereAskedFor) {
  Variable wanted = *source_->variable(id_).value();
  ASSERT_TRUE(source_->make_variable(source_->root().object, "w", wanted));
  const ObjectId made = source_->find(source_->root().object, "w").value().object;
  EXPECT_EQ(source_->facts(made).value()->shards->codecs, wanted.shards->codecs);
  EXPECT_EQ(source_->facts(made).value()->shards->grid.chunks(), (std::vector<uint64_t>{4, 6}));
  ASSERT_TRUE(source_->write_shard(made, 1, as_bytes(second_)));
  EXPECT_EQ(get("w/c/1/0"), second_);

  Json codecs = wanted.shards->codecs;
  codecs[0]["configuration"]["chunk_shape"] = {4, 3};  // not the chunks of the variable
  wanted.shards->codecs = codecs;
  EXPECT_EQ(source_->make_variable(source_->root().object, "x", wanted).error().code, EINVAL);
  codecs[0]["configuration"]["chunk_shape"] = {3, 3};
  wanted.shards->codecs = codecs;
  EXPECT_EQ(source_->make_variable(source_->root().object, "x", wanted).error().code, EINVAL);
  EXPECT_FALSE(std::filesystem::exists(store() / "x"));
}

}  // namespace
}  // namespace codecfs
