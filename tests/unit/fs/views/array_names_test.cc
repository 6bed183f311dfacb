// Names in the npy and raw views, also of links and of names that are taken.

#include "fs/views/array_names.h"

#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

using Names = std::vector<std::string>;

class ArrayNamesTest : public FilesystemTest {
 protected:
  /// The object that a name denotes; 0 for none.
  ObjectId object_named(std::string_view name, View view, std::string_view directory = "") {
    ArrayNames names(mount());
    const Result<Entry> entry = names.find(node(directory, view), name);
    if (entry && entry->kind == EntryKind::symlink) return ObjectId{1000};
    return entry ? entry->object : 0;
  }
  std::string target(std::string_view path, View view) {
    ArrayNames names(mount());
    return names.link_target(node(path, view)).value();
  }
};

TEST_F(ArrayNamesTest, TheSuffixBelongsToVariables) {
  EXPECT_EQ(object_named("v.npy", View::npy), source_->object("/v"));
  EXPECT_EQ(object_named("v", View::npy), 0);
  EXPECT_EQ(object_named("v", View::raw), source_->object("/v"));
  EXPECT_EQ(object_named("g", View::npy), source_->object("/g"));
  EXPECT_EQ(object_named("g.npy", View::npy), 0);
  EXPECT_EQ(object_named(".npy", View::npy), 0);
}

TEST_F(ArrayNamesTest, AVariableWhoseNameEndsInTheSuffixHasItTwice) {
  source_->add_variable("/a.npy", text_variable({8}, {4}));
  EXPECT_EQ(object_named("a.npy.npy", View::npy), source_->object("/a.npy"));
  EXPECT_EQ(object_named("a.npy", View::npy), 0);
  source_->add_variable("/a", text_variable({8}, {4}));
  EXPECT_EQ(object_named("a.npy", View::npy), source_->object("/a"));
}

TEST_F(ArrayNamesTest, AGroupWithTheNameOfAFileIsHidden) {
  source_->add_group("/v.npy");
  EXPECT_EQ(object_named("v.npy", View::npy), source_->object("/v"));
  EXPECT_EQ(list("", View::npy), (Names{"v.npy", "link.npy", "g"}));
  EXPECT_EQ(object_named("v.npy", View::raw), source_->object("/v.npy"));
}

TEST_F(ArrayNamesTest, ALinkToAVariableHasTheSuffix) {
  source_->add_link("/g/up", "../v");
  source_->add_link("/twice", "g/up");
  source_->add_link("/to group", "g");
  for (const char* name : {"link.npy", "twice.npy"}) EXPECT_EQ(object_named(name, View::npy), 1000) << name;
  EXPECT_EQ(object_named("up.npy", View::npy, "/g"), 1000);
  EXPECT_EQ(object_named("to group", View::npy), 1000);
  EXPECT_EQ(target("/twice.npy", View::npy), "g/up.npy");
  EXPECT_EQ(target("/g/up.npy", View::npy), "../v.npy");
  EXPECT_EQ(target("/to group", View::npy), "g");
  EXPECT_EQ(target("/twice", View::raw), "g/up");
}

TEST_F(ArrayNamesTest, LinksThatLeadNowhereKeepTheirNames) {
  source_->add_link("/broken", "none");
  source_->add_link("/outside", "../../v");
  source_->add_link("/absolute", "/v");
  source_->add_link("/circle", "circle");
  source_->add_link("/below", "v/0");
  for (const char* name : {"broken", "outside", "absolute", "circle", "below"}) {
    EXPECT_EQ(object_named(name, View::npy), 1000) << name;
    EXPECT_EQ(object_named(std::string(name) + ".npy", View::npy), 0) << name;
  }
}

TEST_F(ArrayNamesTest, PathsOfFiles) {
  EXPECT_EQ(array_path(node("/g/deep")), "/g/deep");
  const Ino file = ino("/g/deep.npy", View::npy);
  EXPECT_EQ(array_path(*mount().tree.nodes.at(file)->node), "/g/deep.npy");
}

}  // namespace
}  // namespace codecfs::fs
