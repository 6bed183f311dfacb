// What a name is in each view, and which absent names the kernel may remember.

#include "fs/namespace/namespace.h"

#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

class NamespaceTest : public FilesystemTest {
 protected:
  Namespace& names() { return fs().names(); }
  /// Whether the kernel remembers that a chunk is absent, as the reply to a lookup.
  bool remembers(std::string_view directory, std::string_view name, View view = View::decoded) {
    return names().remembers_absence(ino(directory, view), name);
  }
};

TEST_F(NamespaceTest, AVariableIsADirectoryOfChunksInTwoViews) {
  for (const View view : {View::decoded, View::encoded}) {
    EXPECT_TRUE(S_ISDIR(find("/g/deep", view)->st_mode));
    EXPECT_TRUE(S_ISREG(find("/g/deep/0", view)->st_mode));
    EXPECT_EQ(error_of(find("/g/deep/1", view)), ENOENT) << "absent";
    EXPECT_EQ(error_of(find("/g/deep/2", view)), ENOENT) << "outside of the grid";
    EXPECT_EQ(error_of(find("/g/deep/00", view)), ENOENT);
    EXPECT_TRUE(S_ISREG(find("/g/deep/.zarray", view)->st_mode));
  }
  EXPECT_EQ(find("/g/deep/0")->st_size, 4);
  EXPECT_NE(find("/g/deep/0", View::encoded)->st_size, 4);
}

TEST_F(NamespaceTest, AVariableIsAFileInTheOtherViews) {
  EXPECT_EQ(find("/v", View::raw)->st_size, 8);
  EXPECT_EQ(find("/v.npy", View::npy)->st_size, 128 + 8);
  EXPECT_TRUE(S_ISREG(find("/g/deep.npy", View::npy)->st_mode));
  EXPECT_EQ(error_of(find("/v", View::npy)), ENOENT) << "it has its name with the suffix only";
  EXPECT_EQ(error_of(find("/v.npy", View::raw)), ENOENT);
  EXPECT_EQ(error_of(find("/v/0", View::raw)), ENOTDIR);
  EXPECT_EQ(error_of(find("/.zgroup", View::raw)), ENOENT);
}

TEST_F(NamespaceTest, ViewsHaveInodesOfTheirOwnAndAKeyInCommon) {
  const Node& encoded = node("/g/deep", View::encoded);
  const Node& decoded = node("/g/deep");
  EXPECT_NE(encoded.ino(), decoded.ino());
  EXPECT_EQ(encoded.key(), decoded.ino());
  EXPECT_EQ(ino("/.codecfs/view/encoded/g/deep"), encoded.ino());
  EXPECT_TRUE(S_ISLNK(find("/.codecfs/view/decoded")->st_mode)) << "the mount shows it";
  EXPECT_EQ(error_of(find("/.codecfs/view/other")), ENOENT);
  EXPECT_EQ(error_of(find("/.codecfs/other")), ENOENT);
}

TEST_F(NamespaceTest, TheRootShowsAnotherView) {
  options_.view = View::raw;
  EXPECT_EQ(names().lookup(kRootIno, "v")->st_size, 8);
  EXPECT_TRUE(S_ISDIR(find("/v", View::decoded)->st_mode));
  EXPECT_TRUE(S_ISLNK(names().attributes(mount().nodes.view_entry(View::raw).ino())->st_mode));
}

TEST_F(NamespaceTest, LinksLeadToTheFileOfTheView) {
  EXPECT_EQ(names().link_target(ino("/link")).value(), "g/deep");
  EXPECT_EQ(names().link_target(ino("/link.npy", View::npy)).value(), "g/deep.npy");
  EXPECT_EQ(error_of(names().link_target(ino("/g"))), EINVAL);
  EXPECT_EQ(find("/link")->st_size, 6);
}

TEST_F(NamespaceTest, ChunksWithoutAFillValueAreAllThere) {
  Variable variable = text_variable({8}, {4});
  variable.fill_value = Json();
  source_->add_variable("/n", variable);
  EXPECT_EQ(find("/n/1")->st_size, 4);
  EXPECT_EQ(read("/n/1"), "....");
  EXPECT_EQ(error_of(find("/n/2")), ENOENT);
}

TEST_F(NamespaceTest, FilesAreNoDirectories) {
  EXPECT_EQ(error_of(find("/v/0/x")), ENOTDIR);
  EXPECT_EQ(error_of(find("/.zgroup/x")), ENOTDIR);
  EXPECT_EQ(error_of(names().lookup(Ino{77} << kLocalBits | 1, "x")), ESTALE);
}

TEST_F(NamespaceTest, ARootThatIsAnArrayIsAFileInTheArrayViews) {
  source_->become_variable(text_variable({8}, {4}));
  EXPECT_EQ(find("/array.npy", View::npy)->st_size, 128 + 8);
  EXPECT_EQ(find("/array", View::raw)->st_size, 8);
  EXPECT_EQ(error_of(find("/array")), ENOENT);
  EXPECT_TRUE(find("/.zarray"));
}

TEST_F(NamespaceTest, AnAbsentChunkIsRememberedAndNotedOnce) {
  const Ino chunk = *mount().nodes.chunk_ino(node("/v"), 1, 2);
  EXPECT_FALSE(mount().absent_chunks.take(chunk));
  EXPECT_TRUE(remembers("/v", "1"));
  EXPECT_TRUE(mount().absent_chunks.take(chunk));
  EXPECT_FALSE(mount().absent_chunks.take(chunk)) << "from now on the kernel does not remember it";
}

TEST_F(NamespaceTest, AChunkThatWasWrittenMeanwhileIsNotRemembered) {
  ASSERT_TRUE(write_file("/v/1", "wxyz"));
  EXPECT_FALSE(remembers("/v", "1"));
}

TEST_F(NamespaceTest, NamesThatMayAppearByOtherMeansAreNotRemembered) {
  EXPECT_FALSE(remembers("/v", "1", View::encoded)) << "changes in another view do not reach these names";
  EXPECT_FALSE(remembers("/g", ".zarray")) << "it may become a variable";
  EXPECT_FALSE(remembers("/g", "0"));
  EXPECT_FALSE(remembers("/v", ".zattrs"));
  EXPECT_TRUE(remembers("/g", "other"));
  EXPECT_TRUE(remembers("/v", "other"));
  EXPECT_TRUE(remembers("/v", "7")) << "it is outside of the grid";
  EXPECT_FALSE(mount().absent_chunks.take(*mount().nodes.chunk_ino(node("/v"), 1, 2)));
}

TEST_F(NamespaceTest, AReadOnlyMountRemembersAll) {
  options_.read_only = true;
  EXPECT_TRUE(remembers("/g", ".zarray"));
  EXPECT_TRUE(remembers("/v", "1", View::encoded));
}

TEST_F(NamespaceTest, ACoherentMountRemembersNothing) {
  options_.coherent = true;
  EXPECT_FALSE(remembers("/g", "other"));
  EXPECT_FALSE(remembers("/v", "1"));
}

TEST_F(NamespaceTest, AttributesAreThoseOfTheSource) {
  const Result<struct stat> chunk = find("/v/0");
  EXPECT_EQ(chunk->st_mode, S_IFREG | 0644);
  EXPECT_EQ(chunk->st_mtim.tv_sec, 1'000'000);
  EXPECT_EQ(find("/g")->st_mode, S_IFDIR | 0755);
  EXPECT_EQ(find("/v/.zarray")->st_size, static_cast<off_t>(read("/v/.zarray").size()));
}

}  // namespace
}  // namespace codecfs::fs
