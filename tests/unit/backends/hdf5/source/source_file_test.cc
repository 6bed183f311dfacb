// Commits: what other threads can do while the log is synced, and failed syncs.

#include "backends/hdf5/source/source_file.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <thread>

#include "backends/hdf5/wal/write_log.h"
#include "support/blocking_sync.h"
#include "support/hdf5_testing.h"

namespace codecfs {
namespace {

using namespace hdf5_testing;
using crash_testing::BlockingSync;

constexpr hsize_t kChunk = 4;
constexpr hsize_t kLength = 12;
constexpr auto kLong = std::chrono::seconds(20);

class Hdf5Commit : public Hdf5Files {
 protected:
  Hdf5Commit() {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_chunk(properties.get(), 1, &kChunk);
    H5Pset_deflate(properties.get(), 1);
    for (const char* name : {"v", "w"}) {
      const Handle dataset = make_dataset(file, name, H5T_STD_I32LE, {kLength}, properties.get());
      write_all(dataset, H5T_NATIVE_INT, std::vector<int>(kLength, 1));
    }
  }

  std::unique_ptr<Source> open(FileIo& io = real_file_io()) const {
    auto source = open_hdf5(path(), true, io);
    EXPECT_TRUE(source) << source.error().reason;
    return source ? std::move(*source) : nullptr;
  }
  static Result<> write(Source& source, uint64_t number, int value) {
    const std::array<int, kChunk> values = {value, value, value, value};
    return source.write_chunk(object_at(source, "v"), number, std::as_bytes(std::span(values)));
  }
  static int first_value(Source& source, uint64_t number) {
    const auto chunk = source.read_chunk(object_at(source, "v"), number);
    EXPECT_TRUE(chunk) << chunk.error().reason;
    return chunk ? elements_of<int>(*chunk).front() : -1;
  }
};

TEST_F(Hdf5Commit, ReadersAndWritersContinueDuringTheSync) {
  BlockingSync io;
  const auto source = open(io);
  ASSERT_TRUE(write(*source, 0, 5));
  io.block();
  std::thread committer([&] { EXPECT_TRUE(source->commit()); });
  io.await_sync();
  // Looks up a dataset that was not open yet, and locates chunks: both require the LibraryLock.
  auto reader = std::async(std::launch::async, [&] {
    return source->locate(object_at(*source, "w"), 1).has_value() && first_value(*source, 0) == 5;
  });
  auto writer = std::async(std::launch::async, [&] { return write(*source, 1, 6).has_value(); });
  EXPECT_EQ(reader.wait_for(kLong), std::future_status::ready);
  EXPECT_EQ(writer.wait_for(kLong), std::future_status::ready);
  io.resume();
  committer.join();
  EXPECT_TRUE(reader.get());
  EXPECT_TRUE(writer.get());
  EXPECT_TRUE(source->commit());
  EXPECT_TRUE(source->finish());

  const auto again = open();
  EXPECT_EQ(first_value(*again, 0), 5);
  EXPECT_EQ(first_value(*again, 1), 6);
}

TEST_F(Hdf5Commit, WritesDuringTheSyncAreOfTheNextCommit) {
  {
    BlockingSync io;
    const auto source = open(io);
    ASSERT_TRUE(write(*source, 0, 5));
    io.block();
    std::thread committer([&] { EXPECT_TRUE(source->commit()); });
    io.await_sync();
    auto writer = std::async(std::launch::async, [&] { return write(*source, 1, 6).has_value(); });
    EXPECT_EQ(writer.wait_for(kLong), std::future_status::ready);
    io.resume();
    committer.join();
  }  // as killed: there was no finish()
  const auto again = open();
  EXPECT_EQ(first_value(*again, 0), 5);
  EXPECT_EQ(first_value(*again, 1), 1);
}

TEST_F(Hdf5Commit, ReadersContinueDuringTheCheckpointOfALongLog) {
  constexpr hsize_t kLarge = hsize_t{1} << 20;
  {
    const hdf5::LibraryLock lock;
    const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_chunk(properties.get(), 1, &kLarge);
    (void)make_dataset(file, "large", H5T_STD_U8LE, {kLarge}, properties.get());
  }
  BlockingSync io;
  const auto source = open(io);
  const ObjectId large = object_at(*source, "large");
  std::vector<std::byte> content(kLarge);
  for (int i = 1; i <= 20; ++i) {
    content.assign(kLarge, static_cast<std::byte>(i));
    ASSERT_TRUE(source->write_chunk(large, 0, content));
  }
  io.block_sources();
  std::thread committer([&] { EXPECT_TRUE(source->commit()); });
  io.await_sync();
  auto reader = std::async(std::launch::async, [&] {
    const auto chunk = source->read_chunk(large, 0);
    return chunk && std::ranges::equal(chunk->bytes(), content) && source->locate(object_at(*source, "w"), 1) &&
           first_value(*source, 0) == 1 && source->variable(object_at(*source, "v"));
  });
  auto writer = std::async(std::launch::async, [&] { return write(*source, 1, 6).has_value(); });
  auto maker =
      std::async(std::launch::async, [&] { return source->make_group(source->root().object, "g").has_value(); });
  EXPECT_EQ(reader.wait_for(kLong), std::future_status::ready);
  io.resume();
  committer.join();
  EXPECT_TRUE(reader.get());
  EXPECT_TRUE(writer.get());
  EXPECT_TRUE(maker.get());
  EXPECT_TRUE(source->commit());
  EXPECT_TRUE(source->finish());
  EXPECT_EQ(first_value(*open(), 1), 6);
}

TEST_F(Hdf5Commit, AFailedSyncFailsAllLaterCommits) {
  BlockingSync io;
  const auto source = open(io);
  ASSERT_TRUE(write(*source, 0, 5));
  io.fail_syncs(true);
  EXPECT_FALSE(source->commit());
  io.fail_syncs(false);                 // as the kernel does
  const auto later = source->commit();  // also without another change
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().code, EIO);
  EXPECT_FALSE(write(*source, 1, 6) && source->commit());
  EXPECT_FALSE(source->finish());
}

}  // namespace
}  // namespace codecfs
