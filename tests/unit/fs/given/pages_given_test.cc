#include "fs/given/pages_given.h"

#include <gtest/gtest.h>

namespace codecfs::fs {
namespace {

TEST(PagesGiven, AreKnownUntilThereIsAChange) {
  PagesGiven pages;
  EXPECT_FALSE(pages.has(7, 0));
  pages.given(7, 0);
  EXPECT_TRUE(pages.has(7, 0));
  EXPECT_FALSE(pages.has(8, 0));
  EXPECT_FALSE(pages.has(7 + 512, 0));
  EXPECT_FALSE(pages.has(7, 1)) << "it was changed";
  pages.given(8, 1);
  EXPECT_FALSE(pages.has(7, 1));
  EXPECT_TRUE(pages.has(8, 1));
}

TEST(PagesGiven, ARequestForAnOldFileMeansThatPagesWereReclaimed) {
  PagesGiven pages;
  for (Ino ino = 1; ino <= 1000; ++ino) pages.given(ino, 0);
  pages.requested(5000);
  pages.requested(1000);
  EXPECT_TRUE(pages.has(1000, 0)) << "the request was on its way";
  EXPECT_TRUE(pages.has(1, 0));
  pages.requested(1);
  for (const Ino ino : {1, 2, 1000}) EXPECT_FALSE(pages.has(ino, 0)) << ino;
}

TEST(PagesGiven, OneFileCanBeForgotten) {
  PagesGiven pages;
  for (Ino ino = 1; ino <= 100; ++ino) pages.given(ino, 0);
  pages.forget(7);
  pages.forget(5000);
  EXPECT_FALSE(pages.has(7, 0));
  pages.requested(7);
  EXPECT_TRUE(pages.has(6, 0));
}

TEST(PagesGiven, AreForgottenWhenThereAreTooMany) {
  PagesGiven pages;
  constexpr Ino kLast = 10'000'000;
  for (Ino ino = 100; ino <= kLast; ino += 100) pages.given(ino, 0);
  EXPECT_TRUE(pages.has(kLast, 0));
  EXPECT_FALSE(pages.has(100, 0));
}

}  // namespace
}  // namespace codecfs::fs
