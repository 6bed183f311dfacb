// Pieces of an array that are assembled once for several requests.

#include "fs/views/array_blocks.h"

#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

constexpr uint64_t kBlock = 16;  // bytes

class ArrayBlocksTest : public FilesystemTest {
 protected:
  /// 4 x 16 elements in chunks of 4 x 2: each row touches 8 chunks.
  ArrayBlocksTest()
      : file_(*ArrayFile::make(std::make_shared<const Variable>(text_variable({4, 16}, {4, 2})),
                               *form_of(View::raw).array)) {}

  std::string read(uint64_t offset, uint64_t size) {
    if (blocks_ == nullptr) blocks_ = std::make_unique<ArrayBlocks>(mount(), kBlock);
    const auto part = blocks_->read(1, file_, offset, size, [&](uint64_t number, uint64_t) -> Result<ArrayFile::Part> {
      ++chunks_read_;
      if (fails_) return fail(EIO, "damaged");
      const auto chunk = std::make_shared<const std::string>(8, static_cast<char>('a' + number));
      return ArrayFile::Part{bytes_of(*chunk), chunk};
    });
    return part ? text_of(part->bytes) : fmt::format("error {}", part.error().code);
  }

  const ArrayFile file_;
  std::unique_ptr<ArrayBlocks> blocks_;
  int chunks_read_ = 0;
  bool fails_ = false;
};

TEST_F(ArrayBlocksTest, ABlockIsAssembledOnce) {
  EXPECT_EQ(read(0, 4), "aabb");
  EXPECT_EQ(chunks_read_, 8);
  EXPECT_EQ(read(4, 6), "ccddee");
  EXPECT_EQ(chunks_read_, 8);
  EXPECT_EQ(read(16, 4), "aabb") << "the second row";
  EXPECT_EQ(chunks_read_, 16);
}

TEST_F(ArrayBlocksTest, ARequestMayCrossBlocks) {
  EXPECT_EQ(read(14, 20), "hhaabbccddeeffgghhaa");
  EXPECT_EQ(read(60, 10), "gghh") << "to the end of the file";
  EXPECT_EQ(read(64, 10), "");
}

TEST_F(ArrayBlocksTest, AChangeMakesBlocksOld) {
  read(0, 4);
  mount().dataset.forget(0);
  EXPECT_EQ(read(0, 4), "aabb");
  EXPECT_EQ(chunks_read_, 16);
}

TEST_F(ArrayBlocksTest, AFailureIsNotKept) {
  fails_ = true;
  EXPECT_EQ(read(0, 4), fmt::format("error {}", EIO));
  fails_ = false;
  EXPECT_EQ(read(0, 4), "aabb");
}

TEST_F(ArrayBlocksTest, OnlyRequestsThatTouchManyChunksAreServed) {
  const ArrayBlocks blocks(mount(), kBlock);
  EXPECT_TRUE(blocks.are_for(file_, 0, 16)) << "8 chunks of 8 bytes";
  EXPECT_FALSE(blocks.are_for(file_, 0, 4));
}

}  // namespace
}  // namespace codecfs::fs
