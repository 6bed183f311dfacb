// Chunks as they are stored: which bytes pass unchanged, and what written ones become.

#include "fs/views/encoded_view.h"

#include "filters/core/codec_json.h"
#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

class EncodedViewTest : public FilesystemTest {
 protected:
  Components& parts() {
    if (parts_ == nullptr) parts_ = std::make_unique<Components>(mount());
    return *parts_;
  }
  EncodedView& encoded() { return parts().encoded; }
  const Node& shown(std::string_view path) { return node(path, View::encoded); }
  /// The bytes in the source.
  std::string stored(const std::string& path, uint64_t number) {
    return text_of((*source_->read_stored(source_->object(path), number))->bytes());
  }
  static Result<FilterStage> parsed_gzip() {
    CODECFS_ASSIGN(auto stages, filters::parse_zarr_codecs(*parse_json(R"({"id": "gzip", "level": 1})"), {}, 1));
    return stages.front();
  }
  static std::string encode(std::string_view text, const Variable& variable) {
    const auto pipeline = filters::Pipeline::make(variable.filters, filters::shape_of_chunk(variable));
    return text_of(pipeline->encode(bytes_of(text))->bytes.bytes());
  }

 private:
  std::unique_ptr<Components> parts_;
};

TEST_F(EncodedViewTest, StoredBytesPassUnchanged) {
  const ChunkPlace chunk = chunk_place("/g/deep", 0);
  const Result<ChunkPtr> content = encoded().content(shown("/g/deep"), chunk);
  ASSERT_TRUE(content);
  EXPECT_EQ(text_of((*content)->bytes()), stored("/g/deep", 0));
  EXPECT_EQ(encoded().passed_bytes(shown("/g/deep"), chunk), stored("/g/deep", 0).size());
  EXPECT_EQ(find("/g/deep/0", View::encoded)->st_size, static_cast<off_t>(stored("/g/deep", 0).size()));
  EXPECT_EQ(source_->reads, 0) << "nothing was decoded";
  EXPECT_EQ(mount().stats.chunks_passed, 1);
  EXPECT_EQ(error_of(encoded().content(shown("/g/deep"), chunk_place("/g/deep", 1))), ENOENT);
}

TEST_F(EncodedViewTest, Zarr3HasStoredStreamsAsGzipMembers) {
  const Node& shown3 = node("/g/deep", View::encoded3);
  const std::string zlib = stored("/g/deep", 0);
  const ChunkPtr content = *encoded().content(shown3, chunk_place("/g/deep", 0));
  const std::string gzip = text_of(content->bytes());
  EXPECT_EQ(gzip, read("/g/deep/c/0", View::encoded3));
  EXPECT_EQ(gzip.size(), zlib.size() + filters::kGzipExtra);
  EXPECT_EQ(gzip.substr(10, zlib.size() - 6), zlib.substr(2, zlib.size() - 6));
  EXPECT_EQ(find("/g/deep/c/0", View::encoded3)->st_size, static_cast<off_t>(gzip.size()));
  EXPECT_EQ(source_->reads, 0);
  // The same bytes, as another chunk: they are stored without being compressed anew.
  ASSERT_TRUE(write_file("/g/deep/c/1", gzip, View::encoded3));
  EXPECT_EQ(read("/g/deep/1"), "deep");
  EXPECT_EQ(read("/g/deep/c/1", View::encoded3), gzip);
  EXPECT_EQ(read("/g/deep/1", View::encoded).substr(2), zlib.substr(2));
  ASSERT_TRUE(fs().sync_all());
  EXPECT_EQ(mount().stats.chunks_stored_as_given, 1);
  EXPECT_EQ(stored("/g/deep", 1).substr(2), zlib.substr(2));
  EXPECT_EQ(error_of(write_file("/g/deep/c/0", zlib, View::encoded3)), EINVAL);
  // Two members are a valid chunk too, which is compressed anew.
  const Variable half = text_variable({8}, {2}, {*parsed_gzip()});
  ASSERT_TRUE(write_file("/g/deep/c/0", encode("ab", half) + encode("cd", half), View::encoded3));
  EXPECT_EQ(read("/g/deep/0"), "abcd");
  ASSERT_TRUE(fs().sync_all());
  EXPECT_EQ(mount().stats.chunks_stored_as_given, 1);
}

// The filters may change after the form of the view was looked up, and before the chunk's place is.
TEST_F(EncodedViewTest, BytesOfAFormerPipelineAreEncodedAnew) {
  const Node& deep = shown("/g/deep");
  const std::string written = encode("DEEP", source_->described("/g/deep"));
  ASSERT_TRUE(encoded().content(deep, chunk_place("/g/deep", 0))) << "now the form is known";
  Progress progress;
  ASSERT_TRUE(source_->set_filters(deep.object, {}, progress));
  mount().dataset.forget(deep.object);
  ASSERT_TRUE(encoded().put(deep, chunk_place("/g/deep", 0), bytes_of(written), {}));
  ASSERT_TRUE(fs().sync_all());
  EXPECT_EQ(stored("/g/deep", 0), "DEEP") << "there is no filter any more";
}

TEST_F(EncodedViewTest, ConversionsOfTwoViewsAreKeptApart) {
  ASSERT_TRUE(options_.rules.add("v,1,6"));
  const std::string zlib = read("/v/0", View::encoded);
  const std::string gzip = read("/v/c/0", View::encoded3);
  EXPECT_EQ(static_cast<unsigned char>(gzip[0]), 0x1f);
  EXPECT_EQ(zlib, read("/v/0", View::encoded));
  ASSERT_TRUE(write_file("/v/c/0", "wxyz", View::decoded3));
  EXPECT_NE(read("/v/0", View::encoded), zlib);
  EXPECT_NE(read("/v/c/0", View::encoded3), gzip);
}

TEST_F(EncodedViewTest, AnEditedChunkIsEncoded) {
  ASSERT_TRUE(write_file("/g/deep/0", "DEEP"));
  const std::string expected = encode("DEEP", source_->described("/g/deep"));
  EXPECT_EQ(read("/g/deep/0", View::encoded), expected);
  EXPECT_EQ(find("/g/deep/0", View::encoded)->st_size, static_cast<off_t>(expected.size()));
  EXPECT_EQ(encoded().passed_bytes(shown("/g/deep"), chunk_place("/g/deep", 0)), std::nullopt);
}

TEST_F(EncodedViewTest, WrittenBytesAreStoredAsTheyAre) {
  // The same content as other bytes than the encoder would write.
  Variable other = source_->described("/g/deep");
  other.filters = {deflate(9)};
  const std::string bytes = encode("good", other);
  ASSERT_TRUE(encoded().put(shown("/g/deep"), chunk_place("/g/deep", 1), bytes_of(bytes), {}));
  EXPECT_EQ(read("/g/deep/1"), "good");
  EXPECT_EQ(read("/g/deep/1", View::encoded), bytes);
  ASSERT_TRUE(fs().sync_all());
  EXPECT_EQ(stored("/g/deep", 1), bytes);
  EXPECT_EQ(mount().stats.chunks_stored_as_given, 1);
}

TEST_F(EncodedViewTest, BytesThatCannotBeDecodedAreRefused) {
  const ChunkPlace chunk = chunk_place("/g/deep", 0);
  EXPECT_EQ(error_of(encoded().put(shown("/g/deep"), chunk, bytes_of("no zlib"), {})), EINVAL);
  EXPECT_EQ(error_of(encoded().put(shown("/g/deep"), chunk, {}, {})), EINVAL);
  const std::string cut = stored("/g/deep", 0).substr(0, 6);
  EXPECT_EQ(error_of(encoded().put(shown("/g/deep"), chunk, bytes_of(cut), {})), EINVAL);
  Variable larger = text_variable({8}, {8}, {deflate(1)});
  EXPECT_EQ(error_of(encoded().put(shown("/g/deep"), chunk, bytes_of(encode("too long", larger)), {})), EINVAL);
  EXPECT_EQ(read("/g/deep/0"), "deep");
}

TEST_F(EncodedViewTest, AbsentChunksWithoutAFillValueShareOneConversion) {
  Variable variable = text_variable({16}, {4}, {deflate(1)});
  variable.fill_value = Json();
  source_->add_variable("/n", variable);
  const std::string fill = encode("....", variable);
  EXPECT_EQ(read("/n/1", View::encoded), fill);
  EXPECT_EQ(read("/n/2", View::encoded), fill);
  EXPECT_EQ(mount().chunks.conversion_stats.chunks_decoded, 1);
}

TEST_F(EncodedViewTest, ARuleIsShownBeforeItIsApplied) {
  ASSERT_TRUE(options_.rules.add("v,1,6"));
  const Variable ruled = text_variable({8}, {4}, {deflate(6)});
  EXPECT_EQ(read("/v/0", View::encoded), encode("abcd", ruled));
  EXPECT_NE(read("/v/.zarray", View::encoded).find("zlib"), std::string::npos);
  EXPECT_TRUE(source_->described("/v").filters.empty());
  ASSERT_TRUE(write_file("/v/1", encode("wxyz", ruled), View::encoded));
  EXPECT_EQ(source_->described("/v").filters.size(), 1) << "now it is applied";
  ASSERT_TRUE(fs().sync_all());
  EXPECT_EQ(stored("/v", 0), encode("abcd", ruled));
  EXPECT_EQ(stored("/v", 1), encode("wxyz", ruled));
}

TEST_F(EncodedViewTest, ARemovedChunkIsNotThere) {
  ASSERT_TRUE(fs().tree().unlink(ino("/g/deep", View::encoded), "0"));
  EXPECT_EQ(error_of(find("/g/deep/0")), ENOENT);
  EXPECT_EQ(error_of(find("/g/deep/0", View::encoded)), ENOENT);
  EXPECT_EQ(source_->chunk("/g/deep", 0), "absent");
}

TEST_F(EncodedViewTest, FetchGivesOnlyWhatIsStoredAndUnchanged) {
  const ChunkPlace chunk = chunk_place("/g/deep", 0);
  const ChunkPtr fetched = encoded().fetch(shown("/g/deep"), chunk);
  ASSERT_NE(fetched, nullptr);
  EXPECT_EQ(text_of(fetched->bytes()), stored("/g/deep", 0));
  EXPECT_EQ(encoded().fetch(shown("/g/deep"), chunk_place("/g/deep", 1)), nullptr);
  ASSERT_TRUE(write_file("/g/deep/0", "DEEP"));
  EXPECT_EQ(encoded().fetch(shown("/g/deep"), chunk), nullptr);
}

TEST_F(EncodedViewTest, AConversionEndsWithANewPipeline) {
  ASSERT_TRUE(options_.rules.add("v,1,6"));
  const std::string before = read("/v/0", View::encoded);
  ASSERT_TRUE(fs().xattrs().set(ino("/v"), "user._Filter", "none", XattrMode::any));
  EXPECT_NE(before, "abcd");
  EXPECT_EQ(read("/v/0", View::encoded), "abcd");
}

}  // namespace
}  // namespace codecfs::fs
