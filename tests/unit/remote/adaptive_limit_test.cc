// The number of requests follows what a server can do.

#include "remote/adaptive_limit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/interruption.h"

namespace codecfs::remote {
namespace {

using Clock = AdaptiveLimit::Clock;

/// A server with so many places, of which each takes 30 ms for a request of 64 KiB; time is simulated.
class Server {
 public:
  explicit Server(size_t places) : places_(places) {}

  /// Runs requests for some time, always as many as the limit permits and one that waits.
  void load(AdaptiveLimit& limit, std::chrono::milliseconds time) {
    for (const auto end = now_ + time; now_ < end;) {
      std::vector<AdaptiveLimit::Permit> running;
      while (running.size() < limit.limit()) running.push_back(*limit.acquire());
      const Interruption::Check yes = [] { return true; };
      const Interruption::Scope scope(&yes);
      EXPECT_FALSE(limit.acquire()) << "one more than the limit";
      // In rounds, as the server has places.
      for (size_t done = 0; done < running.size(); ++done) {
        if (done % places_ == 0) now_ += std::chrono::milliseconds(30);
        limit.succeeded(64 << 10, now_);
      }
    }
  }
  Clock::time_point now_ = Clock::now();

 private:
  const size_t places_;
};

TEST(AdaptiveLimit, RisesWhileThroughputGains) {
  AdaptiveLimit limit(72);
  EXPECT_EQ(limit.limit(), AdaptiveLimit::kFirst);
  Server(1000).load(limit, std::chrono::seconds(5));
  EXPECT_EQ(limit.limit(), 72U);
}

TEST(AdaptiveLimit, StaysWhereMoreIsNotFaster) {
  AdaptiveLimit limit(512);
  Server(48).load(limit, std::chrono::seconds(60));
  EXPECT_GE(limit.limit(), 40U);
  EXPECT_LE(limit.limit(), 96U) << "two rounds of all places";
}

TEST(AdaptiveLimit, IsHalvedAndRecovers) {
  AdaptiveLimit limit(64);
  Server server(1000);
  server.load(limit, std::chrono::seconds(5));
  for (int i = 0; i < 10; ++i) limit.overloaded(server.now_);
  EXPECT_EQ(limit.limit(), 32U) << "failures at the same time are one";
  for (int i = 0; i < 20; ++i) limit.overloaded(server.now_ += std::chrono::seconds(2));
  EXPECT_EQ(limit.limit(), 2U);
  server.load(limit, std::chrono::seconds(20));
  EXPECT_EQ(limit.limit(), 64U);
}

TEST(AdaptiveLimit, OneConnectionIsOne) {
  AdaptiveLimit limit(1);
  limit.overloaded();
  Server(1).load(limit, std::chrono::seconds(10));
  EXPECT_EQ(limit.limit(), 1U);
}

TEST(AdaptiveLimit, IsNotRaisedIfNoRequestWaits) {
  AdaptiveLimit limit(64);
  auto now = Clock::now();
  for (int i = 0; i < 1000; ++i) {
    const auto permit = limit.acquire();
    limit.succeeded(1 << 20, now += std::chrono::milliseconds(20));
  }
  EXPECT_EQ(limit.limit(), AdaptiveLimit::kFirst);
}

}  // namespace
}  // namespace codecfs::remote
