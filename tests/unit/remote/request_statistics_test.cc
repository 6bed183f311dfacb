#include "remote/request_statistics.h"

#include <gtest/gtest.h>

namespace codecfs::remote {
namespace {

using std::chrono::milliseconds;

TEST(RequestStatistics, PrintsACumulativeHistogram) {
  RequestStatistics statistics;
  for (const int took : {0, 5, 6, 30, 20'000}) {
    statistics.begin();
    statistics.end(milliseconds(took));
  }
  statistics.gets = 3;
  statistics.lists = 2;
  EXPECT_EQ(statistics.requests(), 5U);
  const std::string text = statistics.print();
  for (const char* const line :
       {"object_gets 3\n", "object_lists 2\n", "object_requests_now 0\n", "object_requests_parallel 1\n",
        "object_time_le_5ms 2\n", "object_time_le_10ms 3\n", "object_time_le_20ms 3\n", "object_time_le_50ms 4\n",
        "object_time_le_10000ms 4\n", "object_time_count 5\n", "object_time_sum_ms 20041\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << " is not in\n" << text;
}

TEST(RequestStatistics, CountsWhatRunsAtATime) {
  RequestStatistics statistics;
  statistics.begin();
  statistics.begin();
  statistics.end(milliseconds(1));
  statistics.begin();
  EXPECT_EQ(statistics.now, 2U);
  EXPECT_EQ(statistics.parallel, 2U);
}

}  // namespace
}  // namespace codecfs::remote
