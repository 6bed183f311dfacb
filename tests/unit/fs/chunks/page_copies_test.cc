#include "fs/chunks/page_copies.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/failing_memory.h"

namespace codecfs::fs {
namespace {

constexpr uint64_t kPage = PageCopies::kPage;

Bytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string page_of(char fill) { return std::string(kPage, fill); }

/// The result of compare() as text: x for changed bytes.
std::string changed(PageCopies& copies, Ino ino, uint64_t offset, const std::string& text) {
  const PageCopies::WrittenBack compared = copies.compare(ino, offset, bytes_of(text));
  if (compared.changed.empty()) return std::string(text.size(), 'x');
  std::string marks;
  for (const std::byte byte : compared.changed) marks += byte == std::byte{0} ? '.' : 'x';
  EXPECT_EQ(compared.any, marks.contains('x'));
  return marks;
}

TEST(PageCopies, OnlyWhatDiffersFromWhatWasGivenIsChanged) {
  PageCopies copies;
  copies.given(1, 0, bytes_of(page_of('a')));  // no writer
  EXPECT_EQ(copies.bytes(), 0U);
  PageCopies::Writer writer(copies, 1);
  EXPECT_TRUE(writer.is_first());
  EXPECT_FALSE(PageCopies::Writer(copies, 1).is_first());
  copies.given(1, 0, bytes_of(page_of('a') + page_of('b') + "tail"));
  EXPECT_EQ(copies.bytes(), 3 * kPage);
  EXPECT_EQ(changed(copies, 1, kPage, "bbcb"), "..x.");
  EXPECT_EQ(changed(copies, 1, kPage - 2, "axbb"), ".x..");
  EXPECT_EQ(changed(copies, 1, 2 * kPage, "tailend"), "....xxx");  // beyond the known content
  EXPECT_EQ(changed(copies, 1, 3 * kPage, "abc"), "xxx");
  EXPECT_EQ(changed(copies, 2, 0, "a"), "x");
  writer = {};
  EXPECT_EQ(copies.bytes(), 0U);
}

TEST(PageCopies, WhatIsStoredOrWrittenIsWhatThePageHolds) {
  PageCopies copies;
  const PageCopies::Writer writer(copies, 1);
  copies.given(1, 0, bytes_of(page_of('a')));
  const std::string text = "axa";
  copies.stored(1, 0, bytes_of(text), copies.compare(1, 0, bytes_of(text)));
  EXPECT_EQ(changed(copies, 1, 0, "axa"), "...");
  EXPECT_EQ(changed(copies, 1, 0, "aaa"), ".x.");  // a change back is a change too
  copies.written(1, 2, bytes_of("yy"));
  EXPECT_EQ(changed(copies, 1, 0, "axyya"), ".....");
  copies.written(1, kPage, bytes_of("part"));  // the rest of that page is read first
  EXPECT_EQ(changed(copies, 1, kPage, "part"), "xxxx");
  copies.written(1, kPage, bytes_of(page_of('w')));
  EXPECT_EQ(changed(copies, 1, kPage, "ww"), "..");
}

TEST(PageCopies, APageThatChangedMeanwhileHasNoCopy) {
  PageCopies copies;
  const PageCopies::Writer writer(copies, 1);
  copies.given(1, 0, bytes_of(page_of('a')));
  const std::string text = "b";
  const PageCopies::WrittenBack compared = copies.compare(1, 0, bytes_of(text));
  copies.written(1, 5, bytes_of("c"));
  copies.stored(1, 0, bytes_of(text), compared);
  EXPECT_EQ(changed(copies, 1, 0, "a"), "x");
  copies.given(1, 0, bytes_of(page_of('a')));
  EXPECT_EQ(changed(copies, 1, 0, "a"), ".");
  copies.give_up(1);
  copies.given(1, 0, bytes_of(page_of('a')));
  EXPECT_EQ(changed(copies, 1, 0, "a"), "x");
}

TEST(PageCopies, MemoryIsBoundedByDroppingTheOldest) {
  constexpr uint64_t kPages = 64;
  struct Kernel : Invalidator {
    void drop_pages(Ino, uint64_t offset, uint64_t size) override {
      const std::lock_guard lock(mutex);
      for (uint64_t at = offset; at < offset + size; at += kPage) dropped.push_back(at / kPage);
      done.notify_all();
    }
    std::mutex mutex;
    std::condition_variable done;
    std::vector<uint64_t> dropped;  // pages
  };
  Kernel kernel;
  PageCopies copies(kPages * kPage);
  copies.set_invalidator(kernel);
  const PageCopies::Writer writer(copies, 1);
  for (uint64_t page = 0; page < kPages + 1; ++page) copies.given(1, page * kPage, bytes_of(page_of('a')));
  {
    std::unique_lock lock(kernel.mutex);
    kernel.done.wait(lock, [&] { return !kernel.dropped.empty(); });
    for (size_t i = 0; i < kernel.dropped.size(); ++i) EXPECT_EQ(kernel.dropped[i], i);
  }
  for (uint64_t page = 0; page < 100 * kPages; ++page) {
    copies.given(1, page * kPage, bytes_of(page_of('b')));
    ASSERT_LE(copies.bytes(), kPages * kPage * 5 / 4);
  }
  copies.stop();
}

TEST(CopyMasked, TakesTheBytesOfTheMask) {
  std::string to = "aaaa";
  const std::string from = "bcde";
  const std::string mask("\0\xff\0\xff", 4);
  copy_masked(std::as_writable_bytes(std::span(to)).data(), bytes_of(from).data(), bytes_of(mask).data(), 4);
  EXPECT_EQ(to, "acae");
}

TEST(PageCopies, WithoutMemoryThereIsNoCopy) {
  PageCopies copies;
  uint64_t page = 0;
  const std::string given = page_of('a');
  {
    const PageCopies::Writer writer(copies, 1);
    step_through_allocations(
        [&]() -> Result<> {
          copies.given(1, ++page * kPage, bytes_of(given));
          return {};
        },
        [&](bool done) {
          EXPECT_TRUE(done) << "the request does not fail";
          const std::string seen = changed(copies, 1, page * kPage, "aab");
          EXPECT_TRUE(seen == "..x" || seen == "xxx") << seen;
        });
    // What is counted goes with the copies.
    for (uint64_t i = 1; i <= page; ++i) copies.given(1, i * kPage + 1, bytes_of("x"));
    EXPECT_EQ(copies.bytes(), 0);
  }
  EXPECT_EQ(copies.bytes(), 0);
}

TEST(PageCopies, WhatThePageHoldsIsUnknownWithoutMemory) {
  for (const bool is_write : {true, false}) {
    PageCopies copies;
    const PageCopies::Writer writer(copies, 1);
    const std::string text(2000, 'b');
    copies.given(1, 0, bytes_of("abc"));
    step_through_allocations(
        [&]() -> Result<> {
          PageCopies::WrittenBack compared;
          if (!is_write) compared = copies.compare(1, 0, bytes_of(text));
          if (is_write)
            copies.written(1, 0, bytes_of(text));
          else
            copies.stored(1, 0, bytes_of(text), compared);
          return {};
        },
        [&](bool done) {
          const std::string seen = changed(copies, 1, 0, "abc");
          if (done) {
            EXPECT_TRUE(seen == "x.x" || seen == "xxx") << seen;
          }
          copies.given(1, 0, bytes_of("abc"));  // the file has grown
        });
  }
}

TEST(PageCopies, ALimitWithoutMemoryIsStillALimit) {
  struct Kernel : Invalidator {
    void drop_pages(Ino, uint64_t, uint64_t) override {}
  };
  Kernel kernel;
  PageCopies copies(8 * kPage);
  copies.set_invalidator(kernel);
  const PageCopies::Writer writer(copies, 1);
  const std::string given = page_of('a');
  for (int passed = 0; passed < 40; ++passed) {
    const FailingMemory failing(passed);
    for (uint64_t page = 0; page < 12; ++page) copies.given(1, page * kPage, bytes_of(given));
  }
  while (copies.bytes() > 8 * kPage) std::this_thread::yield();
  copies.stop();
}

}  // namespace
}  // namespace codecfs::fs
