// Datasets that are re-encoded with other filters: everything that libhdf5 reads is unchanged, except for the filter
// pipeline.

#include <atomic>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <regex>
#include <thread>

#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "filters/core/filter_spec.h"
#include "model/json.h"
#include "support/crash_simulator.h"
#include "support/hdf5_description.h"
#include "support/write_log_testing.h"

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
    auto source = open_hdf5(path(name), true, io_);
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

  /// Re-encodes in one call, and compares.
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

  crash_testing::UnsyncedIo io_;
};

// A variable with everything that can refer to it --------------------------------------------------------------------

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

void make_rich(const Handle& file, const Form& form, bool ordered = true) {
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  const int fill = -7;
  H5Pset_fill_value(properties.get(), H5T_NATIVE_INT, &fill);
  if (ordered) H5Pset_attr_creation_order(properties.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
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
  if (form.chunked) H5Oset_comment(v.get(), "a comment that stays");
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
    make_rich(file, from, latest);
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

// Objects of the newest format in a file of the oldest: the second dataset has the old format, so that the exchanged
// headers have different versions.
TEST_F(Hdf5Recode, FormatsMayBeMixed) {
  for (const Form& from : kForms) {
    if (from.spec.starts_with("bzip2") || from.spec.starts_with("zstd") || from.spec.starts_with("blosc") ||
        from.spec.starts_with("lz4"))
      continue;  // not libhdf5's
    {
      const LibraryLock lock;
      create(false, 1024);
      const Handle access(H5Pcreate(H5P_FILE_ACCESS));
      H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
      const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDWR, access.get()));
      make_rich(file, from, false);
    }
    for (const char* spec : {"fletcher32", "shuffle|deflate,9", "none", "zstd,3"}) expect_same_after("v", spec);
    if (HasFailure()) return;
  }
}

// Repeated re-encoding -----------------------------------------------------------------------------------------------

TEST_F(Hdf5Recode, SpaceIsUsedAgain) {
  for (const bool latest : {false, true}) {
    {
      const LibraryLock lock;
      const Handle file = create(latest);
      make_rich(file, kForms[1]);
    }
    const std::string before = describe();
    auto source = open_writable();
    const uintmax_t made = std::filesystem::file_size(path());
    for (int round = 0; round < 30; ++round) {
      const Result<> done = recode(*source, "v", round % 2 == 0 ? "zstd,3" : "shuffle|deflate,4");
      ASSERT_TRUE(done) << "round " << round << ": " << done.error().reason;
      ASSERT_TRUE(source->commit());
    }
    EXPECT_GT(source->reclaimable_bytes(), 0U);
    ASSERT_TRUE(source->finish());
    EXPECT_TRUE(describe() == before);
    EXPECT_LT(std::filesystem::file_size(path()), 2 * made);
  }
}

enum class Kept { contiguous, compact, chunked, filtered };

Handle properties_of(Kept kept, hsize_t chunk, const std::function<void(hid_t)>& filter = {}) {
  Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  if (kept == Kept::compact) H5Pset_layout(properties.get(), H5D_COMPACT);
  if (kept == Kept::chunked || kept == Kept::filtered) H5Pset_chunk(properties.get(), 1, &chunk);
  if (filter) {
    filter(properties.get());
  } else if (kept == Kept::filtered) {
    H5Pset_deflate(properties.get(), 1);
  }
  return properties;
}

// So many chunks that libhdf5 evicts entries from its cache.
TEST_F(Hdf5Recode, ManyChunks) {
  constexpr hsize_t kChunks = 60'000;
  for (const bool latest : {false, true}) {
    {
      const LibraryLock lock;
      const Handle file = create(latest);
      std::vector<int> numbers(2 * kChunks);
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(i);
      write_all(make_dataset(file, "v", H5T_STD_I32LE, {numbers.size()}, properties_of(Kept::chunked, 2).get()),
                H5T_NATIVE_INT, numbers);
    }
    expect_same_after("v", "fletcher32");
    EXPECT_EQ(stored_chunks_of(path(), "v"), kChunks);
  }
}

// Types --------------------------------------------------------------------------------------------------------------

struct Compound {
  int number;
  const char* text;
  hobj_ref_t reference;
  hvl_t list;
};

Handle text_type() {
  Handle type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

Handle compound_type() {
  Handle type(H5Tcreate(H5T_COMPOUND, sizeof(Compound)));
  const Handle list(H5Tvlen_create(H5T_NATIVE_INT));
  H5Tinsert(type.get(), "number", offsetof(Compound, number), H5T_NATIVE_INT);
  H5Tinsert(type.get(), "text", offsetof(Compound, text), text_type().get());
  H5Tinsert(type.get(), "reference", offsetof(Compound, reference), H5T_STD_REF_OBJ);
  H5Tinsert(type.get(), "list", offsetof(Compound, list), list.get());
  return type;
}

// Names of variables that cannot be re-encoded begin with "no_".
void make_types(const Handle& file) {
  constexpr size_t kCount = 11;
  std::vector<int> numbers(kCount);
  for (size_t i = 0; i < kCount; ++i) numbers[i] = static_cast<int>(i * 3);
  const Handle target = make_dataset(file, "target", H5T_STD_I32LE, {kCount});
  write_all(target, H5T_NATIVE_INT, numbers);
  hobj_ref_t to_target{};
  ASSERT_GE(H5Rcreate(&to_target, file.get(), "target", H5R_OBJECT, -1), 0);
  const Handle selection(H5Dget_space(target.get()));
  const hsize_t start = 2;
  const hsize_t count = 4;
  H5Sselect_hyperslab(selection.get(), H5S_SELECT_SET, &start, nullptr, &count, nullptr);
  std::array<unsigned char, H5R_DSET_REG_REF_BUF_SIZE> to_region{};
  ASSERT_GE(H5Rcreate(to_region.data(), file.get(), "target", H5R_DATASET_REGION, selection.get()), 0);

  for (const Kept kept : {Kept::contiguous, Kept::compact, Kept::chunked, Kept::filtered}) {
    const std::string suffix = fmt::format("_{}", static_cast<int>(kept));
    const Handle properties = properties_of(kept, 4);
    const std::string no = kept == Kept::compact ? "no_" : "";
    const auto add = [&](const std::string& name, hid_t type, const auto& values) {
      write_all(make_dataset(file, name + suffix, type, {values.size()}, properties.get()), type, values);
    };
    add("int", H5T_NATIVE_INT, numbers);
    const std::vector<const char*> texts = {"one", "", nullptr, "four", "five"};
    add(no + "text", text_type().get(), texts);
    std::vector<Compound> compounds(5);
    for (size_t i = 0; i < compounds.size(); ++i)
      compounds[i] = {static_cast<int>(i), texts[i], i == 2 ? 0 : to_target, {i, numbers.data()}};
    add(no + "compound", compound_type().get(), compounds);
    add(no + "objects", H5T_STD_REF_OBJ, std::vector<hobj_ref_t>{to_target, 0, to_target, to_target, to_target});
    add(no + "regions", H5T_STD_REF_DSETREG, std::vector(5, to_region));
    const Handle opaque(H5Tcreate(H5T_OPAQUE, 4));
    H5Tset_tag(opaque.get(), "tagged");
    add("opaque", opaque.get(), numbers);
    const hsize_t three = 3;
    const Handle array(H5Tarray_create2(H5T_STD_I16BE, 1, &three));
    add("array", array.get(), std::vector<std::array<int16_t, 3>>(9, {1, 2, 3}));
    const Handle bits(H5Tcopy(H5T_STD_I32LE));
    H5Tset_precision(bits.get(), 17);
    H5Tset_offset(bits.get(), 3);
    write_all(make_dataset(file, "bits" + suffix, bits.get(), {kCount}, properties.get()), H5T_NATIVE_INT, numbers);
    const Handle fixed(H5Tcopy(H5T_C_S1));
    H5Tset_size(fixed.get(), 4);
    add("fixed", fixed.get(), numbers);
    const Handle committed(H5Tenum_create(H5T_STD_U8LE));
    const uint8_t zero = 0;
    const uint8_t one = 1;
    H5Tenum_insert(committed.get(), "none", &zero);
    H5Tenum_insert(committed.get(), "some", &one);
    H5Tcommit2(file.get(), ("type" + suffix).c_str(), committed.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    add("enum", committed.get(), std::vector<uint8_t>(20, 1));
    make_dataset(file, "empty" + suffix, H5T_STD_I32LE, {6}, properties.get());

    const Handle filled = properties_of(kept, 4);
    const char* const text = "fill";
    const Handle type = text_type();
    H5Pset_fill_value(filled.get(), type.get(), &text);
    make_dataset(file, no + "filled" + suffix, type.get(), {9}, filled.get());
  }
  write_all(make_dataset(file, "nbit", H5T_STD_I32LE, {kCount},
                         properties_of(Kept::filtered, 4, [](hid_t list) { H5Pset_nbit(list); }).get()),
            H5T_NATIVE_INT, numbers);
  const auto scale = [](hid_t list) { H5Pset_scaleoffset(list, H5Z_SO_INT, 0); };
  write_all(make_dataset(file, "scaled", H5T_STD_I32LE, {kCount}, properties_of(Kept::filtered, 4, scale).get()),
            H5T_NATIVE_INT, numbers);
  const Handle edges = properties_of(Kept::filtered, 4);
  if (H5Pset_chunk_opts(edges.get(), H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) >= 0)
    write_all(make_dataset(file, "edges", H5T_STD_I32LE, {kCount}, edges.get()), H5T_NATIVE_INT, numbers);
  make_dataset(file, "no_scalar", H5T_STD_I32LE, {});
  const Handle null(H5Screate(H5S_NULL));
  const Handle nothing(
      H5Dcreate2(file.get(), "no_null", H5T_STD_I32LE, null.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
}

// HDF5 1.10 has no mandatory filters for elements of variable length.
bool refuses(const std::string& name, const std::string& spec) {
  static const bool takes_checksums = text_takes_checksums();
  const bool variable = name.starts_with("text") || name.starts_with("filled");
  return name.starts_with("no_") || (variable && spec == "fletcher32" && !takes_checksums);
}

TEST_F(Hdf5Recode, AllTypesKeepTheirValues) {
  for (const bool latest : {false, true}) {
    {
      const LibraryLock lock;
      make_types(create(latest, latest ? 1024 : 0));
    }
    const std::string before = describe();
    auto source = open_writable();
    auto entries = source->list(source->root().object);
    ASSERT_TRUE(entries);
    EXPECT_GE(entries->size(), 50U);
    for (const char* spec : {"bzip2,9", "shuffle|deflate,3", "fletcher32", "none"}) {
      for (const Entry& entry : *entries) {
        Progress progress;
        const Result<> done = source->set_filters(entry.object, chain(spec), progress);
        if (refuses(entry.name, spec)) {
          if (spec == std::string("none")) continue;
          ASSERT_FALSE(done) << entry.name;
          EXPECT_TRUE(done.error().code == EOPNOTSUPP || done.error().code == EINVAL) << done.error().reason;
          continue;
        }
        ASSERT_TRUE(done) << entry.name << ", " << spec << ": " << done.error().reason;
        EXPECT_EQ(progress.done, progress.total);
      }
      ASSERT_TRUE(source->finish());
      source.reset();
      const std::string after = describe();
      ASSERT_TRUE(before == after) << spec << "\n" << first_difference(before, after);
      for (const Entry& entry : *entries) {
        if (!refuses(entry.name, spec)) {
          EXPECT_EQ(chain_of(path(), entry.name), ids_of(spec)) << entry.name;
        }
      }
      source = open_writable();
      entries = source->list(source->root().object);
      ASSERT_TRUE(entries);
    }
    source.reset();
    std::filesystem::remove(path());
  }
}

// Refusals and failures ----------------------------------------------------------------------------------------------

TEST_F(Hdf5Recode, RefusesWhatCannotBe) {
  {
    const LibraryLock lock;
    const Handle file = create();
    make_rich(file, kForms[2]);
    const Handle fixed(H5Tcopy(H5T_C_S1));
    H5Tset_size(fixed.get(), 4);
    make_dataset(file, "fixed", fixed.get(), {20});
    make_dataset(file, "scalar", H5T_STD_I32LE, {});
    const Handle outside(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_external(outside.get(), "other.bin", 0, 80);
    make_dataset(file, "external", H5T_STD_I32LE, {20}, outside.get());
    const Handle view(H5Pcreate(H5P_DATASET_CREATE));
    const Handle space(H5Screate_simple(1, std::array<hsize_t, 1>{20}.data(), nullptr));
    H5Pset_virtual(view.get(), space.get(), "none.h5", "x", space.get());
    make_dataset(file, "virtual", H5T_STD_I32LE, {20}, view.get());
  }
  const auto content = [&] { return write_log_testing::content_of(path()); };
  const auto before = content();
  auto source = open_writable();
  const struct {
    const char* name;
    const char* spec;
    int code;
  } refused[] = {{"v", "31999", ENOENT},
                 {"v", "deflate,10", EINVAL},
                 {"v", "deflate", EINVAL},
                 {"v", "deflate,1,2", EINVAL},
                 {"v", "szip,32,7", EINVAL},
                 {"v", "szip,32", EINVAL},
                 {"fixed", "szip,32,8", EINVAL},
                 {"v", "blosc,0,0,0,0,99,1,0", EINVAL},
                 {"v", "5", EOPNOTSUPP},
                 {"v", "6,2,0", EOPNOTSUPP},
                 {"scalar", "deflate,1", EINVAL},
                 {"external", "deflate,1", EOPNOTSUPP},
                 {"virtual", "deflate,1", EOPNOTSUPP}};
  for (const auto& [name, spec, code] : refused) {
    const Result<> done = recode(*source, name, spec);
    ASSERT_FALSE(done) << name << " " << spec;
    EXPECT_EQ(done.error().code, code) << name << " " << spec << ": " << done.error().reason;
    EXPECT_NE(done.error().reason.find(name), std::string::npos) << done.error().reason;
  }
  Progress progress;
  FilterStage zarr_only;
  zarr_only.codec = Json{{"id", "packbits"}};
  EXPECT_EQ(source->set_filters(object_at(*source, "v"), std::array{zarr_only}, progress).error().code, EINVAL);
  EXPECT_EQ(source->set_filters(object_at(*source, "g"), chain("none"), progress).error().code, EISDIR);
  EXPECT_TRUE(recode(*source, "v", "shuffle|deflate,4")) << "it has this chain";
  ASSERT_TRUE(source->finish());
  source.reset();
  EXPECT_TRUE(content() == before);

  auto reader = open_source_of(path());
  EXPECT_TRUE(recode(*reader, "v", "shuffle|deflate,4"));
  EXPECT_EQ(recode(*reader, "v", "zstd,1").error().code, EROFS);
  EXPECT_TRUE(content() == before);
}

TEST_F(Hdf5Recode, RefusesFilesThatShareMessages) {
  {
    const LibraryLock lock;
    const Handle creation(H5Pcreate(H5P_FILE_CREATE));
    H5Pset_shared_mesg_nindexes(creation.get(), 1);
    H5Pset_shared_mesg_index(creation.get(), 0, H5O_SHMESG_ALL_FLAG, 8);
    const Handle file(H5Fcreate(path().c_str(), H5F_ACC_TRUNC, creation.get(), H5P_DEFAULT));
    make_rich(file, kForms[2]);
  }
  const std::string before = describe();
  auto source = open_writable();
  const Result<> done = recode(*source, "v", "zstd,3");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, EOPNOTSUPP) << done.error().reason;
  ASSERT_TRUE(source->finish());
  EXPECT_TRUE(describe() == before);
}

TEST_F(Hdf5Recode, OneBadChunkLeavesEverythingAsItIs) {
  {
    const LibraryLock lock;
    make_rich(create(), kForms[2]);
  }
  uint64_t where = 0;
  {
    auto source = open_source_of(path());
    where = *source->locate(object_at(*source, "v"), 6)->offset;
  }
  std::FILE* file = std::fopen(path().c_str(), "r+");
  ASSERT_NE(file, nullptr);
  std::fseek(file, static_cast<long>(where), SEEK_SET);
  std::fputs("no deflate", file);
  std::fclose(file);
  auto source = open_writable();
  const ObjectId v = object_at(*source, "v");
  const Result<> done = recode(*source, "v", "zstd,3");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, EIO);
  EXPECT_NE(done.error().reason.find(variable_at(*source, "v")->grid.name_of(6)), std::string::npos)
      << done.error().reason;
  EXPECT_TRUE(source->read_chunk(v, 0));
  EXPECT_TRUE(recode(*source, "w", "zstd,3")) << "other variables can be re-encoded";
  ASSERT_TRUE(source->finish());
  source.reset();
  EXPECT_EQ(chain_of(path(), "v"), ids_of("shuffle|deflate,4"));
}

TEST_F(Hdf5Recode, CanBeCancelled) {
  {
    const LibraryLock lock;
    make_rich(create(), kForms[1]);
  }
  const std::string before = describe();
  auto source = open_writable();
  for (int after = 0; after < 12; ++after) {
    Progress progress;
    std::atomic<int> asked = 0;
    progress.cancelled = [&] { return asked++ >= after; };
    const Result<> done = source->set_filters(object_at(*source, "v"), chain("zstd,3"), progress);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ECANCELED) << done.error().reason;
    EXPECT_LE(progress.done, static_cast<uint64_t>(after));
  }
  ASSERT_TRUE(source->finish());
  source.reset();
  EXPECT_TRUE(describe() == before);
  expect_same_after("v", "zstd,3");
}

/// One operation fails, or all operations from it on.
TEST_F(Hdf5Recode, FailuresOfTheDiskTakeEverythingBack) {
  {
    const LibraryLock lock;
    const Handle file = create(false, 0, "made.h5");
    make_rich(file, kForms[2]);
  }
  const auto place = [&] {
    std::filesystem::copy_file(path("made.h5"), path(), std::filesystem::copy_options::overwrite_existing);
  };
  place();
  const std::string before = describe();
  size_t first = 0;
  size_t last = 0;
  {
    crash_testing::FaultyIo io(SIZE_MAX, EIO, false);
    auto source = open_hdf5(path(), true, io);
    ASSERT_TRUE(source && (*source)->begin_writing_to((*source)->root().object));
    first = io.operations();
    ASSERT_TRUE(recode(**source, "v", "zstd,3"));
    last = io.operations();
    ASSERT_TRUE((*source)->finish());
  }
  ASSERT_GT(last, first + 10);
  size_t failed = 0;
  std::set<size_t> unknown;  // if the sync of the last commit fails, the disk may have either state
  for (size_t at = first; at < last; ++at) {
    for (const bool lasting : {false, true}) {
      place();
      crash_testing::FaultyIo io(at, ENOSPC, lasting);
      const std::string where = fmt::format("operation {}{}", at - first, lasting ? " and later" : "");
      auto source = open_hdf5(path(), true, io);
      ASSERT_TRUE(source && (*source)->begin_writing_to((*source)->root().object)) << where;
      const VariablePtr old = variable_at(**source, "v");
      const Buffer chunk = *(*source)->read_chunk(object_at(**source, "v"), 1);
      const Result<> done = recode(**source, "v", "zstd,3");
      failed += done ? 0 : 1;
      const VariablePtr now = variable_at(**source, "v");
      ASSERT_TRUE(now) << where;
      const bool is_new = now->filters.size() == 1;
      EXPECT_TRUE(is_new || now->filters.size() == 2) << where;
      EXPECT_TRUE(is_new || !done) << where;
      if (is_new && !done) unknown.insert(at);
      const auto again = (*source)->read_chunk(object_at(**source, "v"), 1);
      ASSERT_TRUE(again) << where << ": " << again.error().reason;
      EXPECT_TRUE(std::ranges::equal(again->bytes(), chunk.bytes())) << where;
      EXPECT_TRUE((*source)->read_chunk(object_at(**source, "w"), 1)) << where;
      source->reset();  // as a mount that is killed
      const auto recovered = recover_hdf5_log(path());
      ASSERT_TRUE(recovered) << where << ": " << recovered.error().reason;
      const std::string after = describe();
      ASSERT_TRUE(before == after) << where << "\n" << first_difference(before, after);
      EXPECT_EQ(chain_of(path(), "v"), ids_of(is_new ? "zstd,3" : "shuffle|deflate,4")) << where;
    }
  }
  EXPECT_GT(failed, 10U);
  EXPECT_LE(unknown.size(), 1U);
}

// Concurrent access ---------------------------------------------------------------------------------------------------

TEST_F(Hdf5Recode, ReadersAndWritersOfOthersGoOn) {
  {
    const LibraryLock lock;
    make_rich(create(true), kForms[1]);
  }
  auto source = open_writable();
  const ObjectId v = object_at(*source, "v");
  const ObjectId w = object_at(*source, "w");
  std::vector<Buffer> chunks;
  const auto numbers = *source->stored_chunks(v, 0, 100);
  for (const uint64_t number : numbers) chunks.push_back(*source->read_chunk(v, number));
  const Buffer of_w = *source->read_chunk(w, 3);
  std::atomic<bool> stop = false;
  std::atomic<int> rounds = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (size_t i = 0; !stop; i = (i + 1) % numbers.size()) {
          const auto chunk = source->read_chunk(v, numbers[i]);
          ASSERT_TRUE(chunk) << chunk.error().reason;
          ASSERT_TRUE(std::ranges::equal(chunk->bytes(), chunks[i].bytes()));
          const auto info = source->locate(v, numbers[i]);
          ASSERT_TRUE(info && info->stored);
          ASSERT_TRUE(source->variable(v));
          ++rounds;
        }
      });
    }
    threads.emplace_back([&] {
      while (!stop) {
        const Result<> written = source->write_chunk(w, 3, of_w.bytes());
        ASSERT_TRUE(written) << written.error().reason;
        ASSERT_TRUE(source->commit());
      }
    });
    for (int round = 0; round < 20; ++round) {
      const Result<> done = recode(*source, "v", round % 2 == 0 ? "zstd,3" : "fletcher32|shuffle|deflate,1");
      ASSERT_TRUE(done) << done.error().reason;
    }
    stop = true;
  }
  EXPECT_GT(rounds, 20);
  ASSERT_TRUE(source->finish());
}

// Output of other programs -------------------------------------------------------------------------------------------

std::string output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return "cannot run " + command;
  std::string text;
  char buffer[4096];
  while (const size_t count = fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, count);
  return pclose(pipe) == 0 ? text : "";
}

constexpr const char* kNetcdf = R"(netcdf made {
types:
  compound pair { int a ; double b ; } ;
  int(*) list ;
dimensions:
  time = UNLIMITED ;
  x = 7 ;
  bare = 3 ;
variables:
  double time(time) ;
    time:units = "days" ;
  float x(x) ;
  float v(time, x) ;
    v:_FillValue = -9.f ;
    v:a1 = 1 ; v:a2 = 2 ; v:a3 = 3 ; v:a4 = 4 ; v:a5 = 5 ; v:a6 = 6 ; v:a7 = 7 ; v:a8 = 8 ; v:a9 = "nine" ;
    v:_Storage = "chunked" ; v:_ChunkSizes = 2, 4 ;
    v:_DeflateLevel = 4 ;
  short packed(x, bare) ;
  string names(bare) ;
  char letters(x, bare) ;
  pair pairs(bare) ;
  list lists(bare) ;
data:
  time = 1, 2, 3, 4, 5 ;
  x = 1, 2, 3, 4, 5, 6, 7 ;
  v = 1, 2, 3, 4, 5, 6, 7, _, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 1, 1, 1, 1, 1, 1, 1 ;
  packed = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21 ;
  names = "one", "", "three" ;
  letters = "abc", "def", "ghi", "jkl", "mno", "pqr", "stu" ;
  pairs = {1, 2.5}, {3, 4.5}, {5, 6.5} ;
  lists = {1}, {2, 3}, {4, 5, 6} ;
group: inner {
  variables:
    int w(time, x) ;
}
}
)";

TEST_F(Hdf5Recode, NcdumpAndH5dumpTellTheSame) {
  {
    std::ofstream cdl(path("made.cdl"));
    cdl << kNetcdf;
  }
  output_of("ncgen -4 -o " + path() + " " + path("made.cdl"));
  if (!std::filesystem::exists(path())) GTEST_SKIP() << "there is no ncgen";
  const auto tell = [&] {
    // h5dump of HDF5 2 prints a number of its memory for a referenced dataset.
    const std::string dump = output_of("h5dump " + path());
    return output_of("ncdump " + path()) + std::regex_replace(dump, std::regex("DATASET [0-9]+ "), "DATASET ");
  };
  const std::string before = tell();
  ASSERT_GT(before.size(), 2000U);
  const std::vector<std::string> names = {"time", "x", "v", "packed", "names", "letters", "pairs", "lists", "inner/w"};
  for (const char* spec : {"shuffle|deflate,2", "none", "fletcher32|deflate,9", "deflate,1"}) {
    auto source = open_writable();
    EXPECT_EQ(source->format(), "netCDF-4");
    for (const std::string& name : names) {
      const auto dimensions = variable_at(*source, name)->dimensions;
      const bool variable_length = name == "names" || name == "lists";
      const Result<> done = recode(*source, name, spec);
      if (variable_length && std::string_view(spec).starts_with("fletcher32") && !text_takes_checksums()) {
        EXPECT_FALSE(done);
        continue;
      }
      ASSERT_TRUE(done) << name << ", " << spec << ": " << done.error().reason;
      EXPECT_EQ(variable_at(*source, name)->dimensions, dimensions);
    }
    ASSERT_TRUE(source->finish());
    const std::string after = tell();
    ASSERT_TRUE(after == before) << spec << "\n" << first_difference(before, after);
    const std::string special = output_of("ncdump -hs " + path());
    EXPECT_EQ(special.find("v:_DeflateLevel = ") != std::string::npos, spec != std::string_view("none"));
    EXPECT_EQ(special.find("v:_Fletcher32 = ") != std::string::npos, std::string_view(spec).starts_with("fletcher32"));
  }
}

// For virtual datasets libhdf5 opens other files, and this one a second time.
TEST_F(Hdf5Recode, VirtualDatasetsAreReadOn) {
  {
    const LibraryLock lock;
    make_rich(create(true, 0, "other.h5"), kForms[2]);
    const Handle file = create(true);
    make_rich(file, kForms[2]);
    const Handle space(H5Screate_simple(1, std::array<hsize_t, 1>{100}.data(), nullptr));
    for (const std::string& of : {path(), path("other.h5"), std::string(".")}) {
      const Handle view(H5Pcreate(H5P_DATASET_CREATE));
      H5Pset_virtual(view.get(), space.get(), of.c_str(), "w", space.get());
      make_dataset(file, of == "." ? "same" : of == path() ? "own" : "other", H5T_STD_I32LE, {100}, view.get());
    }
  }
  auto source = open_writable();
  const auto values = [&](const char* name) {
    const auto chunk = source->read_chunk(object_at(*source, name), 0);
    EXPECT_TRUE(chunk) << name << ": " << chunk.error().reason;
    return chunk ? elements_of<int>(*chunk) : std::vector<int>();
  };
  const std::vector<int> expected = values("same");
  EXPECT_EQ(expected[9], 81);
  for (const char* spec : {"zstd,3", "none", "shuffle|deflate,2"}) {
    for (const char* name : {"same", "own", "other"}) EXPECT_TRUE(values(name) == expected) << name;
    for (const char* name : {"v", "w"}) {
      const Result<> done = recode(*source, name, spec);
      ASSERT_TRUE(done) << done.error().reason;
    }
    for (const char* name : {"same", "own", "other"}) EXPECT_TRUE(values(name) == expected) << name << " " << spec;
  }
  ASSERT_TRUE(source->finish());
}

}  // namespace
}  // namespace codecfs
