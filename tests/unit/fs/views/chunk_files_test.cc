// Which chunks have files, and what replaces one as a whole.

#include "fs/views/chunk_files.h"

#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

class ChunkFilesTest : public FilesystemTest {
 protected:
  ChunkFiles& chunks() {
    if (parts_ == nullptr) parts_ = std::make_unique<Components>(mount());
    return parts_->chunk_files;
  }
  Result<struct stat> attributes(const Node& node, uint64_t number) {
    return chunks().attributes(node, *mount().dataset.variable(node.object), number);
  }
  /// The number of the chunk; "none" for other names, or the errno.
  std::string named(const Node& node, std::string_view name) {
    const auto chunk = chunks().named(Place{&node, FileKind::itself, 0}, name);
    if (!chunk) return fmt::format("error {}", chunk.error().code);
    return *chunk ? std::to_string((*chunk)->number) : "none";
  }

 private:
  std::unique_ptr<Components> parts_;
};

TEST_F(ChunkFilesTest, NamesAreCanonicalAndInTheGrid) {
  source_->add_variable("/m", text_variable({2, 5}, {1, 3}));
  const std::string invalid = fmt::format("error {}", EINVAL);
  EXPECT_EQ(named(node("/m"), "1.0"), "2");
  EXPECT_EQ(named(node("/m"), "1.2"), invalid);
  EXPECT_EQ(named(node("/m"), "01.0"), invalid);
  EXPECT_EQ(named(node("/m"), "1"), invalid);
  EXPECT_EQ(named(node("/m"), "x"), "none");
  EXPECT_EQ(named(node("/m"), ".zarray"), "none");
  EXPECT_EQ(named(node("/g"), "0"), "none") << "a group has no chunks";
}

TEST_F(ChunkFilesTest, SizesAreDecodedAndBlocksAreStored) {
  source_->add_variable("/z", text_variable({8192}, {4096}, {deflate(9)}));
  source_->put("/z", 0, std::string(4096, 'x'));
  const Result<struct stat> chunk = attributes(node("/z"), 0);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(chunk->st_size, 4096);
  EXPECT_EQ(chunk->st_blocks, 1) << "its stored bytes";
  EXPECT_EQ(error_of(attributes(node("/z"), 1)), ENOENT);
  ASSERT_TRUE(write_file("/z/1", std::string(4096, 'y')));
  EXPECT_EQ(attributes(node("/z"), 1)->st_blocks, 8) << "an edit counts as it is";
}

TEST_F(ChunkFilesTest, AbsentChunksOfZerosTakeNoBlocks) {
  Variable variable = text_variable({8}, {4});
  variable.fill_value = Json();
  variable.fill = {std::byte{0}};
  source_->add_variable("/zeros", variable);
  variable.fill = {std::byte{'.'}};
  source_->add_variable("/dots", variable);
  EXPECT_EQ(attributes(node("/zeros"), 0)->st_blocks, 0);
  EXPECT_EQ(attributes(node("/dots"), 0)->st_blocks, 1) << "tar would take it for zeros";
}

TEST_F(ChunkFilesTest, AWholeChunkIsReplacedAndPadded) {
  const Node& variable = node("/v");
  const Ino encoded = ino("/v/0", View::encoded);
  kernel_.take();
  ASSERT_TRUE(chunks().put(variable, chunk_place("/v", 0), bytes_of("xy"), {}));
  EXPECT_EQ(read("/v/0"), "xy..");
  EXPECT_TRUE(kernel_.has(Kernel::content(encoded)));
  EXPECT_GT(find("/v/0")->st_mtim.tv_sec, 1'000'000) << "it was modified now";
  EXPECT_EQ(error_of(chunks().put(variable, chunk_place("/v", 0), bytes_of("too long"), {})), EFBIG);
  EXPECT_EQ(read("/v/0"), "xy..");
}

TEST_F(ChunkFilesTest, AnUnlinkedChunkComesBackWhenItIsPut) {
  ASSERT_TRUE(fs().tree().unlink(ino("/v"), ".zarray"));
  ASSERT_TRUE(fs().tree().unlink(ino("/v"), "0"));
  EXPECT_EQ(error_of(attributes(node("/v"), 0)), ENOENT);
  ASSERT_TRUE(chunks().put(node("/v"), chunk_place("/v", 0), bytes_of("wxyz"), {}));
  EXPECT_EQ(attributes(node("/v"), 0)->st_size, 4);
}

}  // namespace
}  // namespace codecfs::fs
