// chmod, chown, truncate and utimens.

#include "fs/handles/inode_changes.h"

#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

class InodeChangesTest : public FilesystemTest {
 protected:
  Result<struct stat> change(Ino ino, const InodeChange& what) { return fs().inodes().change(ino, what); }
  template <class Value>
  static InodeChange with(Value InodeChange::* member, std::type_identity_t<Value> value) {
    InodeChange wanted;
    wanted.*member = value;
    return wanted;
  }
  int truncate(Ino ino, uint64_t size) { return error_of(change(ino, with(&InodeChange::size, size))); }
};

TEST_F(InodeChangesTest, PermissionsAndOwnersAreThoseOfTheSource) {
  const Ino chunk = ino("/v/0");
  EXPECT_TRUE(change(chunk, with(&InodeChange::permissions, 0644))) << "as it is";
  EXPECT_EQ(error_of(change(chunk, with(&InodeChange::permissions, 0600))), EPERM);
  EXPECT_TRUE(change(chunk, with(&InodeChange::owner, getuid())));
  EXPECT_EQ(error_of(change(chunk, with(&InodeChange::owner, getuid() + 1))), EPERM);
  EXPECT_EQ(error_of(change(chunk, with(&InodeChange::group, getgid() + 1))), EPERM);
}

TEST_F(InodeChangesTest, AScratchFileHasPermissionsAndASizeOfItsOwn) {
  const auto created = fs().files().create(ino("/v"), ".0.tmp", 0600, O_CREAT);
  const Ino file = created->status.st_ino;
  EXPECT_EQ(change(file, with(&InodeChange::permissions, 0640))->st_mode, S_IFREG | 0640);
  ASSERT_TRUE(write(*created->file, 0, "abc"));
  EXPECT_EQ(change(file, with(&InodeChange::size, 2))->st_size, 2);
  EXPECT_EQ(read("/v/.0.tmp"), "ab");
}

TEST_F(InodeChangesTest, TimesAreKeptInTheMount) {
  InodeChange times;
  times.accessed = timespec{5, 6};
  times.modified = timespec{7, 8};
  const Result<struct stat> changed = change(ino("/v/0"), times);
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->st_atim.tv_sec, 5);
  EXPECT_EQ(find("/v/0")->st_mtim.tv_nsec, 8);
  EXPECT_TRUE(change(ino("/g"), with(&InodeChange::modified, timespec{9, 0})));
  EXPECT_EQ(find("/g")->st_mtim.tv_sec, 9);
}

TEST_F(InodeChangesTest, ATruncatedChunkIsWholeAgainAtOnce) {
  const Ino encoded = ino("/v/0", View::encoded);
  kernel_.take();
  EXPECT_EQ(truncate(ino("/v/0"), 2), 0);
  EXPECT_EQ(read("/v/0"), "ab..") << "it was closed";
  EXPECT_TRUE(kernel_.has(Kernel::content(encoded)));
  EXPECT_EQ(truncate(ino("/v/0"), 4), 0);
  EXPECT_EQ(truncate(ino("/v/0"), 5), EFBIG);
  EXPECT_TRUE(mount().chunks.write_back.open_writers().empty());
}

TEST_F(InodeChangesTest, AChunkThatIsOpenKeepsItsLength) {
  const auto file = fs().files().open(ino("/v/0"), true, false);
  EXPECT_EQ(truncate(ino("/v/0"), 2), 0);
  EXPECT_EQ(find("/v/0")->st_size, 2);
  EXPECT_EQ(read(**file), "ab");
  (*file)->close();
  EXPECT_EQ(find("/v/0")->st_size, 4);
}

TEST_F(InodeChangesTest, AnArrayHasOneSize) {
  EXPECT_EQ(truncate(ino("/v", View::raw), 8), 0);
  EXPECT_EQ(truncate(ino("/v", View::raw), 0), EINVAL);
  EXPECT_EQ(truncate(ino("/v.npy", View::npy), 8), EINVAL);
}

TEST_F(InodeChangesTest, PartsOfWholeFilesMeanNothing) {
  EXPECT_EQ(truncate(ino("/g/.zattrs"), 1), EINVAL);
  EXPECT_EQ(truncate(ino("/g/deep/0", View::encoded), 1), EINVAL);
  const auto file = fs().files().open(ino("/g/.zattrs"), true, false);
  EXPECT_EQ(truncate(ino("/g/.zattrs"), 1), 0) << "while it is being written";
  EXPECT_EQ(find("/g/.zattrs")->st_size, 1);
  (*file)->close();
}

TEST_F(InodeChangesTest, ARuleIsAppliedBeforeATruncation) {
  ASSERT_TRUE(options_.rules.add("v,1,6"));
  EXPECT_EQ(truncate(ino("/v/0"), 2), 0);
  EXPECT_EQ(source_->described("/v").filters.size(), 1);
}

TEST_F(InodeChangesTest, AReadOnlyMountRefusesAll) {
  options_.read_only = true;
  EXPECT_EQ(error_of(change(ino("/v/0"), with(&InodeChange::modified, timespec{1, 0}))), EROFS);
  EXPECT_EQ(truncate(ino("/v/0"), 0), EROFS);
}

}  // namespace
}  // namespace codecfs::fs
