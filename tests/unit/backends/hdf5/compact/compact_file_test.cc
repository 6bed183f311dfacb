// A compacted file has the same content for libhdf5 and h5dump, and is smaller; or it is unchanged.

#include "backends/hdf5/compact/compact_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <regex>

#include "backends/hdf5/format/superblock.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "support/crash_simulator.h"
#include "support/hdf5_testing.h"

namespace codecfs {
namespace {

using namespace hdf5_testing;
namespace fs = std::filesystem;

constexpr H5Z_filter_t kUnknownFilter = 32999;
constexpr auto kUnknownLink = static_cast<H5L_type_t>(187);

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The output of a tool; empty if it is not installed.
std::string output_of(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  std::string output;
  std::array<char, 4096> part{};
  while (const size_t count = fread(part.data(), 1, part.size(), pipe)) output.append(part.data(), count);
  return WEXITSTATUS(pclose(pipe)) == 127 ? "" : output;
}

/// The output of h5dump for a file, without offsets and compression ratios.
std::string dump_of(const std::string& path) {
  std::string all;
  for (const char* options : {"-p", "-p -B -A -q creation_order -z ascending"})
    all += output_of(fmt::format("h5dump {} '{}'", options, path));
  all = std::regex_replace(all, std::regex(R"((DATASET|GROUP|DATATYPE) \d+ )"), "$1 ");
  all = std::regex_replace(all, std::regex(R"((OFFSET|USERBLOCK_SIZE) \d+)"), "$1");
  all = std::regex_replace(all, std::regex(R"("/?#\d+")"), "anonymous");
  return std::regex_replace(all, std::regex(R"(SIZE \d+ \([^)]*COMPRESSION\))"), "SIZE");
}

class Hdf5Compact : public Hdf5Files {
 protected:
  static std::string compact(const std::string& file) {
    const auto told = hdf5::compact_file(file, real_file_io());
    EXPECT_TRUE(told) << (told ? "" : told.error().reason);
    return told ? *told : "";
  }

  /// Adds unused space that the compaction can remove; libhdf5 ignores bytes beyond its own end of the file.
  static void pad(const std::string& file) { fs::resize_file(file, fs::file_size(file) + (1 << 20)); }

  /// Expects an error that leaves the file unchanged, and no other files.
  void expect_refused(int code, const std::string& reason) const {
    const std::string before = content_of(path());
    const auto told = hdf5::compact_file(path(), real_file_io());
    ASSERT_FALSE(told) << *told;
    EXPECT_EQ(told.error().code, code) << told.error().reason;
    EXPECT_NE(told.error().reason.find(reason), std::string::npos) << told.error().reason;
    EXPECT_EQ(content_of(path()), before);
    expect_nothing_left();
  }

  void expect_nothing_left() const {
    for (const auto& entry : fs::directory_iterator(folder_))
      EXPECT_EQ(entry.path().filename().string().find(".codecfs"), std::string::npos) << entry.path();
  }
};

// ---- a file with every kind of object

Handle committed(const Handle& file, const char* name, hid_t type) {
  Handle copy(H5Tcopy(type));
  EXPECT_GE(H5Tcommit2(file.get(), name, copy.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), 0);
  return copy;
}

void add_attribute(const Handle& object, const char* name, hid_t type, const void* value, hsize_t count = 0) {
  const Handle space(count == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &count, nullptr));
  const Handle attribute(H5Acreate2(object.get(), name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT));
  ASSERT_TRUE(attribute) << name;
  ASSERT_GE(H5Awrite(attribute.get(), type, value), 0) << name;
}

hobj_ref_t reference_to(const Handle& file, const char* name) {
  hobj_ref_t reference = 0;
  EXPECT_GE(H5Rcreate(&reference, file.get(), name, H5R_OBJECT, H5I_INVALID_HID), 0) << name;
  return reference;
}

Handle chunked(hsize_t rows, bool deflate) {
  Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_chunk(properties.get(), 1, &rows);
  if (deflate) H5Pset_deflate(properties.get(), 4);
  return properties;
}

void write_rows(const Handle& dataset, hid_t type, hsize_t from, hsize_t count, const void* values) {
  const Handle space(H5Dget_space(dataset.get()));
  const Handle memory(H5Screate_simple(1, &count, nullptr));
  H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, &from, nullptr, &count, nullptr);
  ASSERT_GE(H5Dwrite(dataset.get(), type, memory.get(), space.get(), H5P_DEFAULT, values), 0);
}

void add_layouts(const Handle& file) {
  const std::vector<int> numbers(1000, 7);
  write_all(make_dataset(file, "data/contiguous", H5T_STD_I32BE, {1000}), H5T_NATIVE_INT, numbers);
  make_dataset(file, "data/never_written", H5T_STD_I32LE, {1000});
  make_dataset(file, "data/null", H5T_STD_I32LE, {0, 5});
  write_all(make_dataset(file, "data/scalar", H5T_IEEE_F32BE, {}), H5T_NATIVE_INT, std::vector{5});

  const Handle compact(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_layout(compact.get(), H5D_COMPACT);
  write_all(make_dataset(file, "data/compact", H5T_STD_I16LE, {10}, compact.get()), H5T_NATIVE_INT, numbers);

  const Handle sparse = chunked(10, true);
  const int fill = -9;
  H5Pset_fill_value(sparse.get(), H5T_NATIVE_INT, &fill);
  const Handle rows = make_dataset(file, "data/sparse", H5T_STD_I32LE, {95}, sparse.get(), {H5S_UNLIMITED});
  write_rows(rows, H5T_NATIVE_INT, 31, 5, numbers.data());
  write_rows(rows, H5T_NATIVE_INT, 90, 5, numbers.data());
  const hsize_t masked = 50;
  ASSERT_GE(H5Dwrite_chunk(rows.get(), H5P_DEFAULT, 1, &masked, 40, numbers.data()), 0);

  const Handle external(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_external(external.get(), "elsewhere.raw", 16, 400);
  make_dataset(file, "data/external", H5T_STD_I32LE, {100}, external.get());

  const Handle early(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_alloc_time(early.get(), H5D_ALLOC_TIME_EARLY);
  make_dataset(file, "data/early", H5T_STD_I32LE, {100}, early.get());

  const Handle virtual_layout(H5Pcreate(H5P_DATASET_CREATE));
  const hsize_t extent = 1000;
  const Handle space(H5Screate_simple(1, &extent, nullptr));
  H5Pset_virtual(virtual_layout.get(), space.get(), ".", "/data/contiguous", space.get());
  make_dataset(file, "data/virtual", H5T_STD_I32BE, {extent}, virtual_layout.get());
}

size_t copy_only(unsigned, size_t, const unsigned*, size_t size, size_t*, void**) { return size; }

void add_unknown_filter(const Handle& file) {
  H5Z_class2_t filter{};
  filter.version = H5Z_CLASS_T_VERS;
  filter.id = kUnknownFilter;
  filter.encoder_present = 1;
  filter.decoder_present = 1;
  filter.name = "unknown";
  filter.filter = copy_only;
  ASSERT_GE(H5Zregister(&filter), 0);
  {
    const Handle properties = chunked(10, false);
    const std::array<unsigned, 3> parameters = {3, 2, 1};
    H5Pset_filter(properties.get(), kUnknownFilter, H5Z_FLAG_MANDATORY, parameters.size(), parameters.data());
    const Handle dataset = make_dataset(file, "data/unknown_filter", H5T_STD_I8LE, {30}, properties.get());
    const hsize_t at = 10;
    ASSERT_GE(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, 0, &at, 6, "coded!"), 0);
  }
  ASSERT_GE(H5Zunregister(kUnknownFilter), 0);
}

Handle text_of_any_length() {
  Handle text(H5Tcopy(H5T_C_S1));
  H5Tset_size(text.get(), H5T_VARIABLE);
  return text;
}

Handle text_in_compound() {
  const Handle text = text_of_any_length();
  Handle compound(H5Tcreate(H5T_COMPOUND, sizeof(char*)));
  H5Tinsert(compound.get(), "a", 0, text.get());
  return compound;
}

void add_variable_length(const Handle& file) {
  const Handle text(H5Tcopy(H5T_C_S1));
  H5Tset_size(text.get(), H5T_VARIABLE);
  H5Tset_cset(text.get(), H5T_CSET_UTF8);
  const std::vector<const char*> words = {"one", "", "drei", "quatre", "fünf"};
  const Handle filtered = chunked(4, true);
  const Handle dataset = make_dataset(file, "text/chunked", text.get(), {22}, filtered.get(), {H5S_UNLIMITED});
  write_rows(dataset, text.get(), 2, 5, words.data());
  write_all(make_dataset(file, "text/contiguous", text.get(), {5}), text.get(), words);
  make_dataset(file, "text/never_written", text.get(), {5});
  add_attribute(dataset, "words", text.get(), words.data(), 5);

  const Handle numbers(H5Tvlen_create(H5T_STD_I16BE));
  struct Element {
    int number;
    hvl_t sequence;
    const char* word;
  };
  const Handle compound(H5Tcreate(H5T_COMPOUND, sizeof(Element)));
  H5Tinsert(compound.get(), "number", HOFFSET(Element, number), H5T_NATIVE_INT);
  const Handle native(H5Tvlen_create(H5T_NATIVE_SHORT));
  H5Tinsert(compound.get(), "sequence", HOFFSET(Element, sequence), native.get());
  H5Tinsert(compound.get(), "word", HOFFSET(Element, word), text.get());
  std::array<int16_t, 3> values = {1, -2, 300};
  const std::vector<Element> elements = {{1, {3, values.data()}, "a"}, {2, {0, nullptr}, nullptr}};
  write_all(make_dataset(file, "text/compound", compound.get(), {2}), compound.get(), elements);
}

void add_types(const Handle& file) {
  const Handle pair_type(H5Tcreate(H5T_COMPOUND, 8));
  H5Tinsert(pair_type.get(), "a", 0, H5T_STD_I32LE);
  H5Tinsert(pair_type.get(), "b", 4, H5T_STD_I32BE);
  const Handle used_by_forerunner = committed(file, "zz_pair", pair_type.get());
  const std::array<int, 2> value = {4, 5};
  const Handle dataset = make_dataset(file, "data/of_committed_type", used_by_forerunner.get(), {1});
  ASSERT_GE(H5Dwrite(dataset.get(), pair_type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, value.data()), 0);
  add_attribute(dataset, "pair", used_by_forerunner.get(), value.data());
  add_attribute(used_by_forerunner, "of_its_own_type", used_by_forerunner.get(), value.data());
  const Handle nameless = committed(file, "gone", H5T_STD_U16BE);
  make_dataset(file, "data/of_nameless_type", nameless.get(), {3});
  make_dataset(file, "data/of_the_same", nameless.get(), {4});
  ASSERT_GE(H5Ldelete(file.get(), "gone", H5P_DEFAULT), 0);
}

herr_t any_link(const char*, hid_t, const void*, size_t, hid_t) { return 0; }
template <class... Identifiers>
hid_t nowhere(const char*, hid_t, const void*, size_t, Identifiers...) {
  return H5I_INVALID_HID;
}

void add_links(const Handle& file) {
  const Handle group(H5Gopen2(file.get(), "ordered", H5P_DEFAULT));
  ASSERT_GE(H5Lcreate_hard(file.get(), "/", group.get(), "zzz_cycle", H5P_DEFAULT, H5P_DEFAULT), 0);
  ASSERT_GE(H5Lcreate_hard(file.get(), "data/sparse", group.get(), "mmm_second_link", H5P_DEFAULT, H5P_DEFAULT), 0);
  ASSERT_GE(H5Lcreate_soft("../nowhere", group.get(), "aaa_soft", H5P_DEFAULT, H5P_DEFAULT), 0);
  ASSERT_GE(H5Lcreate_external("other.h5", "/a/b", group.get(), "external", H5P_DEFAULT, H5P_DEFAULT), 0);
  const Handle names(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_char_encoding(names.get(), H5T_CSET_UTF8);
  const Handle named(H5Gcreate2(group.get(), "größe", names.get(), H5P_DEFAULT, H5P_DEFAULT));
  for (int i = 0; i < 20; ++i) {
    const Handle member(
        H5Gcreate2(group.get(), fmt::format("m{}", i * 7 % 20).c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  H5L_class_t link{};
  link.version = H5L_LINK_CLASS_T_VERS;
  link.id = kUnknownLink;
  link.create_func = any_link;
  link.trav_func = nowhere;
  ASSERT_GE(H5Lregister(&link), 0);
  ASSERT_GE(H5Lcreate_ud(group.get(), "own_kind", kUnknownLink, "val\0ue", 6, H5P_DEFAULT, H5P_DEFAULT), 0);
  ASSERT_GE(H5Lunregister(kUnknownLink), 0);
}

void add_references(const Handle& file) {
  const std::vector<hobj_ref_t> objects = {reference_to(file, "data/sparse"), 0, reference_to(file, "zz_pair"),
                                           reference_to(file, "ordered")};
  const Handle filtered = chunked(3, true);
  write_all(make_dataset(file, "aa_references/objects", H5T_STD_REF_OBJ, {4}, filtered.get()), H5T_STD_REF_OBJ,
            objects);

  hdset_reg_ref_t regions[3] = {};
  const Handle sparse(H5Dopen2(file.get(), "data/sparse", H5P_DEFAULT));
  const Handle selection(H5Dget_space(sparse.get()));
  const hsize_t from = 30, count = 4;
  H5Sselect_hyperslab(selection.get(), H5S_SELECT_SET, &from, nullptr, &count, nullptr);
  ASSERT_GE(H5Rcreate(&regions[0], file.get(), "data/sparse", H5R_DATASET_REGION, selection.get()), 0);
  const hsize_t points[2] = {1, 94};
  H5Sselect_elements(selection.get(), H5S_SELECT_SET, 2, points);
  ASSERT_GE(H5Rcreate(&regions[2], file.get(), "data/sparse", H5R_DATASET_REGION, selection.get()), 0);
  const Handle dataset = make_dataset(file, "aa_references/regions", H5T_STD_REF_DSETREG, {3});
  ASSERT_GE(H5Dwrite(dataset.get(), H5T_STD_REF_DSETREG, H5S_ALL, H5S_ALL, H5P_DEFAULT, regions), 0);

  // As in netCDF files: a sequence of references, and a compound with one, between other ordered attributes.
  const Handle lists(H5Tvlen_create(H5T_STD_REF_OBJ));
  std::vector<hobj_ref_t> some = {objects[0], objects[3]};
  const std::array<hvl_t, 3> sequences = {hvl_t{2, some.data()}, hvl_t{0, nullptr}, hvl_t{1, some.data()}};
  struct Entry {
    hobj_ref_t object;
    int dimension;
    hobj_ref_t pair[2];
  };
  const Handle entry(H5Tcreate(H5T_COMPOUND, sizeof(Entry)));
  H5Tinsert(entry.get(), "dataset", HOFFSET(Entry, object), H5T_STD_REF_OBJ);
  H5Tinsert(entry.get(), "dimension", HOFFSET(Entry, dimension), H5T_NATIVE_INT);
  const hsize_t two = 2;
  const Handle array(H5Tarray_create2(H5T_STD_REF_OBJ, 1, &two));
  H5Tinsert(entry.get(), "pair", HOFFSET(Entry, pair), array.get());
  const std::array<Entry, 2> entries = {Entry{objects[0], 3, {0, objects[2]}}, Entry{0, 4, {objects[3], objects[0]}}};
  const Handle group(H5Gopen2(file.get(), "ordered", H5P_DEFAULT));
  const int number = 1;
  add_attribute(group, "z_first", H5T_NATIVE_INT, &number);
  add_attribute(group, "DIMENSION_LIST", lists.get(), sequences.data(), 3);
  add_attribute(group, "REFERENCE_LIST", entry.get(), entries.data(), 2);
  add_attribute(group, "a_last", H5T_NATIVE_INT, &number);
}

void add_ordered_group(const Handle& file) {
  const Handle ordered(H5Pcreate(H5P_GROUP_CREATE));
  H5Pset_link_creation_order(ordered.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  H5Pset_attr_creation_order(ordered.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  H5Pset_deflate(ordered.get(), 5);
  const Handle group(H5Gcreate2(file.get(), "ordered", H5P_DEFAULT, ordered.get(), H5P_DEFAULT));
  ASSERT_GE(H5Oset_comment(group.get(), "a comment"), 0);
}

void make_everything(const std::string& path, bool latest) {
  const Handle creation(H5Pcreate(H5P_FILE_CREATE));
  const Handle access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_userblock(creation.get(), 1024);
  H5Pset_link_creation_order(creation.get(), H5P_CRT_ORDER_TRACKED);
  H5Pset_attr_creation_order(creation.get(), H5P_CRT_ORDER_TRACKED);
  H5Pset_shared_mesg_nindexes(creation.get(), 1);
  H5Pset_shared_mesg_index(creation.get(), 0, H5O_SHMESG_DTYPE_FLAG | H5O_SHMESG_FILL_FLAG, 20);
  // Use a format that h5dump of 1.10 supports.
  H5Pset_libver_bounds(access.get(), latest ? H5F_LIBVER_V110 : H5F_LIBVER_EARLIEST, H5F_LIBVER_V110);
  {
    const Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()));
    ASSERT_TRUE(file);
    add_ordered_group(file);
    add_layouts(file);
    add_unknown_filter(file);
    add_variable_length(file);
    add_types(file);
    add_links(file);
    add_references(file);
  }
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << "a block of the user's own";
}

class Hdf5CompactEverything : public Hdf5Compact, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Format, Hdf5CompactEverything, testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "latest" : "earliest"; });

TEST_P(Hdf5CompactEverything, IsAsItWas) {
  make_everything(path(), GetParam());
  const std::string before = dump_of(path());
  if (before.empty()) GTEST_SKIP() << "h5dump is not installed";
  ASSERT_NE(before.find("/data/sparse\""), std::string::npos) << before;
  pad(path());
  const std::string told = compact(path());
  EXPECT_NE(told.find(" became "), std::string::npos) << told;
  EXPECT_EQ(dump_of(path()), before);
  EXPECT_LT(fs::file_size(path()), 100000);
  EXPECT_TRUE(content_of(path()).starts_with("a block of the user's own"));
  expect_nothing_left();
}

// Content that h5dump does not show.
TEST_P(Hdf5CompactEverything, KeepsWhatIsHidden) {
  make_everything(path(), GetParam());
  pad(path());
  compact(path());
  const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  ASSERT_TRUE(file);
  std::array<char, 32> comment{};
  EXPECT_EQ(H5Oget_comment_by_name(file.get(), "ordered", comment.data(), comment.size(), H5P_DEFAULT), 9);
  EXPECT_STREQ(comment.data(), "a comment");

  const Handle unknown(H5Dopen2(file.get(), "data/unknown_filter", H5P_DEFAULT));
  std::array<char, 32> chunk{};
  uint32_t mask = 1;
  const hsize_t at = 10;
  ASSERT_GE(hdf5::read_raw_chunk(unknown.get(), &at, mask, chunk.data(), chunk.size()), 0);
  EXPECT_STREQ(chunk.data(), "coded!");
  EXPECT_EQ(mask, 0U);
  {
    const hdf5::LibraryLock lock;  // without it, libhdf5 searches for plugins
    EXPECT_LE(H5Zfilter_avail(kUnknownFilter), 0) << "a stand-in stayed registered";
  }

  const Handle sparse(H5Dopen2(file.get(), "data/sparse", H5P_DEFAULT));
  const Handle space(H5Dget_space(sparse.get()));
  hsize_t chunks = 0;
  H5Dget_num_chunks(sparse.get(), space.get(), &chunks);
  EXPECT_EQ(chunks, 3U);
  const hsize_t masked = 50;
  std::array<int, 10> raw{};
  ASSERT_GE(hdf5::read_raw_chunk(sparse.get(), &masked, mask, raw.data(), sizeof raw), 0);
  EXPECT_EQ(mask, 1U);
  EXPECT_EQ(raw[9], 7);

  const Handle group(H5Gopen2(file.get(), "ordered", H5P_DEFAULT));
  std::array<char, 64> name{};
  H5Aget_name_by_idx(group.get(), ".", H5_INDEX_CRT_ORDER, H5_ITER_INC, 1, name.data(), name.size(), H5P_DEFAULT);
  EXPECT_STREQ(name.data(), "DIMENSION_LIST");
  hdf5::ObjectInfo linked, second, root, cycle;
  ASSERT_TRUE(hdf5::object_info_by_name(file.get(), "data/sparse", linked));
  ASSERT_TRUE(hdf5::object_info_by_name(file.get(), "ordered/mmm_second_link", second));
  EXPECT_EQ(linked.address, second.address);
  EXPECT_EQ(linked.references, 2U);
  ASSERT_TRUE(hdf5::object_info_by_name(file.get(), "/", root));
  ASSERT_TRUE(hdf5::object_info_by_name(file.get(), "ordered/zzz_cycle", cycle));
  EXPECT_EQ(root.address, cycle.address);

  const Handle one(H5Dopen2(file.get(), "data/of_nameless_type", H5P_DEFAULT));
  const Handle other(H5Dopen2(file.get(), "data/of_the_same", H5P_DEFAULT));
  const Handle one_type(H5Dget_type(one.get())), other_type(H5Dget_type(other.get()));
  hdf5::ObjectInfo one_info, other_info;
  ASSERT_GT(H5Tcommitted(one_type.get()), 0);
  ASSERT_TRUE(hdf5::object_info(one_type.get(), one_info) && hdf5::object_info(other_type.get(), other_info));
  EXPECT_EQ(one_info.address, other_info.address);
}

TEST_P(Hdf5CompactEverything, ASecondTimeGainsNothing) {
  make_everything(path(), GetParam());
  pad(path());
  compact(path());
  const std::string once = content_of(path());
  EXPECT_NE(compact(path()).find("cannot become smaller"), std::string::npos);
  EXPECT_EQ(content_of(path()), once);
  expect_nothing_left();
}

// After any error the name refers to a complete file.
TEST_F(Hdf5Compact, FaultsLeaveTheFileAsItWas) {
  for (size_t at = 0; at < 10; ++at) {
    make_everything(path(), false);
    pad(path());
    const std::string before = content_of(path());
    crash_testing::FaultyIo io(at, EIO, false);
    const auto told = hdf5::compact_file(path(), io);
    if (io.operations() <= at) {
      EXPECT_TRUE(told);
      EXPECT_GT(at, 3U);
      return;
    }
    ASSERT_EQ(told.has_value(), io.has_failed_after_exchange());
    if (told) {  // the old file is left behind, under a temporary name
      EXPECT_LT(fs::file_size(path()), before.size());
      continue;
    }
    expect_nothing_left();
    // The last operation is the sync of the directory, after the file has been replaced.
    if (content_of(path()) != before) {
      EXPECT_LT(fs::file_size(path()), 100000U) << at;
    }
  }
  FAIL() << "more calls than expected";
}

// ---- size

TEST_F(Hdf5Compact, HalfOfTheDataIsHalfTheSize) {
  std::vector<int> numbers(50000);
  {
    const Handle file = create();
    for (int i = 0; i < 20; ++i) {
      for (int& number : numbers) number = rand();
      write_all(make_dataset(file, fmt::format("d{}", i), H5T_NATIVE_INT, {50000}), H5T_NATIVE_INT, numbers);
    }
  }
  {
    const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    for (int i = 0; i < 20; i += 2) H5Ldelete(file.get(), fmt::format("d{}", i).c_str(), H5P_DEFAULT);
  }
  const auto before = fs::file_size(path());
  EXPECT_GT(before, 4000000U);
  EXPECT_NE(compact(path()).find("4.0 MB became 2.0 MB"), std::string::npos);
  EXPECT_LT(fs::file_size(path()), before * 51 / 100);
  const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Handle last(H5Dopen2(file.get(), "d19", H5P_DEFAULT));
  std::vector<int> found(numbers.size());
  ASSERT_GE(H5Dread(last.get(), H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, found.data()), 0);
  EXPECT_EQ(found, numbers);
}

// Data of more than one piece, with an odd shape.
TEST_F(Hdf5Compact, LargeContiguousData) {
  std::vector<uint32_t> numbers(3 * 1117 * 2003);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<uint32_t>(i * 2654435761U);
  {
    const Handle file = create();
    write_all(make_dataset(file, "v", H5T_STD_U32LE, {3, 1117, 2003}), H5T_NATIVE_UINT32, numbers);
  }
  pad(path());
  compact(path());
  const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Handle dataset(H5Dopen2(file.get(), "v", H5P_DEFAULT));
  std::vector<uint32_t> found(numbers.size());
  ASSERT_GE(H5Dread(dataset.get(), H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, found.data()), 0);
  EXPECT_TRUE(found == numbers);
}

// ---- files that other programs have open

TEST_F(Hdf5Compact, BusyWhileAnotherHasItOpen) {
  make_everything(path(), false);
  pad(path());
  {
    const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
    ASSERT_TRUE(file);
    expect_refused(EBUSY, "another program has it open");
  }
  const auto source = open_hdf5(path());
  ASSERT_TRUE(source);
  expect_refused(EBUSY, "another program has it open");
}

TEST_F(Hdf5Compact, MarkedAsOpenIsRefused) {
  make_everything(path(), true);
  std::string content = content_of(path());
  {
    const Handle access(H5Pcreate(H5P_FILE_ACCESS));
    H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDWR | H5F_ACC_SWMR_WRITE, access.get()));
    ASSERT_TRUE(file);
    content = content_of(path());
  }
  std::ofstream(path(), std::ios::binary) << content;
  expect_refused(EROFS, "marked as open for writing");
}

TEST_F(Hdf5Compact, WhatAKilledMountCommittedIsThere) {
  {
    const Handle file = create();
    const Handle properties = chunked(4, false);
    write_all(make_dataset(file, "v", H5T_NATIVE_INT, {4}, properties.get()), H5T_NATIVE_INT, std::vector{1, 2, 3, 4});
  }
  pad(path());
  {
    auto source = open_hdf5(path(), true);
    ASSERT_TRUE(source);
    const std::vector<int> numbers = {5, 6, 7, 8};
    ASSERT_TRUE((*source)->write_chunk(object_at(**source, "v"), 0, std::as_bytes(std::span(numbers))));
    ASSERT_TRUE((*source)->commit());
  }
  ASSERT_TRUE(fs::exists(folder_ / ".t.h5.codecfs-wal"));
  compact(path());
  expect_nothing_left();
  EXPECT_LT(fs::file_size(path()), 100000);
  const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Handle dataset(H5Dopen2(file.get(), "v", H5P_DEFAULT));
  std::vector<int> found(4);
  ASSERT_GE(H5Dread(dataset.get(), H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, found.data()), 0);
  EXPECT_EQ(found, (std::vector{5, 6, 7, 8}));
}

// ---- files beside it

TEST_F(Hdf5Compact, LeftoversGoAndNothingElse) {
  make_everything(path(), false);
  const std::vector<std::string> leftovers = {".t.h5.codecfs-17-0", ".t.h5.codecfs-99999-12"};
  const std::vector<std::string> others = {".t.h5.codecfs-17", ".t.h5.codecfs-17-0x", ".u.h5.codecfs-17-0",
                                           "t.h5.codecfs-17-0", ".t.h5.codecfs--1"};
  for (const auto& name : leftovers) std::ofstream(folder_ / name) << "left";
  for (const auto& name : others) std::ofstream(folder_ / name) << "not ours";
  compact(path());
  for (const auto& name : leftovers) EXPECT_FALSE(fs::exists(folder_ / name)) << name;
  for (const auto& name : others) EXPECT_TRUE(fs::exists(folder_ / name)) << name;
}

TEST_F(Hdf5Compact, ModeAttributesAndSymbolicLinksStay) {
  make_everything(path(), false);
  pad(path());
  fs::create_symlink("t.h5", folder_ / "link.h5");
  chmod(path().c_str(), 0640);
  const bool has_attributes = setxattr(path().c_str(), "user.note", "mine", 4, 0) == 0;
  compact((folder_ / "link.h5").string());
  struct stat status{};
  ASSERT_EQ(lstat((folder_ / "link.h5").c_str(), &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, mode_t{0640});
  EXPECT_LT(status.st_size, 100000);
  std::array<char, 4> value{};
  if (has_attributes) {
    EXPECT_EQ(getxattr(path().c_str(), "user.note", value.data(), value.size()), 4);
  }
}

TEST_F(Hdf5Compact, AFileOfTwoNamesIsRefused) {
  make_everything(path(), false);
  pad(path());
  fs::create_hard_link(path(), folder_ / "second.h5");
  expect_refused(EOPNOTSUPP, "2 names");
}

// ---- what cannot be copied

TEST_F(Hdf5Compact, AReferenceToWhatIsGoneIsRefused) {
  {
    const Handle file = create();
    make_dataset(file, "target", H5T_NATIVE_INT, {1});
    const hobj_ref_t reference = reference_to(file, "target");
    const Handle group(H5Gcreate2(file.get(), "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    add_attribute(group, "where", H5T_STD_REF_OBJ, &reference);
    H5Ldelete(file.get(), "target", H5P_DEFAULT);
  }
  pad(path());
  expect_refused(EOPNOTSUPP, "/g, attribute where: it refers to an object at");
}

TEST_F(Hdf5Compact, TextUnderAFilterThatNobodyHasIsRefused) {
  H5Z_class2_t filter{H5Z_CLASS_T_VERS, kUnknownFilter, 1, 1, "unknown", nullptr, nullptr, copy_only};
  ASSERT_GE(H5Zregister(&filter), 0);
  {
    const Handle file = create();
    const Handle properties = chunked(2, false);
    H5Pset_filter(properties.get(), kUnknownFilter, H5Z_FLAG_MANDATORY, 0, nullptr);
    const Handle type = text_in_compound();
    write_all(make_dataset(file, "v", type.get(), {2}, properties.get()), type.get(), std::vector{"a", "b"});
  }
  ASSERT_GE(H5Zunregister(kUnknownFilter), 0);
  pad(path());
  expect_refused(EOPNOTSUPP, "/v: filter 32999 is needed to copy it");
}

/// Of an object header of version 2 whose size takes two bytes:
///   0 "OHDR"  4 version  5 flags  6 times (16, flag 0x20)  phase change (4, flag 0x10)  size (2)  messages  checksum
///   (4)
void renew_checksum(std::string& content, size_t header) {
  const auto flags = static_cast<unsigned char>(content[header + 5]);
  ASSERT_EQ(flags & 3, 1);
  const size_t size_at = header + 6 + ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0);
  uint16_t size = 0;
  std::memcpy(&size, content.data() + size_at, sizeof size);
  const size_t end = size_at + sizeof size + size;
  const uint32_t checksum = hdf5::lookup3(std::as_bytes(std::span(content).subspan(header, end - header)));
  std::memcpy(content.data() + end, &checksum, sizeof checksum);
}

/// A compound whose only member is a string is stored like a string: changes the type to that of the string.
void make_it_text(const std::string& path) {
  std::string content = content_of(path);
  const size_t member = content.find(std::string("\x19\x01\0\0\x10\0\0\0", 8));
  constexpr size_t kBeforeMember = 48;  // in a compound of version 1: its size, the name, the offset, the dimensions
  constexpr size_t kTextType = 16;
  ASSERT_NE(member, std::string::npos);
  ASSERT_EQ(content[member - kBeforeMember], '\x16');
  content.replace(member - kBeforeMember, kTextType, content.substr(member, kTextType));
  renew_checksum(content, content.rfind("OHDR", member));
  std::ofstream(path, std::ios::binary) << content;
}

// Files of other libhdf5 versions may have mandatory filters on variable-length strings, which 1.10 refuses to create.
TEST_F(Hdf5Compact, FiltersOfTextStay) {
  const bool has_them = text_takes_checksums();
  {
    const Handle file = create();
    const Handle properties = chunked(4, true);
    H5Pset_fletcher32(properties.get());
    H5Pset_attr_creation_order(properties.get(), H5P_CRT_ORDER_TRACKED);
    const Handle type = has_them ? text_of_any_length() : text_in_compound();
    const Handle dataset = make_dataset(file, "v", type.get(), {6}, properties.get());
    write_all(dataset, type.get(), std::vector{"eins", "zwei", "", "vier", "five", "six"});
    const int number = 3;
    add_attribute(dataset, "z", H5T_NATIVE_INT, &number);
    add_attribute(dataset, "a", H5T_NATIVE_INT, &number);
    const hobj_ref_t self = reference_to(file, "v");
    add_attribute(file, "refers", H5T_STD_REF_OBJ, &self);
    H5Oset_comment(dataset.get(), "of texts");
  }
  if (!has_them) make_it_text(path());

  const std::string before = dump_of(path());
  if (before.empty()) GTEST_SKIP() << "h5dump is not installed";
  if (H5_VERSION_GE(1, 14, 0) && before.find("internal error") != std::string::npos)
    GTEST_SKIP() << "h5dump 1.14 prints nothing of what libhdf5 wrote: " << before;
  ASSERT_NE(before.find("H5T_VARIABLE"), std::string::npos) << before;
  ASSERT_NE(before.find("DEFLATE"), std::string::npos) << before;
  ASSERT_NE(before.find("\"zwei\""), std::string::npos) << before;
  pad(path());
  compact(path());
  EXPECT_EQ(dump_of(path()), before);
  EXPECT_LT(fs::file_size(path()), 100000U);
}

// libhdf5 stores all chunks with the dataset or with its first one; it replaces the filter mask of a stored chunk only
// together with its size.
TEST_F(Hdf5Compact, FilterMasksOfChunksThatAreAllocatedTogetherStay) {
  const std::vector<int> numbers{1, 2, 3, 4, 0, 0, 0, 0};
  for (const H5D_alloc_time_t time : {H5D_ALLOC_TIME_EARLY, H5D_ALLOC_TIME_LATE}) {
    {
      const Handle file = create();
      const Handle properties = chunked(4, false);
      H5Pset_shuffle(properties.get());
      H5Pset_alloc_time(properties.get(), time);
      const Handle dataset = make_dataset(file, "v", H5T_NATIVE_INT, {8}, properties.get());
      const hsize_t first = 0;
      const std::vector<int> other_size(5);
      ASSERT_GE(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, 1, &first, 20, other_size.data()), 0);
      ASSERT_GE(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, 1, &first, 16, numbers.data()), 0);
    }
    pad(path());
    compact(path());
    const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
    const Handle dataset(H5Dopen2(file.get(), "v", H5P_DEFAULT));
    std::vector<int> found(numbers.size());
    ASSERT_GE(H5Dread(dataset.get(), H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, found.data()), 0);
    EXPECT_EQ(found, numbers);
  }
}

// libhdf5 refuses to read a dataset without fill value until it has a chunk index.
TEST_F(Hdf5Compact, WhatCanBeReadWithoutAFillValueStaysReadable) {
  const auto can_be_read = [&](const char* name) {
    const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
    const Handle dataset(H5Dopen2(file.get(), name, H5P_DEFAULT));
    std::vector<int> found(8);
    return H5Dread(dataset.get(), H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, found.data()) >= 0;
  };
  for (const H5D_alloc_time_t time : {H5D_ALLOC_TIME_INCR, H5D_ALLOC_TIME_LATE}) {
    {
      const Handle file = create();
      const Handle properties = chunked(4, true);
      H5Pset_fletcher32(properties.get());
      H5Pset_alloc_time(properties.get(), time);
      H5Pset_fill_value(properties.get(), H5T_NATIVE_INT, nullptr);
      make_dataset(file, "never_written", H5T_NATIVE_INT, {8}, properties.get());
      const Handle emptied = make_dataset(file, "emptied", H5T_NATIVE_INT, {8}, properties.get());
      write_all(emptied, H5T_NATIVE_INT, std::vector<int>(8));
      for (const hsize_t size : {0, 8}) ASSERT_GE(H5Dset_extent(emptied.get(), &size), 0);
    }
    ASSERT_TRUE(can_be_read("emptied"));
    ASSERT_FALSE(can_be_read("never_written"));
    pad(path());
    compact(path());
    EXPECT_TRUE(can_be_read("emptied"));
    EXPECT_FALSE(can_be_read("never_written"));
  }
}

TEST_F(Hdf5Compact, DamageIsAnError) {
  make_everything(path(), false);
  fs::resize_file(path(), fs::file_size(path()) - 1000);
  expect_refused(EIO, "cannot be opened as HDF5");
  std::ofstream(path()) << "no HDF5 at all, but long enough to look for a signature in";
  expect_refused(EIO, "cannot be opened as HDF5");
}

}  // namespace
}  // namespace codecfs
