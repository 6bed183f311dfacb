// `.codecfs/references.json`, of references that the tests choose.

#include "fs/views/references_file.h"

#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

class ReferencesFileTest : public FilesystemTest {
 protected:
  ReferencesFileTest() {
    options_.make_references = [this](Source& source) -> Result<std::string> {
      EXPECT_EQ(&source, source_);
      ++made;
      if (meanwhile) meanwhile();
      if (failure) return std::unexpected(*failure);
      return "references " + std::to_string(made);
    };
  }
  [[nodiscard]] off_t size() { return find("/.codecfs/references.json")->st_size; }

  static constexpr const char* kPath = "/.codecfs/references.json";
  int made = 0;
  std::optional<Error> failure;
  std::function<void()> meanwhile;
};

TEST_F(ReferencesFileTest, IsMadeWhenItIsOpened) {
  EXPECT_EQ(size(), 0);
  EXPECT_EQ(list("/.codecfs").size(), 5U);
  EXPECT_EQ(made, 0);
  EXPECT_EQ(find(kPath)->st_mode & 0777, 0444U);
  EXPECT_EQ(read(kPath), "references 1");
  EXPECT_EQ(size(), 12);
  EXPECT_EQ(made, 1);
}

TEST_F(ReferencesFileTest, IsSharedByItsReadersUntilTheDatasetChanges) {
  const auto first = fs().files().open(ino(kPath), false, false);
  EXPECT_EQ(read(kPath), "references 1");
  ASSERT_TRUE(write_file("/v/0", "wxyz"));
  ASSERT_TRUE(fs().sync_all());
  EXPECT_EQ(read(kPath), "references 2");
  EXPECT_EQ(read(**first), "references 1") << "as it was when it was opened";
}

TEST_F(ReferencesFileTest, IsBusyWhileChangesWait) {
  ASSERT_TRUE(write_file("/v/0", "wxyz"));
  EXPECT_EQ(read(kPath), fmt::format("error {}", EBUSY));
  ASSERT_TRUE(fs().sync_all());
  EXPECT_EQ(read(kPath), "references 1");
  ASSERT_TRUE(fs().tree().unlink(ino("/v"), "0"));
  EXPECT_EQ(read(kPath), fmt::format("error {}", EBUSY));
  EXPECT_EQ(made, 1);
}

TEST_F(ReferencesFileTest, IsBusyIfTheDatasetChangesMeanwhile) {
  meanwhile = [this] { EXPECT_TRUE(write_file("/v/0", "wxyz")); };
  EXPECT_EQ(read(kPath), fmt::format("error {}", EBUSY));
  EXPECT_EQ(size(), 0);
}

TEST_F(ReferencesFileTest, FailsForTheReason) {
  failure = Error{EOPNOTSUPP, "no references"};
  const auto opened = fs().files().open(ino(kPath), false, false);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, EOPNOTSUPP);
  EXPECT_EQ(opened.error().reason, "/.codecfs/references.json: no references");
}

TEST_F(ReferencesFileTest, IsOnlyOfOneFile) {
  source_->status_.st_mode = S_IFDIR | 0755;
  EXPECT_EQ(error_of(find(kPath)), ENOENT);
  EXPECT_EQ(list("/.codecfs").size(), 4U);
}

TEST_F(FilesystemTest, ReferencesNeedAMaker) { EXPECT_EQ(error_of(find("/.codecfs/references.json")), ENOENT); }

}  // namespace
}  // namespace codecfs::fs
