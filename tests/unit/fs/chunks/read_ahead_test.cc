#include "fs/chunks/read_ahead.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>

#include "base/parallel.h"

namespace codecfs::fs {
namespace {

constexpr uint64_t kChunk = 1000;  // bytes
constexpr uint64_t kReader = 7;

ChunkGrid grid_of(const std::vector<uint64_t>& cells) {
  return *ChunkGrid::make(cells, std::vector<uint64_t>(cells.size(), 1));
}

/// Records the fetched numbers.
class Fetched {
 public:
  std::function<void(uint64_t)> take() {
    return [this](uint64_t number) {
      const std::lock_guard lock(mutex_);
      numbers_.insert(number);
    };
  }
  std::set<uint64_t> numbers() {
    const std::lock_guard lock(mutex_);
    return numbers_;
  }
  /// Waits until a number has been fetched.
  bool has(uint64_t number) {
    for (int i = 0; i < 5000; ++i) {
      if (numbers().contains(number)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

 private:
  std::mutex mutex_;
  std::set<uint64_t> numbers_;
};

TEST(ReadAhead, NamesFollowEachOtherAsStringsDo) {
  for (const std::vector<uint64_t>& cells :
       {std::vector<uint64_t>{1}, {9}, {10}, {11}, {123}, {1000}, {3, 12}, {21, 101}, {2, 11, 3}, {1, 1, 25}}) {
    const ChunkGrid grid = grid_of(cells);
    std::vector<std::string> names;
    for (uint64_t i = 0; i < grid.count(); ++i) names.push_back(grid.name_of(i));
    std::ranges::sort(names);
    EXPECT_EQ(names.front(), grid.name_of(0));
    std::optional<uint64_t> at = 0;
    for (const std::string& name : names) {
      ASSERT_TRUE(at) << name;
      EXPECT_EQ(grid.name_of(*at), name);
      at = next_by_name(grid, *at);
    }
    EXPECT_FALSE(at);
  }
}

TEST(ReadAhead, WhoReadsInOrderIsFollowed) {
  const ChunkGrid grid = grid_of({100});
  Fetched fetched;
  ReadAhead ahead(1 << 20);
  ahead.note(kReader, grid, 40, kChunk, fetched.take());
  ahead.note(kReader, grid, 41, kChunk, fetched.take());
  EXPECT_TRUE(fetched.numbers().empty());
  ahead.note(kReader, grid, 42, kChunk, fetched.take());
  EXPECT_TRUE(fetched.has(43));
  EXPECT_TRUE(fetched.has(44));
  EXPECT_FALSE(fetched.numbers().contains(42));
}

TEST(ReadAhead, SaysWhetherAReaderIsSequential) {
  const ChunkGrid grid = grid_of({100});
  Fetched fetched;
  ReadAhead ahead(1 << 20);
  EXPECT_FALSE(ahead.note(kReader, grid, 40, kChunk, fetched.take()));
  EXPECT_FALSE(ahead.note(kReader, grid, 41, kChunk, fetched.take()));
  EXPECT_TRUE(ahead.note(kReader, grid, 42, kChunk, fetched.take()));
  EXPECT_TRUE(ahead.note(kReader, grid, 43, kChunk, fetched.take()));
  EXPECT_FALSE(ahead.note(kReader, grid, 7, kChunk, fetched.take()));
  EXPECT_FALSE(ahead.note(kReader, grid, 44, uint64_t{2} << 20, fetched.take())) << "too large to be read ahead";
}

TEST(ReadAhead, TheOrderOfNamesIsAnOrder) {
  const ChunkGrid grid = grid_of({100});
  Fetched fetched;
  ReadAhead ahead(1 << 20);
  for (const uint64_t number : {0, 1, 10, 11}) ahead.note(kReader, grid, number, kChunk, fetched.take());
  EXPECT_TRUE(fetched.has(12));
  EXPECT_TRUE(fetched.has(13));
  for (const uint64_t number : {12, 13, 14, 15, 16, 17, 18, 19})
    ahead.note(kReader, grid, number, kChunk, fetched.take());
  EXPECT_TRUE(fetched.has(2)) << "what comes after 19 by name";
}

TEST(ReadAhead, NothingIsFetchedWhileTheOrderIsNotKnown) {
  const ChunkGrid grid = grid_of({256});
  Fetched fetched;
  ReadAhead ahead(1 << 20);
  for (const uint64_t number : {0, 1}) ahead.note(kReader, grid, number, kChunk, fetched.take());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(fetched.numbers().empty()) << "2 or 10 may come";
  ahead.note(kReader, grid, 2, kChunk, fetched.take());
  EXPECT_TRUE(fetched.has(3));
}

/// Takes a millisecond of processor time.
void work() {
  const auto used = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  for (const auto begin = used(); used() - begin < std::chrono::milliseconds(1);) continue;
}

TEST(ReadAhead, OnlyTheLastThreadIsNice) {
  const int own = getpriority(PRIO_PROCESS, 0);
  for (const size_t threads : {1, 2, 3}) {
    const ChunkGrid grid = grid_of({200});
    Fetched fetched;
    std::mutex mutex;
    std::map<std::thread::id, int> nice;
    ReadAhead ahead(1 << 20, threads);
    const auto fetch = [&, take = fetched.take()](uint64_t number) {
      work();
      {
        const std::lock_guard lock(mutex);
        int& most = nice[std::this_thread::get_id()];
        most = std::max(most, getpriority(PRIO_PROCESS, 0) - own);  // it is not nice while others starve it
      }
      take(number);
    };
    for (uint64_t number = 0; number < 190; ++number) {
      ahead.note(kReader, grid, number, kChunk, fetch);
      if (number >= 3) {
        EXPECT_TRUE(fetched.has(number + 1)) << number;
      }
    }
    ahead.stop();
    std::multiset<int> values;
    for (const auto& [thread, value] : nice) values.insert(value);
    EXPECT_EQ(values.size(), threads);
    if (threads > 1) {
      EXPECT_GT(*values.rbegin(), 0);
      values.erase(std::prev(values.end()));
    }
    EXPECT_EQ(values.count(0), values.size());
  }
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), own);
}

TEST(ReadAhead, IdleThreadsHelp) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core";
  ReadAhead ahead(1 << 20, 2);
  const Helpers::Scope scope(ahead);
  std::atomic<int> arrived = 0;
  EXPECT_TRUE(parallel_for(2, {.helpers = Helpers::current()}, [&](uint64_t) -> Result<> {
    ++arrived;
    for (int i = 0; i < 5000 && arrived != 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return {};
  }));
  EXPECT_EQ(arrived, 2);
}

TEST(ReadAhead, ThreadsThatDecodeDoNotHelp) {
  const ChunkGrid grid = grid_of({100});
  std::atomic<bool> goes_on = true;
  std::atomic<int> busy = 0;
  ReadAhead ahead(1 << 20, 2);
  for (const uint64_t number : {40, 41, 42})
    ahead.note(kReader, grid, number, kChunk, [&](uint64_t) {
      ++busy;
      while (goes_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  for (int i = 0; i < 5000 && busy != 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_EQ(busy, 2);
  std::atomic<int> calls = 0;
  ahead.help(3, [&] { ++calls; });
  goes_on = false;
  ahead.stop();
  EXPECT_EQ(calls, 0);
  ahead.help(3, [&] { ++calls; });
  EXPECT_EQ(calls, 0) << "after the end";
}

TEST(ReadAhead, RandomReadersCauseNoWork) {
  const ChunkGrid grid = grid_of({1'000'000});
  Fetched fetched;
  {
    ReadAhead ahead(1 << 20);
    std::mt19937_64 random(5);
    for (int i = 0; i < 10000; ++i) ahead.note(kReader, grid, random() % grid.count(), kChunk, fetched.take());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(fetched.numbers().empty());
}

TEST(ReadAhead, TwoReadersAreToldApart) {
  const ChunkGrid grid = grid_of({1000});
  Fetched fetched;
  ReadAhead ahead(1 << 20);
  for (uint64_t i = 0; i < 4; ++i) {
    ahead.note(kReader, grid, 100 + i, kChunk, fetched.take());
    ahead.note(kReader, grid, 500 + i, kChunk, fetched.take());
  }
  EXPECT_TRUE(fetched.has(104));
  EXPECT_TRUE(fetched.has(504));
}

TEST(ReadAhead, TwoReadersThatShareTheWorkAreFollowed) {
  const ChunkGrid grid = grid_of({1000});
  Fetched fetched;
  {
    ReadAhead ahead(1 << 20);
    // Even and odd numbers as a shell sorts them, at different speeds.
    for (const uint64_t number : {100, 102, 104, 101, 106, 103, 108, 110, 105, 112, 114, 107})
      ahead.note(kReader, grid, number, kChunk, fetched.take());
    EXPECT_TRUE(fetched.has(116));
    EXPECT_TRUE(fetched.has(118));
    EXPECT_TRUE(fetched.has(109));
    EXPECT_TRUE(fetched.has(111));
  }
}

TEST(ReadAhead, WholeRowsAreExpected) {
  const ChunkGrid grid = grid_of({40, 2, 2});
  ReadAhead ahead(61 * kChunk, 32);
  std::vector<std::vector<uint64_t>> expected;
  std::set<uint64_t> all;
  for (uint64_t number = 0; number < grid.count(); ++number)
    ahead.note(
        kReader, grid, number, kChunk, [](uint64_t) {},
        [&](std::span<const uint64_t> numbers) {
          expected.emplace_back(numbers.begin(), numbers.end());
          all.insert(numbers.begin(), numbers.end());
        });
  EXPECT_LT(expected.size(), 10U);
  for (const auto& numbers : expected) EXPECT_EQ((numbers.back() + 1) % 4, 0U);
  EXPECT_GE(all.size(), grid.count() - 4) << "all but the first of them";
  EXPECT_EQ(expected.front(),
            (std::vector<uint64_t>{1, 8, 9, 10, 11, 12, 13, 14, 15, 40, 41, 42, 43, 44, 45, 46, 47, 2, 3, 4, 5, 6, 7}))
      << "after 1.1.1, it is 2.0.0 or 10.0.0";
}

TEST(ReadAhead, EachChunkIsExpectedOnceInEitherOrderAndBeforeItIsFetched) {
  for (const std::vector<uint64_t>& cells : std::vector<std::vector<uint64_t>>{{80}, {12, 13}, {3, 40, 2}})
    for (const bool by_name : {false, true}) {
      SCOPED_TRACE(testing::PrintToString(cells) + (by_name ? " by name" : " by number"));
      const ChunkGrid grid = grid_of(cells);
      std::mutex mutex;
      std::multiset<uint64_t> expected;
      std::set<uint64_t> early;  // fetched before they were expected
      {
        ReadAhead ahead(10 * kChunk, 2);
        for (std::optional<uint64_t> number = 0; number && *number < grid.count();
             number = by_name ? next_by_name(grid, *number) : std::optional(*number + 1)) {
          ahead.note(
              kReader, grid, *number, kChunk,
              [&](uint64_t fetched) {
                const std::lock_guard lock(mutex);
                if (!expected.contains(fetched)) early.insert(fetched);
              },
              [&](std::span<const uint64_t> numbers) {
                const std::lock_guard lock(mutex);
                expected.insert(numbers.begin(), numbers.end());
              });
          if (*number % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      }
      EXPECT_EQ(early, std::set<uint64_t>());
      std::set<uint64_t> twice;
      for (const uint64_t number : expected)
        if (expected.count(number) > 1) twice.insert(number);
      // When the order becomes known, some of the other order were expected, and come later: the store knows these.
      EXPECT_LE(twice.size(), 8U) << testing::PrintToString(twice);
      EXPECT_GE(std::set<uint64_t>(expected.begin(), expected.end()).size(), grid.count() - 3);
    }
}

TEST(ReadAhead, ExpectsMoreThanItDecodesTheLongerAReaderReads) {
  const ChunkGrid grid = grid_of({1000});
  constexpr uint64_t kMaxChunks = 20;
  ReadAhead ahead(kMaxChunks * kChunk, 32);
  uint64_t end = 0;  // of what was expected
  uint64_t least = kMaxChunks;
  for (uint64_t number = 0; number < 1000; ++number) {
    uint64_t calls = 0;
    ahead.note(
        kReader, grid, number, kChunk, [](uint64_t) {},
        [&](std::span<const uint64_t> numbers) {
          ++calls;
          if (number == 1) {
            EXPECT_EQ(numbers.front(), 1U) << "with this one";
            EXPECT_EQ(numbers[8], 9U) << "the next one may be 2 or 10";
            end = 10;
            return;
          }
          EXPECT_EQ(numbers.front(), end) << "each once";
          end = numbers.back() + 1;
          EXPECT_LE(end, number + 1 + 3 * kMaxChunks);
        });
    EXPECT_LE(calls, 1U);
    if (number == 2) {
      EXPECT_EQ(end, 3 + 32U) << "of a reader that has just begun";
    }
    if (number > 30 && number < 900) least = std::min(least, end - number - 1);
  }
  EXPECT_EQ(end, 1000U);
  EXPECT_GE(least, kMaxChunks) << "what is decoded is under way before";
}

TEST(ReadAhead, NoMoreThanTheBudgetAndTheEnd) {
  const ChunkGrid grid = grid_of({100});
  Fetched fetched;
  {
    ReadAhead ahead(2 * kChunk);
    for (uint64_t i = 0; i < 3; ++i) ahead.note(kReader, grid, i, kChunk, fetched.take());
    EXPECT_TRUE(fetched.has(4));
    ahead.note(kReader + 1, grid, 97, kChunk, fetched.take());
    ahead.note(kReader + 1, grid, 98, kChunk, fetched.take());
    ahead.note(kReader + 1, grid, 99, kChunk, fetched.take());
    for (uint64_t i = 0; i < 5; ++i) ahead.note(kReader + 2, grid, 50 + i, 3 * kChunk, fetched.take());
  }
  EXPECT_LE(*fetched.numbers().rbegin(), 5);
}

}  // namespace
}  // namespace codecfs::fs
