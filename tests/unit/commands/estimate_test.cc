// What filters would gain, from a sample.

#include "commands/estimate.h"

#include <gtest/gtest.h>

#include "support/memory_source.h"

namespace codecfs::commands {
namespace {

TEST(Estimate, MeasuresEachPipelineOnTheSameSample) {
  MemorySource source;
  source.add_variable("/v", text_variable({40000}, {20000}, {deflate(1)}));
  source.put("/v", 1, std::string(20000, 'a'));
  const ObjectId object = source.object("/v");
  const VariableOf variable{source, object, *source.facts(object)};
  const auto measured = estimate(variable, "/v", {"none", "shuffle|deflate,9"});
  ASSERT_TRUE(measured) << measured.error().reason;
  EXPECT_EQ(measured->chunks, 1U);
  EXPECT_EQ(measured->decoded_bytes, 20000U);
  ASSERT_EQ(measured->candidates.size(), 3U);
  EXPECT_TRUE(measured->candidates[0].is_stored);
  EXPECT_EQ(measured->candidates[1].encoded_bytes, 20000U);
  EXPECT_LT(measured->candidates[2].encoded_bytes, 2000U);
  size_t recommended = 0;
  for (const Candidate& candidate : measured->candidates) recommended += candidate.is_recommended ? 1 : 0;
  EXPECT_EQ(recommended, 1U);
  const std::string text = estimate_text(*measured);
  EXPECT_NE(text.find("as stored"), std::string::npos) << text;
  EXPECT_NE(text.find("recommended"), std::string::npos) << text;
}

TEST(Estimate, TellsWhatCannotBeUsed) {
  MemorySource source;
  source.add_variable("/v", text_variable({4}, {2}));
  const ObjectId object = source.object("/v");
  const VariableOf variable{source, object, *source.facts(object)};
  EXPECT_EQ(estimate(variable, "/v", {"deflate,1"}).error().code, ENOENT) << "no chunk is stored";
  source.put("/v", 0, "ab");
  const auto measured = estimate(variable, "/v", {"40000,1"});
  ASSERT_TRUE(measured);
  EXPECT_FALSE(measured->candidates[1].unusable.empty());
  EXPECT_FALSE(estimate(variable, "/v", {"nosuch"}));
}

}  // namespace
}  // namespace codecfs::commands
