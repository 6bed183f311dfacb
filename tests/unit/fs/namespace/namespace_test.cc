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
  EXPECT_TRUE(S_ISLNK(names().attributes(mount().tree.nodes.view_entry(View::raw).ino())->st_mode));
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

// Programs take each error of stat for "does not exist".
TEST_F(NamespaceTest, ANameWhoseLookupFailsIsThere) {
  for (const View view : {View::decoded, View::encoded, View::decoded3, View::encoded3}) {
    const std::string chunk = (form_of(view).format().version == 3) ? "c/0" : "0";
    const Ino group = ino("/g", view);
    const Ino deep = ino("/g/deep", view);
    const Ino directory = (form_of(view).format().version == 3) ? ino("/g/deep/c", view) : deep;
    const Ino number = ino("/g/deep/" + chunk, view);
    for (const int code : {EIO, EACCES, ESTALE, ENOTCONN}) {
      source_->failure = code;
      EXPECT_EQ(error_of(names().lookup(directory, "0")), code);
      const auto known = names().known(directory, "0");
      ASSERT_TRUE(known);
      EXPECT_EQ(known->st_ino, number);
      EXPECT_TRUE(S_ISREG(known->st_mode));
      EXPECT_EQ(known->st_size, form_of(view).is_encoded ? 1 : 4);
      EXPECT_EQ(names().known(number)->st_size, known->st_size);
      EXPECT_EQ(names().known(directory, "1")->st_size, known->st_size) << "it may be there";
      EXPECT_FALSE(names().known(directory, "2")) << "outside of the grid";
      EXPECT_EQ(names().known(group, "deep")->st_ino, deep) << "it was looked up before";
      EXPECT_TRUE(S_ISDIR(names().known(deep)->st_mode));
      const auto file = fs().files().open(number, false, false);
      EXPECT_TRUE(!file || read(**file).starts_with("error")) << "to open or read it is the error";
    }
    source_->failure = 0;
    EXPECT_EQ(find("/g/deep/" + chunk, view)->st_ino, number) << "it heals";
  }
}

TEST_F(NamespaceTest, ANameOfAVariableThatCannotBeReadIsThere) {
  const Ino variable = ino("/v");
  mount().dataset.forget_all();
  source_->failure = EIO;
  EXPECT_EQ(error_of(names().lookup(variable, "0")), EIO);
  const auto unknown = names().known(variable, "0");
  ASSERT_TRUE(unknown);
  EXPECT_TRUE(S_ISREG(unknown->st_mode) && unknown->st_size == 1);
  EXPECT_TRUE(names().attributes(unknown->st_ino));
  EXPECT_EQ(error_of(fs().files().open(unknown->st_ino, false, false)), EIO);
  EXPECT_EQ(error_of(names().find(variable, "0")), EIO) << "no change applies to it";
  source_->failure = 0;
  EXPECT_EQ(error_of(fs().files().open(unknown->st_ino, false, false)), ESTALE) << "to be looked up again";
}

TEST_F(NamespaceTest, OfANewNameInAGroupTheErrorIsShown) {
  const Ino group = ino("/g");
  source_->failure = EIO;
  EXPECT_FALSE(names().known(group, "other"));
  EXPECT_TRUE(names().known(group, ".zattrs")) << "each group has them";
  source_->failure = 0;
  EXPECT_EQ(error_of(names().lookup(group, "other")), ENOENT) << "absent is absent";
}

TEST_F(NamespaceTest, APartOfAChunkThatCannotBeLookedUpIsNotWritten) {
  const Ino variable = ino("/v");
  const Ino chunk = ino("/v/0");
  source_->failure = EIO;
  EXPECT_TRUE(names().known(variable, "0"));
  EXPECT_EQ(error_of(fs().files().open(chunk, true, false)), EIO);
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
  const Ino chunk = *mount().tree.nodes.chunk_ino(node("/v"), 1, 2);
  EXPECT_FALSE(mount().kernel.absent_chunks.take(chunk));
  EXPECT_TRUE(remembers("/v", "1"));
  EXPECT_TRUE(mount().kernel.absent_chunks.take(chunk));
  EXPECT_FALSE(mount().kernel.absent_chunks.take(chunk)) << "from now on the kernel does not remember it";
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
  EXPECT_FALSE(mount().kernel.absent_chunks.take(*mount().tree.nodes.chunk_ino(node("/v"), 1, 2)));
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
