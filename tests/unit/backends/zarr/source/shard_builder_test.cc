// Shards of 4 x 2 chunks, alone and as two nested shards of 2 x 2, with each codec.

#include "backends/zarr/source/shard_builder.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>

#include "model/json.h"

namespace codecfs::zarr {
namespace {

using Positions = std::vector<uint64_t>;
using Contents = std::map<Positions, std::string>;

const char* const kPlain =
    R"({"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1], "codecs": ["bytes"]}})";
const char* const kZlib = R"({"name": "numcodecs.zlib", "configuration": {"level": 1}})";

ShardLayout layout_of(const std::string& codecs) {
  DataType type;
  type.kind = TypeKind::unsigned_int;
  type.size = 1;
  auto parsed = parse_sharded_codecs(*parse_json(codecs), type, {8, 8}, {4, 2});
  EXPECT_TRUE(parsed) << parsed.error().reason;
  return *parsed->layout;
}

std::string nested(const std::string& inner, const char* more = "") {
  return fmt::format(
      R"([{{"name": "sharding_indexed", "configuration": {{"chunk_shape": [2, 2], "codecs": [{}]{}}}}}])", inner, more);
}

class ShardBuilderTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::optional<Buffer> change(std::optional<Bytes> old, const Contents& contents) {
    std::deque<Buffer> buffers;
    std::vector<ChunkChange> changes;
    for (const auto& [positions, text] : contents) {
      const Buffer* bytes = nullptr;
      if (!text.empty()) bytes = &buffers.emplace_back(*Buffer::copy_of(std::as_bytes(std::span(text))));
      changes.push_back({positions, bytes});
    }
    auto changed = change_shard(layout_, old, changes);
    EXPECT_TRUE(changed) << changed.error().reason;
    return changed ? *std::move(changed) : std::nullopt;
  }
  /// The chunks in the order of their positions.
  std::vector<std::string> chunks(const Buffer& shard) {
    std::vector<std::string> texts;
    const auto read = for_each_chunk(layout_, shard.bytes(), [&](Bytes bytes) -> Result<> {
      texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return {};
    });
    EXPECT_TRUE(read) << read.error().reason;
    return texts;
  }
  /// The positions of the chunk with this number in C order, of 8.
  Positions at(uint64_t number) const {
    return layout_.levels.size() == 1 ? Positions{number} : Positions{number / 4, number % 4};
  }

  const ShardLayout layout_ = layout_of(GetParam());
};

TEST_P(ShardBuilderTest, ChunksAreAddedReplacedAndRemoved) {
  const auto first = change(std::nullopt, {{at(1), "one"}, {at(6), "six"}});
  ASSERT_TRUE(first);
  EXPECT_EQ(chunks(*first), (std::vector<std::string>{"one", "six"}));
  const auto second = change(first->bytes(), {{at(0), "zero"}, {at(1), "ONE"}, {at(5), ""}, {at(7), "seven"}});
  ASSERT_TRUE(second);
  EXPECT_EQ(chunks(*second), (std::vector<std::string>{"zero", "ONE", "six", "seven"}));
  const auto third = change(second->bytes(), {{at(6), ""}, {at(7), ""}});
  ASSERT_TRUE(third);
  EXPECT_EQ(chunks(*third), (std::vector<std::string>{"zero", "ONE"}));
  EXPECT_FALSE(change(third->bytes(), {{at(0), ""}, {at(1), ""}, {at(4), ""}}));
  EXPECT_FALSE(change(std::nullopt, {{at(0), ""}}));
}

TEST_P(ShardBuilderTest, DamageIsAnError) {
  const auto shard = change(std::nullopt, {{at(1), "one"}, {at(6), "six"}});
  ASSERT_TRUE(shard);
  const auto visit = [](Bytes) { return Result<>(); };
  for (size_t size = 0; size < shard->size(); ++size)
    EXPECT_FALSE(for_each_chunk(layout_, shard->bytes().first(size), visit)) << size;
  const auto stopped = for_each_chunk(layout_, shard->bytes(), [](Bytes) -> Result<> { return fail(EINVAL, "stop"); });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, EINVAL);
}

INSTANTIATE_TEST_SUITE_P(Forms, ShardBuilderTest,
                         ::testing::Values(fmt::format("[{}]", kPlain), fmt::format("[{}, {}]", kPlain, kZlib),
                                           fmt::format(R"([{}, {{"name": "crc32c"}}])", kPlain), nested(kPlain),
                                           nested(kPlain, R"(, "index_location": "start")"),
                                           nested(fmt::format("{}, {}", kPlain, kZlib))));

}  // namespace
}  // namespace codecfs::zarr
