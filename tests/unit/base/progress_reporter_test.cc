// Progress of long work: when and where it is reported, and the text.

#include "base/progress_reporter.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>

#include "base/log.h"

namespace codecfs {
namespace {

using std::chrono::milliseconds;

std::string logged_since(size_t before) { return log::recent().substr(before); }

TEST(ProgressReporter, ShortWorkIsNotToldOf) {
  const size_t before = log::recent().size();
  {
    ProgressReporter work("short work");
    work.at(1, 2);
  }
  EXPECT_EQ(logged_since(before), "");
}

TEST(ProgressReporter, TheLogTellsHowFarItIsAndThatItHasEnded) {
  const size_t before = log::recent().size();
  {
    ProgressReporter work("long work", {.log = milliseconds(20)});
    work.at(0, 0);
    std::this_thread::sleep_for(milliseconds(25));
    work.at(0, 0);
    work.at(1, 4);  // too early
    std::this_thread::sleep_for(milliseconds(25));
    work.at(1, 4);
    EXPECT_EQ(logged_since(before).find("ended"), std::string::npos);
  }
  const std::string text = logged_since(before);
  const size_t begun = text.find("long work: begun\n");
  const size_t quarter = text.find("long work: 25 %\n");
  const size_t ended = text.find("long work: ended\n");
  EXPECT_LT(begun, quarter);
  EXPECT_LT(quarter, ended);
  EXPECT_NE(ended, std::string::npos) << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), 3) << text;
}

TEST(ProgressReporter, PiecesCountForTheLatestOfTheThread) {
  const size_t before = log::recent().size();
  ProgressReporter::add_to_current(5);  // no work is running
  {
    ProgressReporter outer("outer", {.log = milliseconds(0)});
    outer.expect(10);
    {
      ProgressReporter inner("inner", {.log = milliseconds(0)});
      inner.expect(200);
      ProgressReporter::add_to_current(50);
      std::thread([] { ProgressReporter::add_to_current(100); }).join();  // work of another thread is separate
    }
    ProgressReporter::add_to_current(7);
  }
  const std::string text = logged_since(before);
  EXPECT_NE(text.find("inner: 25 %"), std::string::npos) << text;
  EXPECT_EQ(text.find("inner: 75 %"), std::string::npos) << text;
  EXPECT_NE(text.find("outer: 70 %"), std::string::npos) << text;
}

TEST(ProgressReporter, WhoAsksIsToldOfAllThatGoesOn) {
  EXPECT_EQ(ProgressReporter::under_way(), "");
  {
    ProgressReporter work("writing a.zip");
    work.expect(200);
    EXPECT_EQ(ProgressReporter::under_way(), "writing a.zip: 0 %");
    std::thread([] {
      ProgressReporter other("re-encoding v");
      EXPECT_EQ(ProgressReporter::under_way(), "writing a.zip: 0 %\nre-encoding v: begun");
      other.at(1, 3);
      EXPECT_EQ(ProgressReporter::under_way(), "writing a.zip: 0 %\nre-encoding v: 33 %");
    }).join();
    work.add(150);
    EXPECT_EQ(ProgressReporter::under_way(), "writing a.zip: 75 %");
    work.add(100);  // more than was expected
    EXPECT_EQ(ProgressReporter::under_way(), "writing a.zip: 100 %");
  }
  EXPECT_EQ(ProgressReporter::under_way(), "");
}

TEST(ProgressReporter, ATerminalShowsOneLineThatGoesAgain) {
  const size_t before = log::recent().size();
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  ProgressReporter::show_on_terminal(ends[1]);
  {
    ProgressReporter work("compacting a.h5", {.terminal = milliseconds(0)});
    work.at(30, 40);
  }
  ProgressReporter::show_on_terminal(-1);
  std::array<char, 200> text{};
  const ssize_t count = read(ends[0], text.data(), text.size());
  EXPECT_EQ(std::string(text.data(), static_cast<size_t>(count)),
            "\r\x1b[Kcompacting a.h5: 75 % [###############.....]\r\x1b[K");
  EXPECT_EQ(logged_since(before), "");
  close(ends[0]);
  close(ends[1]);
}

TEST(ProgressReporter, ACommandWithoutATerminalPrintsLinesWithAmountsRateAndTimeLeft) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  ProgressReporter::show_on(ends[1]);
  {
    ProgressReporter work("verifying a.h5", {.log = milliseconds(0)}, ProgressReporter::Unit::bytes);
    work.at(1024, 3072);
    std::this_thread::sleep_for(milliseconds(1100));
    work.at(2048, 3072);
  }
  ProgressReporter::show_on(-1);
  std::array<char, 400> text{};
  const ssize_t count = read(ends[0], text.data(), text.size());
  const std::string told(text.data(), static_cast<size_t>(count));
  EXPECT_TRUE(told.starts_with("codecfs: verifying a.h5: 33 %, 1.00 KiB of 3.00 KiB\n")) << told;
  EXPECT_NE(told.find("66 %, 2.00 KiB of 3.00 KiB, 1."), std::string::npos) << told;
  EXPECT_TRUE(told.ends_with("KiB/s, 1 s left\n")) << told;
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace codecfs
