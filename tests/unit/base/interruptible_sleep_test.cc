#include "base/interruptible_sleep.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace codecfs {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""h;

TEST(InterruptibleSleep, SleepsForTheTime) {
  const auto begin = Clock::now();
  EXPECT_TRUE(sleep_unless_stopped(std::stop_token(), 20ms));
  EXPECT_GE(Clock::now() - begin, 20ms);
}

TEST(InterruptibleSleep, AStopRequestEndsTheSleep) {
  bool stopped = false;
  std::jthread sleeper([&](const std::stop_token& stop) { stopped = !sleep_unless_stopped(stop, 1h); });
  std::this_thread::sleep_for(10ms);
  sleeper.request_stop();
  sleeper.join();
  EXPECT_TRUE(stopped);
}

TEST(InterruptibleSleep, DoesNotSleepAfterAStopRequest) {
  std::stop_source source;
  source.request_stop();
  EXPECT_FALSE(sleep_unless_stopped(source.get_token(), 1h));
}

}  // namespace
}  // namespace codecfs
