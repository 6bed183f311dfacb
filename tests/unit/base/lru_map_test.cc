#include "base/lru_map.h"

#include <gtest/gtest.h>

#include "support/failing_memory.h"

namespace codecfs {
namespace {

std::shared_ptr<const int> value(int number) { return std::make_shared<const int>(number); }

TEST(LruMap, WhatWasUsedLongestAgoMakesRoom) {
  LruMap<int, int> map(2);
  map.put(1, value(1));
  map.put(2, value(2));
  EXPECT_TRUE(map.get(1));
  map.put(3, value(3));
  EXPECT_TRUE(map.get(1));
  EXPECT_FALSE(map.get(2));
  EXPECT_EQ(*map.get(3), 3);
}

TEST(LruMap, WeightsAreBoundedButTheLatestStays) {
  LruMap<int, int> map(100, 10);
  map.put(1, value(1), 4);
  map.put(2, value(2), 4);
  map.put(3, value(3), 4);
  EXPECT_FALSE(map.get(1));
  EXPECT_TRUE(map.get(2));
  map.put(2, value(5), 1);
  map.put(4, value(4), 5);
  EXPECT_TRUE(map.get(3) && map.get(2) && map.get(4)) << "a value that was replaced weighs nothing any more";
  map.put(5, value(5), 1000);
  EXPECT_TRUE(map.get(5));
  EXPECT_FALSE(map.get(2) || map.get(3) || map.get(4));
  map.put(6, value(6), 1);
  EXPECT_FALSE(map.get(5));
  map.erase(6);
  map.put(7, value(7), 10);
  EXPECT_TRUE(map.get(7));
  map.clear();
  map.put(8, value(8), 5);
  map.put(9, value(9), 5);
  EXPECT_TRUE(map.get(8) && map.get(9));
}

TEST(LruMap, AValueOfAnOlderStateIsNotPut) {
  LruMap<int, int> map(2);
  map.put(1, value(10));
  map.put_if(1, value(11), 0, [] { return false; });
  EXPECT_EQ(*map.get(1), 10) << "and it does not take the place of another";
  map.put_if(2, value(20), 0, [] { return false; });
  EXPECT_FALSE(map.get(2));
  map.put_if(2, value(21), 0, [] { return true; });
  EXPECT_EQ(*map.get(2), 21);
}

TEST(LruMap, AnUpdateChangesACopyAndCountsAsUse) {
  LruMap<int, int> map(2);
  map.update(1, [](int& number) { number += 5; });
  EXPECT_EQ(*map.get(1), 5) << "from a default value";
  const auto before = map.get(1);
  map.put(2, value(2));
  map.update(1, [](int& number) { number += 5; });
  EXPECT_EQ(*map.get(1), 10);
  EXPECT_EQ(*before, 5);
  map.put(3, value(3));
  EXPECT_TRUE(map.get(1));
  EXPECT_FALSE(map.get(2));
}

TEST(LruMap, TakesWhatMeetsTheCondition) {
  LruMap<int, int> map(2);
  map.put(1, value(7));
  EXPECT_FALSE(map.take_if(1, [](int number) { return number == 8; }));
  EXPECT_EQ(*map.take_if(1, [](int number) { return number == 7; }), 7);
  EXPECT_FALSE(map.take(1));
}

TEST(LruMap, IsUnchangedOrHasTheValueWhenMemoryRunsOut) {
  LruMap<std::string, std::string> map(2);
  const std::string long_key(100, 'k');
  int number = 0;
  step_through_allocations(
      [&]() -> Result<> {
        map.put(long_key + std::to_string(++number), std::make_shared<const std::string>("value"));
        return {};
      },
      [&](bool done) {
        EXPECT_EQ(map.get(long_key + std::to_string(number)) != nullptr, done);
        for (const char* const key : {"a", "b", "c"}) map.put(key, std::make_shared<const std::string>(key));
        EXPECT_EQ(map.get("a"), nullptr);
        ASSERT_NE(map.get("c"), nullptr);
        EXPECT_EQ(*map.get("c"), "c");
      });
}

}  // namespace
}  // namespace codecfs
