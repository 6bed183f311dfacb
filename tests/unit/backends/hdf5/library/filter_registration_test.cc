// Filters that libhdf5 uses through us, and which pipelines new datasets may have.

#include "backends/hdf5/library/filter_registration.h"

#include <unistd.h>

#include <numeric>

#include "model/json.h"
#include "support/hdf5_testing.h"

namespace codecfs::hdf5 {
namespace {

constexpr uint32_t kZstd = 32015;
constexpr uint32_t kUnknown = 500;  // for private use: no plugin has it
constexpr uint32_t kFirstSlot = 40'000;

FilterStage stage(uint32_t id, std::vector<uint32_t> parameters = {}, bool optional = false) {
  return {.id = id, .parameters = std::move(parameters), .codec = {}, .name = {}, .optional = optional};
}
FilterStage codec_stage(const Json& codec) {
  FilterStage made;
  made.codec = codec;
  return made;
}

/// Chunks of 1000 int32.
filters::ChunkShape integers() {
  return {
      .bytes = 4000, .type = {TypeKind::signed_int, ByteOrder::little, 4, {}, {}}, .shape = {10'000}, .chunks = {1000}};
}

class FilterRegistration : public hdf5_testing::Hdf5Files {
 protected:
  /// A dataset of one chunk of 1000 int32.
  static Handle make_dataset(const Handle& file, std::span<const FilterStage> chain) {
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t chunk = 1000;
    H5Pset_chunk(properties.get(), 1, &chunk);
    const Result<> added = add_filters(properties.get(), chain);
    EXPECT_TRUE(added) << added.error().reason;
    return hdf5_testing::make_dataset(file, "v", H5T_STD_I32LE, {1000}, properties.get());
  }
  static std::optional<std::vector<int32_t>> read(const Handle& file) {
    const Handle dataset(H5Dopen2(file.get(), "v", H5P_DEFAULT));
    std::vector<int32_t> values(1000);
    if (H5Dread(dataset.get(), H5T_STD_I32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0) return std::nullopt;
    return values;
  }
  static void expect_error(const Result<std::vector<FilterStage>>& chain, int code, const std::string& reason) {
    ASSERT_FALSE(chain) << reason;
    EXPECT_EQ(chain.error().code, code) << chain.error().reason;
    EXPECT_NE(chain.error().reason.find(reason), std::string::npos) << chain.error().reason;
  }
};

// --- registration

TEST_F(FilterRegistration, LibraryUsesOurFilter) {
  const LibraryLock lock;
  ASSERT_TRUE(make_available(stage(kZstd)));
  EXPECT_GT(H5Zfilter_avail(kZstd), 0);
  unsigned flags = 0;
  ASSERT_GE(H5Zget_filter_info(kZstd, &flags), 0);
  EXPECT_EQ(flags, H5Z_FILTER_CONFIG_ENCODE_ENABLED | H5Z_FILTER_CONFIG_DECODE_ENABLED);

  std::vector<int32_t> values(1000);
  std::iota(values.begin(), values.end(), 0);
  const auto chain = complete_chain(std::array{stage(2), stage(kZstd, {5})}, integers());
  ASSERT_TRUE(chain) << chain.error().reason;
  {
    const Handle file = create();
    const Handle dataset = make_dataset(file, *chain);
    hdf5_testing::write_all(dataset, H5T_STD_I32LE, values);
    H5Dflush(dataset.get());
    EXPECT_LT(H5Dget_storage_size(dataset.get()), 2000) << "it is compressed";
  }
  const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  EXPECT_EQ(read(file), values);
}

// As the plugins that libhdf5 would load: their functions return 0 for such data, or they do not.
TEST_F(FilterRegistration, OnlyFiltersThatReturnNothingAreSkipped) {
  const LibraryLock lock;
  std::vector<int32_t> values(1000);
  uint32_t random = 1;
  for (int32_t& value : values) value = static_cast<int32_t>(random = random * 1664525 + 1013904223 + (random >> 11));
  for (const FilterStage& filter :
       {stage(kZstd, {1}, true), stage(kZstd, {1}, false), stage(32000, {4, 261, 4000}, true)}) {
    const Handle file = create();
    const Handle dataset = make_dataset(file, std::array{filter});
    hdf5_testing::write_all(dataset, H5T_STD_I32LE, values);
    H5Dflush(dataset.get());
    if (filter.id == kZstd) {
      EXPECT_GT(H5Dget_storage_size(dataset.get()), 4000);
    } else {
      EXPECT_EQ(H5Dget_storage_size(dataset.get()), 4000);
    }
    EXPECT_EQ(read(file), values);
  }
}

TEST_F(FilterRegistration, ADamagedChunkIsAnErrorOfTheRead) {
  const LibraryLock lock;
  const Handle file = create();
  {
    const Handle dataset = make_dataset(file, std::array{stage(kZstd, {1})});
    const std::string damaged(100, 'x');
    const hsize_t start = 0;
    ASSERT_GE(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, 0, &start, damaged.size(), damaged.data()), 0);
  }
  EXPECT_EQ(read(file), std::nullopt);
}

TEST_F(FilterRegistration, LibrarysOwnFiltersNeedNone) {
  const LibraryLock lock;
  for (uint32_t id = 1; id <= 6; ++id) EXPECT_TRUE(make_available(stage(id))) << id;
}

TEST_F(FilterRegistration, AnUnknownFilterIsAnError) {
  const LibraryLock lock;
  const Result<> available = make_available(stage(kUnknown));
  ASSERT_FALSE(available);
  EXPECT_EQ(available.error().code, ENOENT);
  EXPECT_EQ(available.error().reason, "filter 500 is neither built in nor a plugin's");
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  EXPECT_EQ(add_filters(properties.get(), std::array{stage(kUnknown)}).error().code, ENOENT);
}

TEST_F(FilterRegistration, AFilterThatIsRemovedCannotBeUsed) {
  filters::Filter filter{.id = 501, .name = "test_removed"};
  filter.make_coder = [](const filters::StageContext&) -> Result<filters::Coder> {
    const auto decode = [](Buffer in, const filters::SizeBound&) -> Result<Buffer> { return in; };
    return filters::Coder{.decode = decode, .encode = [](Bytes in) { return Buffer::copy_of(in); }};
  };
  ASSERT_TRUE(filters::register_filter(filter));
  const LibraryLock lock;
  const std::vector<int32_t> values(1000, 7);
  {
    const Handle file = create();
    hdf5_testing::write_all(make_dataset(file, std::array{stage(501)}), H5T_STD_I32LE, values);
  }
  {
    const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
    EXPECT_EQ(read(file), values);
  }
  ASSERT_TRUE(filters::unregister_filter(501));
  const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  EXPECT_EQ(read(file), std::nullopt);
}

TEST_F(FilterRegistration, AVariablesFiltersAreRegistered) {
  const auto child = [] {
    const LibraryLock lock;
    constexpr uint32_t kLz4 = 32004;
    const htri_t before = H5Zfilter_avail(kZstd);  // other tests may have registered it
    Variable variable;
    variable.filters = {stage(kLz4), stage(kUnknown)};  // what is unknown is no error yet
    register_temporarily(variable);
    if (H5Zfilter_avail(kLz4) <= 0 || H5Zfilter_avail(kUnknown) > 0) _exit(1);
    _exit(H5Zfilter_avail(kZstd) == before ? 0 : 2);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

// The sources of a virtual dataset may have any filter.
TEST_F(FilterRegistration, ForAVirtualDatasetAllFiltersAreRegistered) {
  Variable variable;
  variable.storage = Storage::virtual_sources;
  register_temporarily(variable);
  const LibraryLock lock;
  size_t count = 0;
  for (const filters::FilterPtr& filter : filters::list()) {
    if (filter->id == 0 || !filter->make_coder) continue;
    EXPECT_GT(H5Zfilter_avail(static_cast<H5Z_filter_t>(filter->id)), 0) << filter->name;
    ++count;
  }
  EXPECT_GT(count, 5);
}

// In a child, because slots are never freed.
TEST_F(FilterRegistration, SlotsAreLimited) {
  const auto child = [] {
    const LibraryLock lock;
    uint32_t id = kFirstSlot;
    Result<> available;
    for (; available && id < kFirstSlot + 100; ++id) {
      filters::Filter filter{.id = id, .name = fmt::format("test_{}", id)};
      filter.make_coder = [](const filters::StageContext&) -> Result<filters::Coder> { return filters::Coder{}; };
      if (!filters::register_filter(filter)) _exit(1);
      available = make_available(stage(id));
    }
    if (available || available.error().code != EOPNOTSUPP) _exit(2);
    if (available.error().reason.find("64 filters") == std::string::npos) _exit(3);
    // Those that have a slot keep it, and take no other.
    for (uint32_t had = kFirstSlot; had < id - 1; ++had)
      if (!make_available(stage(had))) _exit(4);
    _exit(0);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

// --- pipelines

TEST_F(FilterRegistration, APipelineIsStoredAndRead) {
  const LibraryLock lock;
  std::vector<uint32_t> many(40);  // more than most filters have
  std::iota(many.begin(), many.end(), 100);
  const std::vector<FilterStage> chain = {stage(2, {4}, true), stage(kZstd, many), stage(1, {6}, true), stage(3)};
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  const Result<> added = add_filters(properties.get(), chain);
  ASSERT_TRUE(added) << added.error().reason;
  const auto stored = stored_chain(properties.get());
  ASSERT_TRUE(stored) << stored.error().reason;
  ASSERT_EQ(stored->size(), chain.size());
  for (size_t i = 0; i < chain.size(); ++i) {
    EXPECT_EQ((*stored)[i].id, chain[i].id);
    EXPECT_EQ((*stored)[i].parameters, chain[i].parameters) << i;
    EXPECT_EQ((*stored)[i].optional, chain[i].optional) << i;
  }
  EXPECT_EQ((*stored)[0].name, "shuffle");
  EXPECT_EQ((*stored)[1].name, "zstd");
}

TEST_F(FilterRegistration, NoPipelineIsAnEmptyOne) {
  const LibraryLock lock;
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  EXPECT_TRUE(stored_chain(properties.get())->empty());
  const auto failed = stored_chain(H5P_DEFAULT);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, EIO);
}

TEST_F(FilterRegistration, ACompletedPipelineHasAllParameters) {
  const auto chain = complete_chain(std::array{stage(2), stage(1, {6}), stage(3)}, integers());
  ASSERT_TRUE(chain) << chain.error().reason;
  ASSERT_EQ(chain->size(), 3);
  EXPECT_EQ((*chain)[0].parameters, std::vector<uint32_t>{4}) << "shuffle: the size of an element";
  EXPECT_EQ((*chain)[1].parameters, std::vector<uint32_t>{6});
  EXPECT_TRUE((*chain)[0].optional);
  EXPECT_TRUE((*chain)[1].optional);
  EXPECT_FALSE((*chain)[2].optional) << "fletcher32";
  EXPECT_EQ((*chain)[2].name, "fletcher32");
  const auto again = complete_chain(*chain, integers());
  ASSERT_TRUE(again);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ((*again)[i].parameters, (*chain)[i].parameters);
}

TEST_F(FilterRegistration, ACodecBecomesParameters) {
  const auto chain = complete_chain(std::array{codec_stage({{"id", "zlib"}, {"level", 4}})}, integers());
  ASSERT_TRUE(chain) << chain.error().reason;
  EXPECT_EQ(chain->front().id, 1);
  EXPECT_EQ(chain->front().parameters, std::vector<uint32_t>{4});
}

TEST_F(FilterRegistration, PipelinesThatCannotBeWrittenAreRefused) {
  const auto complete = [](FilterStage one) { return complete_chain(std::array{std::move(one)}, integers()); };
  expect_error(complete_chain(std::vector<FilterStage>(33, stage(1, {1})), integers()), EINVAL,
               "33 filters in a pipeline; HDF5 supports at most 32");
  expect_error(complete(stage(kUnknown)), ENOENT, "filter 500 is neither built in nor a plugin's");
  expect_error(complete(codec_stage({{"id", "no_such"}})), ENOENT, "codec 'no_such' is neither built in");
  expect_error(complete(codec_stage({{"id", "delta"}, {"dtype", "<i4"}})), EINVAL, "has no HDF5 filter id");
  expect_error(complete(stage(5)), EOPNOTSUPP, "is not written by codecfs");
  expect_error(complete(stage(1, {10})), EINVAL, "the level from 0 to 9");
  expect_error(complete(stage(1)), EINVAL, "deflate needs one parameter");
  filters::ChunkShape text = integers();
  text.type = {TypeKind::complex, ByteOrder::little, 4, {}, {}};
  expect_error(complete_chain(std::array{stage(4, {4, 8})}, text), EINVAL, "szip only supports integers");
}

}  // namespace
}  // namespace codecfs::hdf5
