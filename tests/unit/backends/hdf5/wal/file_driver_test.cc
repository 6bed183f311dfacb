// The file driver compared with libhdf5's own, and what only it does: captures, hidden marks, truncated files.

#include "backends/hdf5/wal/file_driver.h"

#include <fcntl.h>

#include <chrono>
#include <fstream>
#include <numeric>
#include <thread>

#include "backends/hdf5/library/captured_reads.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "support/crash_simulator.h"
#include "support/hdf5_testing.h"

namespace codecfs::hdf5 {
namespace {

using Values = std::vector<int>;

std::string content_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

Values count_up(size_t size, int from = 0) {
  Values values(size);
  std::iota(values.begin(), values.end(), from);
  return values;
}

class FileDriver : public hdf5_testing::Hdf5Files {
 protected:
  /// Opens a file through the driver: that of the LoggedFile, or (null) by its name.
  static Handle open(LoggedFile* file, const std::string& path, unsigned flags, bool truncated = false) {
    const Handle access(H5Pcreate(H5P_FILE_ACCESS));
    EXPECT_GE(H5Pset_driver(access.get(), file_driver(), nullptr), 0);
    if (truncated) allow_truncated(access.get());
    std::optional<OpenScope> scope;
    if (file != nullptr) scope.emplace(*file);
    return Handle(H5Fopen(path.c_str(), flags, access.get()));
  }
  static Handle open_plainly(const std::string& path, unsigned flags = H5F_ACC_RDONLY) {
    return Handle(H5Fopen(path.c_str(), flags, H5P_DEFAULT));
  }
  static std::unique_ptr<LoggedFile> logged(const std::string& path, FileIo& io = real_file_io()) {
    auto file = LoggedFile::open(path, io);
    EXPECT_TRUE(file) << file.error().reason;
    return file ? *std::move(file) : nullptr;
  }

  /// Object headers without times, so that two files can be equal.
  static Handle timeless() {
    Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_obj_track_times(properties.get(), false);
    return properties;
  }
  void create_with_values(const std::string& name = "t.h5", bool latest = false, hsize_t user_block = 0) const {
    const Handle file = create(latest, user_block, name, false);
    const Handle dataset = hdf5_testing::make_dataset(file, "v", H5T_NATIVE_INT, {1000}, timeless().get());
    hdf5_testing::write_all(dataset, H5T_NATIVE_INT, count_up(1000));
  }
  static std::optional<Values> read(const Handle& file, const char* name = "v", size_t size = 1000) {
    const Handle dataset(H5Dopen2(file.get(), name, H5P_DEFAULT));
    Values values(size, -1);
    if (!dataset || H5Dread(dataset.get(), H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0)
      return std::nullopt;
    return values;
  }
  static bool write(const Handle& file, const Values& values, const char* name = "v") {
    const Handle dataset(H5Dopen2(file.get(), name, H5P_DEFAULT));
    return H5Dwrite(dataset.get(), H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0;
  }
  /// Chunked and contiguous data, attributes, removals, and a file that becomes shorter.
  static void change(const Handle& file) {
    EXPECT_TRUE(write(file, count_up(1000, 7)));
    const Handle properties = timeless();
    const hsize_t chunk = 16;
    H5Pset_chunk(properties.get(), 1, &chunk);
    H5Pset_deflate(properties.get(), 1);
    const Handle chunked = hdf5_testing::make_dataset(file, "chunked", H5T_NATIVE_INT, {500}, properties.get());
    hdf5_testing::write_all(chunked, H5T_NATIVE_INT, count_up(500, 3));
    const Handle space(H5Screate(H5S_SCALAR));
    const Handle attribute(H5Acreate2(chunked.get(), "a", H5T_NATIVE_INT, space.get(), H5P_DEFAULT, H5P_DEFAULT));
    const int value = 5;
    EXPECT_GE(H5Awrite(attribute.get(), H5T_NATIVE_INT, &value), 0);
    {
      const Handle last = hdf5_testing::make_dataset(file, "last", H5T_NATIVE_INT, {100'000}, timeless().get());
    }
    EXPECT_GE(H5Ldelete(file.get(), "last", H5P_DEFAULT), 0);
  }
  /// The path of a file as a writer that was killed leaves it: marked as open.
  std::string marked() const {
    const std::string name = path("marked.h5");
    create_with_values("t.h5", true);
    const Handle access(H5Pcreate(H5P_FILE_ACCESS));
    H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    const Handle writer(H5Fopen(path().c_str(), H5F_ACC_RDWR, access.get()));
    H5Fflush(writer.get(), H5F_SCOPE_LOCAL);
    std::filesystem::copy_file(path(), name);
    return name;
  }
  static bool is_marked(const std::string& name) {
    return marked_as_open(UniqueFd(::open(name.c_str(), O_RDONLY | O_CLOEXEC)).get());
  }

  const LibraryLock lock_;
};

TEST_F(FileDriver, WritesTheBytesThatLibhdf5sOwnDriverWrites) {
  for (const bool latest : {false, true}) {
    SCOPED_TRACE(latest);
    create_with_values("own.h5", latest, 512);
    std::filesystem::copy_file(path("own.h5"), path("ours.h5"), std::filesystem::copy_options::overwrite_existing);
    change(open_plainly(path("own.h5"), H5F_ACC_RDWR));
    if (latest) std::this_thread::sleep_for(std::chrono::milliseconds(1001));  // later, as no header has a time
    {
      const auto bytes = logged(path("ours.h5"));
      ASSERT_TRUE(bytes->begin_writing());
      change(open(bytes.get(), path("ours.h5"), H5F_ACC_RDWR));
      ASSERT_TRUE(bytes->commit());
      ASSERT_TRUE(bytes->finish());
    }
    EXPECT_TRUE(content_of(path("own.h5")) == content_of(path("ours.h5")));
  }
}

TEST_F(FileDriver, ReadsAndWritesOnlyTheLoggedFile) {
  create_with_values();
  const std::string before = content_of(path());
  const auto bytes = logged(path());
  {
    const Handle file = open(bytes.get(), path(), H5F_ACC_RDWR);
    EXPECT_EQ(read(file), count_up(1000));
    EXPECT_TRUE(write(file, count_up(1000, 50)));
  }
  EXPECT_EQ(read(open(bytes.get(), path(), H5F_ACC_RDONLY)), count_up(1000, 50));
  EXPECT_EQ(read(open_plainly(path())), count_up(1000));
  EXPECT_TRUE(content_of(path()) == before);
}

TEST_F(FileDriver, CreatesAndTruncatesNoFiles) {
  create_with_values();
  const std::string before = content_of(path());
  const Handle access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_driver(access.get(), file_driver(), nullptr);
  EXPECT_LT(H5Fcreate(path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), 0);
  EXPECT_LT(H5Fcreate(path("new.h5").c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access.get()), 0);
  EXPECT_TRUE(content_of(path()) == before);
  EXPECT_FALSE(std::filesystem::exists(path("new.h5")));
}

TEST_F(FileDriver, AScopeIsForOneFile) {
  create_with_values("one.h5");
  create_with_values("other.h5");
  const auto bytes = logged(path("one.h5"));
  const auto changed = open(bytes.get(), path("one.h5"), H5F_ACC_RDWR);
  ASSERT_TRUE(write(changed, count_up(1000, 9)));
  EXPECT_EQ(read(open(nullptr, path("other.h5"), H5F_ACC_RDONLY)), count_up(1000));
  {
    const OpenScope unused(*bytes);
  }
  EXPECT_EQ(read(open(nullptr, path("other.h5"), H5F_ACC_RDONLY)), count_up(1000));
  EXPECT_FALSE(open(nullptr, path("none.h5"), H5F_ACC_RDONLY));
}

// The sources of virtual datasets: libhdf5 opens them by their names.
TEST_F(FileDriver, AFileThatIsOpenIsSharedByItsName) {
  create_with_values();
  std::filesystem::create_symlink(path(), path("link.h5"));
  const auto bytes = logged(path());
  const Handle file = open(bytes.get(), path(), H5F_ACC_RDWR);
  ASSERT_TRUE(write(file, count_up(1000, 9)));
  EXPECT_EQ(read(open(nullptr, path("link.h5"), H5F_ACC_RDWR)), count_up(1000, 9));
}

TEST_F(FileDriver, WritesToOtherFilesAreDiscarded) {
  create_with_values();
  const std::string before = content_of(path());
  {
    const Handle file = open(nullptr, path(), H5F_ACC_RDWR);
    ASSERT_TRUE(write(file, count_up(1000, 9)));
    EXPECT_EQ(read(file), count_up(1000, 9));
  }
  EXPECT_TRUE(content_of(path()) == before);
}

TEST_F(FileDriver, CapturesWhereRawDataIsRead) {
  constexpr hsize_t kChunk = 100;
  {
    const Handle file = create(false, 1024);
    const Handle properties = timeless();
    H5Pset_chunk(properties.get(), 1, &kChunk);
    hdf5_testing::write_all(hdf5_testing::make_dataset(file, "v", H5T_NATIVE_INT, {1000}, properties.get()),
                            H5T_NATIVE_INT, count_up(1000));
  }
  const auto bytes = logged(path());
  const Handle file = open(bytes.get(), path(), H5F_ACC_RDONLY);
  const Handle dataset(H5Dopen2(file.get(), "v", H5P_DEFAULT));
  const hsize_t start = 3 * kChunk;
  uint32_t mask = 0;
  Values values(kChunk, -1);
  {
    const CapturedReads capture;
    EXPECT_EQ(capture.seen().reads, 0);
    EXPECT_GE(read_raw_chunk(dataset.get(), &start, mask, values.data(), kChunk * sizeof(int)), 0);
    EXPECT_EQ(capture.seen().reads, 1);
    EXPECT_EQ(capture.seen().size, kChunk * sizeof(int));
    EXPECT_EQ(values, Values(kChunk, -1)) << "nothing is read";
    EXPECT_TRUE(bytes->read(capture.seen().address, std::as_writable_bytes(std::span(values))));
    EXPECT_EQ(values, count_up(kChunk, 3 * kChunk)) << "the address counts from the start of the file";
  }
  values.assign(kChunk, -1);
  EXPECT_GE(read_raw_chunk(dataset.get(), &start, mask, values.data(), kChunk * sizeof(int)), 0);
  EXPECT_EQ(values, count_up(kChunk, 3 * kChunk)) << "after the capture";
}

TEST_F(FileDriver, AnotherThreadReadsDuringACapture) {
  create_with_values();
  const auto bytes = logged(path());
  const Handle file = open(bytes.get(), path(), H5F_ACC_RDONLY);
  const CapturedReads capture;
  std::optional<Values> seen;
  std::thread([&] { seen = read(file); }).join();
  EXPECT_EQ(seen, count_up(1000));
  EXPECT_EQ(capture.seen().reads, 0);
}

TEST_F(FileDriver, TheMarkOfAnOpenFileIsRecognised) {
  EXPECT_TRUE(is_marked(marked()));
  create_with_values("latest.h5", true);
  create_with_values("earliest.h5", false);
  std::ofstream(path("text")) << "not HDF5";
  EXPECT_FALSE(is_marked(path("latest.h5")));
  EXPECT_FALSE(is_marked(path("earliest.h5")));
  EXPECT_FALSE(is_marked(path("text")));
  EXPECT_FALSE(marked_as_open(-1));
}

TEST_F(FileDriver, AMarkedFileIsReadWithoutAChange) {
  const std::string name = marked();
  const std::string before = content_of(name);
  ASSERT_FALSE(open_plainly(name)) << "libhdf5's own driver refuses it";
  const auto bytes = logged(name);
  EXPECT_EQ(read(open(bytes.get(), name, H5F_ACC_RDONLY)), count_up(1000));
  EXPECT_TRUE(content_of(name) == before);
}

TEST_F(FileDriver, AWrittenFileHasNoMark) {
  const std::string name = marked();
  const auto bytes = logged(name);
  ASSERT_TRUE(bytes->begin_writing());
  const Handle access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_driver(access.get(), file_driver(), nullptr);
  H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  std::optional<OpenScope> scope(std::in_place, *bytes);
  Handle file(H5Fopen(name.c_str(), H5F_ACC_RDWR, access.get()));
  scope.reset();
  ASSERT_TRUE(file);
  change(file);
  ASSERT_GE(H5Fflush(file.get(), H5F_SCOPE_LOCAL), 0);
  ASSERT_TRUE(bytes->commit());
  ASSERT_TRUE(bytes->checkpoint());
  // libhdf5 still has it open for writing.
  EXPECT_FALSE(is_marked(name));
  file.reset();
  ASSERT_TRUE(bytes->commit());
  ASSERT_TRUE(bytes->finish());
  EXPECT_EQ(read(open_plainly(name)), count_up(1000, 7));
}

TEST_F(FileDriver, ATruncatedFileShowsWhatIsLeft) {
  {
    const Handle file = create();
    const Handle first = hdf5_testing::make_dataset(file, "first", H5T_NATIVE_INT, {1000});
    hdf5_testing::write_all(first, H5T_NATIVE_INT, count_up(1000));
    const Handle last = hdf5_testing::make_dataset(file, "last", H5T_NATIVE_INT, {1000});
    hdf5_testing::write_all(last, H5T_NATIVE_INT, count_up(1000));
  }
  std::filesystem::resize_file(path(), std::filesystem::file_size(path()) - 100);
  const auto bytes = logged(path());
  EXPECT_FALSE(open(bytes.get(), path(), H5F_ACC_RDONLY));
  const Handle file = open(bytes.get(), path(), H5F_ACC_RDONLY, true);
  ASSERT_TRUE(file) << latest_failure().reason;
  EXPECT_EQ(read(file, "first"), count_up(1000));
  EXPECT_EQ(read(file, "last"), std::nullopt) << "not zeros";
}

TEST_F(FileDriver, AllocatedSpaceThatWasNeverWrittenReadsAsZeros) {
  create_with_values();
  const auto bytes = logged(path());
  ASSERT_TRUE(bytes->begin_writing());
  const Handle file = open(bytes.get(), path(), H5F_ACC_RDWR);
  const Handle properties = timeless();
  H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER);
  const Handle dataset = hdf5_testing::make_dataset(file, "late", H5T_NATIVE_INT, {100'000}, properties.get());
  const uint64_t address = H5Dget_offset(dataset.get());
  ASSERT_NE(address, HADDR_UNDEF);
  ASSERT_GT(address + 400'000, bytes->size()) << "beyond the end of the file";
  EXPECT_EQ(read(file, "late", 100'000), Values(100'000));
  EXPECT_TRUE(is_allocated(*bytes, address, 400'000));
  EXPECT_FALSE(is_allocated(*bytes, address, uint64_t{1} << 40));
  EXPECT_FALSE(is_allocated(*bytes, UINT64_MAX, 2)) << "no overflow";
  create_with_values("other.h5");
  EXPECT_FALSE(is_allocated(*logged(path("other.h5")), 0, 1));
}

TEST_F(FileDriver, AFileThatIsOnlyReadHasNoAllocatedSpace) {
  create_with_values();
  const auto bytes = logged(path());
  const Handle file = open(bytes.get(), path(), H5F_ACC_RDONLY);
  EXPECT_FALSE(is_allocated(*bytes, 0, 1));
}

TEST_F(FileDriver, AFullDiskIsAnErrorOfTheWrite) {
  {
    const Handle file = create();
    hdf5_testing::write_all(hdf5_testing::make_dataset(file, "v", H5T_NATIVE_INT, {500'000}), H5T_NATIVE_INT,
                            count_up(500'000));
  }
  const std::string before = content_of(path());
  size_t done = 0;
  {
    crash_testing::FaultyIo counting(SIZE_MAX, ENOSPC, true);
    const auto bytes = logged(path(), counting);
    ASSERT_TRUE(bytes->begin_writing());
    done = counting.operations();
    ASSERT_TRUE(bytes->finish());
  }
  crash_testing::FaultyIo full(done, ENOSPC, true);
  const auto bytes = logged(path(), full);
  ASSERT_TRUE(bytes->begin_writing());
  {
    const Handle file = open(bytes.get(), path(), H5F_ACC_RDWR);
    ASSERT_TRUE(file);
    const Handle dataset(H5Dopen2(file.get(), "v", H5P_DEFAULT));
    EXPECT_LT(H5Dwrite(dataset.get(), H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, count_up(500'000, 1).data()), 0);
    EXPECT_TRUE(latest_failure().function.starts_with("H5"));
    EXPECT_EQ(read(file, "v", 500'000), count_up(500'000)) << "nothing was written";
    bytes->hold();  // libhdf5 must be able to close it
  }
  EXPECT_TRUE(content_of(path()) == before);
}

}  // namespace
}  // namespace codecfs::hdf5
