// An HDF5 file whose libhdf5 runs in another process: the same answers as in this one, also after that process was
// killed.

#include "backends/worker/isolated_hdf5.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <numeric>
#include <thread>

#include "backends/hdf5/source/isolated_source.h"
#include "backends/worker/chunk_index.h"
#include "backends/worker/started_ahead.h"
#include "base/worker_process.h"
#include "support/crash_simulator.h"
#include "support/hdf5_testing.h"

namespace codecfs::hdf5_testing {
namespace {

// The process of this test that runs libhdf5.
std::vector<pid_t> workers() {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::string comm;
    std::getline(std::ifstream(entry.path() / "comm"), comm);
    std::error_code error;
    if (comm != "codecfs-hdf5" || !std::filesystem::equivalent(entry.path() / "exe", "/proc/self/exe", error)) continue;
    std::string group;
    std::ifstream stat(entry.path() / "stat");
    for (int i = 0; i < 5; ++i) stat >> group;  // pid, name, state, parent, process group
    if (group == std::to_string(::getpgrp())) found.push_back(std::stoi(name));
  }
  return found;
}

void kill_workers() {
  for (const pid_t pid : workers()) ::kill(pid, SIGKILL);
}

Result<std::unique_ptr<Source>> open_in_worker(const std::string& path, bool may_write) {
  constexpr uint64_t kBytes = uint64_t{1} << 20;
  return open_hdf5_in_worker(path, may_write, std::make_shared<worker::ChunkRanges>(kBytes));
}

class IsolatedHdf5Test : public Hdf5Files {
 protected:
  void SetUp() override {
    (void)::setpgid(0, 0);  // other tests run beside this one; see workers()
    const hdf5::LibraryLock lock;
    const Handle file = create();
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    const std::array<hsize_t, 1> chunk{100};
    H5Pset_chunk(properties.get(), 1, chunk.data());
    H5Pset_deflate(properties.get(), 1);
    const Handle chunked = make_dataset(file, "group/chunked", H5T_STD_I32LE, {1000}, properties.get());
    const Handle plain = make_dataset(file, "plain", H5T_STD_I32LE, {1000});
    std::iota(values_.begin(), values_.end(), 7);
    plain_ = values_;
    write_all(chunked, H5T_NATIVE_INT32, values_);
    write_all(plain, H5T_NATIVE_INT32, values_);
  }
  std::unique_ptr<Source> open(bool may_write) {
    auto source = open_in_worker(path(), may_write);
    EXPECT_TRUE(source) << source.error().reason;
    return source ? *std::move(source) : nullptr;
  }
  void expect_values(Source& source) {
    const ObjectId chunked = object_at(source, "group/chunked");
    for (uint64_t number = 0; number < 10; ++number) {
      const auto chunk = source.read_chunk(chunked, number);
      ASSERT_TRUE(chunk) << chunk.error().reason;
      EXPECT_EQ(std::memcmp(chunk->data(), values_.data() + 100 * number, 400), 0);
    }
    const auto whole = source.read_chunk(object_at(source, "plain"), 0);
    ASSERT_TRUE(whole) << whole.error().reason;
    EXPECT_EQ(std::memcmp(whole->data(), plain_.data(), 4000), 0);
  }
  std::vector<int32_t> values_ = std::vector<int32_t>(1000);  // of the chunked dataset
  std::vector<int32_t> plain_;
};

TEST_F(IsolatedHdf5Test, AnswersAsInThisProcess) {
  const auto isolated = open(false);
  const auto direct = open_source_of(path());
  EXPECT_EQ(isolated->format(), direct->format());
  EXPECT_EQ(isolated->status().st_ino, direct->status().st_ino);
  expect_values(*isolated);
  const ObjectId id = object_at(*isolated, "group/chunked");
  const ObjectId same = object_at(*direct, "group/chunked");
  for (uint64_t number = 0; number < 10; ++number) {
    const auto one = isolated->locate(id, number);
    const auto other = direct->locate(same, number);
    EXPECT_EQ(one->stored_size, other->stored_size);
    EXPECT_EQ(one->offset, other->offset);
    const auto stored = isolated->read_stored(id, number);
    ASSERT_TRUE(stored && *stored);
    EXPECT_TRUE(std::ranges::equal((*stored)->bytes(), (**direct->read_stored(same, number)).bytes()));
  }
  EXPECT_EQ(*isolated->stored_chunks(id, 3, 4), *direct->stored_chunks(same, 3, 4));
  EXPECT_EQ(isolated->find(0, "nothing").error().code, ENOENT);
  EXPECT_EQ(isolated->read_chunk(id, 10).error().code, ENOENT);
  EXPECT_EQ(isolated->write_chunk(id, 0, {}).error().code, EROFS);
}

TEST_F(IsolatedHdf5Test, GoesOnAfterEachKill) {
  const auto source = open(true);
  const ObjectId id = object_at(*source, "group/chunked");
  std::vector<int32_t> chunk(100);
  for (int round = 0; round < 5; ++round) {
    kill_workers();
    chunk.assign(100, -round);
    ASSERT_TRUE(source->write_chunk(id, 2, std::as_bytes(std::span(chunk))));
    kill_workers();
    const auto read = source->read_chunk(id, 2);
    ASSERT_TRUE(read) << read.error().reason;
    EXPECT_EQ(std::memcmp(read->data(), chunk.data(), 400), 0);
    kill_workers();
    const auto made = source->make_group(0, fmt::format("g{}", round));
    ASSERT_TRUE(made) << made.error().reason;
    kill_workers();
    EXPECT_EQ(source->find(0, made->name)->object, made->object);
    ASSERT_TRUE(source->rename(0, made->name, 0, made->name + "x"));
    kill_workers();
    EXPECT_EQ(source->find(0, made->name + "x")->object, made->object);
    if (round % 2 == 0) {
      ASSERT_TRUE(source->commit());
    } else {
      ASSERT_TRUE(source->remove(0, made->name + "x"));
    }
  }
  ASSERT_TRUE(source->finish());
  std::ranges::copy(chunk, values_.begin() + 200);
  const auto again = open_source_of(path());
  expect_values(*again);
  EXPECT_EQ(again->list(0)->size(), 5U);  // group, plain, g0x, g2x, g4x
}

TEST_F(IsolatedHdf5Test, ChunksThatAreStoredTogetherAreHeldUntilTheyAreSealed) {
  const auto source = open(true);
  const ObjectId id = object_at(*source, "group/chunked");
  EXPECT_TRUE(source->writes_together(id));
  const auto store = [&](std::vector<uint64_t> numbers, int value) {
    std::vector<std::vector<int32_t>> contents;
    std::vector<NumberedChunk> chunks;
    for (const uint64_t number : numbers) {
      contents.emplace_back(100, value + static_cast<int>(number));
      if (number < 10) std::ranges::copy(contents.back(), values_.begin() + static_cast<ptrdiff_t>(number) * 100);
    }
    for (size_t i = 0; i < numbers.size(); ++i) chunks.push_back({numbers[i], std::as_bytes(std::span(contents[i]))});
    return source->write_chunks(id, chunks);
  };
  EXPECT_EQ(store({0, 1, 2, 9}, 50), 4U);
  kill_workers();  // nothing of it is in the log
  expect_values(*source);
  EXPECT_EQ(store({4, 5, 10}, -70), 2U) << "there is no chunk 10";
  kill_workers();
  EXPECT_EQ(store({5, 6}, 90), 2U);
  EXPECT_TRUE(source->commit());
  kill_workers();
  EXPECT_EQ(store({7}, 1000), 1U);
  ASSERT_TRUE(source->finish());
  expect_values(*open_source_of(path()));
}

TEST_F(IsolatedHdf5Test, ATwinHasTheSameNumbers) {
  auto source = open(false);
  const ObjectId group = object_at(*source, "group");
  const ObjectId chunked = object_at(*source, "group/chunked");
  const ObjectId plain = object_at(*source, "plain");
  auto twin = source->open_twin();
  ASSERT_TRUE(twin) << twin.error().reason;
  EXPECT_EQ(workers().size(), 2U);
  source.reset();
  // Asked for without a listing before: the numbers are known.
  const auto chunk = (*twin)->read_chunk(chunked, 3);
  ASSERT_TRUE(chunk) << chunk.error().reason;
  EXPECT_EQ(std::memcmp(chunk->data(), values_.data() + 300, 400), 0);
  EXPECT_TRUE((*twin)->facts(plain));
  EXPECT_EQ((*twin)->list(group)->front().object, chunked);
  kill_workers();
  EXPECT_EQ((*twin)->find(group, "chunked")->object, chunked);
  twin->reset();
  auto written = open(true);
  ASSERT_TRUE(written->begin_writing_to(0));
  EXPECT_EQ(written->open_twin().error().code, ENOTSUP);
}

TEST_F(IsolatedHdf5Test, ChangesInBulkAreWrittenWithTheCommit) {
  const auto writes_of_groups = [&](bool is_bulk) {
    crash_testing::Recorder io(std::filesystem::path(path()).parent_path());
    hdf5::IsolatedState state;
    state.shared = std::make_shared<hdf5::SharedState>();
    state.journal = UniqueFd(::memfd_create("journal", MFD_CLOEXEC));
    const auto source = hdf5::open_isolated(path(), true, std::move(state), io);
    EXPECT_TRUE(source) << source.error().reason;
    EXPECT_TRUE((*source)->begin_writing_to(0));
    if (is_bulk) {
      EXPECT_TRUE((*source)->change_in_bulk());
    }
    const size_t before = io.operations().size();
    for (uint64_t i = 1; i <= 100; ++i) {
      EXPECT_FALSE((*source)->begin_edit(i));
      EXPECT_TRUE((*source)->make_group(0, fmt::format("{}{}", is_bulk ? "bulk" : "one", i)));
    }
    const size_t writes = io.operations().size() - before;
    EXPECT_TRUE((*source)->finish());
    return writes;
  };
  EXPECT_GE(writes_of_groups(false), 200U) << "a change and its commit frame";
  EXPECT_LT(writes_of_groups(true), 20U);
  EXPECT_EQ(open_source_of(path())->list(0)->size(), 202U);
}

TEST_F(IsolatedHdf5Test, AfterTheEndOfItsProcessChangesInBulkFail) {
  auto source = open(true);
  ASSERT_TRUE(source->change_in_bulk());
  ASSERT_TRUE(source->make_group(0, "committed"));
  ASSERT_TRUE(source->commit());
  ASSERT_TRUE(source->make_group(0, "lost"));
  kill_workers();
  for (int i = 0; i < 2; ++i) {
    const auto made = source->make_group(0, "more");
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, EIO);
    EXPECT_NE(made.error().reason.find("is lost"), std::string::npos) << made.error().reason;
    EXPECT_FALSE(source->commit());
  }
  EXPECT_FALSE(source->finish());
  source.reset();
  const auto again = open_source_of(path());
  EXPECT_TRUE(again->find(0, "committed"));
  EXPECT_EQ(again->find(0, "lost").error().code, ENOENT);
  expect_values(*again);
}

// What is encoded in the daemon is stored only by the chain that it was encoded with.
TEST_F(IsolatedHdf5Test, AChunkOfAnotherChainIsNotStored) {
  hdf5::IsolatedState state;
  state.shared = std::make_shared<hdf5::SharedState>();
  state.journal = UniqueFd(::memfd_create("journal", MFD_CLOEXEC));
  const auto opened = hdf5::open_isolated(path(), true, std::move(state));
  ASSERT_TRUE(opened) << opened.error().reason;
  hdf5::IsolatedSource& source = **opened;
  const ObjectId id = object_at(source, "group/chunked");
  ASSERT_TRUE(source.begin_writing_to(id));
  const auto layout = source.layout(id);
  ASSERT_TRUE(layout && layout->is_direct);
  const hdf5::ChunkLayout encoder(layout->facts);
  const std::vector<int32_t> content(100, 4711);
  const auto encoded = encoder.encode(std::as_bytes(std::span(content)));
  ASSERT_TRUE(encoded);
  const std::vector<FilterStage> chain = layout->facts->filters;
  std::vector<FilterStage> other = chain;
  other[0].parameters = {9};
  const auto write = [&](const std::vector<FilterStage>& with) {
    return source.write_encoded(id, 3, with, encoded->filter_mask, encoded->bytes.bytes());
  };
  EXPECT_FALSE(*write(other));
  EXPECT_FALSE(*write({}));
  expect_values(source);
  EXPECT_TRUE(*write(chain));
  std::ranges::copy(content, values_.begin() + 300);
  expect_values(source);
}

// A reader may look a chunk up before a change of the filters, and read its bytes after it.
TEST_F(IsolatedHdf5Test, ChunksAreDecodedByTheChainTheyAreStoredWith) {
  const auto source = open(true);
  const ObjectId id = object_at(*source, "group/chunked");
  FilterStage shuffle;
  shuffle.id = 2;
  shuffle.parameters = {4};
  const std::array<std::vector<FilterStage>, 2> chains{{{shuffle}, {}}};
  std::atomic<bool> is_over = false;
  std::atomic<unsigned> reads = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      while (!is_over && !HasFailure()) {
        expect_values(*source);
        ++reads;
      }
    });
  // Until a commit, new chunks are in the write log, where only the other process finds them.
  for (int round = 0; round < 100 && !HasFailure(); ++round) {
    Progress progress;
    const Result<> set = source->set_filters(id, chains[round % 2], progress);
    EXPECT_TRUE(set) << set.error().reason;
    EXPECT_EQ(progress.done, 10U);
    if (round % 10 == 9) {
      EXPECT_TRUE(source->commit());
    }
  }
  is_over = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(reads, 0U);
}

TEST_F(IsolatedHdf5Test, PartialChunksWithoutFiltersAreWritten) {
  {
    const hdf5::LibraryLock lock;
    const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    const std::array<hsize_t, 1> chunk{100};
    H5Pset_chunk(properties.get(), 1, chunk.data());
    H5Pset_deflate(properties.get(), 1);
    H5Pset_chunk_opts(properties.get(), H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
    const Handle partial = make_dataset(file, "partial", H5T_STD_I32LE, {150}, properties.get());
    write_all(partial, H5T_NATIVE_INT32, std::vector<int32_t>(150, 1));
  }
  const std::vector<int32_t> content(100, 2);
  {
    const auto source = open(true);
    const ObjectId id = object_at(*source, "partial");
    for (const uint64_t number : {uint64_t{0}, uint64_t{1}})
      EXPECT_TRUE(source->write_chunk(id, number, std::as_bytes(std::span(content))));
    EXPECT_TRUE(source->finish());
  }
  const hdf5::LibraryLock lock;
  const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Handle partial(H5Dopen2(file.get(), "partial", H5P_DEFAULT));
  std::vector<int32_t> found(150);
  EXPECT_GE(H5Dread(partial.get(), H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, found.data()), 0);
  EXPECT_EQ(found, std::vector<int32_t>(150, 2));
  const std::array<hsize_t, 1> last{100};
  hsize_t size = 0;
  H5Dget_chunk_storage_size(partial.get(), last.data(), &size);
  EXPECT_EQ(size, 400) << "stored with a filter";
}

TEST_F(IsolatedHdf5Test, AFileThatCannotBeOpenedIsAnError) {
  std::ofstream(path("bad.h5")) << "\211HDF\r\n\032\n and nothing more";
  const auto opened = open_in_worker(path("bad.h5"), true);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, EIO);
  EXPECT_EQ(open_in_worker(path("none.h5"), true).error().code, ENOENT);
}

TEST_F(IsolatedHdf5Test, AnUnusedProcessEnds) {
  const auto source = open(true);
  source->release_idle(std::chrono::hours(1));
  EXPECT_EQ(workers().size(), 1U);
  source->release_idle(std::chrono::seconds(0));
  EXPECT_EQ(workers().size(), 0U);
  expect_values(*source);
  EXPECT_EQ(workers().size(), 1U);
  // One that has written has the log.
  ASSERT_TRUE(source->begin_writing_to(0));
  source->release_idle(std::chrono::seconds(0));
  EXPECT_EQ(workers().size(), 1U);
  EXPECT_TRUE(source->finish());
}

// Its process must have the same user: these tests again, in a program that was started by that user.
TEST_F(IsolatedHdf5Test, AsAnOrdinaryUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "they run as one";
  constexpr uid_t kNobody = 65534;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) ::_exit(99);
    ::execl("/proc/self/exe", "unit_backends", "--gtest_filter=IsolatedHdf5Test.*:FileBrokerTest.*-*AsAnOrdinaryUser",
            nullptr);
    ::_exit(98);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(IsolatedHdf5Test, NoProcessIsLeft) {
  {
    const auto source = open(false);
    EXPECT_EQ(workers().size(), 1U);
  }
  for (int i = 0; i < 1000 && !workers().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(workers().empty());
}

TEST_F(IsolatedHdf5Test, TheNextProcessIsStartedAhead) {
  const uint64_t before = worker::StartedAhead::instance().taken();
  std::vector<std::unique_ptr<Source>> opened;
  for (int i = 0; i < 8; ++i) {
    if (i == 6) kill_workers();  // also the one that is ready
    opened.push_back(open(false));
    ASSERT_TRUE(opened.back());
    expect_values(*opened.back());
  }
  EXPECT_GE(worker::StartedAhead::instance().taken() - before, 3U);
  EXPECT_GE(workers().size(), 2U) << "each file has its own, but for those that were killed";
  opened.clear();
  for (int tenths = 0; tenths < 100 && !workers().empty(); ++tenths)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(workers(), std::vector<pid_t>()) << "one that was started ahead is left";
}

}  // namespace
}  // namespace codecfs::hdf5_testing
