// Stores in an object store that several programs write at the same time: here several Sources of one bucket.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "backends/zarr/source/zarr_source.h"
#include "base/interruption.h"
#include "model/json.h"
#include "support/memory_objects.h"

namespace codecfs {
namespace {

constexpr std::string_view kArray =
    R"({"zarr_format": 2, "shape": [8], "chunks": [4], "dtype": "|u1", "compressor": null,
  "fill_value": 46, "order": "C", "filters": null})";
constexpr std::string_view kSharded =
    R"({"zarr_format": 3, "node_type": "array", "shape": [8, 6], "data_type": "uint8",
  "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 6]}},
  "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 46,
  "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 3], "codecs": [{"name": "bytes"}],
    "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]}}], "attributes": {}})";

Bytes as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }
std::string as_text(const Buffer& buffer) { return {reinterpret_cast<const char*>(buffer.data()), buffer.size()}; }

unsigned puts_of(const std::vector<std::string>& requests) {
  return static_cast<unsigned>(
      std::ranges::count_if(requests, [](const std::string& request) { return request.starts_with("PUT"); }));
}

ByteSet range(uint64_t offset, uint64_t size) {
  ByteSet set;
  set.add(offset, size);
  return set;
}

class ObjectSourceTest : public testing::Test {
 protected:
  void make_v2() {
    objects_->set("s.zarr/.zgroup", R"({"zarr_format": 2})");
    objects_->set("s.zarr/v/.zarray", kArray);
  }
  void make_v3() {
    objects_->set("s.zarr/zarr.json", R"({"zarr_format": 3, "node_type": "group", "attributes": {}})");
    objects_->set("s.zarr/v/zarr.json", kSharded);
  }
  [[nodiscard]] std::unique_ptr<Source> open(std::optional<Error> unwritable = std::nullopt) const {
    return open_zarr_objects(objects_, "s.zarr", "s3://bucket/s.zarr", std::move(unwritable)).value();
  }
  static ObjectId id_of(Source& source, std::string_view name = "v") {
    return source.find(source.root().object, name).value().object;
  }
  static std::string chunk(Source& source, uint64_t number) {
    auto fetched = source.fetch_chunk(id_of(source), number);
    return fetched ? as_text(fetched->bytes) : fmt::format("error {}", fetched.error().code);
  }
  [[nodiscard]] std::string content(const std::string& key) const {
    return objects_->content_of("s.zarr/" + key).value_or("absent");
  }

  std::shared_ptr<MemoryObjects> objects_ = std::make_shared<MemoryObjects>();
};

TEST_F(ObjectSourceTest, AWholeChunkIsOneRequest) {
  make_v2();
  const auto source = open();
  const ObjectId id = id_of(*source);
  ASSERT_TRUE(source->is_shared());
  ASSERT_TRUE(source->facts(id));  // its metadata has been read
  objects_->take_requests();
  ASSERT_TRUE(source->write_chunk(id, 1, as_bytes("abcd")));
  EXPECT_EQ(objects_->take_requests(), std::vector<std::string>{"PUT s.zarr/v/1"});
  EXPECT_EQ(content("v/1"), "abcd");
  EXPECT_EQ(chunk(*source, 1), "abcd");
}

TEST_F(ObjectSourceTest, PartsOfAChunkOfSeveralWritersAreAllKept) {
  make_v2();
  const auto one = open();
  const auto other = open();
  const ObjectId id = id_of(*one);
  auto base = one->fetch_base(id, 0).value();
  EXPECT_FALSE(base.chunk);
  ASSERT_TRUE(base.version);
  ASSERT_TRUE(other->update_chunk(id_of(*other), 0, as_bytes("..B."), range(2, 1), std::nullopt));
  EXPECT_EQ(content("v/0"), "..B.");
  const auto updated = one->update_chunk(id, 0, as_bytes("A..."), range(0, 1), base.version).value();
  EXPECT_TRUE(updated.has_others);
  EXPECT_EQ(content("v/0"), "A.B.");
  base = one->fetch_base(id, 0).value();
  const auto alone = one->update_chunk(id, 0, as_bytes("A.BC"), range(3, 1), base.version).value();
  EXPECT_FALSE(alone.has_others);
  EXPECT_TRUE(alone.version);
  EXPECT_EQ(content("v/0"), "A.BC");
  EXPECT_TRUE(other->fetch_base(id_of(*other), 0).value().is_changed) << "since it was stored there";
}

TEST_F(ObjectSourceTest, ManyWritersOfOneChunkLoseNothing) {
  objects_->set("s.zarr/.zgroup", R"({"zarr_format": 2})");
  objects_->set("s.zarr/v/.zarray", R"({"zarr_format": 2, "shape": [4000], "chunks": [4000], "dtype": "|u1",
    "compressor": null, "fill_value": 46, "order": "C", "filters": null})");
  std::vector<std::jthread> threads;
  for (unsigned which = 0; which < 4; ++which)
    threads.emplace_back([&, which] {
      const auto source = open();
      const ObjectId id = id_of(*source);
      std::string own(4000, '?');
      for (unsigned at = which; at < 4000; at += 8) {
        own[at] = static_cast<char>('a' + which);
        EXPECT_TRUE(source->update_chunk(id, 0, as_bytes(own), range(at, 1), std::nullopt));
      }
    });
  threads.clear();
  const std::string seen = content("v/0");
  ASSERT_EQ(seen.size(), 4000U);
  for (unsigned at = 0; at < 4000; ++at) ASSERT_EQ(seen[at], at % 8 < 4 ? static_cast<char>('a' + at % 8) : '.') << at;
}

TEST_F(ObjectSourceTest, ChunksOfAShardOfSeveralWritersAreAllKept) {
  make_v3();
  std::vector<std::jthread> threads;
  for (unsigned which = 0; which < 3; ++which)
    threads.emplace_back([&, which] {
      const auto source = open();
      const ObjectId id = id_of(*source);
      for (unsigned round = 0; round < 50; ++round) {
        ASSERT_TRUE(source->write_chunk(id, which, as_bytes(std::string(6, static_cast<char>('a' + which)))));
        std::string own(6, '?');
        own[which] = static_cast<char>('A' + which);
        // All of them write a part of this one.
        ASSERT_TRUE(source->update_chunk(id, 3, as_bytes(own), range(which, 1), std::nullopt));
        ASSERT_TRUE(source->commit());
      }
    });
  threads.clear();
  const auto reader = open();
  EXPECT_EQ(chunk(*reader, 0), "aaaaaa");
  EXPECT_EQ(chunk(*reader, 1), "bbbbbb");
  EXPECT_EQ(chunk(*reader, 3), "ABC...");
}

TEST_F(ObjectSourceTest, AShardIsWrittenOnceACommit) {
  make_v3();
  const auto source = open();
  const ObjectId id = id_of(*source);
  for (const uint64_t number : {0, 1, 2}) ASSERT_TRUE(source->write_chunk(id, number, as_bytes("abcdef")));
  objects_->take_requests();
  ASSERT_TRUE(source->commit());
  EXPECT_EQ(puts_of(objects_->take_requests()), 1U);
}

TEST_F(ObjectSourceTest, AnInterruptedReaderEndsNoWriteAndNoOtherReader) {
  make_v3();
  const auto source = open();
  const ObjectId id = id_of(*source);
  for (const uint64_t number : {0, 4}) ASSERT_TRUE(source->write_chunk(id, number, as_bytes("abcdef")));  // two shards
  objects_->take_requests();
  std::atomic<bool> hangs = true;
  std::atomic<int> hanging = 0;
  objects_->before = [&](std::string_view method, const std::string&) -> Result<> {
    if (method != "GET") return {};
    ++hanging;
    for (; hangs; std::this_thread::yield())
      if (Interruption::is_requested()) return Interruption::error();
    return {};
  };
  std::jthread other;
  {
    // A reader of shards writes those that are held before.
    const Interruption::Check check = [&] { return hanging >= 2; };  // the requests of both shards
    const Interruption::Scope scope(&check);
    other = std::jthread([&] {
      while (hanging == 0) std::this_thread::yield();
      EXPECT_EQ(source->stored_shards(id, 0, 10).value(), (std::vector<uint64_t>{0, 1}));
    });
    EXPECT_EQ(source->stored_shards(id, 0, 10).error().code, EINTR);
  }
  EXPECT_EQ(puts_of(objects_->take_requests()), 0);
  EXPECT_EQ(chunk(*source, 0) + chunk(*source, 4), "abcdefabcdef") << "both are held";
  hangs = false;
  other.join();
  EXPECT_TRUE(source->commit());
  EXPECT_EQ(puts_of(objects_->take_requests()), 2);
  const auto reader = open();
  EXPECT_EQ(chunk(*reader, 0) + chunk(*reader, 4), "abcdefabcdef");
}

TEST_F(ObjectSourceTest, ShardsThatAnExceptionLeftAreWrittenByTheNextCommit) {
  make_v3();
  const auto source = open();
  const ObjectId id = id_of(*source);
  for (const uint64_t number : {0, 4}) ASSERT_TRUE(source->write_chunk(id, number, as_bytes("abcdef")));
  std::atomic<bool> throws = true;
  objects_->before = [&](std::string_view method, const std::string&) -> Result<> {
    if (method == "PUT" && throws) throw std::runtime_error("thrown");
    return {};
  };
  const Result<> first = source->commit();
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, EIO);
  EXPECT_TRUE(first.error().reason.contains("thrown")) << first.error().reason;
  ASSERT_TRUE(source->write_chunk(id, 4, as_bytes("ABCDEF"))) << "newer than what is left of its shard";
  EXPECT_FALSE(source->commit()) << "it is still not stored";
  throws = false;
  EXPECT_TRUE(source->commit());
  const auto reader = open();
  EXPECT_EQ(chunk(*reader, 0), "abcdef");
  EXPECT_EQ(chunk(*reader, 4), "ABCDEF");
}

TEST_F(ObjectSourceTest, AServerWithoutConditionsGetsWholeChunks) {
  make_v2();
  objects_->heeds_conditions = false;
  const auto source = open();
  const ObjectId id = id_of(*source);
  EXPECT_TRUE(source->write_chunk(id, 0, as_bytes("abcd")));
  EXPECT_EQ(source->begin_updates(id).error().code, EOPNOTSUPP);
  EXPECT_EQ(source->update_chunk(id, 0, as_bytes("xxxx"), range(0, 1), std::nullopt).error().code, EOPNOTSUPP);
  EXPECT_EQ(source->make_group(source->root().object, "g").error().code, EOPNOTSUPP);
  EXPECT_EQ(content("v/0"), "abcd");
}

TEST_F(ObjectSourceTest, ListsHaveWhatWasWritten) {
  make_v2();
  objects_->set("s.zarr/v/0", "abcd");
  const auto source = open();
  const ObjectId id = id_of(*source);
  EXPECT_EQ(source->stored_chunks(id, 0, 10).value(), std::vector<uint64_t>{0});
  ASSERT_TRUE(source->write_chunk(id, 1, as_bytes("efgh")));
  EXPECT_EQ(source->stored_chunks(id, 0, 10).value(), (std::vector<uint64_t>{0, 1}));
  EXPECT_TRUE(source->locate(id, 1).value().stored);
  ASSERT_TRUE(source->remove_chunk(id, 0));
  EXPECT_FALSE(source->locate(id, 0).value().stored);
  EXPECT_EQ(source->stored_chunks(id, 0, 10).value(), std::vector<uint64_t>{1});
  EXPECT_EQ(chunk(*source, 0), fmt::format("error {}", ENOENT));
}

TEST_F(ObjectSourceTest, AReadThatOverlapsAWriteIsNotKept) {
  make_v2();
  objects_->set("s.zarr/v/0", "old.");
  const auto source = open();
  const ObjectId id = id_of(*source);
  bool is_first = true;
  objects_->before = [&](std::string_view method, const std::string& key) -> Result<> {
    if (method != "GET" || key != "s.zarr/v/0" || !std::exchange(is_first, false)) return {};
    Result<> written;  // by another thread, as this one holds locks of the reader
    std::thread([&] { written = source->write_chunk(id, 0, as_bytes("new.")); }).join();
    return written;
  };
  (void)chunk(*source, 0);
  objects_->before = nullptr;
  EXPECT_EQ(chunk(*source, 0), "new.");
  EXPECT_EQ(source->stored_bytes(id, 0).value(), 4U);
}

TEST_F(ObjectSourceTest, OnlyWhatIsWrittenHereIsReadInSeveralStates) {
  make_v2();
  objects_->set("s.zarr/v/0", "abcd");
  const auto source = open();
  const ObjectId id = id_of(*source);
  EXPECT_EQ(chunk(*source, 0), "abcd");
  objects_->set("s.zarr/v/0", "ABCD");
  EXPECT_EQ(chunk(*source, 0), fmt::format("error {}", ESTALE)) << "parts of the first state may be in the page cache";
  const auto base = source->fetch_base(id, 0).value();
  EXPECT_TRUE(base.is_changed);
  EXPECT_EQ(as_text(*base.chunk), "ABCD");
  objects_->set("s.zarr/v/0", "efgh");
  const auto fetched = source->fetch_chunk(id, 0).value();
  EXPECT_EQ(as_text(fetched.bytes), "efgh");
  EXPECT_TRUE(fetched.is_changed);
  EXPECT_FALSE(source->fetch_chunk(id, 0).value().is_changed) << "told once";
}

// --- metadata

Attribute attribute(const char* name, int value) { return {.name = name, .value = Json(value)}; }

TEST_F(ObjectSourceTest, AttributesOfSeveralWritersAreAllKept) {
  make_v2();
  const auto one = open();
  const auto other = open();
  const std::vector<Attribute> a{attribute("a", 1)};
  const std::vector<Attribute> b{attribute("b", 2)};
  const std::vector<Attribute> c{attribute("c", 3)};
  ASSERT_TRUE(one->set_attributes(id_of(*one), a, {}));
  ASSERT_TRUE(other->set_attributes(id_of(*other), b, {}));
  ASSERT_TRUE(one->set_attributes(id_of(*one), c, {}));
  const Json stored = parse_json(content("v/.zattrs")).value();
  EXPECT_EQ(stored, (Json{{"a", 1}, {"b", 2}, {"c", 3}}));
}

TEST_F(ObjectSourceTest, ConsolidatedMetadataOfSeveralWritersHasAll) {
  make_v2();
  const Json consolidated = {
      {"zarr_consolidated_format", 1},
      {"metadata",
       {{".zgroup", parse_json(R"({"zarr_format": 2})").value()}, {"v/.zarray", parse_json(kArray).value()}}}};
  objects_->set("s.zarr/.zmetadata", print_json(consolidated, 2));
  const auto one = open();
  const auto other = open();
  ASSERT_TRUE(one->make_group(one->root().object, "g1"));
  ASSERT_TRUE(other->make_group(other->root().object, "g2"));
  const std::vector<Attribute> a{attribute("a", 1)};
  ASSERT_TRUE(other->set_attributes(id_of(*other), a, {}));
  ASSERT_TRUE(other->commit());
  ASSERT_TRUE(one->commit());
  const Json files = parse_json(content(".zmetadata")).value()["metadata"];
  for (const char* key : {".zgroup", "v/.zarray", "v/.zattrs", "g1/.zgroup", "g2/.zgroup"})
    EXPECT_TRUE(files.contains(key)) << key;
  EXPECT_EQ(one->list(one->root().object).value().size(), 3U);
}

TEST_F(ObjectSourceTest, OnlyOneWriterMakesAGroup) {
  make_v2();
  const auto one = open();
  const auto other = open();
  ASSERT_TRUE(one->make_group(one->root().object, "g"));
  const auto refused = other->make_group(other->root().object, "g");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EEXIST);
}

TEST_F(ObjectSourceTest, RemovesChunksBeforeMetadata) {
  make_v2();
  objects_->set("s.zarr/v/0", "abcd");
  objects_->set("s.zarr/v/1", "abcd");
  const auto source = open();
  (void)id_of(*source);
  objects_->before = [](std::string_view method, const std::string& key) -> Result<> {
    if (method == "DELETE" && key == "s.zarr/v/1") return fail(EIO, "the server failed");
    return {};
  };
  EXPECT_FALSE(source->remove(source->root().object, "v"));
  EXPECT_EQ(content("v/.zarray"), kArray) << "so it can be removed again";
  objects_->before = nullptr;
  ASSERT_TRUE(source->remove(source->root().object, "v"));
  EXPECT_EQ(content("v/.zarray"), "absent");
  EXPECT_EQ(content("v/1"), "absent");
  EXPECT_TRUE(source->list(source->root().object).value().empty());
}

TEST_F(ObjectSourceTest, FiltersAreOnlyChangedWithoutChunks) {
  make_v2();
  objects_->set("s.zarr/v/0", "abcd");
  const auto source = open();
  const ObjectId id = id_of(*source);
  std::vector<FilterStage> deflate(1);
  deflate[0].id = 1;
  deflate[0].parameters = {5};
  Progress progress;
  const auto refused = source->set_filters(id, deflate, progress);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EOPNOTSUPP);
  EXPECT_EQ(content("v/.zarray"), kArray);
  ASSERT_TRUE(source->remove_chunk(id, 0));
  const auto changed = source->set_filters(id, deflate, progress);
  ASSERT_TRUE(changed) << changed.error().reason;
  ASSERT_TRUE(source->write_chunk(id, 0, as_bytes("abcd")));
  EXPECT_EQ(chunk(*source, 0), "abcd");
  EXPECT_NE(content("v/0"), "abcd");
}

TEST_F(ObjectSourceTest, ChunksOutsideOfTheShapeDoNotBecomeData) {
  make_v2();
  objects_->set("s.zarr/v/3", "left");
  const auto source = open();
  const ObjectId id = id_of(*source);
  const std::vector<uint64_t> large{16};
  EXPECT_EQ(source->resize(id, large).error().code, EBUSY);
  EXPECT_EQ(content("v/3"), "left") << "it may be another program's";
  ASSERT_TRUE(objects_->remove("s.zarr/v/3"));
  ASSERT_TRUE(source->resize(id, large));
  ASSERT_TRUE(source->write_chunk(id, 3, as_bytes("abcd")));
  const std::vector<uint64_t> small{6};
  ASSERT_TRUE(source->resize(id, small));
  EXPECT_EQ(content("v/3"), "absent");
}

TEST_F(ObjectSourceTest, ExpectedChunksOfShardsAreJoined) {
  constexpr size_t kChunk = 20'000;  // bytes
  constexpr size_t kInShard = 16;
  constexpr size_t kShards = 4;
  objects_->set("s.zarr/zarr.json", R"({"zarr_format": 3, "node_type": "group", "attributes": {}})");
  objects_->set("s.zarr/v/zarr.json",
                R"({"zarr_format": 3, "node_type": "array", "shape": [1280000], "data_type": "uint8",
  "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [320000]}},
  "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 46,
  "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [20000], "codecs": [{"name": "bytes"}],
    "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}], "attributes": {}})");
  const auto letter = [](size_t number) { return static_cast<char>('a' + number % 26); };
  for (size_t shard = 0; shard < kShards; ++shard) {
    std::string bytes;
    std::string index;
    for (size_t i = 0; i < kInShard; ++i) {
      for (uint64_t value : {uint64_t{bytes.size()}, uint64_t{kChunk}})
        index.append(reinterpret_cast<const char*>(&value), sizeof value);
      bytes.append(kChunk, letter(shard * kInShard + i));
    }
    objects_->set(fmt::format("s.zarr/v/c/{}", shard), bytes + index);
  }
  const auto source = open(Error{EROFS, "only read"});
  const ObjectId id = id_of(*source);
  ASSERT_TRUE(source->facts(id));
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < kShards * kInShard; ++i) numbers.push_back(i);
  const int before = objects_->gets;
  ASSERT_TRUE(source->expect(id, numbers));
  for (const uint64_t number : numbers) ASSERT_EQ(chunk(*source, number), std::string(kChunk, letter(number)));
  EXPECT_EQ(objects_->gets - before, 2 * static_cast<int>(kShards)) << "an index and the chunks of each shard";
  EXPECT_EQ(objects_->statistics().expected_bytes, 0U);

  objects_->set("s.zarr/v/c/1", "another");
  const auto other = open(Error{EROFS, "only read"});
  ASSERT_TRUE(other->expect(id_of(*other), numbers)) << "errors are those of the readers";
  EXPECT_EQ(chunk(*other, kInShard), fmt::format("error {}", EIO));
  EXPECT_EQ(chunk(*other, 0), std::string(kChunk, letter(0)));
}

}  // namespace
}  // namespace codecfs
