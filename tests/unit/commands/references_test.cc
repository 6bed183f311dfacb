// References of a dataset in memory, whose chunks have made-up places in a file.

#include "commands/references.h"

#include <gtest/gtest.h>

#include "commands/parquet_references.h"
#include "model/base64.h"
#include "support/memory_source.h"

namespace codecfs::commands {
namespace {

class PlacedSource final : public MemorySource {
 public:
  PlacedSource() {
    status_.st_size = 1'000'000;
    add_group("/g");
  }
  Result<ChunkInfo> locate(ObjectId variable, uint64_t number) override {
    CODECFS_ASSIGN(ChunkInfo info, MemorySource::locate(variable, number));
    if (info.stored) info.offset = 1000 * variable + number;
    return info;
  }
  void add_text(const std::string& path) {
    add_variable(path, text_variable({8, 4}, {4, 2}, {deflate(1)}));
    put(path, 0, "abcdefgh");
    put(path, 3, "stuvwxyz");
  }
};

Json references_of(Source& source) {
  const Result<std::string> text = references_text(source, "u\"rl");
  EXPECT_TRUE(text) << text.error().reason;
  return text ? *parse_json(*text) : Json();
}

TEST(References, NameTheChunksThatAreStored) {
  PlacedSource source;
  source.add_text("/g/v");
  const Json refs = references_of(source)["refs"];
  const ObjectId id = source.object("/g/v");
  const uint64_t size = **source.stored_bytes(id, 3);
  EXPECT_EQ(refs["g/v/1.1"], (Json{"u\"rl", 1000 * id + 3, size}));
  EXPECT_TRUE(refs.contains("g/v/0.0") && !refs.contains("g/v/0.1"));
  EXPECT_EQ(*parse_json(refs["g/.zgroup"].get<std::string>()), *parse_json(R"({"zarr_format": 2})"));
  EXPECT_EQ(references_of(source)["version"], 1);
  EXPECT_EQ(source.reads, 0) << "no chunk is read";
}

TEST(References, HaveAllCodecsInTheFilters) {
  PlacedSource source;
  source.add_text("/v");
  source.add_variable("/plain", text_variable({4}, {2}));
  const Json refs = references_of(source)["refs"];
  const Json zarray = *parse_json(refs["v/.zarray"].get<std::string>());
  EXPECT_TRUE(zarray["compressor"].is_null());
  ASSERT_EQ(zarray["filters"].size(), 1U);
  EXPECT_EQ(zarray["filters"][0]["id"], "zlib");
  EXPECT_TRUE(parse_json(refs["plain/.zarray"].get<std::string>())->at("filters").is_null());
}

TEST(References, OfAnEmptyDatasetAreJsonToo) {
  MemorySource source;
  EXPECT_EQ(references_of(source)["refs"].size(), 1U) << ".zgroup";
}

TEST(References, IncludeChunksWithoutAPlace) {
  MemorySource source;
  source.add_variable("/v", text_variable({8}, {4}));
  source.put("/v", 1, "abcd");
  const Json refs = references_of(source)["refs"];
  EXPECT_EQ(refs["v/1"], "base64:" + encode_base64(bytes_of("abcd")));
  EXPECT_FALSE(refs.contains("v/0"));
}

TEST(References, IncludeChunksThatAreInAnotherFile) {
  PlacedSource source;
  source.add_text("/v");
  const uint64_t place = 1000 * source.object("/v");
  source.status_.st_size = static_cast<off_t>(place + **source.stored_bytes(source.object("/v"), 0));
  const Json refs = references_of(source)["refs"];
  EXPECT_TRUE(refs["v/0.0"].is_array()) << "it ends where the file ends";
  EXPECT_TRUE(refs["v/1.1"].is_string());
}

TEST(References, NameFilesInUtf8) {
  MemorySource source;
  EXPECT_TRUE(references_text(source, "/\xc3\xa9"));
  EXPECT_EQ(references_text(source, "/\xe9").error().code, EILSEQ);
}

TEST(References, AreOfOneFile) {
  MemorySource source;
  source.status_.st_mode = S_IFDIR | 0755;
  EXPECT_EQ(references_text(source, "url").error().code, EOPNOTSUPP);
}

TEST(References, ReturnTheErrorOfTheSink) {
  auto source = std::make_unique<PlacedSource>();
  source->add_text("/v");
  const auto sink = make_json_references("url", [](std::string_view) -> Result<> { return fail(ENOSPC, "full"); });
  EXPECT_EQ(collect_references(std::move(source), *sink).error().code, ENOSPC);
}

}  // namespace
}  // namespace codecfs::commands
