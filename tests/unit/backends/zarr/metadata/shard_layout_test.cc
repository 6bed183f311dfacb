#include "backends/zarr/metadata/shard_layout.h"

#include <gtest/gtest.h>

#include "base/endian.h"
#include "model/json.h"

namespace codecfs::zarr {
namespace {

Json shard_json(std::string_view text) { return parse_json(text).value(); }

const DataType kByte = {.kind = TypeKind::unsigned_int, .order = ByteOrder::none, .size = 1, .unit = {}, .members = {}};

std::string sharding(const std::string& chunk_shape, const std::string& codecs = R"(["bytes"])",
                     const std::string& more = "") {
  return R"({"name": "sharding_indexed", "configuration": {"chunk_shape": )" + chunk_shape + R"(, "codecs": )" +
         codecs + more + "}}";
}

Result<ShardedCodecs> layout_of(const std::string& codecs, const std::vector<uint64_t>& chunks = {8, 6}) {
  return parse_sharded_codecs(shard_json("[" + codecs + "]"), kByte, {21, 17}, chunks);
}

TEST(ShardLayout, NoShards) {
  const auto codecs = layout_of(R"("bytes")");
  ASSERT_TRUE(codecs);
  EXPECT_FALSE(codecs->layout);
  EXPECT_EQ(codecs->chunks, (std::vector<uint64_t>{8, 6}));
}

TEST(ShardLayout, NestedShards) {
  const auto codecs = layout_of(sharding("[4, 6]", "[" + sharding("[2, 3]") + "]"));
  ASSERT_TRUE(codecs) << codecs.error().reason;
  ASSERT_EQ(codecs->layout->levels.size(), 2U);
  EXPECT_EQ(codecs->chunks, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(codecs->layout->levels[0].cells, (std::vector<uint64_t>{2, 1}));
  EXPECT_EQ(codecs->layout->levels[1].cells, (std::vector<uint64_t>{2, 2}));
  EXPECT_EQ(codecs->layout->grid.cells(), (std::vector<uint64_t>{3, 3}));
}

TEST(ShardLayout, ATransposePermutesTheIndex) {
  // The codec sees shards of 6 x 8.
  const auto codecs = layout_of(R"({"name": "transpose", "configuration": {"order": [1, 0]}}, )" + sharding("[3, 2]"));
  ASSERT_TRUE(codecs) << codecs.error().reason;
  const ShardLevel& level = codecs->layout->levels[0];
  EXPECT_EQ(codecs->chunks, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(level.cells, (std::vector<uint64_t>{4, 2}));
  const uint64_t place[] = {3, 1};
  EXPECT_EQ(level.position_of(place), 1 * 4 + 3U);
  uint64_t back[2];
  level.coordinates_of(7, back);
  EXPECT_EQ(back[0], 3U);
  EXPECT_EQ(back[1], 1U);
  EXPECT_EQ(codecs->codecs.order, (std::vector<size_t>{1, 0}));
}

TEST(ShardLayout, ElementwiseCodecsInFrontAreTheFirstOfTheInnermostChunks) {
  const std::string cast = R"({"name": "cast_value", "configuration": {"data_type": "int16"}}, )";
  const std::string scale = R"({"name": "scale_offset", "configuration": {"offset": 1}}, )";
  const std::string transpose = R"({"name": "transpose", "configuration": {"order": [1, 0]}}, )";
  const std::string inner = R"([{"name": "bytes", "configuration": {"endian": "big"}}, {"name": "crc32c"}])";
  const auto codecs = layout_of(scale + transpose + cast + sharding("[3, 2]", "[" + sharding("[3, 1]", inner) + "]"));
  ASSERT_TRUE(codecs) << codecs.error().reason;
  EXPECT_FALSE(codecs->codecs.unreadable) << codecs->codecs.unreadable->reason;
  EXPECT_EQ(codecs->layout->levels.size(), 2U);
  EXPECT_EQ(codecs->chunks, (std::vector<uint64_t>{1, 3}));
  EXPECT_EQ(codecs->codecs.order, (std::vector<size_t>{1, 0}));
  std::vector<Json> stages;
  for (const FilterStage& stage : codecs->codecs.stages) stages.push_back(*stage.codec);
  EXPECT_EQ(stages,
            (std::vector<Json>{shard_json(R"({"id": "zarr3:scale_offset", "offset": 1})"),
                               shard_json(R"({"id": "zarr3:cast_value", "data_type": "int16", "endian": "big"})"),
                               shard_json(R"({"id": "crc32c"})")}));
}

TEST(ShardLayout, OtherCodecsInFrontCannotBeDecoded) {
  for (const char* text :
       {R"({"name": "numcodecs.delta", "configuration": {"dtype": "|u1"}}, )",
        R"({"name": "numcodecs.fixedscaleoffset", "configuration": {"offset": 1, "scale": 2, "dtype": "|u1"}}, )",
        R"({"name": "reshape", "configuration": {"shape": [48]}}, )"}) {
    const auto codecs = layout_of(text + sharding("[2, 3]"));
    ASSERT_TRUE(codecs) << codecs.error().reason;
    ASSERT_TRUE(codecs->codecs.unreadable) << text;
    EXPECT_EQ(codecs->codecs.unreadable->code, EOPNOTSUPP);
    EXPECT_NE(codecs->codecs.unreadable->reason.find("in front of sharding_indexed"), std::string::npos)
        << codecs->codecs.unreadable->reason;
  }
}

TEST(ShardLayout, EveryFormOfAnIndexComesBack) {
  std::vector<ShardEntry> entries;
  for (uint64_t i = 0; i < 16; ++i)
    entries.push_back(i % 5 == 0 ? ShardEntry{ShardEntry::kAbsent, ShardEntry::kAbsent} : ShardEntry{i * 100, i});
  for (const char* index :
       {"", R"(, "index_location": "start")",
        R"(, "index_codecs": [{"name": "bytes", "configuration": {"endian": "big"}}])",
        R"(, "index_codecs": [{"name": "transpose", "configuration": {"order": [2, 1, 0]}}, "bytes", "crc32c"])",
        R"(, "index_codecs": [{"name": "transpose", "configuration": {"order": [1, 2, 0]}}, "bytes"])"}) {
    const auto codecs = layout_of(sharding("[2, 3]", R"(["bytes"])", index), {8, 12});
    ASSERT_TRUE(codecs) << index;
    const ShardLevel& level = codecs->layout->levels[0];
    const auto stored = encode_shard_index(level, entries);
    ASSERT_TRUE(stored);
    EXPECT_EQ(stored->size(), level.index_bytes());
    const auto decoded = decode_shard_index(level, stored->bytes(), 2000);
    ASSERT_TRUE(decoded) << decoded.error().reason;
    EXPECT_EQ(*decoded, entries) << index;
  }
}

TEST(ShardLayout, DamagedIndexes) {
  const auto codecs = layout_of(sharding("[8, 3]"));
  const ShardLevel& level = codecs->layout->levels[0];
  ASSERT_EQ(level.count, 2U);
  const auto damaged = [&](ShardEntry entry) {
    const std::vector<ShardEntry> entries = {{0, 10}, entry};
    const auto stored = encode_shard_index(level, entries);
    return !decode_shard_index(level, stored->bytes(), 100);
  };
  EXPECT_FALSE(damaged({10, 90}));
  EXPECT_FALSE(damaged({100, 0}));
  EXPECT_FALSE(damaged({ShardEntry::kAbsent, ShardEntry::kAbsent}));
  EXPECT_TRUE(damaged({10, 91}));
  EXPECT_TRUE(damaged({101, 0}));
  EXPECT_TRUE(damaged({ShardEntry::kAbsent, 0}));
  EXPECT_TRUE(damaged({0, ShardEntry::kAbsent}));
  EXPECT_TRUE(damaged({ShardEntry::kAbsent - 1, 2}));
  const std::vector<ShardEntry> entries = {{0, 10}, {10, 20}};
  auto stored = encode_shard_index(level, entries);
  stored->data()[3] ^= std::byte{1};
  EXPECT_EQ(decode_shard_index(level, stored->bytes(), 100).error().code, EIO);
  EXPECT_EQ(decode_shard_index(level, stored->bytes().first(20), 100).error().code, EIO);
}

TEST(ShardLayout, Refused) {
  for (const std::string& codecs :
       {sharding("[3, 3]"), sharding("[0, 3]"), sharding("[2]"), sharding("7"), sharding("[2, 3]", "[]"),
        sharding("[2, 3]", R"(["bytes"])", R"(, "index_location": "middle")"),
        sharding("[2, 3]", R"(["bytes"])", R"(, "index_codecs": [])"), std::string(R"({"name": "sharding_indexed"})")})
    EXPECT_EQ(layout_of(codecs).error().code, EINVAL) << codecs;
  EXPECT_EQ(
      parse_sharded_codecs(shard_json("[" + sharding("[1, 1]") + "]"), kByte, {1 << 20, 1 << 20}, {1 << 20, 1 << 20})
          .error()
          .code,
      EINVAL);
  const auto compressed = layout_of(sharding(
      "[2, 3]", R"(["bytes"])", R"(, "index_codecs": ["bytes", {"name": "gzip", "configuration": {"level": 1}}])"));
  ASSERT_TRUE(compressed);
  EXPECT_TRUE(compressed->codecs.unreadable);
}

}  // namespace
}  // namespace codecfs::zarr
