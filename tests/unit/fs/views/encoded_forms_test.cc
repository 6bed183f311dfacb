// How the encoded view shows each variable.

#include "fs/views/encoded_forms.h"

#include "filters/core/codec_json.h"
#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

class EncodedFormsTest : public FilesystemTest {
 protected:
  Components& parts() {
    if (parts_ == nullptr) parts_ = std::make_unique<Components>(mount());
    return *parts_;
  }
  EncodedFormPtr form(std::string_view path) { return parts().forms.of(node(path, View::encoded)).value(); }
  Json zarray(std::string_view path) { return *parse_json(*form(path)->zarray); }

 private:
  std::unique_ptr<Components> parts_;
};

TEST_F(EncodedFormsTest, StoredPipelinesAreNamedAsZarrsCodecs) {
  EXPECT_TRUE(form("/v")->as_stored);
  EXPECT_TRUE(zarray("/v")["compressor"].is_null());
  EXPECT_TRUE(form("/g/deep")->as_stored);
  EXPECT_EQ(zarray("/g/deep")["compressor"], *parse_json(R"({"id": "zlib", "level": 1})"));
}

TEST_F(EncodedFormsTest, APipelineThatZarrDoesNotHaveIsReplaced) {
  Variable variable = text_variable({8}, {4});
  variable.filters = {{.id = 32004, .parameters = {}, .codec = {}, .name = {}}};  // HDF5's lz4
  source_->add_variable("/lz4", variable);
  EXPECT_FALSE(form("/lz4")->as_stored);
  EXPECT_EQ(zarray("/lz4")["compressor"]["id"], "lz4");
  EXPECT_TRUE(form("/lz4")->pipeline);
}

TEST_F(EncodedFormsTest, PortableCodecsReplaceThoseOfNumcodecs) {
  options_.portable = true;
  Variable variable = text_variable({8}, {4});
  variable.filters = {{.id = 307, .parameters = {9}, .codec = {}, .name = {}}};
  source_->add_variable("/bzip2", variable);
  const auto codecs = [&](std::string_view path, View view) {
    return print_json(filters::print_codecs(parts().forms.of(node(path, view)).value()->chain));
  };
  EXPECT_EQ(codecs("/bzip2", View::encoded3), R"([{"id": "zstd", "level": 3}])");
  EXPECT_FALSE(parts().forms.of(node("/bzip2", View::encoded3)).value()->as_stored);
  EXPECT_EQ(codecs("/bzip2", View::encoded), R"([{"id": "bz2", "level": 9}])") << "in views of v3 alone";
  EXPECT_EQ(codecs("/g/deep", View::encoded3), R"([{"id": "gzip", "level": 1}])");
  EXPECT_TRUE(parts().forms.of(node("/g/deep", View::encoded3)).value()->as_stored);
}

TEST_F(EncodedFormsTest, ARuleIsShownUntilItIsApplied) {
  ASSERT_TRUE(options_.rules.add("/g/deep,1,8"));
  EXPECT_EQ(zarray("/g/deep")["compressor"]["level"], 8);
  EXPECT_FALSE(form("/g/deep")->as_stored);
  ASSERT_TRUE(parts().filters.set_spec(node("/g/deep"), "1,2", {}));
  EXPECT_EQ(zarray("/g/deep")["compressor"]["level"], 2) << "the user decides";
  EXPECT_TRUE(form("/g/deep")->as_stored);
}

TEST_F(EncodedFormsTest, AFormIsKeptUntilItIsForgotten) {
  const EncodedFormPtr first = form("/v");
  EXPECT_EQ(form("/v"), first);
  parts().notifier.metadata_changed(node("/v"));
  EXPECT_NE(form("/v"), first);
}

TEST_F(EncodedFormsTest, ZmetadataNamesTheCodecsOfTheView) {
  const auto metadata = [&](View view) {
    return (*parse_json(*parts().forms.zmetadata_of(node("", view)).value()))["metadata"];
  };
  EXPECT_EQ(metadata(View::encoded)["g/deep/.zarray"], zarray("/g/deep"));
  EXPECT_TRUE(metadata(View::decoded)["g/deep/.zarray"]["compressor"].is_null());
  EXPECT_EQ(metadata(View::encoded)["g/.zattrs"]["title"], "t");
  source_->add_variable("/g/later", text_variable({8}, {4}));
  EXPECT_FALSE(metadata(View::encoded).contains("g/later/.zarray")) << "it is cached";
  parts().notifier.metadata_changed(node("/g"));
  EXPECT_TRUE(metadata(View::encoded).contains("g/later/.zarray"));
}

TEST_F(EncodedFormsTest, PipelinesAreEqualAsTheirCodecs) {
  const FilterStage as_codec{
      .id = 1, .parameters = {1}, .codec = *parse_json(R"({"id": "zlib", "level": 1})"), .name = {}};
  EXPECT_TRUE(are_equal(std::vector{deflate(1)}, std::vector{as_codec}));
  EXPECT_FALSE(are_equal(std::vector{deflate(1)}, std::vector{deflate(2)}));
  EXPECT_FALSE(are_equal(std::vector{deflate(1)}, {}));
}

}  // namespace
}  // namespace codecfs::fs
