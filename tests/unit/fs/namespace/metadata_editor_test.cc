// What written metadata files change in the source.

#include "fs/namespace/metadata_editor.h"

#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

using Names = std::vector<std::string>;

class MetadataEditorTest : public FilesystemTest {
 protected:
  Components& parts() {
    if (parts_ == nullptr) parts_ = std::make_unique<Components>(mount());
    return *parts_;
  }
  Result<> apply(Ino directory, FileKind file, std::string_view text) {
    const Result<Place> place = mount().tree.nodes.at(directory);
    return parts().editor.apply(place->node->ino(file), text, {});
  }
  Json attributes_of(const std::string& path) {
    Json json = Json::object();
    for (const Attribute& attribute : source_->described(path).attributes) json[attribute.name] = *attribute.value;
    return json;
  }
  static std::string zarray(std::string_view changes) {
    Json json = *parse_json(R"({"zarr_format": 2, "shape": [8], "chunks": [4], "dtype": "|u1", "fill_value": 46,
                               "order": "C", "compressor": null, "filters": null, "dimension_separator": "."})");
    json.update(*parse_json(changes));
    return print_json(json);
  }

 private:
  std::unique_ptr<Components> parts_;
};

TEST_F(MetadataEditorTest, AttributesAreAddedChangedAndRemoved) {
  ASSERT_TRUE(apply(ino("/g"), FileKind::zattrs, R"({"title": "new", "n": 1})"));
  EXPECT_EQ(attributes_of("/g"), *parse_json(R"({"title": "new", "n": 1})"));
  ASSERT_TRUE(apply(ino("/g"), FileKind::zattrs, R"({"n": 2})"));
  EXPECT_EQ(attributes_of("/g"), *parse_json(R"({"n": 2})"));
  EXPECT_EQ(error_of(apply(ino("/g"), FileKind::zattrs, "[]")), EINVAL);
  EXPECT_EQ(attributes_of("/g"), *parse_json(R"({"n": 2})"));
}

TEST_F(MetadataEditorTest, DimensionsAreNoAttributes) {
  ASSERT_TRUE(apply(ino("/v"), FileKind::zattrs, R"({"units": "K", "_ARRAY_DIMENSIONS": ["x"]})"));
  EXPECT_EQ(attributes_of("/v"), *parse_json(R"({"units": "K"})"));
  EXPECT_EQ(source_->described("/v").dimensions, (Names{"x"}));
  EXPECT_EQ(error_of(apply(ino("/v"), FileKind::zattrs, R"({"_ARRAY_DIMENSIONS": ["x", "y"]})")), EINVAL);
  EXPECT_EQ(attributes_of("/v"), *parse_json(R"({"units": "K"})")) << "nothing has changed";
}

TEST_F(MetadataEditorTest, DimensionsStayIfTheAttributesAreRefused) {
  ASSERT_TRUE(source_->set_dimensions(source_->object("/v"), Names{"x"}));
  source_->refuses_attributes = true;
  EXPECT_EQ(error_of(apply(ino("/v"), FileKind::zattrs, R"({"units": "K", "_ARRAY_DIMENSIONS": ["y"]})")), EOPNOTSUPP);
  EXPECT_EQ(source_->described("/v").dimensions, (Names{"x"}));
  EXPECT_NE(read("/v/.zattrs").find("\"x\""), std::string::npos);
}

// Zarr writers tell the fill value in .zarray only.
TEST_F(MetadataEditorTest, TheFillValueAttributeStays) {
  const Attribute fill{"_FillValue", Json(46)};
  ASSERT_TRUE(source_->set_attributes(source_->object("/v"), std::span(&fill, 1), {}));
  ASSERT_TRUE(apply(ino("/v"), FileKind::zattrs, R"({"units": "K"})"));
  EXPECT_EQ(attributes_of("/v"), *parse_json(R"({"_FillValue": 46, "units": "K"})"));
}

TEST_F(MetadataEditorTest, AShapeGrowsAndChunksKeepTheirInodes) {
  const Ino chunk = ino("/v/0");
  ASSERT_TRUE(apply(ino("/v"), FileKind::zarray, zarray(R"({"shape": [14]})")));
  EXPECT_EQ(source_->described("/v").grid.shape(), (std::vector<uint64_t>{14}));
  EXPECT_EQ(ino("/v/0"), chunk);
  EXPECT_EQ(read("/v/0"), "abcd");
  EXPECT_EQ(find("/v", View::raw)->st_size, 14);
}

TEST_F(MetadataEditorTest, AShapeThatRenumbersChunksGivesThemNewInodes) {
  source_->add_variable("/wide", text_variable({2, 8}, {1, 4}));
  source_->put("/wide", 2, "abcd");  // 1.0
  const Ino chunk = ino("/wide/1.0");
  ASSERT_TRUE(apply(ino("/wide"), FileKind::zarray, zarray(R"({"shape": [2, 12], "chunks": [1, 4]})")));
  EXPECT_NE(ino("/wide/1.0"), chunk);
  EXPECT_EQ(error_of(mount().tree.nodes.at(chunk)), ESTALE) << "the number means another chunk now";
  EXPECT_EQ(read("/wide/1.0"), "abcd");
}

TEST_F(MetadataEditorTest, UnstoredChunksAreStoredBeforeTheShapeChanges) {
  ASSERT_TRUE(write_file("/v/1", "wxyz"));
  ASSERT_TRUE(apply(ino("/v"), FileKind::zarray, zarray(R"({"shape": [6]})")));
  EXPECT_EQ(source_->chunk("/v", 1), "wxyz");
  ASSERT_TRUE(apply(ino("/v"), FileKind::zarray, zarray(R"({"shape": [4]})")));
  EXPECT_EQ(source_->chunk("/v", 1), "absent");
  EXPECT_EQ(error_of(find("/v/1")), ENOENT);
}

TEST_F(MetadataEditorTest, OnlyTheShapeOfAVariableCanChange) {
  for (const char* changes :
       {R"({"dtype": "<u2"})", R"({"chunks": [2]})", R"({"fill_value": 0})", R"({"fill_value": null})",
        R"({"compressor": {"id": "zlib", "level": 1}})", R"({"order": "F"})", R"({"dimension_separator": "/"})",
        R"({"shape": [8, 8], "chunks": [4, 4]})", R"({"_maxshape": [null]})"})
    EXPECT_EQ(error_of(apply(ino("/v"), FileKind::zarray, zarray(changes))), EINVAL) << changes;
  EXPECT_EQ(error_of(apply(ino("/v"), FileKind::zarray, "{")), EINVAL);
  EXPECT_EQ(source_->chunk("/v", 0), "abcd");
  EXPECT_TRUE(apply(ino("/v"), FileKind::zarray, zarray("{}"))) << "as it is";
  ASSERT_TRUE(mount().errors.find(ino("/v")) == nullptr) << "a success ends the error";
}

TEST_F(MetadataEditorTest, AGroupBecomesAVariable) {
  ASSERT_TRUE(fs().tree().make_directory(kRootIno, "n"));
  const Ino directory = ino("/n");
  ASSERT_TRUE(apply(directory, FileKind::zattrs, R"({"units": "K", "_ARRAY_DIMENSIONS": ["x"]})"));
  ASSERT_TRUE(apply(directory, FileKind::zarray, zarray("{}")));
  EXPECT_EQ(ino("/n"), directory);
  EXPECT_EQ(node("/n").kind, NodeKind::variable);
  const Variable made = source_->described("/n");
  EXPECT_EQ(made.grid.shape(), (std::vector<uint64_t>{8}));
  EXPECT_EQ(made.fill, (std::vector<std::byte>{std::byte{'.'}}));
  EXPECT_EQ(made.dimensions, (Names{"x"}));
  EXPECT_EQ(attributes_of("/n"), *parse_json(R"({"units": "K"})"));
  EXPECT_EQ(find("/n", View::raw)->st_size, 8);
  EXPECT_EQ(error_of(apply(ino(""), FileKind::zarray, zarray("{}"))), EINVAL) << "the root stays a group";
}

TEST_F(MetadataEditorTest, ChunksThatCameBeforeTheZarrayAreAdopted) {
  ASSERT_TRUE(fs().tree().make_directory(kRootIno, "n"));
  ASSERT_TRUE(write_file("/n/1", "wxyz"));
  ASSERT_TRUE(write_file("/n/_Filter", "1,7"));
  EXPECT_EQ(mount().files_not_stored().size(), 2);
  ASSERT_TRUE(apply(ino("/n"), FileKind::zarray, zarray("{}")));
  EXPECT_EQ(read("/n/1"), "wxyz");
  EXPECT_TRUE(mount().files_not_stored().empty());
  ASSERT_TRUE(fs().sync_all());
  EXPECT_EQ(source_->chunk("/n", 1), "wxyz");
  ASSERT_EQ(source_->described("/n").filters.size(), 1);
  EXPECT_EQ(source_->described("/n").filters[0].parameters, (std::vector<uint32_t>{7}));
}

TEST_F(MetadataEditorTest, AZarrayOfTheEncodedViewSetsTheCodecs) {
  const Ino directory = ino("/v", View::encoded);
  ASSERT_TRUE(apply(directory, FileKind::zarray, zarray(R"({"compressor": {"id": "zlib", "level": 5}})")));
  ASSERT_EQ(source_->described("/v").filters.size(), 1);
  EXPECT_EQ(source_->described("/v").filters[0].id, 1);
  EXPECT_EQ(source_->chunk("/v", 0), "abcd");
}

TEST_F(MetadataEditorTest, OtherFilesAreCheckedOnly) {
  EXPECT_TRUE(apply(ino("/g"), FileKind::zgroup, R"({"zarr_format": 2})"));
  EXPECT_EQ(error_of(apply(ino("/g"), FileKind::zgroup, R"({"zarr_format": 3})")), EINVAL);
  EXPECT_TRUE(apply(ino("/g"), FileKind::zmetadata, "anything"));
  EXPECT_EQ(error_of(parts().editor.apply(mount().tree.nodes.control().ino(FileKind::log), "x", {})), EPERM);
  ASSERT_NE(mount().errors.find(mount().tree.nodes.control().ino()), nullptr);
}

TEST_F(MetadataEditorTest, AReadOnlyMountRefusesAll) {
  options_.read_only = true;
  EXPECT_EQ(error_of(apply(ino("/g"), FileKind::zattrs, "{}")), EROFS);
  EXPECT_EQ(attributes_of("/g"), *parse_json(R"({"title": "t"})"));
}

}  // namespace
}  // namespace codecfs::fs
