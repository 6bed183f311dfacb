// Extended attributes: what they show, and what setting and removing them changes.

#include "fs/views/xattr_control.h"

#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

class XattrControlTest : public FilesystemTest {
 protected:
  XattrControl& xattrs() { return fs().xattrs(); }
  /// The value, "none" if there is no such attribute.
  std::string value(Ino ino, std::string_view name) {
    const Result<XattrView> view = xattrs().all(ino);
    if (!view) return fmt::format("error {}", view.error().code);
    for (const std::vector<Xattr>* list : {view->stored.get(), &view->live})
      for (const Xattr& xattr : *list)
        if (xattr.name == name) return xattr.value;
    return "none";
  }
  int set(Ino ino, std::string_view name, std::string_view value, XattrMode mode = XattrMode::any) {
    return error_of(xattrs().set(ino, name, value, mode));
  }
};

TEST_F(XattrControlTest, AVariableShowsItsStorageAndAttributes) {
  const Attribute units{"units", Json("K")};
  ASSERT_TRUE(source_->set_attributes(source_->object("/g/deep"), std::span(&units, 1), {}));
  for (const Ino deep : {ino("/g/deep"), ino("/g/deep", View::encoded), ino("/g/deep", View::raw)}) {
    EXPECT_EQ(value(deep, "user._Storage"), "chunked");
    EXPECT_EQ(value(deep, "user._ChunkSizes"), "[4]");
    EXPECT_EQ(value(deep, "user._DeflateLevel"), "1");
    EXPECT_EQ(value(deep, "user._Filter"), "1,1");
    EXPECT_EQ(value(deep, "user.units"), "K");
    EXPECT_EQ(value(deep, "user._Shuffle"), "none");
  }
  EXPECT_EQ(value(ino("/g"), "user.title"), "t");
}

TEST_F(XattrControlTest, CodecsHaveTheFormOfTheView) {
  EXPECT_EQ(value(ino("/g/deep", View::encoded), "user._Codecs"), R"([{"id": "zlib", "level": 1}])");
  for (const View view : {View::decoded3, View::encoded3}) {
    EXPECT_EQ(value(ino("/g/deep", view), "user._Codecs"),
              R"([{"name": "bytes"}, {"name": "numcodecs.zlib", "configuration": {"level": 1}}])");
    EXPECT_EQ(read("/g/deep/_Codecs", view), value(ino("/g/deep", view), "user._Codecs") + "\n");
  }
  EXPECT_EQ(set(ino("/g", View::decoded3), "user._Codecs", R"([{"id": "zlib", "level": 3}])"), 0);
  EXPECT_EQ(value(ino("/g", View::decoded3), "user._Codecs"),
            R"([{"name": "numcodecs.zlib", "configuration": {"level": 3}}])");
  EXPECT_EQ(value(ino("/g"), "user._Codecs"), R"([{"id": "zlib", "level": 3}])");
  Variable lzf = text_variable({8}, {4});
  lzf.filters = {{.id = 32000, .parameters = {}, .codec = {}, .name = {}}};
  source_->add_variable("/lzf", lzf);
  EXPECT_EQ(value(ino("/lzf", View::decoded3), "user._Codecs"), value(ino("/lzf"), "user._Codecs"))
      << "v3 has no codec for it";
}

TEST_F(XattrControlTest, AChunkShowsItsStoredSize) {
  EXPECT_EQ(value(ino("/v/0"), "user._StoredSize"), "4");
  ASSERT_TRUE(write_file("/v/1", "wxyz"));
  EXPECT_EQ(value(ino("/v/1"), "user._StoredSize"), "0") << "it is not stored yet";
  EXPECT_EQ(set(ino("/v/0"), "user.x", "1"), EPERM);
  EXPECT_EQ(set(ino("/v/.zattrs"), "user.x", "1"), EPERM);
}

TEST_F(XattrControlTest, AttributesAreSetWithTheirTypes) {
  const Ino group = ino("/g");
  EXPECT_EQ(set(group, "user.title", "5"), 0);
  EXPECT_EQ(set(group, "user.n", "5"), 0);
  EXPECT_EQ(set(group, "user.list", "[1, 2]"), 0);
  EXPECT_EQ(set(group, "user.plain", "some text"), 0);
  Json json = Json::object();
  const auto attributes = source_->group_attributes(source_->object("/g"));
  for (const Attribute& attribute : *attributes) json[attribute.name] = *attribute.value;
  EXPECT_EQ(json, *parse_json(R"({"title": "5", "n": 5, "list": [1, 2], "plain": "some text"})"))
      << "what is text stays text";
  EXPECT_EQ(value(group, "user.n"), "5") << "the cached list is current";
  EXPECT_EQ(read("/g/.zattrs").find("\"n\": 5") != std::string::npos, true);
}

TEST_F(XattrControlTest, AGroupShowsTheFiltersOfNewVariables) {
  const Ino group = ino("/g");
  EXPECT_EQ(value(group, "user._Filter"), "none");
  EXPECT_EQ(set(group, "user._Filter", "zlib,3"), 0);
  EXPECT_EQ(value(group, "user._Filter"), "1,3");
  EXPECT_EQ(value(group, "user._Codecs"), R"([{"id": "zlib", "level": 3}])");
  EXPECT_EQ(set(group, "user._Codecs", R"([{"id": "adler32"}])"), 0) << "has no HDF5 id";
  EXPECT_EQ(value(group, "user._Filter"), "none");
  EXPECT_EQ(value(group, "user._Codecs"), R"([{"id": "adler32"}])");
  ASSERT_TRUE(xattrs().remove(group, "user._Codecs"));
  EXPECT_EQ(value(group, "user._Codecs"), "none");
}

TEST_F(XattrControlTest, ModesAreThoseOfTheSystemCall) {
  const Ino group = ino("/g");
  EXPECT_EQ(set(group, "user.title", "x", XattrMode::create), EEXIST);
  EXPECT_EQ(set(group, "user.new", "x", XattrMode::replace), ENODATA);
  EXPECT_EQ(set(group, "security.x", "x"), EOPNOTSUPP);
  EXPECT_EQ(error_of(xattrs().remove(group, "user.new")), ENODATA);
  ASSERT_TRUE(xattrs().remove(group, "user.title"));
  EXPECT_EQ(value(group, "user.title"), "none");
  EXPECT_TRUE(source_->group_attributes(source_->object("/g"))->empty());
}

TEST_F(XattrControlTest, FiltersAreSetThroughAnyView) {
  ASSERT_EQ(set(ino("/v", View::raw), "user._Filter", "1,2"), 0);
  EXPECT_EQ(source_->described("/v").filters.at(0).id, 1);
  ASSERT_EQ(set(ino("/v"), "user._DeflateLevel", "9"), 0);
  EXPECT_EQ(value(ino("/v", View::encoded), "user._Filter"), "1,9");
  EXPECT_EQ(set(ino("/v"), "user._Storage", "chunked"), 0) << "cp -a writes what it has read";
  EXPECT_EQ(set(ino("/v"), "user._Storage", "contiguous"), EPERM);
  ASSERT_TRUE(xattrs().remove(ino("/v"), "user._DeflateLevel"));
  EXPECT_TRUE(source_->described("/v").filters.empty());
  EXPECT_EQ(error_of(xattrs().remove(ino("/v"), "user._Filter")), EPERM);
}

TEST_F(XattrControlTest, AGroupHasTheFiltersOfItsNewVariables) {
  const Ino group = ino("/g");
  ASSERT_EQ(set(group, "user._Filter", "1,2"), 0);
  EXPECT_EQ(value(group, "user._Filter"), "1,2");
  EXPECT_EQ(set(group, "user._DeflateLevel", "2"), EPERM);
  ASSERT_TRUE(xattrs().remove(group, "user._Filter"));
  EXPECT_EQ(value(group, "user._Filter"), "none");
}

TEST_F(XattrControlTest, ARuleIsShownAsFilterOut) {
  ASSERT_TRUE(options_.rules.add("v,1,6"));
  EXPECT_EQ(value(ino("/v"), "user._FilterOut"), "1,6");
  EXPECT_EQ(value(ino("/g/deep"), "user._FilterOut"), "none");
}

TEST_F(XattrControlTest, ErrorsAreShownUntilTheyAreRemoved) {
  const Ino chunk = ino("/v/0");
  mount().note_error(chunk, {EIO, "the disk is gone"});
  EXPECT_EQ(value(chunk, "user._Error"), "the disk is gone");
  EXPECT_NE(value(chunk, "user._ErrorTime"), "none");
  EXPECT_EQ(value(ino("/v"), "user._Error"), "none");
  ASSERT_TRUE(xattrs().remove(chunk, "user._Error"));
  EXPECT_EQ(value(chunk, "user._Error"), "none");
  EXPECT_EQ(error_of(xattrs().remove(chunk, "user._Error")), ENODATA);
}

TEST_F(XattrControlTest, UnreadableAttributesLeaveTheSpecialOnes) {
  Variable damaged = text_variable({8}, {4}, {deflate(1)});
  damaged.unreadable_attributes = Error{EIO, "its attributes are damaged"};
  source_->add_variable("/damaged", damaged);
  const Ino variable = ino("/damaged");
  const Result<XattrView> view = xattrs().all(variable);
  ASSERT_TRUE(view && view->incomplete);
  EXPECT_EQ(view->incomplete->reason, "its attributes are damaged");
  EXPECT_EQ(value(variable, "user._Storage"), "chunked");
  EXPECT_EQ(value(variable, "user._Error"), "its attributes are damaged");
  for (const XattrMode mode : {XattrMode::any, XattrMode::create, XattrMode::replace})
    EXPECT_EQ(set(variable, "user.units", "K", mode), EIO);
  EXPECT_EQ(error_of(xattrs().remove(variable, "user.units")), EIO);
  EXPECT_EQ(set(variable, "user._Filter", "1,2"), 0);
  EXPECT_EQ(read("/damaged/.zattrs"), "error 5");
  EXPECT_NE(read("/damaged/.zarray").find("\"chunks\""), std::string::npos);
  Components parts(mount());
  EXPECT_EQ(error_of(parts.editor.apply(node("/damaged").ino(FileKind::zattrs), "{}", {})), EIO);
  EXPECT_TRUE(source_->described("/damaged").attributes.empty());
}

TEST_F(XattrControlTest, TheRootTellsWhatIsNotStored) {
  EXPECT_EQ(value(kRootIno, "user._NotStored"), "none");
  ASSERT_TRUE(write_file("/v/.1.tmp", "x"));
  ASSERT_TRUE(write_file("/g/deep/.0.tmp", "x", View::encoded));
  const std::string paths = value(kRootIno, "user._NotStored");
  EXPECT_NE(paths.find("/v/.1.tmp"), std::string::npos);
  EXPECT_NE(paths.find("/.codecfs/view/encoded/g/deep/.0.tmp"), std::string::npos);
}

TEST_F(XattrControlTest, AReadOnlyMountRefusesChanges) {
  options_.read_only = true;
  EXPECT_EQ(set(ino("/g"), "user.title", "x"), EROFS);
  EXPECT_EQ(error_of(xattrs().remove(ino("/g"), "user.title")), EROFS);
  EXPECT_EQ(value(ino("/g"), "user.title"), "t");
}

}  // namespace
}  // namespace codecfs::fs
