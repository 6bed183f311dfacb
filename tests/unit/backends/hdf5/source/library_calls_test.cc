// Calls of libhdf5 that take time in proportion to what is stored: storing a chunk and changing a shape must not make
// it walk over all chunks, counting them must not make it look for each, and an attribute must not make it describe its
// type for each element. Nor does an append wait for the disk, or a new variable open others. The calls are counted:
// their definitions here come before those of libhdf5.

#include <dlfcn.h>

#include <numeric>

#include "backends/api/variable_summary.h"
#include "backends/hdf5/metadata/dimension_scales.h"
#include "base/buffer.h"
#include "support/hdf5_change_testing.h"

namespace {

// Tests of this program run one after the other, and these calls under the LibraryLock.
int index_scans = 0;
int chunk_lookups = 0;
int type_questions = 0;
int disk_waits = 0;
int objects_opened = 0;
int links_listed = 0;
size_t most_cached = 0;

struct CountedLinks {
  H5L_iterate_t each;
  void* data;
};
herr_t count_link(hid_t group, const char* name, const H5L_info_t* info, void* data) {
  ++links_listed;
  const auto& counted = *static_cast<const CountedLinks*>(data);
  return counted.each(group, name, info, counted.data);
}

// HDF5 2 has made this parameter const.
template <class>
struct SecondParameter;
template <class R, class A, class B>
struct SecondParameter<R(A, B)> {
  using Type = B;
};

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
herr_t H5Dget_chunk_storage_size(hid_t dataset, const hsize_t* offset, hsize_t* size) {
  ++chunk_lookups;
  return reinterpret_cast<decltype(H5Dget_chunk_storage_size)*>(dlsym(RTLD_NEXT, "H5Dget_chunk_storage_size"))(
      dataset, offset, size);
}
H5T_class_t H5Tget_class(hid_t type) {
  ++type_questions;
  return reinterpret_cast<decltype(H5Tget_class)*>(dlsym(RTLD_NEXT, "H5Tget_class"))(type);
}
int fdatasync(int fd) {
  ++disk_waits;
  return reinterpret_cast<decltype(fdatasync)*>(dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
herr_t H5Fset_mdc_config(hid_t file, SecondParameter<decltype(::H5Fset_mdc_config)>::Type config) {
  most_cached = config->max_size;
  return reinterpret_cast<decltype(H5Fset_mdc_config)*>(dlsym(RTLD_NEXT, "H5Fset_mdc_config"))(file, config);
}
// libhdf5_hl opens with it what a reference refers to.
hid_t H5Rdereference2(hid_t object, hid_t access, H5R_type_t kind, const void* reference) {
  ++objects_opened;
  return reinterpret_cast<decltype(H5Rdereference2)*>(dlsym(RTLD_NEXT, "H5Rdereference2"))(object, access, kind,
                                                                                           reference);
}
#if H5_VERSION_GE(1, 12, 0)
hid_t H5Oopen_by_token(hid_t file, H5O_token_t token) {
  ++objects_opened;
  return reinterpret_cast<decltype(H5Oopen_by_token)*>(dlsym(RTLD_NEXT, "H5Oopen_by_token"))(file, token);
}
herr_t H5Literate2(hid_t group, H5_index_t index, H5_iter_order_t order, hsize_t* at, H5L_iterate2_t each, void* data) {
  CountedLinks counted{each, data};
  return reinterpret_cast<decltype(H5Literate2)*>(dlsym(RTLD_NEXT, "H5Literate2"))(group, index, order, at, count_link,
                                                                                   &counted);
}
#else
hid_t H5Oopen_by_addr(hid_t file, haddr_t address) {
  ++objects_opened;
  return reinterpret_cast<decltype(H5Oopen_by_addr)*>(dlsym(RTLD_NEXT, "H5Oopen_by_addr"))(file, address);
}
herr_t H5Literate(hid_t group, H5_index_t index, H5_iter_order_t order, hsize_t* at, H5L_iterate_t each, void* data) {
  CountedLinks counted{each, data};
  return reinterpret_cast<decltype(H5Literate)*>(dlsym(RTLD_NEXT, "H5Literate"))(group, index, order, at, count_link,
                                                                                 &counted);
}
#endif
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
    const Result<> written =
        source->write_chunk(variable, number, all.subspan(number * kScanChunk * 4, kScanChunk * 4));
    EXPECT_TRUE(written) << written.error().reason;
  };
  index_scans = 0;
  store(kScanChunks / 2);
  EXPECT_EQ(index_scans, index.time == H5D_ALLOC_TIME_LATE ? 1 : 0) << "of an index without chunks";
  EXPECT_TRUE(source->commit());
  index_scans = 0;
  disk_waits = 0;
  for (uint64_t number = 0; number < kScanChunks; ++number) store(number);
  for (hsize_t number = kScanChunks; number < 2 * kScanChunks && !index.most.empty(); ++number) {
    for (hsize_t i = 0; i < kScanChunk; ++i) expected.push_back(-static_cast<int>(number));
    const std::vector<uint64_t> shape{(number + 1) * kScanChunk, 1};
    const Result<> resized = source->resize(variable, shape);
    ASSERT_TRUE(resized) << resized.error().reason;
    store(number);
  }
  EXPECT_EQ(index_scans, 0);
  EXPECT_EQ(disk_waits, 0);
  EXPECT_TRUE(source->commit());
  EXPECT_EQ(disk_waits, 1) << "a commit is counted";
  const Result<> finished = source->finish();
  EXPECT_TRUE(finished) << finished.error().reason;
  source.reset();
  EXPECT_EQ(stored(), expected);
}

INSTANTIATE_TEST_SUITE_P(Indexes, Hdf5IndexScans, testing::ValuesIn(kScansCases),
                         [](const auto& tested) { return tested.param.name; });

TEST_F(Hdf5Files, AllChunksOfATreeAreCountedWithoutALookupOfEach) {
  constexpr hsize_t kRows = 60;
  constexpr hsize_t kColumns = 50;
  for (const bool latest : {false, true}) {
    uint64_t bytes = 0;
    {
      const hdf5::LibraryLock lock;
      const Handle file = create(latest);
      const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
      const hsize_t chunk[] = {1, 2};
      H5Pset_chunk(properties.get(), 2, chunk);
      H5Pset_shuffle(properties.get());
      H5Pset_deflate(properties.get(), 1);
      const Handle dataset =
          make_dataset(file, "v", H5T_STD_U8LE, {kRows, 2 * kColumns}, properties.get(), {kGrows, kGrows});
      for (hsize_t i = 0; i < kRows * kColumns; i += 2) {
        const hsize_t at[] = {i / kColumns, i % kColumns * 2};
        const std::vector<std::byte> stored(2 + i % 7);
        ASSERT_GE(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, i % 5 == 0 ? 2 : 0, at, stored.size(), stored.data()), 0);
        bytes += stored.size();
      }
      // One chunk after the other: the last key of an old tree differs from that of the last chunk within an element.
      const hsize_t single[] = {1, 1};
      const Handle plain(H5Pcreate(H5P_DATASET_CREATE));
      H5Pset_chunk(plain.get(), 2, single);
      const Handle appended =
          make_dataset(file, "appended", H5T_STD_U8LE, {kRows * kColumns, 1}, plain.get(), {kGrows, kGrows});
      write_all(appended, H5T_NATIVE_UINT8, std::vector<uint8_t>(kRows * kColumns, 7));
    }
    auto source = open_source_of(path());
    const ObjectId variable = object_at(*source, "v");
    chunk_lookups = 0;
    const std::vector<VariableSummary> found = source->summaries({&variable, 1});
    EXPECT_TRUE(found.front().is_counted);
    EXPECT_EQ(found.front().stored_chunks, kRows * kColumns / 2);
    EXPECT_EQ(found.front().stored_bytes, bytes);
    EXPECT_EQ(found.front().masked_chunks, kRows * kColumns / 10);
    const ObjectId appended = object_at(*source, "appended");
    EXPECT_EQ(source->summaries({&appended, 1}).front().stored_chunks, kRows * kColumns);
    EXPECT_EQ(chunk_lookups, 0);
    EXPECT_TRUE(source->locate(variable, 0)->stored);
    EXPECT_EQ(chunk_lookups, 1) << "the lookups of libhdf5 are counted";
  }
}

TEST_F(Hdf5Files, TheTypeOfAnAttributeIsReadOnce) {
  const auto add = [](const Handle& dataset, const std::string& name, hid_t type, const std::vector<hsize_t>& dims) {
    const Handle space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
    const Handle attribute(H5Acreate2(dataset.get(), name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT));
    const std::vector<std::byte> values(dims[0] * dims[1] * H5Tget_size(type), std::byte{1});
    EXPECT_GE(H5Awrite(attribute.get(), type, values.data()), 0) << name;
  };
  const std::vector<hid_t> types = {H5T_STD_I8LE, H5T_STD_U64LE, H5T_IEEE_F32LE, H5T_IEEE_F64BE};
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    const Handle few = make_dataset(file, "few", H5T_STD_U8LE, {1});
    const Handle many = make_dataset(file, "many", H5T_STD_U8LE, {1});
    for (size_t i = 0; i < types.size(); ++i) {
      add(few, std::to_string(i), types[i], {1, 2});
      add(many, std::to_string(i), types[i], {20, 200});
    }
  }
  auto source = open_source_of(path());
  const auto questions = [&](const std::string& name) {
    const ObjectId variable = object_at(*source, name);
    EXPECT_TRUE(source->facts(variable));
    type_questions = 0;
    const auto attributes = source->variable_attributes(variable);
    EXPECT_TRUE(attributes && attributes->size() == types.size());
    return type_questions;
  };
  const int of_few = questions("few");
  EXPECT_GT(of_few, 0);
  EXPECT_EQ(questions("many"), of_few);
}

// Of files with few and with many variables, as Zarr writers make them: with names of dimensions afterwards.
TEST_F(Hdf5Files, ANewVariableOpensNoOthers) {
  struct Calls {
    int opened = 0;
    int listed = 0;
    bool operator==(const Calls&) const = default;
  };
  const auto work = [&](int others, bool by_netcdf) {
    const std::string file = path(fmt::format("{}{}.h5", by_netcdf ? "numbered" : "plain", others));
    EXPECT_TRUE(create_hdf5(file));
    auto source = *open_hdf5(file, true, real_file_io());
    ObjectId group = source->make_group(source->root().object, "g")->object;
    const auto make = [&](const std::string& name, const std::vector<std::string>& dimensions) {
      const auto made = source->make_variable(group, name, described("\"<i4\"", {4, 5}, {2, 5}));
      EXPECT_TRUE(made) << made.error().reason;
      const Attribute units{"units", "K"};
      const Result<> named = source->set_metadata(made->object, dimensions, std::span(&units, 1), {});
      EXPECT_TRUE(named) << named.error().reason;
      EXPECT_EQ(source->variable(made->object).value()->dimensions, dimensions);
      return made->object;
    };
    make("first", {"y", "x"});
    EXPECT_TRUE(source->finish());
    source.reset();
    if (by_netcdf) {  // numbers of dimensions, which new ones get then
      const hdf5::LibraryLock lock;
      const Handle opened(H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
      const Handle scale(H5Dopen2(opened.get(), "g/y", H5P_DEFAULT));
      EXPECT_TRUE(hdf5::write_dimension_number(scale.get(), 7));
    }
    source = *open_hdf5(file, true, real_file_io());
    group = object_at(*source, "g");
    for (int i = 0; i < others; ++i) make(fmt::format("v{}", i), {"y", "x"});
    make("numbered", {"y", "once"});  // the first new dimension may take a walk through the file
    objects_opened = 0;
    links_listed = 0;
    for (int i = 0; i < 5; ++i) make(fmt::format("w{}", i), {"y", "x"});
    for (int i = 0; i < 5; ++i) make(fmt::format("own{}", i), {"y", fmt::format("z{}", i)});
    for (int i = 0; i < 5; ++i) {
      Variable coordinate = described("\"<i4\"", {4}, {2});
      coordinate.dimensions = {fmt::format("c{}", i)};
      const auto made = source->make_variable(group, fmt::format("c{}", i), coordinate);
      EXPECT_TRUE(made) << made.error().reason;
      EXPECT_EQ(source->variable(made->object).value()->dimensions, coordinate.dimensions);
    }
    for (const char* name : {"w", "own", "c"})
      for (int i = 0; i < 5; ++i) {
        const Result<> removed = source->remove(group, fmt::format("{}{}", name, i));
        EXPECT_TRUE(removed) << removed.error().reason;
      }
    const Calls calls{objects_opened, links_listed};
    EXPECT_TRUE(source->finish());
    return calls;
  };
  for (const bool by_netcdf : {false, true}) {
    const Calls few = work(10, by_netcdf);
    EXPECT_GT(few.opened, 0) << "these calls are counted";
    EXPECT_EQ(work(100, by_netcdf), few) << (by_netcdf ? "with numbers" : "without");
  }
}

// A commit makes it look at all that is in its cache.
TEST_F(Hdf5Files, OfManySmallObjectsTheCacheKeepsFew) {
  EXPECT_TRUE(create_hdf5(path()));
  auto source = *open_hdf5(path(), true, real_file_io());
  const ObjectId root = source->root().object;
  most_cached = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto made = source->make_variable(root, fmt::format("v{}", i), described("\"<i4\"", {4}, {4}));
    ASSERT_TRUE(made) << made.error().reason;
    if (i % 500 == 499) {
      ASSERT_TRUE(source->commit());
    }
  }
  EXPECT_GE(most_cached, size_t{1} << 20);
  EXPECT_LE(most_cached, size_t{4} << 20) << "4096 of up to 1 KiB";
  const auto made = source->make_variable(root, "chunks", described("\"<i4\"", {1 << 20}, {1}));
  ASSERT_TRUE(made);
  const std::array<std::byte, 4> chunk{};
  for (uint64_t number = 0; number < 300'000; ++number) {
    if (!source->write_chunk(made->object, number * 3, chunk)) ADD_FAILURE() << number;
    if (number % 50'000 == 49'999) {
      EXPECT_TRUE(source->commit());
    }
  }
  EXPECT_GT(most_cached, size_t{16} << 20) << "an index needs it again";
  EXPECT_TRUE(source->finish());
}

}  // namespace
}  // namespace codecfs
