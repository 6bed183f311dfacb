// A Zarr store in an object store: which requests it sends, and that they can be interrupted.

#include "backends/zarr/store/object_store.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "backends/zarr/source/hierarchy.h"
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

TEST(ObjectStore, AnAbsentMetadataFileIsAskedForAgain) {
  const auto [objects, store] = open_large('.', 2, 2);
  EXPECT_FALSE(store->stat("a/.zattrs").value());
  const int before = objects->gets;
  EXPECT_FALSE(store->stat("a/.zattrs").value());
  EXPECT_EQ(objects->gets, before) << "not at once";
  objects->set("s/a/.zattrs", "{}");
  std::this_thread::sleep_for(ObjectTexts::kAbsentFor + std::chrono::milliseconds(100));
  EXPECT_TRUE(store->stat("a/.zattrs").value());
}

TEST(ObjectStore, AMemberThatCannotBeReadIsNotLeftOut) {
  const auto [objects, store] = open_large('.', 2, 2);
  const Hierarchy hierarchy(*store, ZarrFormat::v2);
  objects->before = [](std::string_view method, const std::string& key) -> Result<> {
    if (method == "GET" && key == "s/a/.zarray") return fail(EIO, "the server is away");
    return {};
  };
  EXPECT_EQ(hierarchy.for_each("", [](auto, auto) { return true; }).error().code, EIO);
  objects->before = {};
  int found = 0;
  EXPECT_TRUE(hierarchy.for_each("", [&](auto, auto) { return ++found > 0; }));
  EXPECT_EQ(found, 1);
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

/// Two levels of groups, each with three arrays: v3, without consolidated metadata.
Opened open_tree() {
  auto objects = std::make_shared<MemoryObjects>();
  const std::string group = R"({"zarr_format":3,"node_type":"group"})";
  const std::string array =
      R"({"zarr_format":3,"node_type":"array","shape":[4],"data_type":"uint8","chunk_grid":{"name":"regular",)"
      R"("configuration":{"chunk_shape":[2]}},"chunk_key_encoding":{"name":"default"},"fill_value":0,)"
      R"("codecs":[{"name":"bytes"}]})";
  objects->set("s/zarr.json", group);
  for (const std::string above : {"", "g0/", "g1/", "g2/"}) {
    if (!above.empty()) objects->set("s/" + above + "zarr.json", group);
    for (int i = 0; i < 3; ++i) {
      objects->set(fmt::format("s/{}a{}/zarr.json", above, i), array);
      objects->set(fmt::format("s/{}a{}/c/0", above, i), "xx");
    }
  }
  auto store = ObjectStore::open(objects, "s", std::nullopt).value();
  return {objects, std::move(store)};
}

TEST(ObjectStore, RequestsTheMetadataOfATreeLevelByLevel) {
  const auto [objects, store] = open_tree();
  objects->delay = std::chrono::milliseconds(5);
  const int gets = objects->gets;
  store->expect_tree("");
  EXPECT_EQ(objects->lists, 4) << "of the root and three groups, none of an array";
  EXPECT_EQ(objects->gets - gets, 15);
  EXPECT_GT(objects->most_lists, 1) << "those of a level at the same time";
  const Hierarchy hierarchy(*store, ZarrFormat::v3);
  int found = 0;
  for (const std::string group : {"", "g0", "g1", "g2"})
    EXPECT_TRUE(hierarchy.for_each(group, [&](auto, auto) { return ++found > 0; }));
  EXPECT_EQ(found, 15);
  EXPECT_EQ(objects->lists, 4);
  EXPECT_EQ(objects->gets - gets, 15);
}

TEST(ObjectStore, AMemberIsListedAsSoonAsItIsWritten) {
  const auto [objects, store] = open_tree();
  EXPECT_EQ(listed_in(*store, "").size(), 6U);
  objects->set("s/other/zarr.json", R"({"zarr_format":3,"node_type":"group"})");
  EXPECT_EQ(listed_in(*store, "").size(), 6U) << "a list is used for some seconds";
  const std::string text = R"({"zarr_format":3,"node_type":"group"})";
  EXPECT_TRUE(store->put("own/zarr.json", std::as_bytes(std::span(text)), {}));
  EXPECT_TRUE(listed_in(*store, "").contains("own"));
  EXPECT_TRUE(listed_in(*store, "").contains("other"));
  EXPECT_TRUE(store->remove("own/zarr.json"));
  EXPECT_FALSE(listed_in(*store, "").contains("own"));
}

TEST(ObjectStore, OpensFilesAheadAtTheSameTime) {
  const auto [objects, store] = open_large('.');
  objects->delay = std::chrono::milliseconds(50);
  const int gets = objects->gets;
  const std::vector<std::string> keys{"a/0.0", "a/0.1", "a/0.2", "a/0.3", "a/7.70"};
  const auto began = std::chrono::steady_clock::now();
  store->expect_opened(keys);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(50)) << "it does not wait";
  for (const std::string& key : keys) EXPECT_EQ(store->open_file(key).value() == nullptr, key == "a/7.70");
  EXPECT_LE(objects->gets - gets, 6) << "each once, but for the absent one";
  EXPECT_GT(objects->most_gets, 2);
}

TEST(ObjectStore, EndsWhileItOpensFiles) {
  auto [objects, store] = open_large('.');
  objects->hangs = true;
  const std::vector<std::string> keys{"a/0.0", "a/0.1"};
  store->expect_opened(keys);
  const auto began = std::chrono::steady_clock::now();
  store.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
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

/// The keys of the first chunks of open_large().
std::vector<std::string> chunks(int count) {
  std::vector<std::string> keys;
  for (int i = 0; i < count; ++i) keys.push_back(fmt::format("a/{}.{}", i / 200, i % 200));
  return keys;
}

TEST(ObjectStore, RequestsWhatIsExpectedTogether) {
  const auto [objects, store] = open_large('.');
  EXPECT_TRUE(store->stat("a").value());
  objects->delay = std::chrono::milliseconds(50);
  const int before = objects->gets;
  const auto keys = chunks(40);
  const auto began = std::chrono::steady_clock::now();
  store->expect(keys, 100);
  store->expect(keys, 100);
  for (const std::string& key : keys) {
    EXPECT_EQ(store->locate(key).value()->bytes, 1U);
    EXPECT_EQ(store->read(key, 100).value()->size(), 1U);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(40 * 50)) << "in order it takes 2 s";
  EXPECT_EQ(objects->gets - before, 40);
  store->expect(keys, 100);
  EXPECT_EQ(objects->gets - before, 40) << "what was read a moment ago is not read again";
  EXPECT_EQ(objects->statistics().expected_bytes, 0U);
}

TEST(ObjectStore, WhatIsWrittenIsNotReadAsItWasExpected) {
  const auto keys = chunks(8);
  const std::string text = "new";
  for (const bool waits : {true, false}) {
    const auto [objects, store] = open_large('.');
    EXPECT_TRUE(store->stat("a").value());
    objects->delay = std::chrono::milliseconds(waits ? 0 : 100);
    store->expect(keys, 100);
    if (waits) {
      EXPECT_TRUE(store->locate(keys[0]).value());
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    for (const std::string& key : keys) EXPECT_TRUE(store->put(key, std::as_bytes(std::span(text)), {}));
    for (const std::string& key : keys) EXPECT_EQ(store->read(key, 100).value()->size(), 3U);
  }
}

TEST(ObjectStore, WhatIsExpectedMayBeAbsentOrFail) {
  const auto [objects, store] = open_large('.');
  EXPECT_TRUE(store->stat("a").value());
  const std::vector<std::string> keys{"a/7.70", "a/7.71"};
  const int before = objects->gets;
  objects->before = [](std::string_view method, const std::string& key) -> Result<> {
    if (method == "GET" && key == "s/a/7.71") return fail(EIO, "fails");
    return {};
  };
  store->expect(keys, 100);
  EXPECT_FALSE(store->locate(keys[0]).value());
  EXPECT_FALSE(store->read(keys[0], 100).value());
  EXPECT_FALSE(store->locate(keys[0]).value());
  EXPECT_EQ(objects->gets - before, 1) << "absence is known for a while";
  EXPECT_EQ(store->read(keys[1], 100).error().code, EIO);
  objects->before = nullptr;
  EXPECT_TRUE(store->read(keys[1], 100).value()) << "failures are not kept";
  const std::string text = "there now";
  EXPECT_TRUE(store->put(keys[0], std::as_bytes(std::span(text)), {}));
  EXPECT_EQ(store->read(keys[0], 100).value()->size(), 9U);
}

TEST(ObjectStore, ExpectsNoMoreThanItsMemory) {
  const auto [objects, store] = open_large('.');
  EXPECT_TRUE(store->stat("a").value());
  objects->delay = std::chrono::milliseconds(100);
  const auto keys = chunks(100);
  const int before = objects->gets;
  store->expect(keys, uint64_t{8} << 20);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(objects->gets - before, 16);
  EXPECT_LE(objects->statistics().expected_bytes, uint64_t{128} << 20);
  objects->delay = std::chrono::milliseconds(0);
  for (const std::string& key : keys) EXPECT_TRUE(store->read(key, 100).value());
}

TEST(ObjectStore, DropsWhatIsLargerThanExpectedWithoutMemoryForIt) {
  const auto [objects, store] = open_large('.');
  EXPECT_TRUE(store->stat("a").value());
  constexpr size_t kSize = size_t{8} << 20;
  const auto keys = chunks(20);
  for (const std::string& key : keys) objects->set("s/" + key, std::string(kSize, 'x'));
  const int before = objects->gets;
  store->expect(keys, 100);
  for (int i = 0; i < 200 && objects->gets - before < 20; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(objects->gets - before, 20);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LE(objects->statistics().expected_bytes, uint64_t{128} << 20);
  EXPECT_GT(objects->statistics().expected_bytes, uint64_t{64} << 20);
  for (const std::string& key : keys) EXPECT_EQ(store->read(key, kSize).value()->size(), kSize);
  EXPECT_LT(objects->gets - before, 40) << "most are there";
}

TEST(ObjectStore, EndsWhileItExpects) {
  auto [objects, store] = open_large('.');
  EXPECT_TRUE(store->stat("a").value());
  objects->hangs = true;
  store->expect(chunks(40), 100);
  const auto began = std::chrono::steady_clock::now();
  store.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  EXPECT_EQ(objects->statistics().expected_bytes, 0U);
}

}  // namespace
}  // namespace codecfs::zarr
