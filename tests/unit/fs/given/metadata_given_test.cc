#include "fs/given/metadata_given.h"

#include <gtest/gtest.h>

#include <vector>

namespace codecfs::fs {
namespace {

class MetadataGivenTest : public testing::Test {
 protected:
  std::vector<Ino> take(Ino dataset, Ino file) {
    std::vector<Ino> told;
    given_.take(dataset, file, [&](Ino ino) { told.push_back(ino); });
    return told;
  }
  size_t take_all(Ino dataset) {
    size_t told = 0;
    given_.take_all(dataset, [&](Ino) { ++told; });
    return told;
  }

  MetadataGiven given_;
};

TEST_F(MetadataGivenTest, TheKernelIsToldOfAFileOnceForEachTimeThatItWasGiven) {
  given_.add(1, 10);
  given_.add(1, 10);
  EXPECT_EQ(take(1, 11), std::vector<Ino>());
  EXPECT_EQ(take(1, 10), std::vector<Ino>{10});
  EXPECT_EQ(take(1, 10), std::vector<Ino>());
  given_.add(1, 10);
  EXPECT_EQ(take_all(1), 1);
  EXPECT_EQ(take_all(1), 0);
}

TEST_F(MetadataGivenTest, DatasetsAreApart) {
  given_.add(1, 10);
  given_.add(2, 20);
  given_.add(2, 21);
  EXPECT_EQ(take(1, 20), std::vector<Ino>());
  EXPECT_EQ(take_all(2), 2);
  EXPECT_EQ(take_all(1), 1);
}

TEST_F(MetadataGivenTest, AFileHasItsSizeFromTheFirstTimeOn) {
  given_.add_name(10);
  EXPECT_TRUE(given_.lacks_size(10));
  EXPECT_FALSE(given_.had_size(10));
  given_.add_size(10);
  EXPECT_FALSE(given_.lacks_size(10));
  given_.add(1, 10);
  EXPECT_EQ(take(1, 10), std::vector<Ino>{10});
  EXPECT_TRUE(given_.had_size(10));
  EXPECT_FALSE(given_.had_size(11));
}

}  // namespace
}  // namespace codecfs::fs
