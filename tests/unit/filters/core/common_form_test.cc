// Chunks that only liberal decoders take. What such decoders do is proved with numcodecs and h5py
// (test_passed_forms.py).

#include "filters/core/common_form.h"

#include <zstd.h>

#include "support/codec_testing.h"

namespace codecfs::filters {
namespace {

ByteVector encoded(const std::vector<FilterStage>& chain, const ByteVector& data) {
  const auto pipeline = Pipeline::make(chain, chunk_of(data.size(), "<i4"));
  EXPECT_TRUE(pipeline);
  const auto made = pipeline->encode(data);
  EXPECT_TRUE(made);
  return to_vector(made->bytes);
}

ByteVector together(ByteVector one, const ByteVector& other) {
  append(one, other);
  return one;
}

ByteVector zstd_without_size(const ByteVector& data) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  ByteVector out(ZSTD_compressBound(data.size()));
  out.resize(ZSTD_compress2(context, out.data(), out.size(), data.data(), data.size()));
  ZSTD_freeCCtx(context);
  return out;
}

class CommonForm : public testing::Test {
 protected:
  const ByteVector data = random_bytes(4000);
  const ChunkShape chunk = chunk_of(4000, "<i4");

  bool is_common(const std::vector<FilterStage>& chain, const ByteVector& bytes) const {
    const bool whole = has_common_form(chain, chunk, bytes, bytes.size());
    if (!chain.empty() && chain.back().id == 307) return whole;
    const Bytes head = Bytes(bytes).first(std::min(bytes.size(), kCommonFormHead));
    EXPECT_EQ(has_common_form(chain, chunk, head, bytes.size()), whole) << "the head tells as much";
    return whole;
  }
};

TEST_F(CommonForm, WhatIsEncodedHereIsCommon) {
  const std::vector<std::vector<FilterStage>> chains = {{},
                                                        {stage(1, {1})},
                                                        {stage(2, {4})},
                                                        {stage(307, {1})},
                                                        {stage(32015, {3})},
                                                        {stage(32001)},
                                                        {stage(2, {4}), stage(32015, {3})},
                                                        {stage(32015, {3}), stage(3)},
                                                        {stage(3), stage(2, {4}), stage(32001)},
                                                        {stage(2, {4}), stage(307, {9}), stage(3)},
                                                        {stage(1, {1}), stage(32015, {3})}};
  for (const std::vector<FilterStage>& chain : chains)
    EXPECT_TRUE(is_common(chain, encoded(chain, data))) << chain.size() << " " << (chain.empty() ? 0 : chain.back().id);
}

TEST_F(CommonForm, OnlyPipelinesWithTheseStreamsNeedALook) {
  EXPECT_FALSE(may_lack_common_form({}));
  EXPECT_FALSE(may_lack_common_form(std::vector{stage(2, {4}), stage(1, {5}), stage(3)}));
  EXPECT_TRUE(may_lack_common_form(std::vector{stage(2, {4}), stage(32015, {5}), stage(3)}));
}

TEST_F(CommonForm, ZstandardNeedsOneFrameWithTheSize) {
  const std::vector<FilterStage> chain = {stage(32015, {3})};
  const ByteVector first(data.begin(), data.begin() + 1000);
  const ByteVector rest(data.begin() + 1000, data.end());
  const ByteVector skippable = from_hex("502a4d180400000000000000");
  EXPECT_FALSE(is_common(chain, zstd_without_size(data)));
  EXPECT_FALSE(is_common(chain, together(encoded(chain, first), encoded(chain, rest))));
  EXPECT_FALSE(is_common(chain, together(skippable, encoded(chain, data))));
  EXPECT_FALSE(is_common(chain, {}));
  const std::vector<FilterStage> checked = {stage(32015, {3}), stage(3)};
  ByteVector with_sum = zstd_without_size(data);
  with_sum.resize(with_sum.size() + 4);
  EXPECT_FALSE(is_common(checked, with_sum));
}

TEST_F(CommonForm, BloscEndsWhereItsHeaderSays) {
  const std::vector<FilterStage> chain = {stage(32001)};
  EXPECT_FALSE(is_common(chain, together(encoded(chain, data), ByteVector(3))));
  EXPECT_FALSE(is_common(chain, encoded(chain, random_bytes(3996))));
  ByteVector newer = encoded(chain, data);
  newer[0] = std::byte{5};  // Blosc 2
  EXPECT_FALSE(is_common(chain, newer));
}

TEST_F(CommonForm, Bzip2HasOneStream) {
  const std::vector<FilterStage> chain = {stage(307, {9})};
  const ByteVector first(data.begin(), data.begin() + 1000);
  const ByteVector rest(data.begin() + 1000, data.end());
  EXPECT_FALSE(is_common(chain, together(encoded(chain, first), encoded(chain, rest))));
  EXPECT_FALSE(is_common(chain, together(encoded(chain, data), encoded(chain, {}))));
  EXPECT_TRUE(is_common(chain, together(encoded(chain, data), from_hex("425a6839"))));
}

TEST_F(CommonForm, WhatCannotBeSeenIsNotCommon) {
  const std::vector<FilterStage> chain = {stage(32015, {3}), stage(1, {1})};
  EXPECT_FALSE(is_common(chain, encoded(chain, data)));
}

}  // namespace
}  // namespace codecfs::filters
