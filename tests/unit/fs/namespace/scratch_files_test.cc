// Files in memory: names, bytes, and what remains of one that became a chunk or was removed.

#include "fs/namespace/scratch_files.h"

#include <gtest/gtest.h>

#include <thread>

namespace codecfs::fs {
namespace {

constexpr Ino kDirectory = Ino{7} << kLocalBits | 1;
constexpr Ino kOther = Ino{8} << kLocalBits | 1;
constexpr Ino kChunk = Ino{7} << kLocalBits | 16;

class ScratchFilesTest : public testing::Test {
 protected:
  Ino create(std::string_view name) {
    const Result<Ino> made = files_.create(kDirectory, name, 0600);
    EXPECT_TRUE(made);
    files_.looked_up(*made);
    return *made;
  }
  bool write(Ino ino, uint64_t offset, std::string_view text) {
    return files_.write(ino, offset, std::as_bytes(std::span(text))).value();
  }
  std::string content(Ino ino) { return files_.read(ino, 0, 1000).value_or("stale"); }

  ScratchFiles files_;
};

TEST_F(ScratchFilesTest, AFileIsFoundInItsDirectory) {
  const Ino file = create("a");
  EXPECT_EQ(file >> kLocalBits, kScratchSlot);
  EXPECT_EQ(files_.find(kDirectory, "a"), file);
  EXPECT_EQ(files_.find(kOther, "a"), std::nullopt);
  EXPECT_EQ(files_.create(kDirectory, "a", 0600).error().code, EEXIST);
  EXPECT_TRUE(files_.list(kOther).empty());
  EXPECT_EQ(files_.list(kDirectory).size(), 1);
}

TEST_F(ScratchFilesTest, GapsAreZeros) {
  const Ino file = create("a");
  ASSERT_TRUE(write(file, 2, "cd"));
  EXPECT_EQ(content(file), std::string(2, '\0') + "cd");
  ASSERT_TRUE(files_.resize(file, 3));
  ASSERT_TRUE(files_.resize(file, 5));
  EXPECT_EQ(content(file), std::string(2, '\0') + "c" + std::string(2, '\0'));
  EXPECT_EQ(files_.read(file, 10, 5).value(), "");
  EXPECT_EQ(files_.status(file)->st_size, 5);
}

TEST_F(ScratchFilesTest, AllFilesTogetherAreLimited) {
  const Ino one = create("a");
  const Ino other = create("b");
  ASSERT_TRUE(files_.resize(one, 1000));
  const Result<bool> written = files_.write(other, ScratchFiles::kMaxBytes - 500, Bytes(std::as_bytes(std::span("x"))));
  EXPECT_EQ(written.error().code, ENOSPC);
  EXPECT_EQ(files_.resize(other, ScratchFiles::kMaxBytes).error().code, ENOSPC);
  EXPECT_EQ(files_.status(other)->st_size, 0);
}

TEST_F(ScratchFilesTest, ARemovedFileLivesUntilTheKernelForgetsIt) {
  const Ino file = create("a");
  ASSERT_TRUE(write(file, 0, "text"));
  ASSERT_TRUE(files_.unlink(kDirectory, "a"));
  EXPECT_EQ(files_.find(kDirectory, "a"), std::nullopt);
  EXPECT_EQ(content(file), "text");
  EXPECT_EQ(files_.status(file)->st_nlink, 0);
  files_.forgotten(file, 1);
  EXPECT_EQ(content(file), "stale");
  EXPECT_EQ(files_.unlink(kDirectory, "a").error().code, ENOENT);
}

TEST_F(ScratchFilesTest, ARenameReplaces) {
  const Ino file = create("a");
  const Ino replaced = create("b");
  ASSERT_TRUE(write(file, 0, "new"));
  ASSERT_TRUE(files_.rename(kDirectory, "a", kDirectory, "b"));
  EXPECT_EQ(files_.find(kDirectory, "b"), file);
  EXPECT_EQ(files_.find(kDirectory, "a"), std::nullopt);
  EXPECT_EQ(files_.status(replaced)->st_nlink, 0);
  ASSERT_TRUE(files_.rename(kDirectory, "b", kOther, "c"));
  EXPECT_EQ(files_.names(), (std::vector<std::pair<Ino, std::string>>{{kOther, "c"}}));
  EXPECT_EQ(files_.rename(kDirectory, "none", kOther, "d").error().code, ENOENT);
}

TEST_F(ScratchFilesTest, AWriterWaitsWhileTheFileIsSealed) {
  const Ino file = create("a");
  ASSERT_TRUE(write(file, 0, "old"));
  EXPECT_EQ(files_.seal(kDirectory, "a").value(), "old");
  std::jthread writer([&] { write(file, 0, "new"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(content(file), "old");
  files_.unseal(kDirectory, "a");
  writer.join();
  EXPECT_EQ(content(file), "new");
}

TEST_F(ScratchFilesTest, ASealedFileKeepsItsName) {
  create("a");
  ASSERT_TRUE(files_.seal(kDirectory, "a"));
  EXPECT_EQ(files_.rename(kDirectory, "a", kOther, "b").error().code, EBUSY) << "promote() would not find it";
  files_.unseal(kDirectory, "a");
  EXPECT_TRUE(files_.rename(kDirectory, "a", kOther, "b"));
}

TEST_F(ScratchFilesTest, AFileThatBecameAChunkTakesNoMoreBytes) {
  const Ino file = create("a");
  ASSERT_TRUE(files_.seal(kDirectory, "a"));
  bool taken = true;
  std::jthread writer([&] { taken = write(file, 0, "new"); });
  files_.promote(kDirectory, "a", kChunk);
  writer.join();
  EXPECT_FALSE(taken) << "the writer goes on with the chunk";
  EXPECT_EQ(files_.promoted_to(file), kChunk);
  EXPECT_EQ(files_.former_inos(kChunk), std::vector<Ino>{file});
  EXPECT_TRUE(files_.names().empty());
  files_.forgotten(file, 1);
  EXPECT_TRUE(files_.former_inos(kChunk).empty());
  EXPECT_EQ(files_.promoted_to(file), std::nullopt);
}

}  // namespace
}  // namespace codecfs::fs
