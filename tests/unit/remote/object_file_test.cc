#include "remote/object_file.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <thread>

#include "support/generated_object.h"

namespace codecfs::remote {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
using Ranges = std::vector<ByteRange>;

struct Opened {
  std::shared_ptr<GeneratedObject> object;
  std::unique_ptr<ObjectFile> file;
};

Opened open(uint64_t size) {
  auto object = std::make_shared<GeneratedObject>(size);
  auto file = ObjectFile::open(object, "key", "s3://bucket/key", 16).value();
  return {object, std::move(file)};
}

bool reads_right(ObjectFile& file, uint64_t offset, uint64_t size) {
  std::vector<std::byte> bytes(size);
  const auto read = file.read_mirrored(offset, bytes);
  return read && GeneratedObject::is_right(offset, bytes);
}

TEST(ObjectFile, OpensWithOneRequest) {
  auto [object, file] = open(100 * kMiB);
  EXPECT_EQ(file->size(), 100 * kMiB);
  EXPECT_EQ(object->take_requests(), (Ranges{{0, 4 * kMiB}}));
  EXPECT_TRUE(reads_right(*file, 4 * kMiB - 100, 100));
  EXPECT_EQ(object->take_requests(), Ranges());
}

TEST(ObjectFile, OfASmallObjectRequestsTheRest) {
  auto [object, file] = open(6 * kMiB + 1);
  object->take_requests();
  EXPECT_TRUE(reads_right(*file, 5 * kMiB, 100));
  EXPECT_TRUE(reads_right(*file, 6 * kMiB, 1));
  EXPECT_EQ(object->take_requests(), (Ranges{{4 * kMiB, 2 * kMiB + 1}}));
  EXPECT_TRUE(open(0).file->size() == 0);
  EXPECT_TRUE(reads_right(*open(17).file, 0, 17));
}

TEST(ObjectFile, GrowsRequestsOfASequentialReader) {
  auto [object, file] = open(64 * kMiB);
  object->take_requests();
  for (uint64_t at = 10 * kMiB; at < 20 * kMiB; at += 1000) ASSERT_TRUE(reads_right(*file, at, 1000));
  const Ranges requests = object->take_requests();
  EXPECT_LT(requests.size(), 18U);
  EXPECT_EQ(requests.front().size, 64U << 10);
  EXPECT_EQ(requests.back().size, kMiB);
  EXPECT_TRUE(reads_right(*file, 30 * kMiB, 1000));
  EXPECT_TRUE(reads_right(*file, 40 * kMiB, 1000));
  for (const ByteRange& request : object->take_requests()) EXPECT_EQ(request.size, 64U << 10) << "of a random one";
}

TEST(ObjectFile, RequestsNothingTwice) {
  auto [object, file] = open(64 * kMiB);
  object->take_requests();
  object->delay = std::chrono::milliseconds(20);
  std::vector<std::jthread> readers;
  std::atomic<int> right = 0;
  for (int i = 0; i < 8; ++i)
    readers.emplace_back([&] { right += reads_right(*file, 33 * kMiB + 100, 200'000) ? 1 : 0; });
  readers.clear();
  EXPECT_EQ(right, 8);
  uint64_t bytes = 0;
  for (const ByteRange& request : object->take_requests()) bytes += request.size;
  EXPECT_EQ(bytes, 256U << 10);
}

TEST(ObjectFile, ManyReadersGetTheRightBytes) {
  auto [object, file] = open(40 * kMiB + 123);
  std::vector<std::jthread> readers;
  std::atomic<int> wrong = 0;
  for (unsigned i = 0; i < 4; ++i)
    readers.emplace_back([&, i] {
      std::mt19937_64 random(i);
      for (int round = 0; round < 300; ++round) {
        const uint64_t offset = random() % (file->size() - 1);
        const uint64_t size = std::min(file->size() - offset, random() % 100'000 + 1);
        if (!reads_right(*file, offset, size)) ++wrong;
        const auto data = file->read(offset, size);
        if (!data || !GeneratedObject::is_right(offset, data->bytes())) ++wrong;
      }
    });
  readers.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(ObjectFile, KeepsABoundedPart) {
  auto [object, file] = open(400 * kMiB);
  for (uint64_t at = 0; at < 400 * kMiB; at += 8 * kMiB) ASSERT_TRUE(reads_right(*file, at, 8 * kMiB));
  struct stat status;
  ASSERT_EQ(::fstat(file->mirror().content().get(), &status), 0);
  EXPECT_LE(status.st_blocks * 512, static_cast<blkcnt_t>(270 * kMiB));
  object->take_requests();
  EXPECT_TRUE(reads_right(*file, 0, kMiB));
  EXPECT_EQ(object->take_requests(), Ranges()) << "the beginning stays";
  EXPECT_TRUE(reads_right(*file, 8 * kMiB, 8 * kMiB));
  EXPECT_NE(object->take_requests(), Ranges());
}

TEST(ObjectFile, ReadsWhatIsExpectedTogether) {
  auto [object, file] = open(200 * kMiB);
  object->take_requests();
  Ranges chunks;
  for (uint64_t i = 0; i < 32; ++i) chunks.push_back({20 * kMiB + i * 300'000 + (i / 4) * 2 * kMiB, 250'000});
  object->delay = std::chrono::milliseconds(5);
  file->expect(chunks);
  file->expect(chunks);
  for (const ByteRange& chunk : chunks) {
    const auto bytes = file->read(chunk.offset, chunk.size);
    ASSERT_TRUE(bytes);
    EXPECT_EQ(bytes->size(), chunk.size);
    EXPECT_TRUE(GeneratedObject::is_right(chunk.offset, bytes->bytes()));
  }
  EXPECT_EQ(object->take_requests().size(), 8U);
  EXPECT_GT(object->most_running, 1);
  EXPECT_TRUE(file->read(chunks[0].offset, 10)) << "again, and in another size";
  EXPECT_EQ(object->take_requests(), (Ranges{{chunks[0].offset, 10}}));
}

TEST(ObjectFile, ReadsLargeChunksInParallel) {
  auto [object, file] = open(200 * kMiB);
  object->take_requests();
  object->delay = std::chrono::milliseconds(20);
  const auto bytes = file->read(50 * kMiB + 5, 60 * kMiB);
  ASSERT_TRUE(bytes);
  EXPECT_TRUE(GeneratedObject::is_right(50 * kMiB + 5, bytes->bytes()));
  EXPECT_EQ(object->take_requests().size(), 8U);
  EXPECT_GT(object->most_running, 3);
}

TEST(ObjectFile, AFailureIsNotKept) {
  auto [object, file] = open(100 * kMiB);
  std::atomic<bool> is_down = true;
  object->fails = [&](const ObjectRange&) { return is_down.load(); };
  std::vector<std::byte> bytes(100);
  EXPECT_EQ(file->read_mirrored(50 * kMiB, bytes).error().code, EIO);
  EXPECT_EQ(file->read(60 * kMiB, 100).error().code, EIO);
  const Ranges chunk{{70 * kMiB, 100}};
  file->expect(chunk);
  EXPECT_EQ(file->read(70 * kMiB, 100).error().code, EIO);
  is_down = false;
  EXPECT_TRUE(reads_right(*file, 50 * kMiB, 100));
  EXPECT_TRUE(file->read(60 * kMiB, 100));
  EXPECT_TRUE(file->read(70 * kMiB, 100));
}

TEST(ObjectFile, AReplacedObjectIsStale) {
  auto [object, file] = open(100 * kMiB);
  object->etag = "\"2\"";
  std::vector<std::byte> bytes(100);
  EXPECT_EQ(file->read_mirrored(50 * kMiB, bytes).error().code, ESTALE);
  EXPECT_EQ(file->read(60 * kMiB, 100).error().code, ESTALE);
  EXPECT_TRUE(reads_right(*file, 100, 100)) << "what has arrived before is of the first state";
}

TEST(ObjectFile, RefusesWhatIsBeyondTheEnd) {
  auto [object, file] = open(5 * kMiB);
  std::vector<std::byte> bytes(100);
  EXPECT_EQ(file->read_mirrored(5 * kMiB - 50, bytes).error().code, EIO);
  EXPECT_EQ(file->read(UINT64_MAX - 5, 100).error().code, EIO);
  EXPECT_EQ(file->read(5, UINT64_MAX - 2).error().code, EIO);
}

TEST(ObjectFile, NeedsAnEtagForSeveralRequests) {
  const auto object = std::make_shared<GeneratedObject>(10 * kMiB);
  object->etag = "";
  EXPECT_EQ(ObjectFile::open(object, "key", "name", 4).error().code, EOPNOTSUPP);
  const auto small = std::make_shared<GeneratedObject>(kMiB);
  small->etag = "";
  EXPECT_TRUE(ObjectFile::open(small, "key", "name", 4));
}

TEST(ObjectFile, FollowsHints) {
  auto [object, file] = open(100 * kMiB);
  object->take_requests();
  // Each mebibyte points at the next one, up to the twentieth.
  file->use_hints([](uint64_t offset, Bytes) {
    Ranges next;
    if (offset < 20 * kMiB) next.push_back({std::max(offset, 3 * kMiB) + kMiB, 1000});
    next.push_back({200 * kMiB, 1000});  // beyond the end
    return next;
  });
  for (int i = 0; i < 1000 && !file->mirror().has(20 * kMiB, 1000); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(reads_right(*file, 20 * kMiB, 500));
  EXPECT_TRUE(file->mirror().has(10 * kMiB, 1000));
  EXPECT_LE(object->take_requests().size(), 20U);
}

TEST(ObjectFile, RequestsWhatIsBesideHintsButNotWithoutEnd) {
  auto [object, file] = open(100 * kMiB);
  object->take_requests();
  // 900 nodes of 1000 bytes, a block of 64 KiB and more apart from each other.
  file->use_hints([](uint64_t offset, Bytes) {
    Ranges next;
    for (uint64_t i = 0; offset == 0 && i < 900; ++i) next.push_back({5 * kMiB + i * 100'000, 1000});
    return next;
  });
  const uint64_t last = 5 * kMiB + 899 * 100'000;
  for (int i = 0; i < 1000 && !(file->mirror().has(last, 1000) && file->mirror().has(5 * kMiB, 1000)); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(file->mirror().has(5 * kMiB, 60'000)) << "a block";
  EXPECT_TRUE(file->mirror().has(last, 1000));
  EXPECT_FALSE(file->mirror().has(last - 20'000, 1000)) << "only the node";
}

void wait_for(const ObjectFile& file, uint64_t offset, uint64_t size) {
  for (int i = 0; i < 1000 && !file.mirror().has(offset, size); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(file.mirror().has(offset, size)) << offset;
}

TEST(ObjectFile, KeepsOnlyTheNodesOfJoinedRequests) {
  auto [object, file] = open(100 * kMiB);
  object->take_requests();
  file->use_hints([](uint64_t, Bytes) { return Ranges(); });
  // 100 nodes of 3,000 bytes, one in 16 KiB, as the leaves of a large index lie between small chunks.
  constexpr uint64_t kStep = 16 << 10;
  Ranges nodes;
  for (uint64_t i = 0; i < 100; ++i) nodes.push_back({20 * kMiB + i * kStep, 3000});
  file->fetch_many_hinted(nodes);
  for (const ByteRange& node : nodes) wait_for(*file, node.offset, node.size);
  EXPECT_EQ(object->take_requests(), (Ranges{{20 * kMiB, 99 * kStep + SharedMirror::kPage}}));
  EXPECT_FALSE(file->mirror().has(20 * kMiB + 2 * SharedMirror::kPage, 1)) << "what is between them";
  EXPECT_TRUE(reads_right(*file, 20 * kMiB + kStep, 3000));
  EXPECT_EQ(object->take_requests(), Ranges());
  EXPECT_TRUE(reads_right(*file, 20 * kMiB + 2 * SharedMirror::kPage, 3000));
}

TEST(ObjectFile, FollowsPartsThatArriveInTwoRequests) {
  // The first bytes point at a node. That points at one that begins in its last page, and only all of this one points
  // at the third.
  const ByteRange first{20 * kMiB, 2 * SharedMirror::kPage};
  const ByteRange second{first.end() - 1000, 2000};
  const ByteRange third{30 * kMiB, 1000};
  for (const bool are_many : {false, true}) {
    const auto [object, file] = open(100 * kMiB);
    file->use_hints([&](uint64_t offset, Bytes bytes) {
      const uint64_t end = offset + bytes.size();
      if (offset == 0 && !are_many) return Ranges{first};
      if (offset <= second.offset && end >= second.end()) return Ranges{third};
      if (offset <= first.offset && end >= first.end()) return Ranges{second};
      return Ranges();
    });
    if (are_many) file->fetch_many_hinted({first});
    wait_for(*file, third.offset, third.size);
    EXPECT_TRUE(reads_right(*file, second.offset, second.size));
  }
}

TEST(ObjectFile, WaitsCanBeInterrupted) {
  auto [object, file] = open(100 * kMiB);
  object->hangs = true;
  const Ranges chunk{{70 * kMiB, 100}};
  file->expect(chunk);
  std::vector<std::byte> bytes(100);
  const Interruption::Check yes = [] { return true; };
  {
    const Interruption::Scope scope(&yes);
    EXPECT_EQ(file->read_mirrored(50 * kMiB, bytes).error().code, EINTR);
    EXPECT_EQ(file->read(60 * kMiB, 100).error().code, EINTR);
    EXPECT_EQ(file->read(70 * kMiB, 100).error().code, EINTR);
  }
  const auto began = std::chrono::steady_clock::now();
  file.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5)) << "its end waits for no request";
}

TEST(ObjectFile, CountsWhatMemoryHas) {
  auto [object, file] = open(100 * kMiB);
  const RequestStatistics& statistics = object->statistics();
  ASSERT_TRUE(file->read(100, 100));
  EXPECT_EQ(statistics.memory_hits, 1U);
  ASSERT_TRUE(file->read(50 * kMiB, 100));
  EXPECT_EQ(statistics.memory_misses, 1U);
  EXPECT_EQ(statistics.disk_misses, 0U) << "there is no such cache";
}

}  // namespace
}  // namespace codecfs::remote
