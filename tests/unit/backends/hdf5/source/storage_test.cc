// Chunks of data that is not stored as plain chunks, damaged files, and files that libhdf5 refuses.

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <random>
#include <thread>

#include "backends/hdf5/format/superblock.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/source/dataset.h"
#include "base/log.h"
#include "support/hdf5_testing.h"

namespace codecfs {
namespace {

using namespace hdf5_testing;

class Hdf5Storage : public Hdf5Files {};

std::vector<int> counting(size_t count) {
  std::vector<int> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<int>(i);
  return values;
}

TEST_F(Hdf5Storage, ContiguousDataIsCutIntoPieces) {
  constexpr uint64_t kRows = 5000;
  constexpr uint64_t kColumns = 2000;  // 8 KB a row of int32: 2097 rows in 16 MiB
  {
    const hdf5::LibraryLock lock;
    const Handle file = create(false, 512);
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    const int fill = -3;
    H5Pset_fill_value(properties.get(), H5T_NATIVE_INT, &fill);
    const Handle dataset = make_dataset(file, "v", H5T_NATIVE_INT, {kRows, kColumns}, properties.get());
    write_all(dataset, H5T_NATIVE_INT, counting(kRows * kColumns));
    make_dataset(file, "never_written", H5T_NATIVE_INT, {10, 10}, properties.get());
  }
  auto source = open_source_of(path());
  const VariablePtr v = variable_at(*source, "v");
  EXPECT_EQ(v->storage, Storage::contiguous);
  EXPECT_EQ(v->grid.chunks(), (std::vector<uint64_t>{2097, 2000}));
  EXPECT_EQ(v->grid.count(), 3U);
  const ObjectId id = object_at(*source, "v");
  EXPECT_EQ(*source->stored_chunks(id, 1, 10), (std::vector<uint64_t>{1, 2}));
  const auto last = source->read_chunk(id, 2);
  ASSERT_TRUE(last) << last.error().reason;
  ASSERT_EQ(last->size(), *v->chunk_bytes);
  const auto values = elements_of<int>(*last);
  EXPECT_EQ(values[0], 2 * 2097 * 2000);
  EXPECT_EQ(values[(kRows - 2 * 2097) * kColumns - 1], static_cast<int>(kRows * kColumns - 1));
  EXPECT_EQ(values[(kRows - 2 * 2097) * kColumns], -3) << "beyond the edge there is fill";
  EXPECT_EQ(values.back(), -3);
  const auto first = source->locate(id, 0);
  const auto second = source->locate(id, 1);
  EXPECT_EQ(*second->offset - *first->offset, uint64_t{2097} * 2000 * 4);
  EXPECT_EQ(source->locate(id, 2)->stored_size, (kRows - 2 * 2097) * kColumns * 4);

  const ObjectId never = object_at(*source, "never_written");
  EXPECT_FALSE(source->locate(never, 0)->stored);
  EXPECT_TRUE(source->stored_chunks(never, 0, 10)->empty());
  EXPECT_EQ(source->read_chunk(never, 0).error().code, ENOENT);
  EXPECT_EQ(source->read_chunk(never, 1).error().code, ENOENT) << "there is no such chunk at all";
}

TEST_F(Hdf5Storage, RowsLargerThanAPieceAreCutAsWell) {
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    const Handle dataset = make_dataset(file, "v", H5T_STD_U8LE, {2, 3, 9 << 20});  // 27 MiB a row
    std::vector<uint8_t> values(size_t{2} * 3 * (9 << 20));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i >> 16);
    write_all(dataset, H5T_NATIVE_UINT8, values);
  }
  auto source = open_source_of(path());
  const VariablePtr v = variable_at(*source, "v");
  EXPECT_EQ(v->grid.chunks(), (std::vector<uint64_t>{1, 1, 9 << 20}));
  const auto chunk = source->read_chunk(object_at(*source, "v"), 4);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(elements_of<uint8_t>(*chunk)[0], static_cast<uint8_t>((4 * (9 << 20)) >> 16));
}

TEST_F(Hdf5Storage, ScalarsNullAndEmptyArrays) {
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    write_all(make_dataset(file, "scalar", H5T_NATIVE_INT, {}), H5T_NATIVE_INT, std::vector{42});
    make_dataset(file, "empty", H5T_NATIVE_INT, {0, 3});
    const Handle null(H5Screate(H5S_NULL));
    const Handle made(
        H5Dcreate2(file.get(), "null", H5T_NATIVE_INT, null.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  auto source = open_source_of(path());
  EXPECT_EQ(variable_at(*source, "scalar")->grid.rank(), 0U);
  EXPECT_EQ(elements_of<int>(*source->read_chunk(object_at(*source, "scalar"), 0)), std::vector{42});
  EXPECT_EQ(variable_at(*source, "empty")->grid.shape(), (std::vector<uint64_t>{0, 3}));
  EXPECT_TRUE(source->stored_chunks(object_at(*source, "empty"), 0, 9)->empty());
  EXPECT_EQ(variable_at(*source, "null")->grid.shape(), std::vector<uint64_t>{0});
  EXPECT_TRUE(source->stored_chunks(object_at(*source, "null"), 0, 9)->empty());
}

TEST_F(Hdf5Storage, ExternalFilesLieBesideTheSource) {
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_external(properties.get(), "one.raw", 4, 8);
    H5Pset_external(properties.get(), "two.raw", 0, H5F_UNLIMITED);
    make_dataset(file, "v", H5T_NATIVE_INT, {6}, properties.get());
    const Handle missing(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_external(missing.get(), "none.raw", 0, H5F_UNLIMITED);
    make_dataset(file, "missing", H5T_NATIVE_INT, {6}, missing.get());
  }
  const std::vector<int> values = counting(6);
  std::ofstream(path("one.raw")).write("head", 4).write(reinterpret_cast<const char*>(values.data()), 8);
  std::ofstream(path("two.raw")).write(reinterpret_cast<const char*>(values.data() + 2), 12);  // one int short
  auto source = open_source_of(path());
  const auto chunk = source->read_chunk(object_at(*source, "v"), 0);
  ASSERT_TRUE(chunk) << chunk.error().reason;
  EXPECT_EQ(elements_of<int>(*chunk), (std::vector{0, 1, 2, 3, 4, 0}));
  EXPECT_EQ(variable_at(*source, "v")->storage, Storage::external);
  const auto missing = source->read_chunk(object_at(*source, "missing"), 0);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().reason.find("none.raw"), std::string::npos) << missing.error().reason;
}

TEST_F(Hdf5Storage, AChunkThatLiesAboutItsSizeIsRefused) {
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t chunk[] = {64};
    H5Pset_chunk(properties.get(), 1, chunk);
    H5Pset_deflate(properties.get(), 1);
    const Handle dataset = make_dataset(file, "v", H5T_NATIVE_INT, {128}, properties.get());
    const std::vector<std::byte> large(200'000);
    const hsize_t first[] = {0};
    ASSERT_GE(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, 0, first, large.size(), large.data()), 0);
    const hsize_t second[] = {64};
    ASSERT_GE(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, 1, second, 256, counting(64).data()), 0);
  }
  auto source = open_source_of(path());
  const auto chunk = source->read_chunk(object_at(*source, "v"), 0);
  ASSERT_FALSE(chunk);
  EXPECT_EQ(chunk.error().code, EIO);
  EXPECT_NE(chunk.error().reason.find("200000"), std::string::npos) << chunk.error().reason;
  EXPECT_EQ(elements_of<int>(*source->read_chunk(object_at(*source, "v"), 1)), counting(64));
}

TEST_F(Hdf5Storage, ATruncatedFileShowsWhatIsThere) {
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t chunk[] = {1000};
    H5Pset_chunk(properties.get(), 1, chunk);
    write_all(make_dataset(file, "v", H5T_NATIVE_INT, {3000}, properties.get()), H5T_NATIVE_INT, counting(3000));
  }
  uint64_t end = 0;
  {
    auto source = open_source_of(path());
    end = *source->locate(object_at(*source, "v"), 2)->offset;
  }
  std::filesystem::resize_file(path(), end + 100);
  auto source = open_source_of(path());
  const ObjectId id = object_at(*source, "v");
  EXPECT_EQ(elements_of<int>(*source->read_chunk(id, 1))[0], 1000);
  const auto lost = source->read_chunk(id, 2);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, EIO);
  EXPECT_NE(lost.error().reason.find("truncated"), std::string::npos);
  EXPECT_NE(log::recent().find("is truncated"), std::string::npos);
}

TEST_F(Hdf5Storage, AFileThatIsMarkedAsOpenIsRead) {
  {
    const hdf5::LibraryLock lock;
    const Handle file = create(true);
    write_all(make_dataset(file, "v", H5T_NATIVE_INT, {3}), H5T_NATIVE_INT, counting(3));
  }
  std::vector<std::byte> block(48);
  std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
  file.read(reinterpret_cast<char*>(block.data()), 48);
  block[11] = std::byte{0x05};
  const uint32_t sum = hdf5::lookup3({block.data(), 44});
  std::memcpy(block.data() + 44, &sum, 4);
  file.seekp(0).write(reinterpret_cast<const char*>(block.data()), 48);
  file.close();
  {
    const hdf5::LibraryLock lock;
    EXPECT_FALSE(Handle(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT))) << "libhdf5 itself refuses it";
  }
  auto source = open_source_of(path());
  EXPECT_EQ(elements_of<int>(*source->read_chunk(object_at(*source, "v"), 0)), counting(3));
  EXPECT_NE(log::recent().find("marked as open"), std::string::npos);
}

TEST_F(Hdf5Storage, WhatIsNoHdf5IsRefusedWithAReason) {
  std::ofstream(path("text.h5")) << std::string(5000, 'x');
  std::ofstream(path("head.h5")) << "\x89HDF\r\n\x1a\n";
  for (const char* name : {"text.h5", "head.h5", "none.h5"}) {
    const auto source = open_hdf5(path(name));
    ASSERT_FALSE(source);
    EXPECT_NE(source.error().reason.find(name), std::string::npos);
  }
}

TEST_F(Hdf5Storage, ManyThreadsReadMoreDatasetsThanAreKeptOpen) {
  constexpr int kDatasets = 300;
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t chunk[] = {64};
    H5Pset_chunk(properties.get(), 1, chunk);
    H5Pset_shuffle(properties.get());
    H5Pset_deflate(properties.get(), 4);
    for (int i = 0; i < kDatasets; ++i)
      write_all(make_dataset(file, fmt::format("v{}", i), H5T_NATIVE_INT, {256}, properties.get()), H5T_NATIVE_INT,
                std::vector<int>(256, i));
  }
  auto source = open_source_of(path());
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kDatasets; ++i) {
        const int which = (i * 7 + t * 31) % kDatasets;
        const auto entry = source->find(source->root().object, fmt::format("v{}", which));
        if (!entry || !source->variable(entry->object)) ++wrong;
        for (uint64_t number = 0; entry && number < 4; ++number) {
          const auto chunk = source->read_chunk(entry->object, number);
          if (!chunk || elements_of<int>(*chunk) != std::vector<int>(64, which)) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Hdf5Superblock, ChecksumIsLookup3) {
  const std::string text = "Four score and seven years ago";
  EXPECT_EQ(hdf5::lookup3(std::as_bytes(std::span(text))), 0x17770551U);  // the published vector of hashlittle(.., 0)
  EXPECT_EQ(hdf5::lookup3({}), 0xdeadbeefU);
}

// libhdf5 1.10 returns the old filter mask of the chunk that it looked up last.
TEST_F(Hdf5Storage, FilterMasksAreCurrentAfterEachOfManyWrites) {
  constexpr hsize_t kSize = 128;
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_chunk(properties.get(), 1, &kSize);
    const std::array<unsigned, 3> lzf = {4, 261, kSize};
    ASSERT_GE(H5Pset_filter(properties.get(), 32000, H5Z_FLAG_OPTIONAL, lzf.size(), lzf.data()), 0);
    (void)make_dataset(file, "v", H5T_STD_U8LE, {4 * kSize}, properties.get());
  }
  std::vector<std::byte> zeros(kSize), noise(kSize);
  std::mt19937 random(1);
  for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
  const auto source = open_hdf5(path(), true);
  ASSERT_TRUE(source);
  const ObjectId v = object_at(**source, "v");
  std::array<bool, 4> noisy{};
  for (unsigned step = 0; step < 200; ++step) {
    const uint64_t number = random() % noisy.size();
    noisy[number] = random() % 2 == 0;
    ASSERT_TRUE((*source)->write_chunk(v, number, noisy[number] ? noise : zeros));
    if (step < noisy.size()) continue;  // some are not stored yet
    for (unsigned i = 0; i < noisy.size(); ++i) {
      const uint64_t looked_at = (number + i) % noisy.size();
      const auto info = (*source)->locate(v, looked_at);
      ASSERT_TRUE(info);
      if (!info->stored) continue;
      EXPECT_EQ(info->filter_mask, noisy[looked_at] ? 1u : 0u) << "step " << step << ", chunk " << looked_at;
      const auto chunk = (*source)->read_chunk(v, looked_at);
      ASSERT_TRUE(chunk);
      EXPECT_TRUE(std::ranges::equal(chunk->bytes(), noisy[looked_at] ? noise : zeros));
    }
  }
  EXPECT_TRUE((*source)->finish());
}

}  // namespace
}  // namespace codecfs
