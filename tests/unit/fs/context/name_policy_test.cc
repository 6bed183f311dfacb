// Which names are accepted where.

#include "fs/context/name_policy.h"

#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

class NamePolicyTest : public FilesystemTest {
 protected:
  int stage_error(std::string_view directory, std::string_view name) {
    NamePolicy policy(mount());
    return error_of(policy.may_stage(Place{&node(directory), FileKind::itself, 0}, name));
  }
  int change_error(Ino directory, std::string_view name = {}) {
    NamePolicy policy(mount());
    return error_of(policy.changeable_directory(directory, name));
  }
};

TEST_F(NamePolicyTest, DirectoriesOfTwoViewsCanBeChanged) {
  for (const View view : {View::decoded, View::encoded}) {
    EXPECT_EQ(change_error(root(view)), 0);
    EXPECT_EQ(change_error(ino("/v", view)), 0);
  }
  for (const View view : {View::npy, View::raw}) EXPECT_EQ(change_error(root(view)), EPERM);
  EXPECT_EQ(change_error(ino("/v/.zarray")), ENOTDIR);
  EXPECT_EQ(change_error(ino("/v/0")), ENOTDIR);
  EXPECT_EQ(change_error(mount().tree.nodes.control().ino()), EPERM);
  EXPECT_EQ(change_error(mount().tree.nodes.views().ino()), EPERM);
  EXPECT_EQ(change_error(Ino{77} << kLocalBits | 1), ESTALE);
}

TEST_F(NamePolicyTest, AReadOnlySourceMakesAReadOnlyMount) {
  source_->is_writable = false;
  EXPECT_TRUE(fs().read_only());
  EXPECT_EQ(change_error(kRootIno), EROFS);
}

TEST_F(NamePolicyTest, TemporaryNamesAreAcceptedEverywhere) {
  for (const char* name : {".x", "x~", "x.tmp", "0.partial", "#x#", ".nczarray"}) {
    EXPECT_EQ(stage_error("/v", name), 0) << name;
    EXPECT_EQ(stage_error("/g", name), 0) << name;
  }
  for (const char* name : {"x", "README", "data.nc"}) {
    EXPECT_EQ(stage_error("/v", name), EINVAL) << name;
    EXPECT_EQ(stage_error("/g", name), EINVAL) << name;
  }
}

TEST_F(NamePolicyTest, AllIsAcceptedBelowATemporaryDirectory) {
  source_->add_group("/n.tmp");
  source_->add_group("/n.tmp/in");
  EXPECT_EQ(stage_error("/n.tmp/in", "README"), 0);
}

TEST_F(NamePolicyTest, ChunksBeforeTheirZarrayNeedAnEmptyGroup) {
  source_->add_group("/n");
  EXPECT_EQ(stage_error("/n", "0.1"), 0);
  EXPECT_EQ(stage_error("/n", "_Filter"), 0);
  EXPECT_EQ(stage_error("/n", "_Codecs"), 0);
  EXPECT_EQ(stage_error("/g", "0.1"), EINVAL) << "it has members";
  EXPECT_EQ(stage_error("", "0.1"), EINVAL) << "the root stays a group";
}

TEST_F(NamePolicyTest, FormatThreeIsRefusedWithItsChunks) {
  source_->add_group("/n");
  source_->add_group("/n/c");
  source_->add_group("/n/c/0");
  EXPECT_EQ(stage_error("/n/c/0", "1"), 0);
  EXPECT_EQ(change_error(ino("/n"), "zarr.json"), EINVAL);
  EXPECT_EQ(stage_error("/n/c/0", "1"), EINVAL);
  ASSERT_TRUE(write_file("/n/.zattrs", "{}"));
  EXPECT_EQ(stage_error("/n/c/0", "1"), 0) << "format 2 was written since";
}

}  // namespace
}  // namespace codecfs::fs
