// Open files of each kind: reading, writing, flushing, closing, truncation, and files that are removed or renamed while
// they are open.

#include "fs/handles/file_opener.h"

#include <new>

#include "base/fail_points.h"
#include "support/failing_memory.h"
#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

class FileOpenerTest : public FilesystemTest {
 protected:
  FileOpener& files() { return fs().files(); }
  std::unique_ptr<FileHandle> open(std::string_view path, bool for_writing, bool truncate = false,
                                   View view = View::decoded) {
    auto file = files().open(ino(path, view), for_writing, truncate);
    EXPECT_TRUE(file) << (file ? "" : file.error().reason);
    return file ? std::move(*file) : nullptr;
  }
  FileOpener::Created create(std::string_view directory, std::string_view name, int flags, View view = View::decoded) {
    auto created = files().create(ino(directory, view), name, 0640, flags | O_CREAT);
    EXPECT_TRUE(created) << (created ? "" : created.error().reason);
    return created ? std::move(*created) : FileOpener::Created();
  }
  int open_error(std::string_view path, bool for_writing, View view = View::decoded) {
    return error_of(files().open(ino(path, view), for_writing, false));
  }
  int create_error(std::string_view directory, std::string_view name, int flags = 0, View view = View::decoded) {
    return error_of(files().create(ino(directory, view), name, 0640, flags | O_CREAT));
  }
};

TEST_F(FileOpenerTest, AChunkIsReadInParts) {
  const auto file = open("/g/deep/0", false);
  EXPECT_EQ(read(*file), "deep");
  EXPECT_EQ(read(*file, 1, 2), "ee");
  EXPECT_EQ(read(*file, 3, 10), "p");
  EXPECT_EQ(read(*file, 4, 1), "");
  EXPECT_EQ(read(*file, 100, 1), "");
  EXPECT_EQ(error_of(write(*file, 0, "x")), 0) << "the kernel checks the mode of the descriptor";
  EXPECT_FALSE(file->is_writer());
  EXPECT_TRUE(file->caching.mappable);
}

TEST_F(FileOpenerTest, AChunkIsStoredAfterItsClose) {
  const auto file = open("/v/0", true);
  EXPECT_TRUE(file->is_writer());
  ASSERT_EQ(write(*file, 1, "XY").value(), 2);
  EXPECT_EQ(read(*file), "aXYd");
  EXPECT_EQ(write(*file, 3, "12").value(), 1) << "up to the end of the chunk";
  EXPECT_EQ(error_of(write(*file, 4, "1")), EFBIG);
  EXPECT_TRUE(file->flush());
  EXPECT_FALSE(file->close());
  ASSERT_TRUE(fs().sync_all());
  EXPECT_EQ(source_->chunk("/v", 0), "aXY1");
}

TEST_F(FileOpenerTest, SyncStoresAndCommitsAnOpenChunk) {
  const auto file = open("/v/0", true);
  ASSERT_TRUE(write(*file, 0, "X"));
  EXPECT_EQ(source_->writes, 2) << "those of the test";
  ASSERT_TRUE(file->sync());
  EXPECT_EQ(source_->chunk("/v", 0), "Xbcd");
  EXPECT_EQ(source_->commits, 1);
  file->close();
}

TEST_F(FileOpenerTest, AShortReplacementOfAChunkIsRefused) {
  const auto file = open("/v/0", true, true);
  EXPECT_EQ(find("/v/0")->st_size, 0);
  EXPECT_TRUE(file->flush()) << "as a shell does before the command writes";
  ASSERT_TRUE(write(*file, 1, "X"));
  const std::string zero(1, '\0');
  EXPECT_EQ(read(*file), zero + "X") << "a gap in a file is zeros";
  EXPECT_EQ(find("/v/0")->st_size, 2);
  EXPECT_EQ(error_of(file->flush()), EINVAL);
  EXPECT_EQ(error_of(file->sync()), EINVAL);
  ASSERT_TRUE(fs().sync_all());
  EXPECT_EQ(source_->chunk("/v", 0), "abcd") << "nothing of it is stored";
  EXPECT_TRUE(file->close()) << "the content changes";
  EXPECT_EQ(find("/v/0")->st_size, 4);
  EXPECT_EQ(read("/v/0"), "abcd");
  EXPECT_TRUE(mount().errors.find(ino("/v/0")));
}

TEST_F(FileOpenerTest, ARefusedReplacementLeavesWhatIsNotStored) {
  ASSERT_TRUE(write_file("/v/0", "wxyz"));
  const auto file = open("/v/0", true, true);
  ASSERT_TRUE(write(*file, 0, "12"));
  file->close();
  EXPECT_EQ(read("/v/0"), "wxyz");
  ASSERT_TRUE(fs().sync_all());
  EXPECT_EQ(source_->chunk("/v", 0), "wxyz");
}

TEST_F(FileOpenerTest, ATruncatedChunkIsFillIfNothingIsWritten) {
  const auto file = open("/v/0", true, true);
  EXPECT_TRUE(file->flush());
  EXPECT_TRUE(file->close()) << "the length changes";
  EXPECT_EQ(read("/v/0"), "....");
  const auto replacing = open("/v/0", true, true);
  ASSERT_TRUE(write(*replacing, 0, "12"));
  ASSERT_TRUE(write(*replacing, 2, "34"));
  EXPECT_TRUE(replacing->flush());
  EXPECT_FALSE(replacing->close());
  EXPECT_EQ(read("/v/0"), "1234");
}

TEST_F(FileOpenerTest, ANewChunkIsFillWhereNothingIsWritten) {
  const FileOpener::Created whole = create("/v", "1", O_EXCL);
  EXPECT_EQ(whole.status.st_size, 0);
  EXPECT_EQ(create_error("/v", "1", O_EXCL), EEXIST);
  ASSERT_TRUE(write(*whole.file, 0, "w"));
  whole.file->close();
  EXPECT_EQ(read("/v/1"), "w...");
  source_->add_variable("/w", text_variable({8}, {4}));
  const FileOpener::Created part = create("/w", "0", 0);
  ASSERT_TRUE(write(*part.file, 2, "x"));
  part.file->close();
  EXPECT_EQ(read("/w/0"), "..x.") << "as with dd conv=notrunc";
}

TEST_F(FileOpenerTest, ErrorsOfStoringAreReportedByTheNextClose) {
  source_->is_full = true;
  const auto file = open("/v/0", true);
  ASSERT_TRUE(write(*file, 0, "X"));
  EXPECT_EQ(error_of(file->sync()), ENOSPC);
  EXPECT_EQ(read("/v/0"), "Xbcd") << "it stays an edit";
  source_->is_full = false;
  EXPECT_TRUE(file->sync());
  file->close();
  EXPECT_EQ(source_->chunk("/v", 0), "Xbcd");
}

TEST_F(FileOpenerTest, ARemovedChunkReadsAsFill) {
  const auto file = open("/v/0", false);
  const Ino chunk = ino("/v/0");
  ASSERT_TRUE(fs().tree().unlink(ino("/v"), "0"));
  EXPECT_EQ(read(*file), "....");
  const Result<struct stat> status = file->attributes_of_removed(chunk);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->st_nlink, 0);
  EXPECT_EQ(status->st_size, 4);
}

TEST_F(FileOpenerTest, AChunkOfARemovedVariableIsStale) {
  const auto file = open("/v/0", true);
  ASSERT_TRUE(write(*file, 0, "X"));
  ASSERT_TRUE(fs().tree().unlink(ino("/v"), "0"));
  ASSERT_TRUE(fs().tree().remove_directory(kRootIno, "v"));
  EXPECT_EQ(read(*file), fmt::format("error {}", ESTALE));
  EXPECT_EQ(error_of(write(*file, 0, "Y")), ESTALE);
  EXPECT_EQ(error_of(file->sync()), ESTALE);
  EXPECT_TRUE(file->flush()) << "close(2) has nothing to report";
  EXPECT_FALSE(file->close());
}

TEST_F(FileOpenerTest, AnArrayIsReadAndWrittenThroughOneFile) {
  const auto file = open("/v", true, false, View::raw);
  EXPECT_EQ(read(*file), "abcd....");
  ASSERT_TRUE(write(*file, 3, "DE"));
  EXPECT_EQ(read(*file, 2, 4), "cDE.");
  ASSERT_TRUE(file->sync());
  EXPECT_EQ(source_->chunk("/v", 1), "E...");
  EXPECT_FALSE(file->close());
  EXPECT_TRUE(mount().chunks.write_back.open_writers().empty());
}

TEST_F(FileOpenerTest, TheWritersOfTheMountAreNamed) {
  const auto chunk = open("/g/deep/0", true);
  const auto array = open("/v.npy", true, false, View::npy);
  std::vector<std::string> paths = fs().paths_open_for_writing();
  std::ranges::sort(paths);
  EXPECT_EQ(paths, (std::vector<std::string>{"/.codecfs/view/npy/v.npy", "/g/deep/0"}));
  chunk->close();
  array->close();
  EXPECT_TRUE(fs().paths_open_for_writing().empty());
}

TEST_F(FileOpenerTest, AMetadataFileIsAppliedAtItsClose) {
  const auto file = open("/g/.zattrs", true, true);
  EXPECT_TRUE(file->caching.whole);
  ASSERT_TRUE(write(*file, 0, R"({"title": )"));
  ASSERT_TRUE(write(*file, 10, R"("new"})"));
  EXPECT_EQ(find("/g/.zattrs")->st_size, 16) << "what is being written is shown";
  EXPECT_EQ(*source_->group_attributes(source_->object("/g"))->front().value, Json("t"));
  ASSERT_TRUE(file->flush());
  EXPECT_EQ(*source_->group_attributes(source_->object("/g"))->front().value, Json("new"));
  EXPECT_TRUE(kernel_.has_waited_for(Kernel::content(ino("/g/.zattrs"))));
  EXPECT_TRUE(file->close());
}

TEST_F(FileOpenerTest, AnInvalidMetadataFileIsRefusedAtItsClose) {
  const std::string before = read("/g/.zattrs");
  const auto file = open("/g/.zattrs", true, true);
  ASSERT_TRUE(write(*file, 0, "{"));
  EXPECT_EQ(error_of(file->flush()), EINVAL);
  file->close();
  EXPECT_EQ(read("/g/.zattrs"), before);
}

// netCDF-C opens without O_TRUNC and writes a shorter text over the longer one.
TEST_F(FileOpenerTest, AShorterTextOverALongerOneIsTakenAlone) {
  const auto file = open("/g/.zattrs", true);
  ASSERT_TRUE(write(*file, 0, "{}"));
  ASSERT_TRUE(file->flush());
  file->close();
  EXPECT_TRUE(source_->group_attributes(source_->object("/g"))->empty());
}

TEST_F(FileOpenerTest, ATextIsReadAsOfOneState) {
  const auto file = open("/g/.zattrs", false);
  const std::string before = read(*file);
  EXPECT_FALSE(file->caching.live);
  ASSERT_TRUE(fs().xattrs().set(ino("/g"), "user.title", "another", XattrMode::any));
  EXPECT_NE(read(*file), before) << "after an invalidation the kernel gets the new text";
  EXPECT_EQ(error_of(write(*file, 0, "x")), EBADF);
  const auto live = open("/g/.zattrs", false);
  EXPECT_TRUE(live->caching.live) << "it has just changed";
  ASSERT_TRUE(fs().xattrs().set(ino("/g"), "user.title", "third", XattrMode::any));
  EXPECT_EQ(read(*live).find("third"), std::string::npos) << "its kernel pages are not cached";
}

TEST_F(FileOpenerTest, AnEncodedChunkIsReplacedAsAWhole) {
  const std::string stored = read("/g/deep/0", View::encoded);
  const FileOpener::Created created = create("/g/deep", "1", O_EXCL, View::encoded);
  EXPECT_EQ(error_of(find("/g/deep/1")), ENOENT) << "not before its close";
  ASSERT_TRUE(write(*created.file, 0, stored));
  EXPECT_EQ(find("/g/deep/1", View::encoded)->st_size, static_cast<off_t>(stored.size()));
  ASSERT_TRUE(created.file->sync());
  EXPECT_EQ(source_->chunk("/g/deep", 1), "deep");
  created.file->close();
  EXPECT_EQ(read("/g/deep/1"), "deep");
}

TEST_F(FileOpenerTest, AnEncodedChunkThatIsNotWrittenDisappears) {
  const FileOpener::Created created = create("/g/deep", "1", O_EXCL, View::encoded);
  EXPECT_TRUE(find("/g/deep/1", View::encoded));
  EXPECT_TRUE(created.file->flush());
  created.file->close();
  EXPECT_EQ(error_of(find("/g/deep/1", View::encoded)), ENOENT);
  EXPECT_TRUE(kernel_.has(Kernel::name(ino("/g/deep", View::encoded), "1")));
}

TEST_F(FileOpenerTest, AScratchFileThatBecomesAChunkStaysOpen) {
  const FileOpener::Created created = create("/v", ".1.tmp", O_EXCL);
  EXPECT_EQ(created.status.st_mode, S_IFREG | 0640);
  ASSERT_TRUE(write(*created.file, 0, "wxyz"));
  EXPECT_EQ(read(*created.file), "wxyz");
  EXPECT_TRUE(created.file->sync()) << "it is not stored anywhere";
  mount().tree.scratch.looked_up(created.status.st_ino);
  ASSERT_TRUE(fs().tree().rename(ino("/v"), ".1.tmp", ino("/v"), "1", true));
  ASSERT_EQ(write(*created.file, 2, "YZ").value(), 2);
  EXPECT_EQ(read("/v/1"), "wxYZ");
  EXPECT_EQ(read(*created.file, 1, 2), "xY");
  EXPECT_TRUE(kernel_.has(Kernel::content(ino("/v/1")))) << "the chunk has pages of its own";
  EXPECT_EQ(error_of(files().open(created.status.st_ino, false, false)), ESTALE);
  ASSERT_TRUE(created.file->sync());
  EXPECT_EQ(source_->chunk("/v", 1), "wxYZ");
  created.file->close();
}

TEST_F(FileOpenerTest, WhatCannotBeOpenedOrCreated) {
  EXPECT_EQ(open_error("/g", false), EISDIR);
  EXPECT_EQ(open_error("/.codecfs/log", true), EPERM);
  EXPECT_EQ(error_of(files().open(Ino{77} << kLocalBits | 1, false, false)), ESTALE);
  EXPECT_EQ(create_error("/v", "7"), EINVAL) << "outside of the grid";
  EXPECT_EQ(create_error("/v", "readme"), EINVAL);
  EXPECT_EQ(create_error("/g", "zarr.json"), EINVAL);
  EXPECT_EQ(create_error("/g", "0"), EINVAL) << "the group has members, so it cannot become an array";
  EXPECT_EQ(create_error("", "n.npy", 0, View::npy), EPERM);
  EXPECT_EQ(create_error("/g", ".zattrs"), EEXIST);
  source_->is_writable = false;
  EXPECT_EQ(open_error("/v/0", true), EROFS);
  EXPECT_EQ(open_error("/v", true, View::raw), EROFS);
}

TEST_F(FileOpenerTest, AReadOnlyMountOpensForReadingOnly) {
  options_.read_only = true;
  for (const char* path : {"/v/0", "/v/.zattrs", "/g/.zgroup"}) {
    EXPECT_EQ(open_error(path, true), EROFS) << path;
    EXPECT_EQ(open_error(path, false), 0) << path;
  }
  EXPECT_EQ(create_error("/v", "1"), EROFS);
}

TEST_F(FileOpenerTest, NothingIsPushedToAFileThatIsWritten) {
  const Ino chunk = ino("/v/0");
  const auto push = [&] { return mount().kernel.pages.push_pages(chunk, [] { return true; }); };
  EXPECT_TRUE(push());
  auto file = open("/v/0", true);
  EXPECT_FALSE(push());
  file->close();
  file.reset();
  EXPECT_TRUE(push());
}

TEST_F(FileOpenerTest, NoWriterIsLeftWhenMemoryRunsOut) {
  for (const View view : {View::decoded, View::encoded, View::raw}) {
    for (const bool truncate : {false, true}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(view) << (truncate ? " truncated" : ""));
      const std::string path = view == View::raw ? "/v" : "/v/0";
      const Ino file = ino(path, view);
      step_through_allocations(
          [&]() -> Result<> {
            CODECFS_TRY(fs().files().open(file, true, truncate));
            return {};
          },
          [&](bool done) {
            EXPECT_TRUE(mount().chunks.write_back.open_writers().empty());
            EXPECT_TRUE(mount().kernel.pages.push_pages(file, [] { return true; }));
            if (!done) {
              EXPECT_EQ(read("/v/0"), "abcd") << "what could not be opened is not truncated";
            }
            ASSERT_TRUE(write_file("/v/0", "abcd"));
            ASSERT_TRUE(mount().chunks.write_back.pause(source_->object("/v")));
          });
    }
  }
}

TEST_F(FileOpenerTest, NoWriterIsLeftWhenAFileCannotBeCreated) {
  const Ino directory = ino("/v");
  step_through_allocations(
      [&]() -> Result<> {
        CODECFS_ASSIGN(const FileOpener::Created created, fs().files().create(directory, "1", 0600, O_CREAT | O_EXCL));
        created.file->close();
        return {};
      },
      [&](bool) {
        EXPECT_TRUE(mount().chunks.write_back.open_writers().empty());
        ASSERT_TRUE(mount().chunks.write_back.pause(source_->object("/v")));
        if (find("/v/1")) {
          ASSERT_TRUE(fs().tree().unlink(directory, "1"));
        }
      });
}

TEST_F(FileOpenerTest, AMetadataFileCanBeAppliedAgainAfterMemoryHasRunOut) {
  for (const bool is_first : {true, false}) {
    const auto file = open("/g/.zattrs", true, true);
    ASSERT_TRUE(write(*file, 0, R"({"title": "lost"})"));
    FailPoints::arm(FailPoint::memory, 0, 1);
    EXPECT_THROW((void)file->flush(), std::bad_alloc);
    FailPoints::disarm();
    EXPECT_TRUE(read("/g/.zattrs").contains(is_first ? "\"t\"" : "kept")) << "nothing is being applied";
    ASSERT_TRUE(write_file("/g/.zattrs", R"({"title": "kept"})"));
    file->close();
  }
}

}  // namespace
}  // namespace codecfs::fs
