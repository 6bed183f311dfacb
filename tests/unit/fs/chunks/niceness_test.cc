#include "fs/chunks/niceness.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <functional>
#include <thread>

namespace codecfs::fs {
namespace {

using std::chrono::milliseconds;

std::chrono::nanoseconds elapsed;
std::chrono::nanoseconds processor;
const Meters kMeters{.elapsed = [] { return elapsed; }, .processor = [] { return processor; }};

int nice_now() { return getpriority(PRIO_PROCESS, 0); }

/// Nice values are of threads, and ordinary users cannot lower them again.
void in_a_thread(const std::function<void()>& test) { std::thread(test).join(); }

bool may_lower() {
  bool may = false;
  in_a_thread([&] {
    const int own = nice_now();
    may = setpriority(PRIO_PROCESS, 0, own + 1) == 0 && setpriority(PRIO_PROCESS, 0, own) == 0;
  });
  return may;
}

void work(Niceness& niceness, milliseconds takes, milliseconds of_the_processor) {
  niceness.begin();
  elapsed += takes;
  processor += of_the_processor;
  niceness.end();
}

TEST(Niceness, IsOfTheThread) {
  const int before = nice_now();
  in_a_thread([&] {
    const Niceness niceness(kMeters);
    EXPECT_GT(nice_now(), before);
  });
  EXPECT_EQ(nice_now(), before);
}

TEST(Niceness, EndsForASecondWhenTheThreadIsStarved) {
  if (!may_lower()) GTEST_SKIP() << "needs CAP_SYS_NICE";
  in_a_thread([] {
    const int own = nice_now();
    Niceness niceness(kMeters);
    const int nice = nice_now();
    for (int i = 0; i < 20; ++i) work(niceness, milliseconds(2), milliseconds(1));
    EXPECT_EQ(nice_now(), nice) << "the reader had the other half";
    work(niceness, milliseconds(20), milliseconds(1));
    EXPECT_EQ(nice_now(), nice) << "once";
    for (int i = 0; i < 20; ++i) work(niceness, milliseconds(20), milliseconds(1));
    EXPECT_EQ(nice_now(), own);
    work(niceness, milliseconds(500), milliseconds(500));
    EXPECT_EQ(nice_now(), own);
    elapsed += milliseconds(600);
    work(niceness, milliseconds(1), milliseconds(1));
    EXPECT_EQ(nice_now(), nice);
  });
}

TEST(Niceness, IsAddedToThatOfTheDaemon) {
  in_a_thread([] {
    ASSERT_EQ(setpriority(PRIO_PROCESS, 0, 5), 0);
    const Niceness niceness(kMeters);
    EXPECT_GE(nice_now(), 8);
  });
}

}  // namespace
}  // namespace codecfs::fs
