// A change that fails in libhdf5 affects only its object: earlier and later changes of other objects are stored.

#include <array>
#include <fstream>
#include <numeric>

#include "base/buffer.h"
#include "support/hdf5_testing.h"

namespace codecfs {
namespace {

using namespace hdf5_testing;

constexpr hsize_t kChunk = 4;
constexpr hsize_t kLength = 10;

class Hdf5Failure : public Hdf5Files {
 protected:
  static Handle chunked() {
    Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_chunk(properties.get(), 1, &kChunk);
    return properties;
  }

  std::vector<int> values_of(const std::string& name) const {
    const hdf5::LibraryLock lock;
    const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
    const Handle dataset(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT));
    std::vector<int> values(kLength);
    EXPECT_GE(H5Dread(dataset.get(), H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << name;
    return values;
  }

  static Result<> write(Source& source, const std::string& name, uint64_t number, const std::array<int, 4>& values) {
    return source.write_chunk(object_at(source, name), number, std::as_bytes(std::span(values)));
  }
};

size_t do_nothing(unsigned, size_t, const unsigned*, size_t size, size_t*, void**) { return size; }

// Lets libhdf5 create a dataset with a filter that is unregistered afterwards.
class RegisteredFilter {
 public:
  explicit RegisteredFilter(H5Z_filter_t id) : id_(H5Zfilter_avail(id) > 0 ? H5Z_FILTER_NONE : id) {
    if (id_ == H5Z_FILTER_NONE) return;
    H5Z_class2_t filter{};
    filter.version = H5Z_CLASS_T_VERS;
    filter.id = id;
    filter.encoder_present = filter.decoder_present = 1;
    filter.filter = do_nothing;
    EXPECT_GE(H5Zregister(&filter), 0);
  }
  ~RegisteredFilter() {
    if (id_ != H5Z_FILTER_NONE) H5Zunregister(id_);
  }
  RegisteredFilter(const RegisteredFilter&) = delete;
  RegisteredFilter& operator=(const RegisteredFilter&) = delete;

 private:
  H5Z_filter_t id_;
};

TEST_F(Hdf5Failure, TheFirstChunkOfALateAllocationGetsItsFilters) {
  for (const H5Z_filter_t id : {307, 32001, 32004, 32015}) {
    for (const unsigned flags : {unsigned{H5Z_FLAG_MANDATORY}, unsigned{H5Z_FLAG_OPTIONAL}}) {
      {
        const hdf5::LibraryLock lock;
        const RegisteredFilter registered(id);
        const Handle file = create();
        const Handle properties = chunked();
        const int fill = 5;
        H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_LATE);
        H5Pset_fill_value(properties.get(), H5T_NATIVE_INT, &fill);
        const std::array<unsigned, 7> parameters = {2, 2, 4, 16, 1, 1, 0};
        const size_t count = id == 32001 ? 7 : 1;
        H5Pset_filter(properties.get(), id, flags, count,
                      id == 32004 ? nullptr : parameters.data() + (count == 1 ? 4 : 0));
        make_dataset(file, "late", H5T_STD_I32LE, {kLength}, properties.get());
        make_dataset(file, "other", H5T_STD_I32LE, {kLength}, chunked().get());
      }
      auto source = *open_hdf5(path(), true, real_file_io());
      ASSERT_TRUE(source->begin_writing_to(source->root().object));
      const Result<> written = write(*source, "late", 1, {1, 2, 3, 4});
      EXPECT_TRUE(written) << id << ": " << written.error().reason;
      EXPECT_TRUE(write(*source, "other", 0, {7, 7, 7, 7}));
      const auto chunk = source->read_chunk(object_at(*source, "late"), 0);
      ASSERT_TRUE(chunk) << chunk.error().reason;
      EXPECT_EQ(elements_of<int>(*chunk).front(), 5);
      const auto stored = source->read_chunk(object_at(*source, "late"), 1);
      ASSERT_TRUE(stored) << stored.error().reason;
      EXPECT_EQ(elements_of<int>(*stored), (std::vector<int>{1, 2, 3, 4}));
      const Result<> finished = source->finish();
      EXPECT_TRUE(finished) << finished.error().reason;
      EXPECT_EQ(values_of("other"), (std::vector<int>{7, 7, 7, 7, 0, 0, 0, 0, 0, 0}));
    }
  }
}

// libhdf5 reads a partial edge chunk before it writes it, and detects a wrong checksum.
TEST_F(Hdf5Failure, AChunkThatCannotBeWrittenLosesNoOther) {
  haddr_t damaged = 0;
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    const Handle properties = chunked();
    H5Pset_scaleoffset(properties.get(), H5Z_SO_INT, H5Z_SO_INT_MINBITS_DEFAULT);
    H5Pset_fletcher32(properties.get());
    const Handle dataset = make_dataset(file, "damaged", H5T_STD_I32LE, {kLength}, properties.get());
    std::vector<int> values(kLength);
    std::iota(values.begin(), values.end(), 0);
    write_all(dataset, H5T_NATIVE_INT, values);
    make_dataset(file, "other", H5T_STD_I32LE, {kLength}, chunked().get());
    H5Fflush(file.get(), H5F_SCOPE_LOCAL);
    const hsize_t last = 8;
    unsigned mask = 0;
    hsize_t size = 0;
    ASSERT_GE(H5Dget_chunk_info_by_coord(dataset.get(), &last, &mask, &damaged, &size), 0);
  }
  {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(damaged));
    file.put('\x7f').put('\x7f');
  }
  auto source = *open_hdf5(path(), true, real_file_io());
  ASSERT_TRUE(source->begin_writing_to(source->root().object));
  EXPECT_TRUE(write(*source, "other", 0, {1, 1, 1, 1}));
  EXPECT_TRUE(source->make_group(source->root().object, "before"));
  EXPECT_FALSE(write(*source, "damaged", 2, {9, 9, 9, 9}));
  EXPECT_TRUE(write(*source, "other", 1, {2, 2, 2, 2}));
  EXPECT_TRUE(source->commit());
  EXPECT_FALSE(write(*source, "damaged", 2, {9, 9, 9, 9}));
  EXPECT_TRUE(write(*source, "damaged", 0, {8, 8, 8, 8}));
  EXPECT_TRUE(source->make_group(source->root().object, "after"));
  const auto read = source->read_chunk(object_at(*source, "other"), 0);
  ASSERT_TRUE(read) << read.error().reason;
  EXPECT_EQ(elements_of<int>(*read), (std::vector<int>{1, 1, 1, 1}));
  const Result<> finished = source->finish();
  EXPECT_TRUE(finished) << finished.error().reason;
  source.reset();
  EXPECT_EQ(values_of("other"), (std::vector<int>{1, 1, 1, 1, 2, 2, 2, 2, 0, 0}));
  auto again = open_source_of(path());
  EXPECT_TRUE(entry_at(*again, "before"));
  EXPECT_TRUE(entry_at(*again, "after"));
  const auto first = again->read_chunk(object_at(*again, "damaged"), 0);
  ASSERT_TRUE(first) << first.error().reason;
  EXPECT_EQ(elements_of<int>(*first), (std::vector<int>{8, 8, 8, 8}));
}

}  // namespace
}  // namespace codecfs
