// Storing a chunk and changing a shape must not make libhdf5 walk over all stored chunks: the calls that do so are
// counted. Their definitions here come before those of libhdf5.

#include <dlfcn.h>

#include <numeric>

#include "base/buffer.h"
#include "support/hdf5_testing.h"

namespace {

int index_scans = 0;  // tests of this program run one after the other, and under the LibraryLock

template <class Function, class... A>
auto counted_scan(const char* name, A... arguments) {
  ++index_scans;
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name))(arguments...);
}

}  // namespace

extern "C" {

herr_t H5Dget_space_status(hid_t dataset, H5D_space_status_t* status) {
  return counted_scan<decltype(H5Dget_space_status)>("H5Dget_space_status", dataset, status);
}
hsize_t H5Dget_storage_size(hid_t dataset) {
  return counted_scan<decltype(H5Dget_storage_size)>("H5Dget_storage_size", dataset);
}
herr_t H5Dget_num_chunks(hid_t dataset, hid_t space, hsize_t* count) {
  return counted_scan<decltype(H5Dget_num_chunks)>("H5Dget_num_chunks", dataset, space, count);
}
herr_t H5Ddebug(hid_t dataset) { return counted_scan<decltype(H5Ddebug)>("H5Ddebug", dataset); }

}  // extern "C"

namespace codecfs {
namespace {

using namespace hdf5_testing;

constexpr hsize_t kGrows = H5S_UNLIMITED;
constexpr hsize_t kScanChunk = 4;
constexpr hsize_t kScanChunks = 40;

struct ScansCase {
  std::string name;
  bool latest;
  std::vector<hsize_t> most;  // empty: fixed
  H5D_chunk_index_t index;
  H5D_alloc_time_t time = H5D_ALLOC_TIME_INCR;
};

const ScansCase kScansCases[] = {
    {"btree1", false, {kGrows, 1}, H5D_CHUNK_IDX_BTREE},
    {"btree1_late", false, {kGrows, 1}, H5D_CHUNK_IDX_BTREE, H5D_ALLOC_TIME_LATE},
    {"btree1_early", false, {kGrows, 1}, H5D_CHUNK_IDX_BTREE, H5D_ALLOC_TIME_EARLY},
    {"btree2", true, {kGrows, kGrows}, H5D_CHUNK_IDX_BT2},
    {"btree2_late", true, {kGrows, kGrows}, H5D_CHUNK_IDX_BT2, H5D_ALLOC_TIME_LATE},
    {"implicit", true, {}, H5D_CHUNK_IDX_NONE, H5D_ALLOC_TIME_EARLY},
    {"fixed_array", true, {}, H5D_CHUNK_IDX_FARRAY},
    {"fixed_array_late", true, {}, H5D_CHUNK_IDX_FARRAY, H5D_ALLOC_TIME_LATE},
    {"extensible_array", true, {kGrows, 1}, H5D_CHUNK_IDX_EARRAY},
    {"extensible_array_late", true, {kGrows, 1}, H5D_CHUNK_IDX_EARRAY, H5D_ALLOC_TIME_LATE},
};

class Hdf5IndexScans : public Hdf5Files, public testing::WithParamInterface<ScansCase> {
 protected:
  std::vector<int> stored() const {
    const hdf5::LibraryLock lock;
    const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
    const Handle dataset(H5Dopen2(file.get(), "v", H5P_DEFAULT));
    const Handle space(H5Dget_space(dataset.get()));
    std::vector<int> values(static_cast<size_t>(H5Sget_simple_extent_npoints(space.get())));
    EXPECT_GE(H5Dread(dataset.get(), H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    return values;
  }
};

TEST_P(Hdf5IndexScans, ChunksAreStoredAndAppendedWithoutThem) {
  const ScansCase& index = GetParam();
  {
    const hdf5::LibraryLock lock;
    const Handle file = create(index.latest);
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t chunk[] = {kScanChunk, 1};
    H5Pset_chunk(properties.get(), 2, chunk);
    H5Pset_alloc_time(properties.get(), index.time);
    const Handle dataset =
        make_dataset(file, "v", H5T_STD_I32LE, {kScanChunk * kScanChunks, 1}, properties.get(), index.most);
    H5D_chunk_index_t kind{};
    ASSERT_GE(H5Dget_chunk_index_type(dataset.get(), &kind), 0);
    ASSERT_EQ(kind, index.index);
  }
  std::vector<int> expected(kScanChunk * kScanChunks);
  std::iota(expected.begin(), expected.end(), 1);
  auto source = *open_hdf5(path(), true, real_file_io());
  const ObjectId variable = object_at(*source, "v");
  ASSERT_TRUE(source->begin_writing_to(variable));
  const auto store = [&](uint64_t number) {
    const Bytes all = std::as_bytes(std::span(expected));
    const Result<> written = source->write_chunk(variable, number, all.subspan(number * kScanChunk * 4, kScanChunk * 4));
    EXPECT_TRUE(written) << written.error().reason;
  };
  index_scans = 0;
  store(kScanChunks / 2);
  EXPECT_EQ(index_scans, index.time == H5D_ALLOC_TIME_LATE ? 1 : 0) << "of an index without chunks";
  index_scans = 0;
  for (uint64_t number = 0; number < kScanChunks; ++number) store(number);
  for (hsize_t number = kScanChunks; number < 2 * kScanChunks && !index.most.empty(); ++number) {
    for (hsize_t i = 0; i < kScanChunk; ++i) expected.push_back(-static_cast<int>(number));
    const std::vector<uint64_t> shape{(number + 1) * kScanChunk, 1};
    const Result<> resized = source->resize(variable, shape);
    ASSERT_TRUE(resized) << resized.error().reason;
    store(number);
  }
  EXPECT_EQ(index_scans, 0);
  const Result<> finished = source->finish();
  EXPECT_TRUE(finished) << finished.error().reason;
  source.reset();
  EXPECT_EQ(stored(), expected);
}

INSTANTIATE_TEST_SUITE_P(Indexes, Hdf5IndexScans, testing::ValuesIn(kScansCases),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace codecfs
