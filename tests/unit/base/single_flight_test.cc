// Threads that share a call, and what they get if it fails.

#include "base/single_flight.h"

#include <gtest/gtest.h>

#include <future>
#include <semaphore>
#include <stdexcept>
#include <string>

#include "support/failing_memory.h"

namespace codecfs {
namespace {

using Text = Result<std::string>;

TEST(SingleFlight, WaitersGetTheErrorOfAnyException) {
  SingleFlight<std::string> flights;
  std::binary_semaphore begun{0};
  std::binary_semaphore leave{0};
  auto first = std::async(std::launch::async, [&] {
    return flights.run("key", [&]() -> Text {
      begun.release();
      leave.acquire();
      throw std::runtime_error("broken");
    });
  });
  begun.acquire();
  auto second = std::async(std::launch::async, [&] { return flights.run("key", []() -> Text { return "own"; }); });
  leave.release();
  EXPECT_EQ(first.get().error().code, EIO);
  const Text other = second.get();  // which may have come after the first had ended
  EXPECT_TRUE(other ? *other == "own" : other.error().code == EIO);
  EXPECT_EQ(flights.run("key", []() -> Text { return "later"; }), "later");
}

TEST(SingleFlight, NothingIsLeftWhenMemoryRunsOut) {
  SingleFlight<std::string> flights;
  const std::string text(100, 'x');  // needs memory
  step_through_allocations([&] { return flights.run(text, [&]() -> Text { return text; }); },
                           [&](bool) { EXPECT_EQ(flights.run(text, []() -> Text { return "next"; }), "next"); });
}

}  // namespace
}  // namespace codecfs
