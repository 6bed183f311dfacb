// Creating, moving and removing names: what the source gets, what is refused, and what a directory shows meanwhile.

#include "fs/namespace/tree_changes.h"

#include "support/failing_memory.h"
#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

using Names = std::vector<std::string>;

class TreeChangesTest : public FilesystemTest {
 protected:
  TreeChanges& tree() { return fs().tree(); }
  Result<> rename(std::string_view from, std::string_view to, bool replace = true, View to_view = View::decoded) {
    const size_t name = from.rfind('/');
    const size_t to_name = to.rfind('/');
    return tree().rename(ino(from.substr(0, name)), from.substr(name + 1), ino(to.substr(0, to_name), to_view),
                         to.substr(to_name + 1), replace);
  }
  /// A scratch file.
  Ino scratch(std::string_view directory, std::string_view name, std::string_view content) {
    auto created = fs().files().create(ino(directory), name, 0600, O_CREAT | O_EXCL);
    EXPECT_TRUE(created);
    EXPECT_TRUE(write(*created->file, 0, content));
    created->file->close();
    return created->status.st_ino;
  }
};

TEST_F(TreeChangesTest, ANewDirectoryIsAGroupThatIsEmptyUntilSomethingIsInIt) {
  const Result<struct stat> made = tree().make_directory(kRootIno, "n");
  ASSERT_TRUE(made);
  EXPECT_TRUE(S_ISDIR(made->st_mode));
  EXPECT_NE(source_->object("/n"), 0);
  EXPECT_EQ(ino("/n"), made->st_ino);
  EXPECT_EQ(error_of(find("/n/.zgroup")), ENOENT) << "cp -r creates it itself";
  EXPECT_TRUE(find("/n/.zgroup", View::encoded)) << "it is new in the other view only";
  EXPECT_EQ(list("/n"), Names());
  EXPECT_EQ(error_of(find("/n/.zgroup")), ENOENT) << "zarr lists a directory before it writes to it";
  ASSERT_TRUE(tree().make_directory(ino("/n"), "m"));
  EXPECT_EQ(list("/n"), (Names{".zgroup", ".zattrs", ".zmetadata", "m"}));
  EXPECT_TRUE(find("/n/.zgroup"));
}

TEST_F(TreeChangesTest, NamesThatCannotBeDirectoriesAreRefused) {
  EXPECT_EQ(error_of(tree().make_directory(kRootIno, "g")), EEXIST);
  EXPECT_EQ(error_of(tree().make_directory(kRootIno, ".codecfs")), EEXIST);
  EXPECT_EQ(error_of(tree().make_directory(kRootIno, ".zattrs")), EINVAL);
  EXPECT_EQ(error_of(tree().make_directory(ino("/v"), "n")), EPERM);
  EXPECT_EQ(error_of(tree().make_directory(ino("/v/0"), "n")), ENOTDIR);
  EXPECT_EQ(error_of(tree().make_directory(root(View::npy), "n")), EPERM);
  EXPECT_EQ(error_of(tree().make_directory(mount().tree.nodes.control().ino(), "n")), EPERM);
  EXPECT_TRUE(tree().make_directory(ino("/g"), "c"));
  EXPECT_EQ(error_of(tree().make_directory(kRootIno, "zarr.json")), EINVAL);
  EXPECT_EQ(error_of(tree().make_directory(kRootIno, "c")), EINVAL) << "the chunks of an array of format 3";
  EXPECT_EQ(source_->object("/c"), 0);
}

TEST_F(TreeChangesTest, NothingChangesInAReadOnlyMount) {
  options_.read_only = true;
  EXPECT_EQ(error_of(tree().make_directory(kRootIno, "n")), EROFS);
  EXPECT_EQ(error_of(tree().unlink(ino("/v"), "0")), EROFS);
  EXPECT_EQ(error_of(tree().remove_directory(kRootIno, "g")), EROFS);
  EXPECT_EQ(error_of(tree().make_link(kRootIno, "n", "g")), EROFS);
  EXPECT_EQ(error_of(rename("/g", "/h")), EROFS);
  EXPECT_EQ(source_->chunk("/v", 0), "abcd");
}

TEST_F(TreeChangesTest, OnlyEmptyDirectoriesAreRemoved) {
  ASSERT_TRUE(tree().make_directory(ino("/g"), "empty"));
  const Ino empty = ino("/g/empty");
  EXPECT_EQ(error_of(tree().remove_directory(kRootIno, "g")), ENOTEMPTY);
  EXPECT_EQ(error_of(tree().remove_directory(kRootIno, "link")), ENOTDIR);
  EXPECT_EQ(error_of(tree().remove_directory(kRootIno, "none")), ENOENT);
  EXPECT_EQ(error_of(tree().remove_directory(kRootIno, ".codecfs")), EPERM);
  EXPECT_TRUE(tree().remove_directory(ino("/g"), "empty"));
  EXPECT_EQ(source_->object("/g/empty"), 0);
  EXPECT_EQ(error_of(find("/g/empty")), ENOENT);
  EXPECT_EQ(error_of(mount().tree.nodes.at(empty)), ESTALE);
}

TEST_F(TreeChangesTest, AVariableIsRemovedWhenItShowsNoChunks) {
  EXPECT_EQ(error_of(tree().remove_directory(kRootIno, "v")), ENOTEMPTY);
  ASSERT_TRUE(tree().unlink(ino("/v"), "0"));
  EXPECT_EQ(source_->chunk("/v", 0), "absent");
  ASSERT_TRUE(write_file("/v/1", "wxyz"));
  EXPECT_EQ(error_of(tree().remove_directory(kRootIno, "v")), ENOTEMPTY) << "a chunk that is not stored yet";
  ASSERT_TRUE(tree().unlink(ino("/v"), "1"));
  EXPECT_TRUE(tree().remove_directory(kRootIno, "v"));
  EXPECT_EQ(source_->object("/v"), 0);
}

TEST_F(TreeChangesTest, AVariableWithScratchFilesIsNotRemoved) {
  ASSERT_TRUE(tree().unlink(ino("/v"), "0"));
  scratch("/v", ".0.tmp", "ab");
  EXPECT_EQ(error_of(tree().remove_directory(kRootIno, "v")), ENOTEMPTY);
  ASSERT_TRUE(tree().unlink(ino("/v"), ".0.tmp"));
  EXPECT_TRUE(tree().remove_directory(kRootIno, "v"));
}

// The kernel may have the name from before the shape changed.
TEST_F(TreeChangesTest, AChunkBehindTheEndIsRemovedAlready) {
  EXPECT_EQ(error_of(find("/v/7")), ENOENT);
  EXPECT_TRUE(tree().unlink(ino("/v"), "7"));
  EXPECT_EQ(error_of(tree().unlink(ino("/v"), "seven")), ENOENT);
  EXPECT_EQ(error_of(tree().unlink(ino("/g"), "7")), ENOENT);
  EXPECT_EQ(source_->chunk("/v", 0), "abcd");
}

// rm -r removes the .zarray first or last; if it stops, nothing but names may be gone.
TEST_F(TreeChangesTest, ChunksOfAVariableWithoutZarrayAreRemovedWithIt) {
  ASSERT_TRUE(tree().unlink(ino("/v"), ".zarray"));
  EXPECT_EQ(error_of(find("/v/.zarray")), ENOENT);
  ASSERT_TRUE(tree().unlink(ino("/v"), "0"));
  EXPECT_EQ(error_of(find("/v/0")), ENOENT);
  EXPECT_EQ(list("/v"), (Names{".zattrs"}));
  EXPECT_EQ(source_->chunk("/v", 0), "abcd") << "the variable may be kept yet";
  EXPECT_TRUE(tree().remove_directory(kRootIno, "v"));
  EXPECT_EQ(source_->object("/v"), 0);
}

TEST_F(TreeChangesTest, ANewZarrayKeepsTheVariableWithoutTheUnlinkedChunks) {
  source_->put("/v", 1, "efgh");
  const std::string zarray = read("/v/.zarray");
  ASSERT_TRUE(tree().unlink(ino("/v"), ".zarray"));
  ASSERT_TRUE(tree().unlink(ino("/v"), "0"));
  ASSERT_TRUE(write_file("/v/.zarray", zarray));
  EXPECT_EQ(source_->chunk("/v", 0), "absent");
  EXPECT_EQ(source_->chunk("/v", 1), "efgh");
  EXPECT_EQ(list("/v"), (Names{".zarray", ".zattrs", "1"}));
}

TEST_F(TreeChangesTest, UnlinkRefusesWhatIsNoFile) {
  EXPECT_EQ(error_of(tree().unlink(kRootIno, "g")), EISDIR);
  EXPECT_EQ(error_of(tree().unlink(kRootIno, "none")), ENOENT);
  EXPECT_EQ(error_of(tree().unlink(ino("/v"), "1")), ENOENT) << "an absent chunk";
  EXPECT_EQ(error_of(tree().unlink(root(View::raw), "v")), EPERM);
  EXPECT_EQ(error_of(tree().make_hard_link(kRootIno, kRootIno, "h")), EPERM);
  EXPECT_TRUE(tree().unlink(kRootIno, "link"));
  EXPECT_EQ(error_of(find("/link")), ENOENT);
  EXPECT_EQ(source_->chunk("/g/deep", 0), "deep");
}

TEST_F(TreeChangesTest, LinksIntoTheMountAreStoredRelative) {
  options_.mountpoint = "/mnt/x";
  const auto stored = [&](Ino directory, std::string_view target) {
    const Result<struct stat> made = tree().make_link(directory, "l", target);
    EXPECT_TRUE(made);
    const Result<Place> place = mount().tree.nodes.at(made->st_ino);
    const std::string result = place->node->target;
    EXPECT_TRUE(tree().unlink(directory, "l"));
    return result;
  };
  EXPECT_EQ(stored(kRootIno, "/mnt/x/g/deep"), "g/deep");
  EXPECT_EQ(stored(ino("/g"), "/mnt/x/v"), "../v");
  EXPECT_EQ(stored(ino("/g"), "/mnt/x"), "..");
  EXPECT_EQ(stored(ino("/g", View::encoded), "/mnt/x/.codecfs/view/encoded/v"), "../v");
  EXPECT_EQ(stored(kRootIno, "/mnt/xy/v"), "/mnt/xy/v") << "another directory";
  EXPECT_EQ(stored(kRootIno, "g/../v"), "g/../v");
  EXPECT_EQ(error_of(tree().make_link(ino("/v"), "l", "x")), EPERM);
  EXPECT_EQ(error_of(tree().make_link(kRootIno, ".zgroup", "x")), EINVAL);
  EXPECT_EQ(error_of(tree().make_link(kRootIno, "v", "x")), EEXIST);
}

TEST_F(TreeChangesTest, AGroupMovesWithAllBelowIt) {
  const Ino group = ino("/g");
  const Ino chunk = ino("/g/deep/0");
  ASSERT_TRUE(rename("/g", "/h"));
  EXPECT_EQ(ino("/h"), group);
  EXPECT_EQ(ino("/h/deep/0"), chunk);
  EXPECT_EQ(node("/h/deep").path, "/h/deep");
  EXPECT_EQ(error_of(find("/g")), ENOENT);
  EXPECT_EQ(source_->chunk("/h/deep", 0), "deep");
  ASSERT_TRUE(rename("/h/deep", "/w"));
  EXPECT_EQ(ino("/w/0"), chunk);
  EXPECT_EQ(read("/w/0"), "deep");
}

TEST_F(TreeChangesTest, MovesThatAreRefusedChangeNothing) {
  EXPECT_EQ(error_of(rename("/g", "/v")), EEXIST);
  EXPECT_EQ(error_of(rename("/g", "/g/n")), EINVAL);
  EXPECT_EQ(error_of(rename("/g", "/.zattrs")), EINVAL);
  EXPECT_EQ(error_of(rename("/g", "/v/n")), EPERM);
  EXPECT_EQ(error_of(rename("/none", "/n")), ENOENT);
  EXPECT_EQ(error_of(rename("/g", "/n", true, View::encoded)), EXDEV);
  EXPECT_EQ(error_of(rename("/v/0", "/v/1")), EXDEV) << "mv copies it then";
  EXPECT_EQ(error_of(rename("/.codecfs", "/n")), EPERM);
  EXPECT_EQ(source_->chunk("/g/deep", 0), "deep");
  EXPECT_EQ(source_->chunk("/v", 0), "abcd");
}

TEST_F(TreeChangesTest, ALinkReplacesALink) {
  ASSERT_TRUE(tree().make_link(kRootIno, "other", "v"));
  ASSERT_TRUE(rename("/other", "/link"));
  EXPECT_EQ(fs().names().link_target(ino("/link")).value(), "v");
  EXPECT_EQ(error_of(find("/other")), ENOENT);
}

TEST_F(TreeChangesTest, AScratchFileBecomesAChunk) {
  scratch("/v", ".2.tmp", "xy");
  EXPECT_EQ(error_of(rename("/v/.2.tmp", "/v/1")), EINVAL) << "shorter than the chunk";
  EXPECT_EQ(read("/v/.2.tmp"), "xy") << "it stays what it was";
  const Ino file = scratch("/v", ".1.tmp", "xyzw");
  mount().tree.scratch.looked_up(file);
  EXPECT_EQ(error_of(rename("/v/.1.tmp", "/v/0", false)), EEXIST);
  EXPECT_EQ(error_of(rename("/v/.1.tmp", "/v/7")), EINVAL) << "outside of the grid";
  kernel_.take();
  ASSERT_TRUE(rename("/v/.1.tmp", "/v/1"));
  EXPECT_EQ(read("/v/1"), "xyzw");
  EXPECT_EQ(error_of(find("/v/.1.tmp")), ENOENT);
  const Result<Place> place = mount().tree.place_of(file);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->chunk, 1);
  EXPECT_TRUE(kernel_.has_waited_for(Kernel::content(ino("/v/1"))));
  EXPECT_TRUE(kernel_.has(Kernel::name(ino("/v"), "1")));
  ASSERT_TRUE(fs().sync_all());
  EXPECT_EQ(source_->chunk("/v", 1), "xyzw");
}

TEST_F(TreeChangesTest, AScratchFileBecomesAMetadataFileIfItsTextIsValid) {
  scratch("/g", ".zattrs.tmp", "{");
  EXPECT_EQ(error_of(rename("/g/.zattrs.tmp", "/g/.zattrs")), EINVAL);
  EXPECT_EQ(read("/g/.zattrs.tmp"), "{") << "it stays what it was";
  ASSERT_TRUE(write_file("/g/.zattrs.tmp", R"({"title": "new"})"));
  ASSERT_TRUE(rename("/g/.zattrs.tmp", "/g/.zattrs"));
  const auto attributes = source_->group_attributes(source_->object("/g"));
  ASSERT_EQ(attributes->size(), 1);
  EXPECT_EQ(*attributes->front().value, Json("new"));
}

TEST_F(TreeChangesTest, AScratchFileKeepsToTemporaryNames) {
  scratch("/v", ".a.tmp", "ab");
  EXPECT_EQ(error_of(rename("/v/.a.tmp", "/v/readme")), EINVAL);
  ASSERT_TRUE(rename("/v/.a.tmp", "/v/.b.tmp"));
  EXPECT_EQ(read("/v/.b.tmp"), "ab");
  EXPECT_EQ(fs().context().files_not_stored(), (Names{"/v/.b.tmp"}));
  EXPECT_EQ(error_of(fs().finish()), EIO) << "the file is lost with the mount";
}

TEST_F(TreeChangesTest, DuringAReencodingOnlyOtherNamesChange) {
  source_->add_group("/empty");
  source_->add_group("/g/empty");
  source_->add_group("/other");
  const Ino temporary = scratch("/g/deep", "x.tmp", "bytes");
  const auto is_busy = [](const auto& result) {
    return !result && result.error().code == EBUSY && result.error().reason.starts_with("/g/deep: is being re-encoded");
  };
  bool ran = false;
  source_->before_set_filters = [&] {
    ran = true;
    EXPECT_TRUE(tree().remove_directory(kRootIno, "empty"));
    EXPECT_TRUE(tree().remove_directory(ino("/g"), "empty"));
    EXPECT_TRUE(tree().make_directory(ino("/g"), "n"));
    EXPECT_TRUE(rename("/other", "/g/other"));
    EXPECT_TRUE(rename("/g/n", "/n"));
    EXPECT_TRUE(tree().unlink(kRootIno, "link"));
    EXPECT_TRUE(tree().unlink(ino("/v"), "0"));
    EXPECT_TRUE(is_busy(rename("/g", "/away")));
    EXPECT_TRUE(is_busy(rename("/g/deep", "/away")));
    EXPECT_TRUE(is_busy(tree().remove_directory(ino("/g"), "deep")));
    EXPECT_TRUE(is_busy(tree().remove_directory(ino("/g", View::encoded), "deep"))) << "in all views";
    EXPECT_TRUE(is_busy(tree().unlink(ino("/g/deep"), "0")));
    EXPECT_TRUE(is_busy(tree().unlink(ino("/g/deep"), ".zarray")));
    EXPECT_TRUE(is_busy(rename("/g/deep/x.tmp", "/g/deep/0")));
    EXPECT_TRUE(is_busy(rename("/g/deep/x.tmp", "/g/deep/.zattrs")));
    EXPECT_TRUE(is_busy(tree().make_hard_link(temporary, ino("/g/deep"), "1")));
    EXPECT_TRUE(is_busy(fs().files().create(ino("/g/deep"), "1", 0600, O_CREAT)));
    EXPECT_TRUE(tree().unlink(ino("/g/deep"), "x.tmp"));
  };
  ASSERT_TRUE(fs().xattrs().set(ino("/g/deep"), "user._Filter", "none", XattrMode::any));
  EXPECT_TRUE(ran);
  EXPECT_EQ(read("/g/deep/0"), "deep");
  EXPECT_TRUE(rename("/g", "/away"));
}

TEST_F(TreeChangesTest, AFileCanBeRenamedAgainWhenMemoryHasRunOut) {
  constexpr std::string_view kName = "a temporary file with a name that needs memory";
  Ino file = scratch("/v", kName, "WXYZ");
  const Ino directory = ino("/v");
  step_through_allocations(
      [&] { return tree().rename(directory, kName, directory, "1", true, {}); },
      [&](bool done) {
        if (!mount().tree.scratch.find(directory, kName)) {  // after an error, only the kernel was not told
          EXPECT_EQ(read("/v/1"), "WXYZ");
          file = scratch("/v", kName, "WXYZ");
        } else {
          EXPECT_FALSE(done);
        }
        ASSERT_TRUE(mount().tree.scratch.write(file, 0, bytes_of("WXYZ"))) << "which waits for ever while it is sealed";
        ASSERT_TRUE(mount().chunks.write_back.pause(source_->object("/v"))) << "no chunk is pinned";
      });
  EXPECT_EQ(read("/v/1"), "WXYZ");
}

TEST_F(TreeChangesTest, ANameCanBeRemovedWhenMemoryHasRunOut) {
  const Ino directory = ino("/v");
  step_through_allocations([&] { return tree().unlink(directory, "0"); },
                           [&](bool done) {
                             ASSERT_TRUE(mount().chunks.write_back.pause(source_->object("/v")));
                             if (done || !find("/v/0")) {
                               EXPECT_EQ(source_->chunk("/v", 0), "absent");
                               ASSERT_TRUE(write_file("/v/0", "abcd"));
                               ASSERT_TRUE(fs().sync_all());
                             }
                             EXPECT_EQ(read("/v/0"), "abcd");
                           });
}

}  // namespace
}  // namespace codecfs::fs
