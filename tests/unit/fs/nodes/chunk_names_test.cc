// The names of chunks in each view, and the directories that hold them in views of Zarr v3.

#include "fs/nodes/chunk_names.h"

#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

class ChunkNamesTest : public FilesystemTest {
 protected:
  ChunkNamesTest() {
    source_->add_variable("/cube", text_variable({4, 6, 8}, {2, 2, 2}));
    source_->put("/cube", 5, "12345678");  // 0.1.1
    source_->put("/cube", 23, "abcdefgh");
    source_->add_variable("/scalar", text_variable({}, {}));
    source_->put("/scalar", 0, "s");
  }
  const Variable& facts(std::string_view path) { return *(*mount().dataset.variable(node(path).object))->facts; }
  using Names = std::vector<std::string>;
};

TEST_F(ChunkNamesTest, EachChunkIsFoundUnderItsName) {
  for (const View view : {View::decoded, View::encoded, View::decoded3, View::encoded3}) {
    const Node& cube = node("/cube", view);
    for (uint64_t number = 0; number < 24; ++number) {
      const auto name = name_of_chunk(mount().tree.nodes, cube, facts("/cube"), number);
      ASSERT_TRUE(name);
      const auto place = mount().tree.nodes.at(name->directory);
      ASSERT_TRUE(place);
      EXPECT_EQ(chunk_named(*place, facts("/cube"), name->name).chunk, number);
    }
  }
  EXPECT_EQ(path_of_chunk(View::decoded3, facts("/cube"), 5), "c/0/1/1");
  EXPECT_EQ(path_of_chunk(View::decoded3, facts("/scalar"), 0), "c");
  EXPECT_EQ(path_of_chunk(View::encoded, facts("/cube"), 5), "0.1.1");
}

TEST_F(ChunkNamesTest, ShardsAreTheFilesOfTheEncodedViewOfZarr3) {
  Variable variable = text_variable({10, 12}, {2, 3});  // 5 x 4 chunks
  variable.shards = Sharding{*ChunkGrid::make({10, 12}, {4, 6}), {}};
  for (const View view : {View::decoded, View::encoded, View::decoded3}) {
    EXPECT_FALSE(form_of(view).shows_shards(variable));
    EXPECT_EQ(grid_of(view, variable).count(), 20);
    EXPECT_EQ(file_of_chunk(view, variable, 17), 17);
  }
  EXPECT_TRUE(form_of(View::encoded3).shows_shards(variable));
  EXPECT_EQ(path_of_chunk(View::encoded3, variable, 5), "c/2/1");
  std::vector<uint64_t> seen;
  for (uint64_t shard = 0; shard < 6; ++shard)
    for (const ChunkRange& range : chunks_of_shard(variable, shard))
      for (uint64_t chunk = range.first; chunk < range.first + range.count; ++chunk) {
        EXPECT_EQ(file_of_chunk(View::encoded3, variable, chunk), shard);
        seen.push_back(chunk);
      }
  std::ranges::sort(seen);
  EXPECT_EQ(seen.size(), 20);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
  EXPECT_EQ(chunks_of_shard(variable, 5).size(), 1) << "the last row is half outside of the array";
}

TEST_F(ChunkNamesTest, DirectoriesExistWhereTheGridHasThem) {
  for (const char* const path : {"/cube/c", "/cube/c/0", "/cube/c/1/2", "/cube/c/1/0"}) {
    const auto found = find(path, View::decoded3);
    ASSERT_TRUE(found) << path;
    EXPECT_TRUE(S_ISDIR(found->st_mode)) << path;
  }
  for (const char* const path : {"/cube/c/2", "/cube/c/0/3", "/cube/c/00", "/cube/0", "/cube/0.0.0", "/cube/c/x",
                                 "/cube/.zarray", "/.zgroup", "/.zmetadata", "/cube/c/zarr.json"})
    EXPECT_EQ(error_of(find(path, View::decoded3)), ENOENT) << path;
  for (const char* const path : {"/cube/c", "/cube/zarr.json", "/zarr.json"})
    EXPECT_EQ(error_of(find(path)), ENOENT) << path;
  EXPECT_EQ(error_of(find("/cube/c/0/1/1/0", View::decoded3)), ENOTDIR);
}

TEST_F(ChunkNamesTest, OnlyThoseWithChunksAreListed) {
  EXPECT_EQ(list("/cube", View::decoded3), (Names{"zarr.json", "c"}));
  EXPECT_EQ(list("/cube/c", View::decoded3), (Names{"0", "1"}));
  EXPECT_EQ(list("/cube/c/0", View::decoded3), (Names{"1"}));
  EXPECT_EQ(list("/cube/c/0/1", View::decoded3), (Names{"1"}));
  EXPECT_EQ(list("/cube/c/0/0", View::decoded3), (Names{}));
  EXPECT_EQ(read("/cube/c/0/1/1", View::decoded3), "12345678");
  EXPECT_EQ(list("/scalar", View::decoded3), (Names{"zarr.json", "c"}));
  EXPECT_EQ(read("/scalar/c", View::decoded3), "s");
  EXPECT_EQ(list("/g/deep", View::encoded3), (Names{"zarr.json", "c"}));
  ASSERT_TRUE(fs().tree().unlink(ino("/cube"), "0.1.1"));
  EXPECT_EQ(list("/cube/c", View::decoded3), (Names{"1"}));
  ASSERT_TRUE(fs().tree().unlink(ino("/cube/c/1/2", View::decoded3), "3"));
  EXPECT_EQ(list("/cube", View::decoded3), (Names{"zarr.json"}));
}

TEST_F(ChunkNamesTest, AWrittenChunkIsListedAtOnce) {
  ASSERT_TRUE(write_file("/cube/1.0.2", "written!"));
  EXPECT_EQ(list("/cube/c/1", View::decoded3), (Names{"0", "2"}));
  EXPECT_EQ(list("/cube/c/1/0", View::decoded3), (Names{"2"}));
  EXPECT_EQ(read("/cube/c/1/0/2", View::decoded3), "written!");
  ASSERT_TRUE(write_file("/cube/c/0/2/0", "otherway", View::decoded3));
  EXPECT_EQ(read("/cube/0.2.0"), "otherway");
  EXPECT_EQ(list("/cube/c/0", View::decoded3), (Names{"1", "2"}));
}

TEST_F(ChunkNamesTest, AListingContinuesAtAnyPosition) {
  for (uint64_t number = 0; number < 24; ++number) source_->put("/cube", number, "12345678");
  for (const char* const path : {"/cube", "/cube/c", "/cube/c/1", "/cube/c/1/2"}) {
    const auto directory = fs().listing().open(ino(path, View::decoded3));
    ASSERT_TRUE(directory);
    const auto read_from = [&](off_t from, size_t most) {
      std::vector<DirectoryItem> items;
      EXPECT_TRUE(fs().listing().read(**directory, from, [&](const DirectoryItem& item) {
        if (items.size() == most) return false;
        items.push_back(item);
        if (item.attributes) items.back().attributes = [status = item.attributes()] { return status; };
        return true;
      }));
      return items;
    };
    const auto all = read_from(0, 100);
    ASSERT_GE(all.size(), 4) << path;
    EXPECT_EQ(all[0].ino, ino(path, View::decoded3));
    const std::string_view above = std::string_view(path).substr(0, std::string_view(path).rfind('/'));
    EXPECT_EQ(all[1].ino, ino(above, View::decoded3)) << path;
    for (size_t i = 0; i + 1 < all.size(); ++i) {
      const auto next = read_from(all[i].next, 1);
      ASSERT_EQ(next.size(), 1);
      EXPECT_EQ(next[0].name, all[i + 1].name);
      const auto found = find(std::string(path) + "/" + next[0].name, View::decoded3);
      if (i == 0) continue;
      ASSERT_TRUE(found) << next[0].name;
      if (next[0].attributes) {
        EXPECT_EQ(next[0].attributes()->st_ino, found->st_ino);
      }
      EXPECT_EQ(found->st_mode & S_IFMT, next[0].type);
    }
    EXPECT_TRUE(read_from(all.back().next, 1).empty());
  }
}

TEST_F(ChunkNamesTest, AbsentChunksAreNotShown) {
  Variable variable = text_variable({12}, {4});
  variable.fill_value = Json();
  source_->add_variable("/n", variable);
  source_->put("/n", 1, "abcd");
  EXPECT_EQ(list("/n").size(), 2 + 3);
  EXPECT_EQ(list("/n/c", View::decoded3), (Names{"1"})) << "zarr.json has a fill value";
  EXPECT_EQ(error_of(find("/n/c/0", View::decoded3)), ENOENT);
}

}  // namespace
}  // namespace codecfs::fs
