// Which bytes readers and writers of a chunk start from, and what is cached.

#include "fs/chunks/chunk_decoder.h"

#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

class ChunkDecoderTest : public FilesystemTest {
 protected:
  ChunkDecoder& decoder() { return mount().chunks.decoder; }
  static std::string text(const Result<ChunkPtr>& chunk) {
    return chunk ? text_of((*chunk)->bytes()) : fmt::format("error {}", chunk.error().code);
  }
  static inline const std::string kAbsent = fmt::format("error {}", ENOENT);
};

TEST_F(ChunkDecoderTest, AChunkIsDecodedOnce) {
  const ChunkPlace chunk = chunk_place("/g/deep", 0);
  EXPECT_EQ(text(decoder().decoded(chunk)), "deep");
  EXPECT_EQ(text(decoder().decoded(chunk)), "deep");
  EXPECT_EQ(source_->reads, 1);
  EXPECT_EQ(text_of(decoder().decode(chunk)->bytes()), "deep");
  EXPECT_EQ(source_->reads, 2) << "past the cache";
}

TEST_F(ChunkDecoderTest, AnAbsentChunkIsFillForWritersOnly) {
  EXPECT_EQ(text(decoder().decoded(chunk_place("/v", 1))), kAbsent);
  EXPECT_EQ(text(decoder().base_of(chunk_place("/v", 1))), "....");
  EXPECT_EQ(text(decoder().base_of(chunk_place("/v", 0))), "abcd");
}

TEST_F(ChunkDecoderTest, WithoutAFillValueReadersSeeFillToo) {
  Variable variable = text_variable({16}, {4});
  variable.fill_value = Json();
  source_->add_variable("/n", variable);
  const Result<ChunkPtr> one = decoder().decoded(chunk_place("/n", 1));
  const Result<ChunkPtr> other = decoder().decoded(chunk_place("/n", 2));
  EXPECT_EQ(text(one), "....");
  EXPECT_EQ(one.value(), other.value()) << "all absent chunks are one buffer";
}

TEST_F(ChunkDecoderTest, AFailureIsNotCached) {
  ASSERT_TRUE(source_->write_stored(source_->object("/g/deep"), 1, bytes_of("damaged")));
  const ChunkPlace chunk = chunk_place("/g/deep", 1);
  EXPECT_EQ(error_of(decoder().decoded(chunk)), EIO);
  EXPECT_EQ(error_of(decoder().base_of(chunk)), EIO) << "a writer must not lose what is damaged";
  source_->put("/g/deep", 1, "good");
  EXPECT_EQ(text(decoder().decoded(chunk)), "good");
}

TEST_F(ChunkDecoderTest, AChunkThatIsRemovedMeanwhileIsFillForAWriter) {
  const ChunkPlace chunk = chunk_place("/v", 0);
  source_->before_read = [&] { EXPECT_TRUE(source_->remove_chunk(chunk.object, 0)); };
  EXPECT_EQ(text(decoder().base_of(chunk)), "....");
  source_->before_read = {};
  EXPECT_EQ(text(decoder().decoded(chunk)), kAbsent);
}

TEST_F(ChunkDecoderTest, DecodingTakesTwiceTheChunk) {
  EXPECT_EQ(ChunkDecoder::decoding_bytes(text_variable({8}, {4})), 8);
  Variable unknown = text_variable({8}, {4});
  unknown.chunk_bytes.reset();
  EXPECT_EQ(ChunkDecoder::decoding_bytes(unknown), 2 << 20);
}

}  // namespace
}  // namespace codecfs::fs
