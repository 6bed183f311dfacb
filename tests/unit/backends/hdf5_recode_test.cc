// Datasets that are stored anew with other filters: everything that libhdf5 reads is as before, but the chain.

#include <atomic>
#include <iostream>
#include <thread>

#include "backends/hdf5/hdf5_version.h"
#include "backends/hdf5/library_lock.h"
#include "filters/filter_spec.h"
#include "hdf5_description.h"

namespace codecfs {
namespace {

using namespace hdf5_testing;
using hdf5::LibraryLock;

std::string first_difference(const std::string& left, const std::string& right) {
  const auto at = std::ranges::mismatch(left, right).in1 - left.begin();
  const auto from = static_cast<size_t>(std::max<ptrdiff_t>(at - 60, 0));
  return fmt::format("\"{}\"\n\"{}\"", left.substr(from, 160), right.substr(std::min(from, right.size()), 160));
}

std::vector<uint32_t> chain_of(const std::string& path, const std::string& name) {
  const LibraryLock lock;
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Handle dataset(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT));
  const Handle properties(H5Dget_create_plist(dataset.get()));
  std::vector<uint32_t> ids;
  for (unsigned i = 0; i < static_cast<unsigned>(std::max(H5Pget_nfilters(properties.get()), 0)); ++i) {
    size_t none = 0;
    unsigned flags = 0;
    const H5Z_filter_t id = H5Pget_filter2(properties.get(), i, &flags, &none, nullptr, 0, nullptr, nullptr);
    EXPECT_EQ((flags & H5Z_FLAG_OPTIONAL) != 0, id != H5Z_FILTER_FLETCHER32) << name << ", filter " << id;
    ids.push_back(static_cast<uint32_t>(id));
  }
  return ids;
}

std::vector<FilterStage> chain(const std::string& spec) {
  auto parsed = filters::parse_filter_spec(spec);
  EXPECT_TRUE(parsed) << parsed.error().reason;
  return *parsed;
}

std::vector<uint32_t> ids_of(const std::string& spec) {
  std::vector<uint32_t> ids;
  for (const FilterStage& stage : chain(spec)) ids.push_back(stage.id);
  return ids;
}

size_t stored_chunks_of(const std::string& path, const std::string& name) {
  const LibraryLock lock;
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Handle dataset(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT));
  const Handle space(H5Dget_space(dataset.get()));
  hsize_t count = 0;
  EXPECT_GE(H5Dget_num_chunks(dataset.get(), space.get(), &count), 0);
  return count;
}

class Hdf5Recode : public Hdf5Files {
 protected:
  std::unique_ptr<Source> open_writable(const std::string& name = "t.h5") {
    auto source = open_hdf5(path(name), true);
    EXPECT_TRUE(source) << source.error().reason;
    return *std::move(source);
  }

  Result<> recode(Source& source, const std::string& name, const std::string& spec) {
    Progress progress;
    const Result<> result = source.set_filters(object_at(source, name), chain(spec), progress);
    if (result) {
      EXPECT_EQ(progress.done, progress.total);
    }
    return result;
  }

  std::string describe(const std::string& name = "t.h5") {
    const LibraryLock lock;
    return Description::of(path(name));
  }

  /// Stores anew in one go, and compares.
  void expect_same_after(const std::string& name, const std::string& spec) {
    const std::string before = describe();
    auto source = open_writable();
    const Result<> done = recode(*source, name, spec);
    ASSERT_TRUE(done) << name << ", " << spec << ": " << done.error().reason;
    ASSERT_TRUE(source->finish());
    source.reset();
    EXPECT_EQ(chain_of(path(), name), ids_of(spec));
    const std::string after = describe();
    EXPECT_TRUE(before == after) << name << ", " << spec << "\n" << first_difference(before, after);
  }
};

// A variable with all that may hang on one ---------------------------------------------------------------------------

struct Form {
  std::string name;
  bool chunked = true;
  std::string spec{};
};
std::ostream& operator<<(std::ostream& stream, const Form& form) { return stream << form.name; }

const Form kForms[] = {{"contiguous", false},
                       {"none", true},
                       {"deflate_shuffle", true, "shuffle|deflate,4"},
                       {"szip", true, "szip,32,8"},
                       {"bzip2", true, "bzip2,9"},
                       {"zstd", true, "zstd,3"},
                       {"blosc", true, "blosc,0,0,0,0,5,1,0"},
                       {"lz4", true, "lz4,0"},
                       {"checked_deflate", true, "fletcher32|deflate,6"}};

constexpr size_t kRows = 37;
constexpr size_t kColumns = 33;

std::vector<int> some_numbers() {
  std::vector<int> numbers(kRows * kColumns);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(i * i % 1009);
  return numbers;
}

void add_attributes(hid_t object, int count) {
  const Handle space(H5Screate(H5S_SCALAR));
  for (int i = count; i-- > 0;) {
    const Handle attribute(H5Acreate2(object, fmt::format("a{}", i * 7 % count).c_str(), H5T_STD_I32LE, space.get(),
                                      H5P_DEFAULT, H5P_DEFAULT));
    ASSERT_GE(H5Awrite(attribute.get(), H5T_NATIVE_INT, &i), 0);
  }
}

void add_reference(const Handle& file, hid_t object, const char* name, H5R_type_t kind, hid_t space) {
  const hid_t type = kind == H5R_OBJECT ? H5T_STD_REF_OBJ : H5T_STD_REF_DSETREG;
  hdset_reg_ref_t reference{};
  ASSERT_GE(H5Rcreate(&reference, file.get(), "v", kind, space), 0);
  const Handle scalar(H5Screate(H5S_SCALAR));
  const Handle attribute(H5Acreate2(object, name, type, scalar.get(), H5P_DEFAULT, H5P_DEFAULT));
  ASSERT_GE(H5Awrite(attribute.get(), type, &reference), 0);
}

void make_rich(const Handle& file, const Form& form) {
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  const int fill = -7;
  H5Pset_fill_value(properties.get(), H5T_NATIVE_INT, &fill);
  H5Pset_attr_creation_order(properties.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  std::vector<hsize_t> most = {kRows, kColumns};
  if (form.chunked) {
    const hsize_t chunks[] = {10, 10};
    H5Pset_chunk(properties.get(), 2, chunks);
    most = {H5S_UNLIMITED, 50};
  }
  if (form.name == "deflate_shuffle") {
    H5Pset_shuffle(properties.get());
    H5Pset_deflate(properties.get(), 4);
  }
  if (form.name == "szip") H5Pset_szip(properties.get(), H5_SZIP_NN_OPTION_MASK, 8);
  if (form.name == "checked_deflate") {
    H5Pset_filter(properties.get(), H5Z_FILTER_FLETCHER32, H5Z_FLAG_MANDATORY, 0, nullptr);
    H5Pset_deflate(properties.get(), 6);
  }
  const Handle v = make_dataset(file, "v", H5T_STD_I32BE, {kRows, kColumns}, properties.get(), most);
  if (form.chunked) {  // some chunks stay absent
    const Handle space(H5Dget_space(v.get()));
    const hsize_t start[] = {0, 0};
    const hsize_t count[] = {kRows, 25};
    const Handle memory(H5Screate_simple(2, count, nullptr));
    H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start, nullptr, count, nullptr);
    ASSERT_GE(H5Dwrite(v.get(), H5T_NATIVE_INT, memory.get(), space.get(), H5P_DEFAULT, some_numbers().data()), 0);
  } else {
    write_all(v, H5T_NATIVE_INT, some_numbers());
  }
  add_attributes(v.get(), 12);
  const Handle x = make_dataset(file, "x", H5T_STD_I32LE, {kColumns});
  H5DSset_scale(x.get(), "x");
  ASSERT_GE(H5DSattach_scale(v.get(), x.get(), 1), 0);
  const Handle group(H5Gcreate2(file.get(), "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  ASSERT_GE(H5Lcreate_hard(file.get(), "v", group.get(), "again", H5P_DEFAULT, H5P_DEFAULT), 0);
  const Handle region(H5Screate_simple(2, std::array<hsize_t, 2>{kRows, kColumns}.data(), nullptr));
  const hsize_t start[] = {3, 4};
  const hsize_t count[] = {5, 6};
  H5Sselect_hyperslab(region.get(), H5S_SELECT_SET, start, nullptr, count, nullptr);
  add_reference(file, group.get(), "object", H5R_OBJECT, -1);
  add_reference(file, group.get(), "region", H5R_DATASET_REGION, region.get());
  const Handle other(H5Pcreate(H5P_DATASET_CREATE));
  const hsize_t chunks[] = {8};
  H5Pset_chunk(other.get(), 1, chunks);
  H5Pset_deflate(other.get(), 1);
  const Handle w = make_dataset(file, "w", H5T_STD_I32LE, {100}, other.get());
  write_all(w, H5T_NATIVE_INT, some_numbers());
}

class Hdf5RecodeForms : public Hdf5Recode, public testing::WithParamInterface<std::tuple<Form, bool>> {};

TEST_P(Hdf5RecodeForms, BecomesEveryOtherForm) {
  const auto& [from, latest] = GetParam();
  {
    const LibraryLock lock;
    const Handle file = create(latest, latest ? 0 : 512, "made.h5");
    make_rich(file, from);
  }
  if (chain_of(path("made.h5"), "v") != ids_of(from.spec)) {
    auto source = open_writable("made.h5");
    ASSERT_TRUE(recode(*source, "v", from.spec));
    ASSERT_TRUE(source->finish());
  }
  for (const Form& to : kForms) {
    std::filesystem::copy_file(path("made.h5"), path(), std::filesystem::copy_options::overwrite_existing);
    expect_same_after("v", to.spec);
    if (to.chunked && from.chunked) {
      EXPECT_EQ(stored_chunks_of(path(), "v"), 12U);
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Hdf5RecodeForms, testing::Combine(testing::ValuesIn(kForms), testing::Bool()),
                         [](const auto& parameters) {
                           return std::get<0>(parameters.param).name +
                                  (std::get<1>(parameters.param) ? "_latest" : "_earliest");
                         });

// Again and again --------------------------------------------------------------------------------------------------

TEST_F(Hdf5Recode, SpaceIsUsedAgain) {
  for (const bool latest : {false, true}) {
    {
      const LibraryLock lock;
      const Handle file = create(latest);
      make_rich(file, kForms[1]);
    }
    const std::string before = describe();
    auto source = open_writable();
    uintmax_t size = 0;
    for (int round = 0; round < 30; ++round) {
      const Result<> done = recode(*source, "v", round % 2 == 0 ? "zstd,3" : "shuffle|deflate,4");
      ASSERT_TRUE(done) << "round " << round << ": " << done.error().reason;
      ASSERT_TRUE(source->commit());
      if (round == 9) size = std::filesystem::file_size(path()) + source->reclaimable_bytes();
    }
    EXPECT_GT(source->reclaimable_bytes(), 0U);
    ASSERT_TRUE(source->finish());
    EXPECT_TRUE(describe() == before);
    std::cout << "size " << size << " then " << std::filesystem::file_size(path()) << std::endl;
  }
}

}  // namespace
}  // namespace codecfs
