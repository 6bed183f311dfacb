// Names: links as symlinks, several links to one object, odd names, netCDF's name rules; dimension names as Debian's
// ncdump prints them.

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

#include "backends/hdf5/library/library_lock.h"
#include "support/bytes_read.h"
#include "support/hdf5_testing.h"

namespace codecfs {
namespace {

using namespace hdf5_testing;

class Hdf5Tree : public Hdf5Files {
 protected:
  static std::map<std::string, Entry> listed(Source& source, const std::string& where = "") {
    std::map<std::string, Entry> entries;
    auto list = source.list(object_at(source, where));
    EXPECT_TRUE(list);
    for (const Entry& entry : list.value_or(std::vector<Entry>())) {
      EXPECT_TRUE(entries.emplace(entry.name, entry).second) << entry.name << " twice";
    }
    return entries;
  }
};

hid_t traverse_nowhere(const char*, hid_t, const void*, size_t, hid_t, hid_t) { return -1; }

TEST_F(Hdf5Tree, LinksBecomeSymlinks) {
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    make_dataset(file, "a/b/data", H5T_NATIVE_INT, {3});
    const hid_t f = file.get();
    H5Lcreate_soft("/a/b/./data", f, "a/absolute", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("b/data", f, "a/relative", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/", f, "a/b/soft_root", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/no/../thing", f, "dangling", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external("other.h5", "/x", f, "external", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external("t.h5", "/a/b/data", f, "a/external_but_here", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_hard(f, "/", f, "a/b/root", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_hard(f, "/a", f, "a/b/up", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_hard(f, "/a/b/data", f, "again", H5P_DEFAULT, H5P_DEFAULT);
    H5L_class_t odd{};
    odd.version = H5L_LINK_CLASS_T_VERS;
    odd.id = static_cast<H5L_type_t>(100);
    odd.comment = "odd";
    odd.trav_func = traverse_nowhere;
    ASSERT_GE(H5Lregister(&odd), 0);
    ASSERT_GE(H5Lcreate_ud(f, "user", static_cast<H5L_type_t>(100), "x", 1, H5P_DEFAULT, H5P_DEFAULT), 0);
    const Handle type(H5Tcopy(H5T_NATIVE_INT));
    H5Tcommit2(f, "type", type.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  }
  auto source = open_source_of(path());
  auto root = listed(*source);
  EXPECT_EQ(root.size(), 5U);
  EXPECT_EQ(root["dangling"].target, "no/%2E./thing");
  EXPECT_EQ(root["external"].kind, EntryKind::symlink);
  EXPECT_EQ(root["user"].kind, EntryKind::symlink);
  EXPECT_EQ(root["again"].kind, EntryKind::variable) << "breadth first: the shortest path is an object's place";
  auto a = listed(*source, "a");
  EXPECT_EQ(a["absolute"].target, "b/data");
  EXPECT_EQ(a["relative"].target, "b/data");
  EXPECT_EQ(a["external_but_here"].target, "b/data");
  auto b = listed(*source, "a/b");
  EXPECT_EQ(b["soft_root"].target, "../..");
  EXPECT_EQ(b["root"].target, "../..");
  EXPECT_EQ(b["up"].target, "..");
  EXPECT_EQ(b["data"].target, "../../again");
  for (const auto& [name, entry] : b) {
    auto found = source->find(object_at(*source, "a/b"), name);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->target, entry.target);
    EXPECT_EQ(found->kind, entry.kind);
  }
}

TEST_F(Hdf5Tree, OddNamesAreEscapedAndFoundAgain) {
  const std::vector<std::string> names = {
      "..", ".zarray", "100%25", "new\nline", "l\xe9", std::string(300, 'x'), std::string(300, 'x') + "y", "plain"};
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    for (size_t i = 0; i < names.size(); ++i)
      write_all(make_dataset(file, names[i], H5T_NATIVE_INT, {1}), H5T_NATIVE_INT, std::vector{static_cast<int>(i)});
  }
  auto source = open_source_of(path());
  const auto root = listed(*source);
  EXPECT_EQ(root.size(), names.size());
  std::vector<int> values;
  for (const auto& [name, entry] : root) {
    EXPECT_LE(name.size(), 255U);
    const auto found = source->find(source->root().object, name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(found->object, entry.object);
    values.push_back(elements_of<int>(*source->read_chunk(found->object, 0))[0]);
  }
  std::ranges::sort(values);
  EXPECT_EQ(values, (std::vector{0, 1, 2, 3, 4, 5, 6, 7}));
  for (const char* name : {"", ".", "/", "plain/", "none", "..", "a/b"})
    EXPECT_EQ(source->find(source->root().object, name).error().code, ENOENT) << name;
}

void text_attribute(const Handle& holder, const char* name, const std::string& text) {
  const Handle type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), text.size() + 1);  // including the NUL: libhdf5 requires it for a scale
  const Handle space(H5Screate(H5S_SCALAR));
  const Handle attribute(H5Acreate2(holder.get(), name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
  ASSERT_GE(H5Awrite(attribute.get(), type.get(), text.data()), 0);
}

TEST_F(Hdf5Tree, NetcdfNamesAndHiddenDimensions) {
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    const Handle level = make_dataset(file, "level", H5T_NATIVE_INT, {3});
    text_attribute(level, "CLASS", "DIMENSION_SCALE");
    text_attribute(level, "NAME", "This is a netCDF dimension but not a netCDF variable.         3");
    make_dataset(file, "_nc4_non_coord_level", H5T_NATIVE_INT, {4});
    make_dataset(file, "both", H5T_NATIVE_INT, {5});
    make_dataset(file, "_nc4_non_coord_both", H5T_NATIVE_INT, {6});
  }
  auto source = open_source_of(path());
  const auto root = listed(*source);
  EXPECT_EQ(root.size(), 3U);
  EXPECT_EQ(variable_at(*source, "level")->grid.shape(), std::vector<uint64_t>{4});
  EXPECT_EQ(variable_at(*source, "both")->grid.shape(), std::vector<uint64_t>{5});
  EXPECT_EQ(variable_at(*source, "_nc4_non_coord_both")->grid.shape(), std::vector<uint64_t>{6});
  EXPECT_FALSE(source->find(source->root().object, "_nc4_non_coord_level"));
}

TEST_F(Hdf5Tree, AHundredThousandDatasetsAreFoundByFewReads) {
  constexpr int kCount = 100'000;
  {
    const hdf5::LibraryLock lock;
    const Handle file = create(true);
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_layout(properties.get(), H5D_COMPACT);
    const Handle space(H5Screate(H5S_SCALAR));
    for (int i = 0; i < kCount; ++i)
      ASSERT_TRUE(Handle(H5Dcreate2(file.get(), fmt::format("v{}", i).c_str(), H5T_NATIVE_INT, space.get(), H5P_DEFAULT,
                                    properties.get(), H5P_DEFAULT)));
  }
  const uint64_t before = bytes_read();
  auto source = open_source_of(path());
  for (int i = 0; i < 5000; ++i) {
    const auto entry = source->find(source->root().object, fmt::format("v{}", i * 17));
    ASSERT_TRUE(entry);
    ASSERT_TRUE(source->variable(entry->object));
  }
  EXPECT_LT(bytes_read() - before, 5000 * 16384) << "the file has thirty megabytes";
  const uint64_t before_list = bytes_read();
  EXPECT_EQ(source->list(source->root().object)->size(), kCount);
  EXPECT_LT(bytes_read() - before_list, 2 * std::filesystem::file_size(path()));
}

// The output of `ncdump -h`; empty if it is not installed.
std::string ncdump(const std::string& path) {
  std::string text;
  FILE* pipe = popen(("ncdump -h '" + path + "' 2>&1").c_str(), "r");
  std::array<char, 4096> part{};
  while (const size_t count = fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), count);
  return pclose(pipe) == 0 ? text : "";
}

// Every variable with dimensions must appear in ncdump's output as "name(first, second)".
void compare_dimensions(const std::string& path, const std::vector<std::string>& unknown_to_netcdf = {}) {
  const std::string text = ncdump(path);
  if (text.empty()) GTEST_SKIP() << "no ncdump that reads " << path;
  auto source = open_source_of(path);
  int compared = 0;
  walk(*source, source->root(), "", [&](const std::string& where, const Entry& entry) {
    if (entry.kind != EntryKind::variable) return;
    const VariablePtr variable = variable_at(*source, where.substr(1));
    ASSERT_TRUE(variable && variable->dimensions);
    ASSERT_EQ(variable->dimensions->size(), variable->grid.rank()) << where;
    if (variable->grid.rank() == 0 || std::ranges::find(unknown_to_netcdf, entry.name) != unknown_to_netcdf.end())
      return;
    const std::string line = fmt::format(" {}({}) ;", entry.name, fmt::join(*variable->dimensions, ", "));
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nis not in\n" << text;
    ++compared;
  });
  EXPECT_GT(compared, 0);
}

TEST_F(Hdf5Tree, DimensionsHaveNetcdfsNumbers) {
  for (const bool ordered : {false, true}) {
    {
      const hdf5::LibraryLock lock;
      const Handle creation(H5Pcreate(H5P_FILE_CREATE));
      if (ordered) H5Pset_link_creation_order(creation.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
      const Handle file(H5Fcreate(path().c_str(), H5F_ACC_TRUNC, creation.get(), H5P_DEFAULT));
      const Handle chunks(H5Pcreate(H5P_DATASET_CREATE));
      const hsize_t chunk[] = {2};
      H5Pset_chunk(chunks.get(), 1, chunk);
      make_dataset(file, "zebra", H5T_NATIVE_INT, {5, 5, 7});
      make_dataset(file, "group_z/inner", H5T_NATIVE_INT, {5, 6});
      make_dataset(file, "group_z/deeper/below", H5T_NATIVE_DOUBLE, {6});
      make_dataset(file, "group_a/first", H5T_NATIVE_INT, {7, 5});
      make_dataset(file, "ant", H5T_NATIVE_INT, {5});
      make_dataset(file, "growing", H5T_NATIVE_INT, {5}, chunks.get(), {H5S_UNLIMITED});
      const Handle scale = make_dataset(file, "scale", H5T_NATIVE_INT, {7});
      text_attribute(scale, "CLASS", "DIMENSION_SCALE");
      make_dataset(file, "uses_the_scale_by_its_length", H5T_NATIVE_INT, {7});
      make_dataset(file, "bits", H5T_STD_B8LE, {11, 5});
      make_dataset(file, "last", H5T_NATIVE_INT, {12});
      make_dataset(file, "cube", H5T_NATIVE_FLOAT, {6, 5, 6});
    }
    compare_dimensions(path(), {"bits"});
  }
}

TEST_F(Hdf5Tree, ArrayElementsAndNullSpacesHaveDimensionsToo) {
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    const hsize_t three[] = {3, 4};
    const Handle array(H5Tarray_create2(H5T_NATIVE_INT, 2, three));
    make_dataset(file, "array", array.get(), {5});
    make_dataset(file, "plain", H5T_NATIVE_INT, {5, 4});
    const Handle null(H5Screate(H5S_NULL));
    const Handle made(
        H5Dcreate2(file.get(), "null", H5T_NATIVE_INT, null.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  auto source = open_source_of(path());
  using Names = std::vector<std::string>;
  EXPECT_EQ(*variable_at(*source, "plain")->dimensions, (Names{"phony_dim_0", "phony_dim_1"}));
  EXPECT_EQ(*variable_at(*source, "array")->dimensions, (Names{"phony_dim_0", "phony_dim_2", "phony_dim_1"}));
  EXPECT_EQ(variable_at(*source, "array")->grid.shape(), (std::vector<uint64_t>{5, 3, 4}));
  EXPECT_EQ(variable_at(*source, "null")->dimensions->size(), 1U);
}

}  // namespace
}  // namespace codecfs
