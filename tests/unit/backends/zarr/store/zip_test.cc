// Zarr archives: the format of records, large and unusual archives, many threads. tests/mount/formats/zarr/test_zip.py
// tests malicious archives, zip_crash_test.cc crashes.

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include "backends/zarr/store/zip_archive.h"
#include "backends/zarr/store/zip_format.h"
#include "support/zarr_zip_testing.h"

namespace codecfs {
namespace {

using zarr_zip_testing::by_libzip;
using zarr_zip_testing::bytes_of;
using zarr_zip_testing::describe;
using zarr_zip_testing::text_of;
namespace zip = zarr::zip;

constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(ZipFormat, SizesOfAnyNumberOfBits) {
  for (const uint64_t stored : {uint64_t{0}, uint64_t{0xFFFFFFFE}, uint64_t{0xFFFFFFFF}, 9 * kGiB}) {
    for (const uint64_t offset : {uint64_t{5}, uint64_t{0xFFFFFFFF}, 70 * kGiB}) {
      const zip::Header header = {
          .flags = zip::kUtf8, .method = zip::kDeflated, .time = 77, .crc = 78, .stored = stored, .size = stored / 2};
      const std::string extra("\x99\x99\x02\x00hi", 6);
      std::string text;
      zip::print_central(text, {.header = header,
                                .made_by = 0x314,
                                .internal = 0,
                                .external = 99,
                                .offset = offset,
                                .name = "a/ä",
                                .extra = bytes_of(extra),
                                .comment = {},
                                .bytes = 0});
      const auto record = zip::parse_central(bytes_of(text));
      ASSERT_TRUE(record) << record.error().reason;
      EXPECT_EQ(record->bytes, text.size());
      EXPECT_EQ(record->header.stored, stored);
      EXPECT_EQ(record->header.size, stored / 2);
      EXPECT_EQ(record->offset, offset);
      EXPECT_EQ(record->name, "a/ä");
      EXPECT_EQ(record->external, 99U);
      EXPECT_EQ(zip::without_zip64(record->extra).size(), 6U);
      EXPECT_EQ(*zip::central_bytes(bytes_of(text)), text.size());
      for (size_t cut = 0; cut < text.size(); ++cut) EXPECT_FALSE(zip::parse_central(bytes_of(text).first(cut))) << cut;

      text.clear();
      zip::print_local(text, header, "a/ä", {});
      auto local = zip::parse_local(bytes_of(text));
      ASSERT_TRUE(local);
      EXPECT_EQ(zip::kLocalBytes + local->name_bytes + local->extra_bytes, text.size());
      ASSERT_TRUE(zip::parse_local_extra(bytes_of(text).subspan(zip::kLocalBytes + local->name_bytes), *local));
      EXPECT_EQ(local->header.stored, stored);
      EXPECT_EQ(local->header.size, stored / 2);
      EXPECT_EQ(local->header.crc, 78U);

      text.clear();
      zip::print_end(text, {.entries = offset, .bytes = stored, .offset = offset}, bytes_of("remark"));
      EXPECT_TRUE(text.ends_with("remark"));
      const bool is_large = offset > 5 || stored >= 0xFFFFFFFF;
      EXPECT_EQ(text.size(), zip::kEndBytes + 6 + (is_large ? zip::kEnd64Bytes + zip::kLocatorBytes : 0));
      const auto end = is_large ? zip::parse_end64(bytes_of(text)) : zip::parse_end(bytes_of(text));
      ASSERT_TRUE(end && *end);
      EXPECT_EQ((*end)->entries, offset);
      EXPECT_EQ((*end)->bytes, stored);
      EXPECT_EQ((*end)->offset, offset);
      if (is_large) {
        EXPECT_EQ(zip::parse_locator(bytes_of(text).subspan(zip::kEnd64Bytes)), offset + stored);
      }
    }
  }
}

TEST(ZipFormat, Times) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  EXPECT_EQ(zip::dos_time(0), 0x00210000U);  // 1980 is the first year
  EXPECT_EQ(zip::dos_time(1700000000), (43U << 9 | 11U << 5 | 14U) << 16 | 22U << 11 | 13U << 5 | 10U);
  ::unsetenv("TZ");
  ::tzset();
}

class ZarrZipTest : public zarr_zip_testing::ZipTest {};

/// As references to an archive name them.
TEST_F(ZarrZipTest, OffsetsOfChunksAreThoseOfTheirBytes) {
  const auto bytes_at = [&](uint64_t offset, size_t size) {
    std::ifstream file(archive(), std::ios::binary);
    std::string bytes(size, '\0');
    file.seekg(static_cast<std::streamoff>(offset)).read(bytes.data(), static_cast<std::streamsize>(size));
    return bytes;
  };
  const auto source = open(archive(), true);
  const auto v = source->make_variable(source->root().object, "v", variable(2100));
  ASSERT_TRUE(v) << v.error().reason;
  ASSERT_TRUE(source->write_chunk(v->object, 1, bytes_of(std::string(700, 'b'))));
  EXPECT_FALSE(source->locate(v->object, 1)->offset) << "only the local header tells";
  EXPECT_EQ(*source->stored_offset(v->object, 1), std::nullopt) << "it is not in the archive yet";
  ASSERT_TRUE(source->commit());
  EXPECT_EQ(bytes_at(**source->stored_offset(v->object, 1), 700), std::string(700, 'b'));
  ASSERT_TRUE(source->write_chunk(v->object, 0, bytes_of(std::string(700, 'a'))));
  ASSERT_TRUE(source->finish());
  const auto later = open(archive(), false);
  const ObjectId id = object(*later, "v");
  EXPECT_EQ(bytes_at(**later->stored_offset(id, 0), 700), std::string(700, 'a'));
  EXPECT_EQ(bytes_at(**later->stored_offset(id, 1), 700), std::string(700, 'b'));
  EXPECT_EQ(*later->stored_offset(id, 2), std::nullopt);
}

/// More entries than the end record can count.
TEST_F(ZarrZipTest, ManyEntries) {
  constexpr uint64_t kChunks = 70000;
  std::string before;
  {
    const auto source = open(archive(), true);
    const auto v = source->make_variable(source->root().object, "v", variable(kChunks, 1));
    ASSERT_TRUE(v) << v.error().reason;
    for (uint64_t i = 0; i < kChunks; ++i)
      ASSERT_TRUE(source->write_chunk(v->object, i, bytes_of(std::string(1, static_cast<char>(i)))));
    before = describe(*source);
    ASSERT_TRUE(source->finish());
  }
  EXPECT_EQ(by_libzip(archive()).size(), kChunks + 3);
  const auto source = open(archive(), true);
  EXPECT_EQ(describe(*source), before);
  const ObjectId v = object(*source, "v");
  EXPECT_EQ(text_of(*source->read_chunk(v, 65537)), std::string(1, 1));
  ASSERT_TRUE(source->remove_chunk(v, 5));
  ASSERT_TRUE(source->commit());
  EXPECT_EQ(by_libzip(archive()).size(), kChunks + 2);
}

/// A hole of 5 GiB in front: offsets need 64 bits.
TEST_F(ZarrZipTest, EntriesBeyond4GiB) {
  std::string text;
  std::string central;
  const auto add = [&](const std::string& name, const std::string& data, uint64_t at) {
    const zip::Header header = {.flags = 0,
                                .method = zip::kStored,
                                .time = 0,
                                .crc = zarr::crc_of(bytes_of(data)),
                                .stored = data.size(),
                                .size = data.size()};
    zip::print_local(text, header, name, {});
    text += data;
    zip::print_central(central, {.header = header,
                                 .made_by = 0x314,
                                 .internal = 0,
                                 .external = 0,
                                 .offset = at,
                                 .name = name,
                                 .extra = {},
                                 .comment = {},
                                 .bytes = 0});
  };
  add(".zarray", R"({"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "|u1", "compressor": null,
      "filters": null, "fill_value": 0, "order": "C"})",
      0);
  const size_t first = text.size();
  const uint64_t far = 5 * kGiB;
  add("0", "abc", far);
  zip::print_end(central, {.entries = 2, .bytes = central.size(), .offset = far + text.size() - first}, {});
  const File file{.fd = UniqueFd(::open(archive().c_str(), O_RDWR | O_TRUNC | O_CLOEXEC)), .path = archive()};
  FileIo& io = real_file_io();
  ASSERT_TRUE(io.write(file, 0, bytes_of(text.substr(0, first))));
  ASSERT_TRUE(io.write(file, far, bytes_of(text.substr(first) + central)));
  {
    const auto source = open(archive(), true);
    EXPECT_EQ(text_of(*source->read_chunk(source->root().object, 0)), "abc");
    ASSERT_TRUE(source->write_chunk(source->root().object, 0, bytes_of("def")));
    ASSERT_TRUE(source->finish());
  }
  EXPECT_LT(std::filesystem::file_size(archive()), 1000U);  // unused bytes are removed
  EXPECT_EQ(by_libzip(archive())["0"], "def");
}

/// Threads read and write while the archive is rewritten repeatedly: each reads what it wrote.
TEST_F(ZarrZipTest, ManyThreads) {
  constexpr unsigned kWriters = 4;
  constexpr unsigned kRounds = 400;
  const auto source = open(archive(), true);
  const auto v = source->make_variable(source->root().object, "v", variable(4 * 3 * kWriters, 4));
  ASSERT_TRUE(v);
  std::atomic<bool> stopped = false;
  std::atomic<unsigned> commits = 0;
  std::vector<std::jthread> threads;
  threads.emplace_back([&] {
    while (!stopped) {
      EXPECT_TRUE(source->commit());
      ++commits;
    }
  });
  threads.emplace_back([&] {  // moves the array and inspects the tree
    for (bool there = false; !stopped; there = !there) {
      EXPECT_TRUE(source->rename(source->root().object, there ? "w" : "v", source->root().object, there ? "v" : "w"));
      EXPECT_TRUE(source->list(source->root().object));
    }
  });
  {
    std::vector<std::jthread> writers;
    for (unsigned w = 0; w < kWriters; ++w)
      writers.emplace_back([&, w] {
        for (unsigned i = 0; i < kRounds; ++i) {
          const uint64_t number = 3 * w + i % 3;
          const std::string chunk = fmt::format("{:04}", i);
          EXPECT_TRUE(source->write_chunk(v->object, number, bytes_of(chunk)));
          for (int again = 0; again < 5; ++again) {
            const auto read = source->read_chunk(v->object, number);
            EXPECT_TRUE(read && text_of(*read) == chunk) << (read ? text_of(*read) : read.error().reason);
          }
          if (i % 10 == 9) {
            EXPECT_TRUE(source->remove_chunk(v->object, number));
            EXPECT_EQ(source->read_chunk(v->object, number).error().code, ENOENT);
            EXPECT_TRUE(source->write_chunk(v->object, number, bytes_of(chunk)));
          }
        }
      });
  }
  stopped = true;
  threads.clear();
  EXPECT_GT(commits, 0U);
  ASSERT_TRUE(source->finish());
  EXPECT_EQ(describe(*open(archive(), false)), describe(*source));
  by_libzip(archive());
  EXPECT_EQ(names(), std::set<std::string>{"a.zip"});
}

/// An array is re-encoded while the archive is rewritten; another is removed while it is read.
TEST_F(ZarrZipTest, RecodingAndCommits) {
  const auto source = open(archive(), true);
  const auto v = source->make_variable(source->root().object, "v", variable(70 * 200, 70));
  ASSERT_TRUE(v);
  const auto chunk_of = [](unsigned i) { return std::string(70, static_cast<char>('a' + i % 20)); };
  for (unsigned i = 0; i < 200; ++i) ASSERT_TRUE(source->write_chunk(v->object, i, bytes_of(chunk_of(i))));
  std::atomic<bool> stopped = false;
  std::jthread committer([&] {
    while (!stopped) EXPECT_TRUE(source->commit());
  });
  for (unsigned level = 1; level < 10; ++level) {
    Progress progress;
    const FilterStage deflate = {.id = 1, .parameters = {level}, .codec = {}, .name = {}, .optional = {}};
    const auto done = source->set_filters(v->object, std::span(&deflate, 1), progress);
    EXPECT_TRUE(done) << done.error().reason;
    for (unsigned i = 0; i < 200; i += 17) EXPECT_EQ(text_of(*source->read_chunk(v->object, i)), chunk_of(i));
  }
  stopped = true;
  committer.join();
  ASSERT_TRUE(source->remove(source->root().object, "v"));
  ASSERT_TRUE(source->finish());
  EXPECT_EQ(by_libzip(archive()).size(), 1U);
}

TEST_F(ZarrZipTest, PathsThatNoArchiveCanHave) {
  const auto source = open(archive(), true);
  ObjectId at = source->root().object;
  size_t depth = 0;
  Result<Entry> made = fail(EIO, "");
  while ((made = source->make_group(at, std::string(200, 'd')))) {
    at = made->object;
    ASSERT_LT(++depth, 300U);
  }
  EXPECT_EQ(made.error().code, ENAMETOOLONG);
  EXPECT_GT(depth, 100U);
  ASSERT_TRUE(source->make_group(source->root().object, "side"));
  ASSERT_TRUE(source->make_group(object(*source, "side"), "below"));
  // The descendants of a moved directory count too.
  const auto holder = at;
  const auto moved = source->rename(source->root().object, "side", holder, "side");
  EXPECT_FALSE(moved);
  EXPECT_EQ(moved.error().code, ENAMETOOLONG);
  ASSERT_TRUE(source->finish());
  EXPECT_EQ(by_libzip(archive()).size(), depth + 3);
}

}  // namespace
}  // namespace codecfs
