// A Zarr store in an object store: which requests it sends, and that they can be interrupted.

#include "backends/zarr/store/object_store.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "support/memory_objects.h"

namespace codecfs::zarr {
namespace {

struct Opened {
  std::shared_ptr<MemoryObjects> objects;
  std::unique_ptr<ObjectStore> store;
};

/// An array "a" of so many chunks, all of them stored but for 7.70.
Opened open_large(char separator, int rows = 60, int columns = 200) {
  auto objects = std::make_shared<MemoryObjects>();
  objects->set("s/.zgroup", R"({"zarr_format":2})");
  objects->set("s/a/.zarray", fmt::format(R"({{"zarr_format":2,"shape":[{},{}],"chunks":[1,1],"dtype":"|u1",)"
                                          R"("compressor":null,"filters":null,"fill_value":0,"order":"C",)"
                                          R"("dimension_separator":"{}"}})",
                                          rows, columns, separator));
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j)
      if (i != 7 || j != 70) objects->set(fmt::format("s/a/{}{}{}", i, separator, j), "x");
  objects->page_size = 100;
  auto store = ObjectStore::open(objects, "s", std::nullopt).value();
  return {objects, std::move(store)};
}

std::set<std::string> listed_in(const ObjectStore& store, const std::string& key) {
  std::set<std::string> names;
  EXPECT_TRUE(store.for_each(key, [&](const char* name, Store::EntryType) -> Result<> {
    names.insert(name);
    return {};
  }));
  return names;
}

TEST(ObjectStore, ListsALargeArrayInParallel) {
  const auto [objects, store] = open_large('.');
  objects->delay = std::chrono::milliseconds(2);
  const auto names = listed_in(*store, "a");
  EXPECT_EQ(names.size() - names.contains(".zarray"), 60U * 200 - 1);
  EXPECT_GT(objects->most_lists, 2);
  EXPECT_LT(objects->lists, 120 + 30) << "of 100 names each";
  const int before = objects->lists;
  EXPECT_FALSE(store->locate("a/7.70").value());
  EXPECT_TRUE(store->locate("a/59.199").value());
  EXPECT_EQ(objects->lists, before);
}

TEST(ObjectStore, ListsWhatIsOutsideOfAShapeWhenItChanges) {
  const auto [objects, store] = open_large('.', 5, 2400);
  objects->set("s/a/9.5", "x");  // not in the first pages, nor in a list of the chunks of the shape
  EXPECT_FALSE(listed_in(*store, "a").contains("9.5")) << "else this test tests nothing";
  store->list_all_of("a");
  EXPECT_TRUE(listed_in(*store, "a").contains("9.5"));
}

TEST(ObjectStore, ListsDirectoriesOfChunksByOneList) {
  const auto [objects, store] = open_large('/');
  const int gets = objects->gets;
  EXPECT_EQ(listed_in(*store, "a").size(), 60U + 1);
  const int lists = objects->lists;
  EXPECT_LT(lists, 150);
  EXPECT_EQ(listed_in(*store, "a/7").size(), 199U);
  EXPECT_EQ(objects->lists, lists);
  EXPECT_LE(objects->gets - gets, 1) << "no metadata is looked for below the array";
}

TEST(ObjectStore, ListsASmallArrayByOneRequest) {
  auto [objects, store] = open_large('.');
  objects->page_size = 100'000;
  EXPECT_EQ(listed_in(*store, "a").size(), 60U * 200);
  EXPECT_EQ(objects->lists, 1);
}

TEST(ObjectStore, CallersShareAList) {
  const auto [objects, store] = open_large('.');
  objects->page_size = 100'000;
  objects->delay = std::chrono::milliseconds(100);
  std::vector<std::jthread> callers;
  for (int i = 0; i < 6; ++i) callers.emplace_back([&] { EXPECT_EQ(listed_in(*store, "a").size(), 60U * 200); });
  callers.clear();
  EXPECT_EQ(objects->lists, 1);
}

TEST(ObjectStore, CanBeInterrupted) {
  const auto [objects, store] = open_large('.');
  EXPECT_TRUE(store->stat("a").value());
  objects->hangs = true;
  const Interruption::Check yes = [] { return true; };
  {
    const Interruption::Scope scope(&yes);
    EXPECT_EQ(store->locate("a/1.1").error().code, EINTR);
    EXPECT_EQ(store->read("a/1.1", 100).error().code, EINTR);
    EXPECT_EQ(store->for_each("a", [](const char*, Store::EntryType) -> Result<> { return {}; }).error().code, EINTR);
  }
  objects->hangs = false;
  EXPECT_TRUE(store->locate("a/1.1").value()) << "nothing of it is kept";
  EXPECT_EQ(listed_in(*store, "a").size(), 60U * 200);
}

}  // namespace
}  // namespace codecfs::zarr
