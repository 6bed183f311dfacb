// Files in memory: names, bytes, and what remains of one that became a chunk or was removed.

#include "fs/context/scratch_files.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "support/failing_memory.h"

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
  std::optional<ScratchFiles::Sealed> sealed = files_.seal(kDirectory, "a").value();
  EXPECT_EQ(sealed->content(), "old");
  EXPECT_EQ(files_.seal(kDirectory, "a").error().code, EBUSY);
  std::jthread writer([&] { write(file, 0, "new"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(content(file), "old");
  sealed.reset();
  writer.join();
  EXPECT_EQ(content(file), "new");
}

TEST_F(ScratchFilesTest, ASealedFileKeepsItsName) {
  create("a");
  {
    const Result<ScratchFiles::Sealed> sealed = files_.seal(kDirectory, "a");
    ASSERT_TRUE(sealed);
    EXPECT_EQ(files_.rename(kDirectory, "a", kOther, "b").error().code, EBUSY);
  }
  EXPECT_TRUE(files_.rename(kDirectory, "a", kOther, "b"));
}

TEST_F(ScratchFilesTest, AFileThatBecameAChunkTakesNoMoreBytes) {
  const Ino file = create("a");
  bool taken = true;
  std::jthread writer;
  {
    ScratchFiles::Sealed sealed = files_.seal(kDirectory, "a").value();
    writer = std::jthread([&] { taken = write(file, 0, "new"); });
    sealed.promote(kChunk);
  }
  writer.join();
  EXPECT_FALSE(taken) << "the writer goes on with the chunk";
  EXPECT_EQ(files_.promoted_to(file), kChunk);
  EXPECT_EQ(files_.former_inos(kChunk), std::vector<Ino>{file});
  EXPECT_TRUE(files_.names().empty());
  files_.forgotten(file, 1);
  EXPECT_TRUE(files_.former_inos(kChunk).empty());
  EXPECT_EQ(files_.promoted_to(file), std::nullopt);
}

TEST_F(ScratchFilesTest, AFileThatIsUnlinkedWhileItIsSealedCanBeWritten) {
  const Ino file = create("a");
  {
    ScratchFiles::Sealed sealed = files_.seal(kDirectory, "a").value();
    ASSERT_TRUE(files_.unlink(kDirectory, "a"));
    sealed.promote(kChunk);
  }
  EXPECT_EQ(files_.promoted_to(file), std::nullopt);
  ASSERT_TRUE(write(file, 0, "new"));
  EXPECT_EQ(content(file), "new");
}

// Names that need memory.
constexpr std::string_view kLong = "a name that is longer than what a string holds without memory";
constexpr std::string_view kLonger = "another name that is longer than what a string holds without memory";

/// A file with a long name; after each failed allocation, it must be as before.
class ScratchMemoryTest : public ScratchFilesTest {
 protected:
  ScratchMemoryTest() { make(); }
  void make() {
    file_ = create(kLong);
    EXPECT_TRUE(write(file_, 0, kText));
  }
  void check_file() {
    EXPECT_EQ(files_.find(kDirectory, kLong), file_);
    EXPECT_EQ(files_.names(), (std::vector<std::pair<Ino, std::string>>{{kDirectory, std::string(kLong)}}));
    EXPECT_EQ(content(file_), kText);
    EXPECT_TRUE(write(file_, 0, kText)) << "which waits for ever while it is sealed";
  }
  /// Neither a file nor its bytes are left.
  void remove(Ino file, std::string_view name, Ino directory = kDirectory) {
    EXPECT_TRUE(files_.unlink(directory, name));
    files_.forgotten(file, 1);
    EXPECT_FALSE(files_.status(file));
  }
  static constexpr std::string_view kText = "a text that is longer than what a string holds without memory";
  Ino file_ = 0;
};

TEST_F(ScratchMemoryTest, CreatingLeavesNothing) {
  Ino made = 0;
  step_through_allocations(
      [&]() -> Result<> {
        CODECFS_ASSIGN(made, files_.create(kDirectory, kLonger, 0600));
        return {};
      },
      [&](bool done) {
        EXPECT_EQ(files_.find(kDirectory, kLonger).has_value(), done);
        if (done) remove(made, kLonger);
        check_file();
      });
}

TEST_F(ScratchMemoryTest, WritingAndResizingCountWhatThereIs) {
  uint64_t size = 0;
  const auto check = [&](bool) { EXPECT_EQ(files_.bytes(), static_cast<uint64_t>(files_.status(file_)->st_size)); };
  step_through_allocations(
      [&] {
        size += 10'000;
        return files_.write(file_, size, std::as_bytes(std::span(kText)));
      },
      check);
  step_through_allocations(
      [&] {
        size += 100'000;
        return files_.resize(file_, size);
      },
      check);
}

TEST_F(ScratchMemoryTest, AFileHasTheOldNameOrTheNewOne) {
  step_through_allocations([&] { return files_.rename(kDirectory, kLong, kOther, kLonger); },
                           [&](bool done) {
                             if (done) {
                               EXPECT_EQ(files_.find(kOther, kLonger), file_);
                               ASSERT_TRUE(files_.rename(kOther, kLonger, kDirectory, kLong));
                             }
                             check_file();
                           });
}

TEST_F(ScratchMemoryTest, NoFileStaysSealed) {
  step_through_allocations(
      [&]() -> Result<> {
        CODECFS_TRY(files_.seal(kDirectory, kLong));
        return {};
      },
      [&](bool) { check_file(); });
}

TEST_F(ScratchMemoryTest, AFileIsAChunkOrWhatItWas) {
  step_through_allocations(
      [&]() -> Result<> {
        CODECFS_ASSIGN(ScratchFiles::Sealed sealed, files_.seal(kDirectory, kLong));
        sealed.promote(kChunk);
        return {};
      },
      [&](bool done) {
        if (!done) return check_file();
        EXPECT_EQ(files_.former_inos(kChunk), std::vector<Ino>{file_});
        EXPECT_EQ(files_.bytes(), 0);
        files_.forgotten(file_, 1);
        make();
      });
  EXPECT_TRUE(files_.former_inos(kChunk).empty());
}

}  // namespace
}  // namespace codecfs::fs
