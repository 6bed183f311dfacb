#include "remote/range_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace codecfs::remote {
namespace {

using Plan = std::vector<ByteRange>;
constexpr uint64_t kKilo = 1024;
constexpr uint64_t kMega = 1024 * kKilo;

TEST(RangePlan, JoinsNeighboursInAnyOrder) {
  EXPECT_EQ(plan_requests({{200, 100}, {0, 100}, {100, 100}}), (Plan{{0, 300}}));
  EXPECT_EQ(plan_requests({}), Plan());
  EXPECT_EQ(plan_requests({{5, 0}}), Plan());
}

TEST(RangePlan, LeavesLargeGaps) {
  EXPECT_EQ(plan_requests({{0, kMega}, {kMega + 512 * kKilo, kMega}}), (Plan{{0, 2 * kMega + 512 * kKilo}}));
  EXPECT_EQ(plan_requests({{0, kMega}, {kMega + 513 * kKilo, kMega}}),
            (Plan{{0, kMega}, {kMega + 513 * kKilo, kMega}}));
}

TEST(RangePlan, RequestsAFewTimesWhatIsWanted) {
  EXPECT_EQ(plan_requests({{0, kKilo}, {7 * kKilo, kKilo}}), (Plan{{0, 8 * kKilo}}));
  EXPECT_EQ(plan_requests({{0, kKilo}, {8 * kKilo, kKilo}}), (Plan{{0, kKilo}, {8 * kKilo, kKilo}}));
  EXPECT_EQ(plan_requests({{0, kKilo}, {8 * kKilo, kKilo}}, {.amplification = 5}), (Plan{{0, 9 * kKilo}}));
}

TEST(RangePlan, LimitsRequests) {
  Plan chunks;
  for (uint64_t i = 0; i < 20; ++i) chunks.push_back({i * kMega, kMega});
  EXPECT_EQ(plan_requests(chunks), (Plan{{0, 8 * kMega}, {8 * kMega, 8 * kMega}, {16 * kMega, 4 * kMega}}));
  EXPECT_EQ(plan_requests({{3, 16 * kMega}}), (Plan{{3, 16 * kMega}})) << "one chunk in one request";
  EXPECT_EQ(plan_requests({{3, 17 * kMega}}),
            (Plan{{3, 8 * kMega}, {3 + 8 * kMega, 8 * kMega}, {3 + 16 * kMega, kMega}}));
}

TEST(RangePlan, AllRangesAreInOneRequest) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    Plan ranges;
    for (int i = 0; i < 50; ++i) ranges.push_back({random() % (20 * kMega), random() % (300 * kKilo)});
    const Plan requests = plan_requests(ranges);
    for (const ByteRange& range : ranges) {
      const auto has = [&](const ByteRange& request) {
        return request.offset <= range.offset && range.end() <= request.end();
      };
      EXPECT_TRUE(range.size == 0 || std::ranges::any_of(requests, has));
    }
    for (const ByteRange& request : requests) EXPECT_LE(request.size, 8 * kMega);
  }
}

}  // namespace
}  // namespace codecfs::remote
