// The directory of Parquet files; tests/mount/commands/test_refs.py reads what is in them.

#include "commands/parquet_references.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "support/memory_source.h"

namespace codecfs::commands {
namespace {

namespace files = std::filesystem;

class ParquetReferencesTest : public testing::Test {
 protected:
  ParquetReferencesTest() {
    std::string pattern = files::temp_directory_path() / "codecfs-refs-XXXXXX";
    folder = mkdtemp(pattern.data());
  }
  ~ParquetReferencesTest() override { files::remove_all(folder); }
  ParquetReferencesTest(const ParquetReferencesTest&) = delete;
  ParquetReferencesTest& operator=(const ParquetReferencesTest&) = delete;

  [[nodiscard]] std::unique_ptr<ReferenceSink> make() const {
    auto made = make_parquet_references(folder / "refs", "url");
    EXPECT_TRUE(made) << made.error().reason;
    return *std::move(made);
  }
  [[nodiscard]] std::set<std::string> names(const files::path& directory) const {
    std::set<std::string> found;
    for (const auto& entry : files::directory_iterator(folder / directory)) found.insert(entry.path().filename());
    return found;
  }
  [[nodiscard]] Json zmetadata() const {
    std::ifstream file(folder / "refs/.zmetadata");
    return *parse_json(std::string(std::istreambuf_iterator<char>(file), {}));
  }

  files::path folder;
};

TEST_F(ParquetReferencesTest, AppearWhenTheyAreComplete) {
  const auto sink = make();
  ASSERT_TRUE(sink->add_document("v/.zarray", Json{{"shape", {2}}}));
  ASSERT_TRUE(sink->add_document("v/.zattrs", Json{{"a \"name\"", 1.5}}));
  ASSERT_TRUE(sink->begin_chunks("v", *ChunkGrid::make({2}, {1})));
  ASSERT_TRUE(sink->add_place(1, 10, 20));
  EXPECT_EQ(names(""), (std::set<std::string>{"refs.codecfs-refs-partial"}));
  ASSERT_TRUE(sink->finish());
  EXPECT_EQ(names(""), (std::set<std::string>{"refs"}));
  EXPECT_EQ(names("refs"), (std::set<std::string>{".zmetadata", "v"}));
  EXPECT_EQ(names("refs/v"), (std::set<std::string>{"refs.0.parq"}));
  const Json found = zmetadata();
  EXPECT_EQ(found["metadata"]["v/.zarray"]["shape"][0], 2);
  EXPECT_EQ(found["metadata"]["v/.zattrs"]["a \"name\""], 1.5);
  EXPECT_EQ(found["record_size"], 100'000);
  EXPECT_EQ(found["zarr_consolidated_format"], 1);
}

TEST_F(ParquetReferencesTest, LeaveNothingAfterAnError) {
  {
    const auto sink = make();
    ASSERT_TRUE(sink->begin_chunks("g/v", *ChunkGrid::make({2}, {1})));
    ASSERT_TRUE(sink->add_place(1, 10, 20));
  }
  EXPECT_EQ(names(""), std::set<std::string>());
}

TEST_F(ParquetReferencesTest, ReplaceWhatAKilledCommandLeft) {
  files::create_directories(folder / "refs.codecfs-refs-partial/v");
  std::ofstream(folder / "refs.codecfs-refs-partial/v/refs.9.parq") << "old";
  ASSERT_TRUE(make()->finish());
  EXPECT_EQ(names("refs"), (std::set<std::string>{".zmetadata"}));
}

TEST_F(ParquetReferencesTest, DoNotReplaceAnything) {
  files::create_directory(folder / "refs");
  EXPECT_EQ(make_parquet_references(folder / "refs", "url").error().code, EEXIST);
  EXPECT_EQ(make_parquet_references((folder / "refs").string() + "/", "url").error().code, EEXIST);
  files::remove(folder / "refs");
  files::create_symlink("nowhere", folder / "refs");
  EXPECT_EQ(make_parquet_references(folder / "refs", "url").error().code, EEXIST);
  files::remove(folder / "refs");
  const auto sink = make();
  files::create_directory(folder / "refs");  // meanwhile
  EXPECT_EQ(sink->finish().error().code, EEXIST);
  EXPECT_EQ(names("refs"), std::set<std::string>());
}

TEST_F(ParquetReferencesTest, HaveOnlyTheFilesWithChunks) {
  const auto sink = make();
  const ChunkGrid grid = *ChunkGrid::make({uint64_t{1} << 50}, {1});
  ASSERT_TRUE(sink->begin_chunks("v", grid));
  ASSERT_TRUE(sink->add_place(99'999, 1, 1));
  ASSERT_TRUE(sink->add_content(100'000, bytes_of("x")));
  ASSERT_TRUE(sink->add_place(grid.count() - 1, 1, 1));
  ASSERT_TRUE(sink->begin_chunks("w", *ChunkGrid::make({}, {})));
  ASSERT_TRUE(sink->add_place(0, 1, 1));
  ASSERT_TRUE(sink->finish());
  EXPECT_EQ(names("refs/v"), (std::set<std::string>{"refs.0.parq", "refs.1.parq",
                                                    fmt::format("refs.{}.parq", (grid.count() - 1) / 100'000)}));
  EXPECT_EQ(names("refs/w"), (std::set<std::string>{"refs.0.parq"}));
}

TEST_F(ParquetReferencesTest, CannotNameTheChunksOfARoot) {
  EXPECT_EQ(make()->begin_chunks("", *ChunkGrid::make({1}, {1})).error().code, EOPNOTSUPP);
}

}  // namespace
}  // namespace codecfs::commands
