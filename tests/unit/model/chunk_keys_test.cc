#include "model/chunk_keys.h"

#include <gtest/gtest.h>

#include "model/json.h"

namespace codecfs {
namespace {

TEST(ChunkKeys, NamesOfEveryEncoding) {
  const ChunkGrid grid = ChunkGrid::make({10, 20}, {5, 4}).value();
  const ChunkGrid scalar = ChunkGrid::make({}, {}).value();
  const struct {
    ChunkKeys keys;
    const char* name;
    const char* of_scalar;
  } cases[] = {
      {{true, '/'}, "c/1/3", "c"}, {{true, '.'}, "c.1.3", "c"}, {{false, '.'}, "1.3", "0"}, {{false, '/'}, "1/3", "0"}};
  for (const auto& [keys, name, of_scalar] : cases) {
    EXPECT_EQ(keys.name_of(grid, 8), name);
    EXPECT_EQ(keys.number_of(grid, name), 8U);
    EXPECT_EQ(keys.name_of(scalar, 0), of_scalar);
    EXPECT_EQ(keys.number_of(scalar, of_scalar), 0U);
    EXPECT_EQ(parse_chunk_keys(print_chunk_keys(keys)).value(), keys);
  }
}

TEST(ChunkKeys, OtherNamesAreNoChunks) {
  const ChunkGrid grid = ChunkGrid::make({10, 20}, {5, 4}).value();
  const ChunkKeys keys;
  for (const char* name :
       {"", "c", "c/", "c/1", "c/1/5", "c/2/0", "c/01/0", "c/1/3/", "d/1/3", "1/3", "c.1.3", "c/1.3"})
    EXPECT_FALSE(keys.number_of(grid, name)) << name;
}

TEST(ChunkKeys, MetadataForms) {
  const auto parse = [](const char* text) { return parse_chunk_keys(parse_json(text).value()); };
  EXPECT_EQ(parse(R"("default")").value(), (ChunkKeys{true, '/'}));
  EXPECT_EQ(parse(R"({"name": "v2"})").value(), (ChunkKeys{false, '.'}));
  EXPECT_EQ(parse(R"({"name": "default", "configuration": {"separator": "."}})").value(), (ChunkKeys{true, '.'}));
  for (const char* text :
       {"null", "1", R"("other")", R"({"name": "default", "configuration": {"separator": "-"}})",
        R"({"name": "default", "configuration": 1})", R"({"name": "v2", "configuration": {"x": 1}})"})
    EXPECT_EQ(parse(text).error().code, EINVAL) << text;
}

}  // namespace
}  // namespace codecfs
