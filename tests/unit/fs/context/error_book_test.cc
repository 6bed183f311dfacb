// Failures of inodes: the latest is kept, the oldest is dropped, and a success of the same kind ends it.

#include "fs/context/error_book.h"

#include <gtest/gtest.h>

namespace codecfs::fs {
namespace {

TEST(ErrorBook, KeepsTheLatestFailureOfAnInodeWithItsTime) {
  ErrorBook book;
  EXPECT_FALSE(book.find(7));
  const time_t before = time(nullptr);
  book.failed(7, RequestKind::reading, "first");
  book.failed(7, RequestKind::other, "second");
  ASSERT_TRUE(book.find(7));
  EXPECT_EQ(book.find(7)->reason, "second");
  EXPECT_GE(book.find(7)->time.tv_sec, before);
  EXPECT_FALSE(book.find(8));
}

TEST(ErrorBook, ASuccessOfTheSameKindEndsAFailure) {
  ErrorBook book;
  book.failed(7, RequestKind::writing, "no space");
  book.succeeded(7, RequestKind::reading);
  book.succeeded(8, RequestKind::writing);
  EXPECT_TRUE(book.find(7));
  book.succeeded(7, RequestKind::writing);
  EXPECT_FALSE(book.find(7));
}

TEST(ErrorBook, FailuresOfNamesInADirectoryStay) {
  ErrorBook book;
  book.failed(7, RequestKind::other, "zarr.json: cannot be stored");
  book.succeeded(7, RequestKind::other);
  EXPECT_TRUE(book.find(7));
  EXPECT_TRUE(book.remove(7));
  EXPECT_FALSE(book.remove(7));
}

TEST(ErrorBook, DropsTheFailureThatIsOldest) {
  ErrorBook book;
  for (Ino ino = 1; ino <= ErrorBook::kMaxInodes; ++ino) book.failed(ino, RequestKind::writing, "w");
  book.failed(1, RequestKind::writing, "again");       // the latest now
  book.failed(1000000, RequestKind::reading, "more");  // one too many
  EXPECT_TRUE(book.find(1));
  EXPECT_FALSE(book.find(2));
  EXPECT_TRUE(book.find(3));
  EXPECT_TRUE(book.find(1000000));
}

TEST(ErrorBook, PrintsTimesInUtc) {
  EXPECT_EQ(text_of_time({.tv_sec = 951782400, .tv_nsec = 5}), "2000-02-29T00:00:00Z");
}

}  // namespace
}  // namespace codecfs::fs
