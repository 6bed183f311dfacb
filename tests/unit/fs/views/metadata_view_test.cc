// The texts of metadata and control files.

#include "fs/views/metadata_view.h"

#include <thread>

#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

class MetadataViewTest : public FilesystemTest {
 protected:
  MetadataView& metadata() {
    if (parts_ == nullptr) parts_ = std::make_unique<Components>(mount());
    return parts_->metadata;
  }
  std::string text(const Node& node, FileKind file) {
    const Result<Text> text = metadata().text_of(node, file);
    return text ? **text : fmt::format("error {}", text.error().code);
  }

 private:
  std::unique_ptr<Components> parts_;
};

TEST_F(MetadataViewTest, EachViewHasItsZarray) {
  const Json decoded = *parse_json(text(node("/g/deep"), FileKind::zarray));
  EXPECT_TRUE(decoded["compressor"].is_null());
  EXPECT_EQ(decoded["fill_value"], int{'.'});
  const Json encoded = *parse_json(text(node("/g/deep", View::encoded), FileKind::zarray));
  EXPECT_EQ(encoded["compressor"]["id"], "zlib");
  EXPECT_EQ(text(node("/g/deep"), FileKind::filter), "1,1\n");
  EXPECT_EQ(*parse_json(text(node("/g/deep"), FileKind::codecs)), *parse_json(R"([{"id": "zlib", "level": 1}])"));
}

TEST_F(MetadataViewTest, ASpecExistsOnlyForFiltersWithAnId) {
  Variable variable = text_variable({8}, {4});
  variable.filters = {{.id = 0, .parameters = {}, .codec = *parse_json(R"({"id": "crc32"})"), .name = {}}};
  source_->add_variable("/crc", variable);
  EXPECT_EQ(text(node("/crc"), FileKind::filter), fmt::format("error {}", ENOENT));
  EXPECT_NE(text(node("/crc"), FileKind::codecs).find("crc32"), std::string::npos);
  EXPECT_EQ(list("/crc"), (std::vector<std::string>{".zarray", ".zattrs"}));
}

TEST_F(MetadataViewTest, DirectoriesHaveOnlyTheirFiles) {
  const std::string none = fmt::format("error {}", ENOENT);
  EXPECT_EQ(text(node("/g"), FileKind::zarray), none);
  EXPECT_EQ(text(node("/g"), FileKind::filter), none);
  EXPECT_EQ(metadata_named(Place{&node("/g"), FileKind::itself, 0}, ".zarray"), FileKind::zarray)
      << "it would make the group a variable";
  EXPECT_EQ(metadata_named(Place{&node("/g", View::raw), FileKind::itself, 0}, ".zarray"), std::nullopt);
  EXPECT_EQ(metadata_named(Place{&node("/v"), FileKind::itself, 0}, ".zgroup"), std::nullopt);
  EXPECT_EQ(metadata_named(Place{&node("/v"), FileKind::itself, 0}, "_Filter"), FileKind::filter);
  EXPECT_EQ(metadata_named(Place{&node("/v", View::decoded3), FileKind::itself, 0}, "zarr.json"), FileKind::zarr_json);
  EXPECT_EQ(metadata_named(Place{&node("/v", View::decoded3), FileKind::itself, 0}, ".zarray"), std::nullopt);
  EXPECT_EQ(metadata_named(Place{&node("/g", View::encoded3), FileKind::itself, 0}, ".zarray"), std::nullopt);
  EXPECT_EQ(metadata_named(Place{&node("/v", View::decoded3), FileKind::chunk_directory, 0}, "zarr.json"),
            std::nullopt);
}

TEST_F(MetadataViewTest, AHiddenFileHasATextAndNoAttributes) {
  ASSERT_TRUE(fs().tree().unlink(ino("/g"), ".zattrs"));
  EXPECT_EQ(error_of(metadata().attributes(node("/g"), FileKind::zattrs)), ENOENT);
  EXPECT_EQ(*parse_json(text(node("/g"), FileKind::zattrs)), *parse_json(R"({"title": "t"})"));
}

TEST_F(MetadataViewTest, ControlFilesHaveTheSizeOfTheirTextAndAreOnlyRead) {
  const Node& control = mount().tree.nodes.control();
  const Result<struct stat> status = metadata().attributes(control, FileKind::stats);
  EXPECT_EQ(status->st_size, text(control, FileKind::stats).size());
  EXPECT_EQ(status->st_mode & 0222, 0);
  EXPECT_EQ(read("/v/0"), "abcd");
  EXPECT_NE(text(control, FileKind::stats).find("chunks_decoded 1\n"), std::string::npos);
  EXPECT_NE(text(control, FileKind::filters).find("deflate"), std::string::npos);
}

TEST_F(MetadataViewTest, ZmetadataOfACoherentMountIsLookedAtAgain) {
  options_.coherent = true;
  const std::string before = text(node(""), FileKind::zmetadata);
  source_->add_group("/later");
  EXPECT_EQ(text(node(""), FileKind::zmetadata), before) << "it was looked at just now";
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_NE(text(node(""), FileKind::zmetadata), before);
}

}  // namespace
}  // namespace codecfs::fs
