// Texts of files that are being written: shared with readers, and applied once.

#include "fs/namespace/staged_files.h"

#include <gtest/gtest.h>

namespace codecfs::fs {
namespace {

Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(StagedFile, ReadersShareTheText) {
  StagedFile file(1, "some text", false, 100);
  const auto first = file.text();
  EXPECT_EQ(first, file.text()) << "a read must not copy the text";
  EXPECT_EQ(*first, "some text");
}

TEST(StagedFile, AReaderKeepsTheTextThatItGot) {
  StagedFile file(1, "some text", false, 100);
  const auto before = file.text();
  ASSERT_TRUE(file.write(0, bytes_of("SOME")));
  EXPECT_EQ(*before, "some text");
  EXPECT_EQ(*file.text(), "SOME text");
  const auto written = file.text();
  ASSERT_TRUE(file.resize(2));
  EXPECT_EQ(*written, "SOME text");
  EXPECT_EQ(*file.text(), "SO");
}

TEST(StagedFile, AWriteWithoutReadersDoesNotCopy) {
  StagedFile file(1, std::string(1000, 'a'), false, 1000);
  const void* const before = file.text()->data();
  ASSERT_TRUE(file.write(10, bytes_of("b")));
  EXPECT_EQ(file.text()->data(), before);
}

TEST(StagedFile, AWriteBeyondTheLimitFails) {
  StagedFile file(1, "", false, 10);
  const auto written = file.write(8, bytes_of("abc"));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, EFBIG);
  EXPECT_EQ(*file.text(), "");
}

TEST(StagedFile, AChangeIsTakenOnce) {
  StagedFile file(1, "longer than this", false, 100);
  EXPECT_FALSE(file.shown_size());
  ASSERT_TRUE(file.write(0, bytes_of("short")));
  EXPECT_EQ(file.shown_size(), 16);
  const auto change = file.take_change();
  ASSERT_TRUE(change);
  EXPECT_EQ(change->text, "shortr than this");
  EXPECT_EQ(change->without_rest, "short");
  EXPECT_FALSE(file.take_change());
  EXPECT_FALSE(file.shown_size());
}

TEST(StagedFile, ANewFileWithoutWritesIsShownUntilItIsClosed) {
  StagedFile file(1, "", true, 100);
  EXPECT_EQ(file.shown_size(), 0);
  EXPECT_FALSE(file.take_change());
  EXPECT_EQ(file.shown_size(), 0);
  file.end();
  EXPECT_FALSE(file.shown_size());
}

TEST(StagedFiles, DescriptorsShareOneFile) {
  StagedFiles files;
  EXPECT_EQ(files.find(5), nullptr);
  auto first = files.open(5, "text", false);
  EXPECT_EQ(files.open(5, "ignored", false), first);
  EXPECT_EQ(files.find(5), first);
  first.reset();
  EXPECT_EQ(files.find(5), nullptr);
  EXPECT_EQ(*files.open(5, "again", false)->text(), "again");
}

}  // namespace
}  // namespace codecfs::fs
