// The content of a changed chunk, without threads and sources.

#include "fs/chunks/edit_content.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/failing_memory.h"

namespace codecfs::fs {
namespace {

constexpr uint64_t kChunk = 16;  // bytes

Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

Variable fixed() {
  Variable variable;
  variable.chunk_bytes = kChunk;
  variable.fill = {std::byte{'f'}, std::byte{'F'}};
  return variable;
}

std::shared_ptr<Buffer> buffer_of(std::string_view text) {
  return std::make_shared<Buffer>(*Buffer::copy_of(bytes_of(text)));
}

std::string shown(const EditContent& content) {
  const auto state = content.state();
  if (!state) return "none";
  return {reinterpret_cast<const char*>(state->bytes->data()), state->size};
}

std::string all(const EditContent& content) {
  const auto state = content.state();
  return {reinterpret_cast<const char*>(state->bytes->data()), state->bytes->size()};
}

TEST(EditContent, ABaseIsNoContentBeforeTheFirstChange) {
  EditContent content;
  EXPECT_FALSE(content.has_base());
  content.set_base(buffer_of("0123456789abcdef"));
  EXPECT_TRUE(content.has_base());
  EXPECT_EQ(shown(content), "none");
  ASSERT_TRUE(content.write(fixed(), 2, bytes_of("XY"), {}));
  EXPECT_EQ(shown(content), "01XY456789abcdef");
}

TEST(EditContent, ABaseThatComesLateIsNotKept) {
  EditContent content;
  ASSERT_TRUE(content.write(fixed(), 0, bytes_of("written as whole"), {}));
  const auto base = buffer_of("0123456789abcdef");
  content.set_base(base);
  EXPECT_EQ(base.use_count(), 1);
  ASSERT_TRUE(content.write(fixed(), 0, bytes_of("W"), {}));
  EXPECT_EQ(shown(content), "Written as whole");
}

TEST(EditContent, APartNeedsABase) {
  EditContent content;
  const auto written = content.write(fixed(), 2, bytes_of("XY"), {});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, EIO);
  EXPECT_EQ(shown(content), "none");
}

TEST(EditContent, AStateThatWasHandedOutStays) {
  EditContent content;
  ASSERT_TRUE(content.write(fixed(), 0, bytes_of("written as whole"), {}));
  const auto before = content.state();
  ASSERT_TRUE(content.write(fixed(), 0, bytes_of("W"), {}));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(before->bytes->data()), 7), "written");
  EXPECT_EQ(shown(content), "Written as whole");
}

TEST(EditContent, AMaskSelectsBytes) {
  EditContent content;
  content.set_base(buffer_of("0123456789abcdef"));
  const std::string mask("\xff\0\xff", 3);
  ASSERT_TRUE(content.write(fixed(), 4, bytes_of("XYZ"), bytes_of(mask)));
  EXPECT_EQ(shown(content), "0123X5Z789abcdef");
}

TEST(EditContent, ATruncatedFileIsFillBeyondItsEnd) {
  EditContent content;
  content.set_base(buffer_of("0123456789abcdef"));
  ASSERT_TRUE(content.resize(fixed(), 5, false));
  EXPECT_TRUE(content.is_short());
  EXPECT_EQ(shown(content), "01234");
  EXPECT_EQ(all(content), "01234FfFfFfFfFfF");
  ASSERT_TRUE(content.write(fixed(), 7, bytes_of("x"), {}));
  EXPECT_EQ(shown(content), std::string("01234\0\0x", 8)) << "a gap is zeros";
  content.show_whole();
  EXPECT_FALSE(content.is_short());
  EXPECT_EQ(shown(content), std::string("01234\0\0xfFfFfFfF", 16));
}

TEST(EditContent, AGapCanBeFill) {
  EditContent content;
  ASSERT_TRUE(content.resize(fixed(), 0, true));
  ASSERT_TRUE(content.write(fixed(), 4, bytes_of("x"), {}));
  EXPECT_EQ(shown(content), "fFfFx");
}

TEST(EditContent, AnAbsentChunkIsCreatedOnce) {
  EditContent content;
  EXPECT_TRUE(*content.create(fixed(), true, false));
  EXPECT_EQ(shown(content), "");
  EXPECT_FALSE(*content.create(fixed(), true, false));
  EditContent there;
  there.set_base(buffer_of("0123456789abcdef"));
  EXPECT_FALSE(*there.create(fixed(), false, false));
  EXPECT_EQ(shown(there), "0123456789abcdef");
}

TEST(EditContent, AChunkOfUnknownSizeGrows) {
  const Variable variable;
  EditContent content;
  content.set_base(buffer_of("abc"));
  ASSERT_TRUE(content.write(variable, 5, bytes_of("fg"), {}));
  EXPECT_EQ(shown(content), std::string("abc\0\0fg", 7));
  ASSERT_TRUE(content.resize(variable, 2, false));
  EXPECT_EQ(shown(content), "ab");
  EXPECT_FALSE(content.is_short());
}

TEST(EditContent, TheEncodedFormEndsWithTheNextChange) {
  EditContent content;
  content.replace(*EditContent::pad(fixed(), bytes_of("ab")), buffer_of("encoded"));
  EXPECT_EQ(shown(content), "abfFfFfFfFfFfFfF");
  EXPECT_NE(content.state()->encoded, nullptr);
  ASSERT_TRUE(content.write(fixed(), 0, bytes_of("x"), {}));
  EXPECT_EQ(content.state()->encoded, nullptr);
}

TEST(EditContent, ASmallChunkTakesMoreMemoryThanItHasBytes) {
  EditContent content;
  EXPECT_EQ(content.size().memory, 0);
  content.replace(*EditContent::pad(fixed(), {}), buffer_of("abc"));
  EXPECT_EQ(content.size().bytes, kChunk + 3);
  EXPECT_EQ(content.size().memory, content.state()->bytes->capacity() + content.state()->encoded->capacity());
  EXPECT_GT(content.size().memory, content.size().bytes);
}

// --- which bytes were written

std::string written_of(EditContent& content) {
  const ByteSet written = content.take_written();
  std::string text;
  for (uint64_t at = 0; at < kChunk; ++at) text += written.has(at) ? 'w' : '.';
  return text;
}

EditContent noting() {
  EditContent content;
  content.note_written_bytes();
  content.set_base(buffer_of("0123456789abcdef"), "version");
  return content;
}

TEST(EditContent, NotesWhatIsWritten) {
  EditContent content = noting();
  const std::string mask("\xff\0\xff", 3);
  ASSERT_TRUE(content.write(fixed(), 2, bytes_of("XY"), {}));
  ASSERT_TRUE(content.write(fixed(), 8, bytes_of("abc"), bytes_of(mask)));
  EXPECT_FALSE(content.is_own());
  EXPECT_EQ(content.version(), "version");
  const ByteSet written = content.take_written();
  EXPECT_EQ(written_of(content), "................") << "taken";
  content.give_back_written(written);
  ASSERT_TRUE(content.write(fixed(), 15, bytes_of("Z"), {}));
  EXPECT_EQ(written_of(content), "..ww....w.w....w");
}

TEST(EditContent, NotesWhatAChangeOfAllBytesWrites) {
  EditContent content = noting();
  ASSERT_TRUE(content.change(fixed(), false, [](MutableBytes bytes) {
    bytes[3] = std::byte{'3'};  // as it was
    bytes[4] = std::byte{'x'};
  }));
  EXPECT_EQ(written_of(content), "...ww...........");
  EXPECT_EQ(all(content), "0123x56789abcdef");
  ASSERT_TRUE(content.change(fixed(), true, [](MutableBytes bytes) { std::ranges::fill(bytes, std::byte{'y'}); }));
  EXPECT_EQ(written_of(content), "wwwwwwwwwwwwwwww");
  EXPECT_TRUE(content.is_own());
}

TEST(EditContent, ATruncationWritesWhatItDrops) {
  EditContent content = noting();
  ASSERT_TRUE(content.resize(fixed(), 12, false));
  EXPECT_EQ(written_of(content), "............wwww");
  ASSERT_TRUE(content.resize(fixed(), 0, false));
  EXPECT_EQ(written_of(content), "wwwwwwwwwwwwwwww");
}

TEST(EditContent, TheFillOfANewChunkIsNotWrittenButGapsAre) {
  EditContent content;
  content.note_written_bytes();
  ASSERT_TRUE(content.create(fixed(), true, false));
  EXPECT_EQ(written_of(content), "................");
  EXPECT_TRUE(content.is_own());
  ASSERT_TRUE(content.write(fixed(), 4, bytes_of("ab"), {}));
  EXPECT_EQ(written_of(content), "wwwwww..........");
  EXPECT_EQ(all(content), std::string("\0\0\0\0abfFfFfFfFfF", 16));
}

/// Each of its changes in turn, with memory that runs out at each place: afterwards the content is what it was.
TEST(EditContent, IsAsBeforeWhenMemoryRunsOut) {
  using Change = std::function<Result<>(EditContent&)>;
  const std::vector<Change> changes{
      [](EditContent& content) { return content.write(fixed(), 3, bytes_of("XYZ"), {}); },
      [](EditContent& content) { return content.write(fixed(), 0, bytes_of("abcdefghijklmnop"), {}); },
      [](EditContent& content) { return content.resize(fixed(), 5, false); },
      [](EditContent& content) { return content.resize(fixed(), 0, true); },
      [](EditContent& content) {
        return content.change(fixed(), false, [](MutableBytes bytes) { bytes[4] = std::byte{'y'}; });
      },
      [](EditContent& content) { return content.begin_replacement(fixed()); },
      [](EditContent& content) -> Result<> {
        content.replace(Buffer::copy_of(bytes_of("replaced........")).value(), nullptr);
        return {};
      },
      [](EditContent& content) -> Result<> {
        CODECFS_TRY(content.create(fixed(), true, false));
        return {};
      }};
  const std::string version(100, 'v');  // needs memory, as that of an object does
  for (size_t number = 0; number < changes.size(); ++number) {
    for (const bool was_written : {false, true}) {
      SCOPED_TRACE(testing::Message() << "change " << number << (was_written ? " of a changed chunk" : ""));
      std::optional<EditContent> content;
      const auto make = [&] {
        content.emplace();
        content->note_written_bytes();
        content->set_base(buffer_of("0123456789abcdef"), version);
        if (was_written) {
          ASSERT_TRUE(content->write(fixed(), 8, bytes_of("AB"), {}));
        }
      };
      make();
      std::optional<EditContent::State> reader;  // so that a change needs a copy
      if (was_written) reader = content->state();
      step_through_allocations([&] { return changes[number](*content); },
                               [&](bool done) {
                                 if (!done) {
                                   EXPECT_EQ(shown(*content), was_written ? "01234567ABabcdef" : "none");
                                   EXPECT_EQ(written_of(*content),
                                             was_written ? "........ww......" : "................");
                                   EXPECT_TRUE(content->has_base());
                                   EXPECT_FALSE(content->is_own());
                                   EXPECT_EQ(content->version(), version);
                                 }
                                 make();
                                 if (was_written) reader = content->state();
                               });
    }
  }
}

TEST(EditContent, WhatCouldNotBeStoredCountsAsWrittenAgain) {
  EditContent content = noting();
  step_through_allocations(
      [&]() -> Result<> {
        CODECFS_TRY(content.write(fixed(), 2, bytes_of("X"), {}));
        content.give_back_written(content.take_written());
        CODECFS_TRY(content.write(fixed(), 9, bytes_of("Y"), {}));
        const ByteSet written = content.take_written();
        EXPECT_TRUE(written.has(2));
        EXPECT_TRUE(written.has(9));
        content.give_back_written(written);
        return {};
      },
      [&](bool) {});
  EXPECT_EQ(written_of(content), "..w......w......");
}

}  // namespace
}  // namespace codecfs::fs
