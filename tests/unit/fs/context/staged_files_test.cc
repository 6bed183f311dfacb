// Texts of files that are being written: shared with readers, and applied once.

#include "fs/context/staged_files.h"

#include <gtest/gtest.h>

#include "support/failing_memory.h"

namespace codecfs::fs {
namespace {

StagedFile::Descriptor descriptor;  // of tests that have one

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
  ASSERT_TRUE(file.write(0, bytes_of("SOME"), &descriptor));
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
  ASSERT_TRUE(file.write(10, bytes_of("b"), &descriptor));
  EXPECT_EQ(file.text()->data(), before);
}

TEST(StagedFile, AWriteBeyondTheLimitFails) {
  StagedFile file(1, "", false, 10);
  const auto written = file.write(8, bytes_of("abc"), &descriptor);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, EFBIG);
  EXPECT_EQ(*file.text(), "");
}

TEST(StagedFile, AChangeIsTakenOnce) {
  StagedFile file(1, "longer than this", false, 100);
  EXPECT_FALSE(file.shown_size());
  ASSERT_TRUE(file.write(0, bytes_of("short"), &descriptor));
  EXPECT_EQ(file.shown_size(), 16);
  const auto change = file.take_change(descriptor);
  ASSERT_TRUE(change);
  EXPECT_EQ(*change->text, "shortr than this");
  EXPECT_EQ(change->without_rest, "short");
  EXPECT_FALSE(file.take_change(descriptor));
  EXPECT_FALSE(file.shown_size());
}

TEST(StagedFile, WhetherItIsWrittenWholeIsOfTheLastChange) {
  StagedFile file(1, "a text", false, 100);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(file.resize(0));
    ASSERT_TRUE(file.write(0, bytes_of("some"), &descriptor));
    ASSERT_TRUE(file.write(4, bytes_of(" text"), &descriptor));
    EXPECT_TRUE(file.text_if_written_whole());
    ASSERT_TRUE(file.take_change(descriptor));
  }
  ASSERT_TRUE(file.write(0, bytes_of("over"), &descriptor));
  EXPECT_FALSE(file.text_if_written_whole()) << "the rest is of another change";
  EXPECT_EQ(file.take_change(descriptor)->without_rest, "over");
  ASSERT_TRUE(file.write(0, bytes_of("all of it"), &descriptor));
  EXPECT_TRUE(file.text_if_written_whole());
  ASSERT_TRUE(file.write(7, bytes_of("IT"), &descriptor)) << "again";
  EXPECT_TRUE(file.text_if_written_whole());
  ASSERT_TRUE(file.write(3, bytes_of("-"), &descriptor));
  EXPECT_FALSE(file.text_if_written_whole());
  ASSERT_TRUE(file.resize(0));
  EXPECT_TRUE(file.text_if_written_whole());
}

TEST(StagedFiles, AnOpenBeginsWithWhatTheSourceHas) {
  StagedFiles files;
  const auto closed = files.open(1, "old", false);  // is not released yet
  ASSERT_TRUE(closed->write(0, bytes_of("written"), &descriptor));
  EXPECT_EQ(*files.open(1, "old", false)->text(), "written") << "is not applied";
  {
    const auto change = closed->take_change(descriptor);
    ASSERT_TRUE(change);
    EXPECT_EQ(*files.open(1, "old", false)->text(), "written") << "is being applied";
  }
  EXPECT_EQ(*files.open(1, "as the source shows it", false)->text(), "as the source shows it");
}

TEST(StagedFile, ANewFileWithoutWritesIsShownUntilItIsClosed) {
  StagedFile file(1, "", true, 100);
  EXPECT_EQ(file.shown_size(), 0);
  EXPECT_FALSE(file.take_change(descriptor));
  EXPECT_EQ(file.shown_size(), 0);
  file.end();
  EXPECT_FALSE(file.shown_size());
}

TEST(StagedFile, WhatOthersWriteIsLeftToThem) {
  StagedFile file(1, "", false, 100);
  StagedFile::Descriptor own;
  StagedFile::Descriptor other;
  ASSERT_TRUE(file.write(0, bytes_of("a part"), &own));
  EXPECT_FALSE(file.take_change(other));
  EXPECT_EQ(file.shown_size(), 6);
  {
    const auto change = file.take_change(own);
    ASSERT_TRUE(change);
    EXPECT_EQ(*change->text, "a part");
  }
  ASSERT_TRUE(file.write(0, bytes_of("a page"), nullptr));
  EXPECT_TRUE(file.take_change(other)) << "a page of a mapping is written through any descriptor";
  ASSERT_TRUE(file.write(0, bytes_of("a part"), &own));
  EXPECT_FALSE(file.take_change(other)) << "there was a mapping before";
  EXPECT_TRUE(file.take_change(own));
}

TEST(StagedFile, ANewFileIsShownUntilItsLastDescriptorIsClosed) {
  StagedFile file(1, "", false, 100);  // closed, and not released yet
  file.begin("", true);
  file.end();
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

TEST(StagedFile, AChangeIsNotLostWhenMemoryRunsOut) {
  StagedFile file(1, std::string(200, 'r'), false, 1000);
  const std::string text(100, 't');
  ASSERT_TRUE(file.write(0, bytes_of(text), &descriptor));
  bool is_taken = false;
  step_through_allocations(
      [&]() -> Result<> {
        const auto change = file.take_change(descriptor);
        is_taken = change.has_value();
        EXPECT_TRUE(is_taken);
        return {};
      },
      [&](bool done) {
        if (!done) {
          EXPECT_EQ(file.shown_size(), 200) << "it is still to be applied";
        }
        if (done) {
          ASSERT_TRUE(file.write(0, bytes_of(text), &descriptor));
        }
      });
  EXPECT_TRUE(is_taken);
  EXPECT_TRUE(file.take_change(descriptor));
  file.begin("what the source has", false);
  EXPECT_EQ(*file.text(), "what the source has") << "nothing is being applied";
}

}  // namespace
}  // namespace codecfs::fs
