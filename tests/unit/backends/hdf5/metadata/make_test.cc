// Creating, moving and removing objects of an HDF5 file. The result is read with h5py or plain libhdf5.

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "backends/open/source_opener.h"
#include "model/json.h"
#include "support/crash_simulator.h"
#include "support/hdf5_change_testing.h"

namespace codecfs {
namespace {

using namespace hdf5_testing;
using Names = std::vector<std::string>;

class Hdf5Make : public Hdf5Changes {
 protected:
  template <class T>
  Result<> write(const std::string& where, uint64_t number, const std::vector<T>& values) {
    return source().write_chunk(at(where), number, std::as_bytes(std::span(values)));
  }
  template <class T>
  std::vector<T> read(const std::string& where, uint64_t number) {
    auto chunk = source().read_chunk(at(where), number);
    EXPECT_TRUE(chunk) << where << ": " << (chunk ? "" : chunk.error().reason);
    return chunk ? elements_of<T>(*chunk) : std::vector<T>();
  }
  static FilterStage stage(uint32_t id, std::vector<uint32_t> parameters = {}) {
    FilterStage made;
    made.id = id;
    made.parameters = std::move(parameters);
    return made;
  }
  static Variable filtered(Variable variable, std::vector<FilterStage> chain) {
    variable.filters = std::move(chain);
    return variable;
  }
};

TEST_F(Hdf5Make, AnEmptyFileIsNetcdf) {
  const mode_t before = umask(027);
  EXPECT_GOOD(create_hdf5(path()));
  umask(before);
  struct stat status{};
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640U);
  EXPECT_REFUSED(create_hdf5(path()), EEXIST);
  EXPECT_REFUSED(create_hdf5(path("no/such/folder.h5")), ENOENT);
  EXPECT_GOOD(SourceOpener().create(path("other.h5"), "hdf5"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2) << "temporary files are left";
  EXPECT_EQ(source().format(), "netCDF-4");
  EXPECT_TRUE(names("").empty());
  if (have_ncdump()) {
    EXPECT_EQ(ncdump(), "netcdf t {\n}\n");
  }
}

TEST_F(Hdf5Make, EveryTypeReadsBackAsItself) {
  const Names types = {
      R"("|b1")",
      R"("|i1")",
      R"("|u1")",
      R"("<i2")",
      R"(">i2")",
      R"("<u4")",
      R"(">i8")",
      R"("<u8")",
      R"("<f2")",
      R"(">f2")",
      R"("<f4")",
      R"(">f8")",
      R"("<c8")",
      R"(">c16")",
      R"("|S7")",
      R"("|V5")",
      R"([["a", "<i4"], ["b", ">f8"], ["c", "|S3"]])",
      R"([["a", "|u1"], ["__pad0", "|V3"], ["b", "<i4"], ["t", [["x", "<f4", [2, 3]], ["ok", "|b1"]]]])"};
  int number = 0;
  for (const std::string& type : types)
    EXPECT_GOOD(make(fmt::format("v{}", number++), described(type, {4}, {2}))) << type;
  EXPECT_GOOD(make("text", described("\"|O\"", {4}, {2}, "\"none\"")));
  EXPECT_GOOD(make("scalar", described("\"<f4\"", {}, {}, "2.5")));
  reopen();
  for (size_t i = 0; i < types.size(); ++i) {
    const VariablePtr found = variable(fmt::format("v{}", i));
    EXPECT_EQ(print_json(print_dtype(found->type)), types[i]);
    EXPECT_TRUE(found->fill_value.is_null());
    EXPECT_EQ(found->max_shape, std::vector<std::optional<uint64_t>>{std::nullopt});
  }
  EXPECT_EQ(variable("text")->fill_value, json("\"none\""));
  EXPECT_EQ(variable("scalar")->fill_value, json("2.5"));
  EXPECT_EQ(variable("scalar")->grid.rank(), 0U);
  EXPECT_GOOD(write<float>("scalar", 0, {7.5F}));
  EXPECT_GOOD(write<uint8_t>("v0", 1, {1, 0}));
  CODECFS_NEEDS(have_h5py());
  EXPECT_EQ(h5py(R"(
print(f['v0'].dtype, f['v0'][:], f['v8'].dtype, f['v9'].dtype, f['v12'].dtype, f['v13'].dtype, f['v14'].dtype, f['v15'].dtype)
t = f['v17'].dtype
print(t.itemsize, sorted((n, t.fields[n][1]) for n in t.names), t['t']['x'], t['t']['ok'])
print(f['scalar'][()], f['scalar'].fillvalue, f['text'].asstr()[:], h5.check_string_dtype(f['text'].dtype).encoding)
)"),
            "bool [False False  True False] float16 >f2 complex64 >c16 |S7 |V5\n"
            "33 [('a', 0), ('b', 4), ('t', 8)] ('<f4', (2, 3)) bool\n"
            "7.5 2.5 ['none' 'none' 'none' 'none'] utf-8\n");
}

TEST_F(Hdf5Make, NetcdfReadsTheFileWhateverTheTypes) {
  CODECFS_NEEDS(have_ncdump());
  EXPECT_GOOD(make("flag", with_dimensions(described("\"|b1\"", {4}, {2}, "true"), {"x"})));
  EXPECT_GOOD(make("row", with_dimensions(described(R"([["a", "<i4"]])", {4}, {2}), {"x"})));
  EXPECT_GOOD(make("raw", with_dimensions(described("\"|V3\"", {4}, {2}), {"x"})));
  EXPECT_GOOD(make("half", with_dimensions(described("\"<f2\"", {4}, {2}), {"x"})));
  EXPECT_GOOD(make("x", with_dimensions(described("\"<i4\"", {4}, {2}, "-5"), {"x"})));
  EXPECT_GOOD(make("names", with_dimensions(described("\"|O\"", {4}, {2}), {"x"})));
  EXPECT_GOOD(write<int32_t>("x", 0, {1, 2}));
  // netCDF-C 4.9.3 and 4.10 take float16 for text, and crash when they read it: there, the numbers of x alone.
  const bool reads_all = output_of("ncdump 2>&1").find("library version 4.9.0 ") != std::string::npos;
  const std::string text = ncdump(reads_all ? "" : "-v x");
  for (const char* line : {"int x(x) ;", "x:_FillValue = -5 ;", "string names(x) ;", " x = 1, 2, _, _ ;"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nnot in\n" << text;
}

TEST_F(Hdf5Make, WhatHdf5CannotHoldIsRefusedAndLeavesNothing) {
  for (const char* type :
       {R"("<f16")", R"("|S0")", R"("<U0")", R"("<c32")", R"([["r", "<f4"], ["i", "<f4"]])", R"([["t", "<f16"]])"})
    EXPECT_REFUSED(make("v", described(type, {4}, {2})), EOPNOTSUPP) << type;
  Variable objects = described("\"|O\"", {4}, {2});
  objects.object_codec = json(R"({"id": "json2"})");
  EXPECT_REFUSED(make("v", objects), EOPNOTSUPP);
  EXPECT_REFUSED(make("v", described("\"|u1\"", {1}, {uint64_t{1} << 32})), EINVAL);
  EXPECT_REFUSED(make("v", described("\"|u1\"", {1}, {uint64_t{2} << 30})), EFBIG);
  EXPECT_REFUSED(make("v", described("\"|u1\"", std::vector<uint64_t>(33, 1), std::vector<uint64_t>(33, 1))), EINVAL);
  Variable limited = described("\"<i4\"", {4}, {8});
  limited.max_shape = {6};
  EXPECT_REFUSED(make("v", limited), EINVAL);
  limited.max_shape = {3};
  EXPECT_REFUSED(make("v", limited), EINVAL);
  EXPECT_REFUSED(make("v", filtered(described("\"<i4\"", {4}, {2}), {stage(31999)})), ENOENT);
  EXPECT_REFUSED(make("v", filtered(described("\"<i4\"", {}, {}), {stage(1, {5})})), EINVAL);
  FilterStage codec;
  codec.codec = json(R"({"id": "pcodec"})");
  EXPECT_FALSE(make("v", filtered(described("\"<i4\"", {4}, {2}), {codec})));
  Variable wrong = described("\"<i4\"", {4}, {2}, "7");
  wrong.attributes = {{"_FillValue", json("8")}};
  EXPECT_REFUSED(make("v", wrong), EINVAL);
  wrong.attributes = {{"a", Json(std::string("a\0b", 3))}};
  EXPECT_REFUSED(make("v", wrong), EINVAL);
  EXPECT_REFUSED(make("v", with_dimensions(described("\"<i4\"", {4}, {2}), {"a", "b"})), EINVAL);
  for (const char* name : {"", ".", "..", "a%2Fb", "a%00b", "_nc4_non_coord_x"})
    EXPECT_REFUSED(source().make_variable(source().root().object, name, described("\"<i4\"", {4}, {2})), EINVAL)
        << name;
  EXPECT_REFUSED(source().make_group(source().root().object, "a/b"), EINVAL);
  EXPECT_TRUE(names("").empty());
  EXPECT_GOOD(make("v", described("\"<i4\"", {4}, {2})));
  EXPECT_REFUSED(make("v", described("\"<i4\"", {4}, {2})), EEXIST);
  EXPECT_REFUSED(make_group("v"), EEXIST);
  EXPECT_REFUSED(make_group("v/g"), ENOTDIR);
  reopen();
  EXPECT_EQ(names(""), Names{"v"});
}

TEST_F(Hdf5Make, FiltersArePutIntoTheFile) {
  const std::vector<std::vector<FilterStage>> chains = {
      {stage(2), stage(1, {4})}, {stage(1, {9}), stage(3)}, {stage(32015, {3})}, {stage(4, {4, 8})}, {stage(307, {9})}};
  std::vector<int32_t> values(64);
  for (int i = 0; i < 64; ++i) values[static_cast<size_t>(i)] = i * i;
  for (size_t i = 0; i < chains.size(); ++i) {
    const std::string name = fmt::format("v{}", i);
    EXPECT_GOOD(make(name, filtered(described("\"<i4\"", {100}, {64}, "-1"), chains[i])));
    EXPECT_GOOD(write(name, 0, values));
  }
  reopen();
  for (size_t i = 0; i < chains.size(); ++i) {
    const VariablePtr found = variable(fmt::format("v{}", i));
    ASSERT_EQ(found->filters.size(), chains[i].size());
    for (size_t stage = 0; stage < chains[i].size(); ++stage) {
      EXPECT_EQ(found->filters[stage].id, chains[i][stage].id);
      EXPECT_EQ(found->filters[stage].optional, found->filters[stage].id != 3);
    }
    EXPECT_EQ(read<int32_t>(fmt::format("v{}", i), 0), values);
  }
  CODECFS_NEEDS(have_h5py());
  EXPECT_EQ(h5py(R"(
for n in ['v0', 'v1', 'v3']:
    d = f[n]
    print(d.compression, d.shuffle, d.fletcher32, d.chunks, d.maxshape, d.fillvalue, d[10], d[99])
)"),
            "gzip True False (64,) (None,) -1 100 -1\n"
            "gzip False True (64,) (None,) -1 100 -1\n"
            "szip False False (64,) (None,) -1 100 -1\n");
}

TEST_F(Hdf5Make, AVariableTakesThePlaceOfAnEmptyGroup) {
  EXPECT_GOOD(make_group("a"));
  EXPECT_GOOD(make_group("a/v"));
  const ObjectId group = at("a/v");
  EXPECT_GOOD(make_group("a/v/inner"));
  EXPECT_REFUSED(make("a/v", described("\"<i4\"", {4}, {2})), ENOTEMPTY);
  EXPECT_GOOD(remove("a/v/inner"));
  EXPECT_REFUSED(make("a/v", described("\"<f16\"", {4}, {2})), EOPNOTSUPP);
  EXPECT_EQ(at("a/v"), group);
  EXPECT_GOOD(make("a/v", described("\"<i4\"", {4}, {2})));
  EXPECT_NE(at("a/v"), group);
  EXPECT_REFUSED(source().list(group), ENOENT);
  EXPECT_REFUSED(source().group_attributes(group), ENOENT);
  EXPECT_GOOD(write<int32_t>("a/v", 1, {3, 4}));
  reopen();
  EXPECT_EQ(read<int32_t>("a/v", 1), (std::vector<int32_t>{3, 4}));
}

TEST_F(Hdf5Make, GroupsKeepTheOrderInWhichTheyWereMade) {
  for (const char* name : {"z", "a", "m"}) EXPECT_GOOD(make_group(name));
  EXPECT_GOOD(make_group("a/été"));
  EXPECT_GOOD(make_group("100%25"));
  EXPECT_EQ(names(""), (Names{"z", "a", "m", "100%25"}));
  reopen();
  EXPECT_EQ(names(""), (Names{"z", "a", "m", "100%25"}));
  EXPECT_EQ(names("a"), Names{"été"});
  EXPECT_REFUSED(remove("a"), ENOTEMPTY);
  EXPECT_REFUSED(source().remove(at(""), "none"), ENOENT);
  EXPECT_GOOD(remove("a/été"));
  EXPECT_GOOD(remove("a"));
  EXPECT_EQ(names(""), (Names{"z", "m", "100%25"}));
  CODECFS_NEEDS(have_h5py());
  EXPECT_EQ(h5py("print(sorted(f))\n"), "['100%25', 'm', 'z']\n");
}

TEST_F(Hdf5Make, LinksLeadWhereTheyShould) {
  create();  // not a netCDF file
  EXPECT_GOOD(make_group("a"));
  EXPECT_GOOD(make_group("a/b"));
  EXPECT_GOOD(make("a/v", described("\"<i4\"", {4}, {2})));
  const auto link = [&](const std::string& group, const char* name, const char* target) {
    return source().make_link(at(group), name, target);
  };
  EXPECT_GOOD(link("a", "same", "v"));
  EXPECT_GOOD(link("a/b", "up", "../v"));
  EXPECT_GOOD(link("", "absolute", "/a/b/up"));
  EXPECT_GOOD(link("a/b", "root", "../.."));
  EXPECT_GOOD(link("", "dangling", "no/%2E."));
  EXPECT_REFUSED(link("a/b", "out", "../../../etc"), EINVAL);
  EXPECT_REFUSED(link("", "out", "/.."), EINVAL);
  EXPECT_REFUSED(link("", "out", ""), EINVAL);
  EXPECT_REFUSED(link("", "a", "a/v"), EEXIST);
  const auto target = [&](const std::string& where) { return entry_at(source(), where)->target; };
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(target("a/same"), "v");
    EXPECT_EQ(target("a/b/up"), "../v");
    EXPECT_EQ(target("absolute"), "a/b/up");
    EXPECT_EQ(target("a/b/root"), "../..");
    EXPECT_EQ(target("dangling"), "no/%2E.");
    reopen();
  }
  EXPECT_GOOD(move("absolute", "a/b/absolute"));
  EXPECT_EQ(target("a/b/absolute"), "up");
  EXPECT_GOOD(remove("a/b/root"));
  EXPECT_GOOD(remove("dangling"));
  EXPECT_EQ(names("a/b"), (Names{"up", "absolute"}));
  CODECFS_NEEDS(have_h5py());
  EXPECT_EQ(h5py("print(f['a/b/absolute'].name, f['a/same'] == f['a/v'], list(f))\n"), "/a/b/absolute True ['a']\n");
}

TEST_F(Hdf5Make, LinksThatNetcdfDoesNotSurviveAreNotMadeThere) {
  CODECFS_NEEDS(have_ncdump());
  EXPECT_GOOD(make_group("a"));
  EXPECT_GOOD(make_group("b"));
  EXPECT_GOOD(make("a/v", described("\"<i4\"", {4}, {2})));
  const auto link = [&](const std::string& group, const char* name, const char* target) {
    return source().make_link(at(group), name, target);
  };
  EXPECT_REFUSED(link("a", "nowhere", "none"), EOPNOTSUPP);
  EXPECT_REFUSED(link("a", "self", "."), EOPNOTSUPP);
  EXPECT_REFUSED(link("a", "up", ".."), EOPNOTSUPP);
  EXPECT_REFUSED(link("a", "root", "/"), EOPNOTSUPP);
  EXPECT_GOOD(link("a", "other", "../b"));
  EXPECT_GOOD(link("b", "v", "/a/v"));
  const std::string text = ncdump();
  EXPECT_NE(text.find("group: other {"), std::string::npos) << text;
}

TEST_F(Hdf5Make, MovedObjectsKeepTheirNumbers) {
  EXPECT_GOOD(make_group("a"));
  EXPECT_GOOD(make_group("a/b"));
  EXPECT_GOOD(make_group("c"));
  EXPECT_GOOD(make("a/b/v", described("\"<i4\"", {4}, {2})));
  const ObjectId b = at("a/b");
  const ObjectId v = at("a/b/v");
  EXPECT_GOOD(write<int32_t>("a/b/v", 0, {1, 2}));
  EXPECT_REFUSED(move("a", "a/b/a"), EINVAL);
  EXPECT_REFUSED(move("a", "a/a"), EINVAL);
  EXPECT_REFUSED(move("a", "c"), EEXIST);
  EXPECT_REFUSED(source().rename(at(""), "none", at(""), "x"), ENOENT);
  EXPECT_GOOD(move("a", "a"));
  EXPECT_GOOD(move("a/b", "c/d"));
  EXPECT_EQ(at("c/d"), b);
  EXPECT_EQ(at("c/d/v"), v);
  EXPECT_TRUE(names("a").empty());
  EXPECT_GOOD(move("c/d/v", "w"));
  EXPECT_EQ(at("w"), v);
  EXPECT_EQ(elements_of<int32_t>(*source().read_chunk(v, 0)), (std::vector<int32_t>{1, 2}));
  EXPECT_GOOD(write<int32_t>("w", 1, {3, 4}));
  EXPECT_GOOD(move("c", "e"));
  EXPECT_EQ(at("e/d"), b);
  EXPECT_NE(source().write_chunk(v, 9, {}).error().reason.find("/w"), std::string::npos);
  reopen();
  EXPECT_EQ(names(""), (Names{"a", "w", "e"}));
  EXPECT_EQ(read<int32_t>("w", 0), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(read<int32_t>("w", 1), (std::vector<int32_t>{3, 4}));
}

// HDF5 reuses the addresses of removed objects.
TEST_F(Hdf5Make, RemovedObjectsAreGoneForGood) {
  std::set<ObjectId> seen;
  for (int round = 0; round < 20; ++round) {
    const std::string name = fmt::format("v{}", round % 3);
    EXPECT_GOOD(make(name, with_dimensions(described("\"<i4\"", {4}, {2}), {round % 2 == 0 ? name : "x"})));
    const ObjectId id = at(name);
    EXPECT_TRUE(seen.insert(id).second);
    EXPECT_EQ(dimensions(name), Names{round % 2 == 0 ? name : "x"});
    EXPECT_GOOD(write<int32_t>(name, 0, {round, round}));
    EXPECT_EQ(read<int32_t>(name, 0), (std::vector<int32_t>{round, round}));
    EXPECT_REFUSED(source().read_chunk(id, 1), ENOENT);
    EXPECT_GOOD(remove(name));
    EXPECT_REFUSED(source().variable(id), ENOENT);
    EXPECT_REFUSED(source().read_chunk(id, 0), ENOENT);
    EXPECT_REFUSED(source().find(source().root().object, name), ENOENT);
    if (round % 5 == 4) {
      EXPECT_GOOD(source().commit());
    }
  }
  EXPECT_TRUE(names("").empty());
}

TEST_F(Hdf5Make, ObjectsWithSeveralLinksStayWhereOneIs) {
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    write_all(make_dataset(file, "a/v", H5T_NATIVE_INT, {2}), H5T_NATIVE_INT, std::vector{5, 6});
    make_dataset(file, "g/inner/w", H5T_NATIVE_INT, {2});
    const Handle b(H5Gcreate2(file.get(), "b", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Lcreate_hard(file.get(), "/a/v", file.get(), "b/again", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_hard(file.get(), "/a/v", file.get(), "b/third", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_hard(file.get(), "/g", file.get(), "b/g", H5P_DEFAULT, H5P_DEFAULT);
  }
  EXPECT_EQ(entry_at(source(), "b/again")->target, "../a/v");
  EXPECT_EQ(entry_at(source(), "b/g")->target, "../g");
  const ObjectId w = at("g/inner/w");
  const ObjectId v = at("a/v");
  EXPECT_GOOD(remove("a/v"));
  EXPECT_REFUSED(source().variable(v), ENOENT);
  EXPECT_EQ(entry_at(source(), "b/again")->kind, EntryKind::variable);
  EXPECT_EQ(entry_at(source(), "b/third")->target, "again");
  EXPECT_GOOD(remove("b/third"));
  EXPECT_EQ(read<int>("b/again", 0), (std::vector<int>{5, 6}));
  // Another link of a moved group may become its path; its members stay accessible.
  EXPECT_GOOD(make_group("later"));
  EXPECT_GOOD(move("g", "later/g"));
  EXPECT_EQ(entry_at(source(), "b/g")->kind, EntryKind::group);
  EXPECT_EQ(entry_at(source(), "later/g")->target, "../b/g");
  EXPECT_EQ(at("b/g/inner/w"), w);
  EXPECT_GOOD(remove("later/g"));
  EXPECT_EQ(at("b/g/inner/w"), w);
  EXPECT_GOOD(move("b", "c"));
  EXPECT_EQ(at("c/g/inner/w"), w);
  EXPECT_NE(source().write_chunk(w, 9, {}).error().reason.find("/c/g/inner/w"), std::string::npos);
  finish();
  EXPECT_EQ(read<int>("c/again", 0), (std::vector<int>{5, 6}));
}

TEST_F(Hdf5Make, ResizedVariablesKeepTheirChunks) {
  const std::vector<FilterStage> chain = {stage(2), stage(32015, {3})};
  Variable limited = filtered(described("\"<i4\"", {4, 4}, {2, 2}, "-1"), chain);
  limited.max_shape = {std::nullopt, 6};
  EXPECT_GOOD(make("v", limited));
  for (int i = 0; i < 4; ++i)
    EXPECT_GOOD(write<int32_t>("v", static_cast<uint64_t>(i), {10 * i, 10 * i + 1, 10 * i + 2, 10 * i + 3}));
  const auto resize = [&](std::vector<uint64_t> shape) { return source().resize(at("v"), shape); };
  EXPECT_EQ(variable("v")->max_shape, (std::vector<std::optional<uint64_t>>{std::nullopt, 6}));
  EXPECT_REFUSED(resize({4, 7}), EINVAL);
  EXPECT_REFUSED(resize({4}), EINVAL);
  EXPECT_GOOD(resize({4, 6}));
  EXPECT_EQ(read<int32_t>("v", 3), (std::vector<int32_t>{20, 21, 22, 23}));
  EXPECT_REFUSED(source().read_chunk(at("v"), 2), ENOENT);
  EXPECT_GOOD(resize({3, 3}));
  EXPECT_EQ(variable("v")->grid.count(), 4U);
  EXPECT_EQ(read<int32_t>("v", 3), (std::vector<int32_t>{30, -1, -1, -1})) << "beyond the edge is fill";
  EXPECT_GOOD(resize({2, 2}));
  EXPECT_GOOD(resize({5, 6}));
  EXPECT_EQ(read<int32_t>("v", 0), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(*source().stored_chunks(at("v"), 0, 100), std::vector<uint64_t>{0});
  EXPECT_GOOD(write<int32_t>("v", 8, {7, 7, 7, 7}));
  EXPECT_GOOD(make("fixed", described("\"<i4\"", {}, {})));
  EXPECT_REFUSED(source().resize(at("fixed"), std::vector<uint64_t>{1}), EINVAL);
  {
    finish();
    const hdf5::LibraryLock lock;
    const Handle file(H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    make_dataset(file, "contiguous", H5T_NATIVE_INT, {4});
  }
  EXPECT_EQ(variable("contiguous")->max_shape, std::vector<std::optional<uint64_t>>{4});
  EXPECT_REFUSED(source().resize(at("contiguous"), std::vector<uint64_t>{3}), EOPNOTSUPP);
}

TEST_F(Hdf5Make, TextsBeyondAnEdgeAreGoneToo) {
  EXPECT_GOOD(make("t", described("\"|O\"", {3}, {4}, "\"-\"")));
  const std::string chunk("\4\0\0\0\1\0\0\0a\1\0\0\0b\1\0\0\0c\1\0\0\0-", 24);
  EXPECT_GOOD(source().write_chunk(at("t"), 0, std::as_bytes(std::span(chunk))));
  EXPECT_GOOD(source().resize(at("t"), std::vector<uint64_t>{1}));
  EXPECT_GOOD(source().resize(at("t"), std::vector<uint64_t>{3}));
  reopen();
  const auto found = source().read_chunk(at("t"), 0);
  ASSERT_TRUE(found);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(found->data()), found->size()),
            std::string("\4\0\0\0\1\0\0\0a\1\0\0\0-\1\0\0\0-\1\0\0\0-", 24));
}

// A reader gets the bytes of the requested variable, whatever is created, moved and removed concurrently.
TEST_F(Hdf5Make, ReadersAreNotDisturbed) {
  constexpr int kChunks = 8;
  const auto content = [](int number) { return std::vector<int32_t>(256, number + 1); };
  EXPECT_GOOD(make_group("a"));
  EXPECT_GOOD(make("a/v", filtered(described("\"<i4\"", {256 * kChunks}, {256}), {stage(1, {1})})));
  for (int i = 0; i < kChunks; ++i) EXPECT_GOOD(write("a/v", static_cast<uint64_t>(i), content(i)));
  const ObjectId v = at("a/v");
  std::atomic<bool> stop = false;
  std::atomic<int> reads = 0;
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&, t] {
      for (int i = t; !stop; ++i, ++reads) {
        auto chunk = source().read_chunk(v, static_cast<uint64_t>(i % kChunks));
        EXPECT_TRUE(chunk && elements_of<int32_t>(*chunk) == content(i % kChunks))
            << (chunk ? "" : chunk.error().reason);
        EXPECT_TRUE(source().variable(v));
      }
    });
  }
  for (int round = 0; round < 100 || reads < 500; ++round) {
    EXPECT_GOOD(move(round % 2 == 0 ? "a/v" : "b", round % 2 == 0 ? "b" : "a/v"));
    EXPECT_GOOD(make("other", filtered(described("\"<i4\"", {256 * kChunks}, {256}), {stage(1, {1})})));
    for (uint64_t i = 0; i < 3; ++i) EXPECT_GOOD(write("other", i, content(99)));
    EXPECT_GOOD(write(round % 2 == 0 ? "b" : "a/v", 3, content(3)));
    EXPECT_GOOD(source().set_attributes(v, std::vector<Attribute>{{"round", Json(round)}}, {}));
    EXPECT_GOOD(remove("other"));
    if (round % 10 == 0) {
      EXPECT_GOOD(source().commit());
    }
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

TEST_F(Hdf5Make, NamesOfDimensionsAndAttributesChangeTogether) {
  const auto set = [&](const Names& names, const std::vector<Attribute>& attributes, const Names& removed) {
    return source().set_metadata(at("v"), names, attributes, removed);
  };
  EXPECT_GOOD(make("v", described("\"<i4\"", {4, 5}, {2, 5})));
  const Names before = dimensions("v");
  EXPECT_REFUSED(set({"y", "x"}, {{"_Netcdf4Dimid", Json(1)}}, {}), EPERM);
  EXPECT_REFUSED(set({"y", "x"}, {{"units", Json("K")}}, {"none"}), ENODATA);
  EXPECT_REFUSED(set({"y", "y"}, {{"units", Json("K")}}, {}), EINVAL);  // of two lengths
  EXPECT_EQ(dimensions("v"), before);
  EXPECT_EQ(phony_names(variable("v")->attributes), (std::set<std::string>{before[0], before[1]}));
  EXPECT_EQ(variable("v")->attributes.size(), 1U);
  EXPECT_GOOD(set({"y", "x"}, {{"units", Json("K")}, {"old", Json(1)}}, {}));
  EXPECT_GOOD(set({"x", "y"}, {{"units", Json("m")}}, {"old"}));
  EXPECT_EQ(dimensions("v"), (Names{"x", "y"}));
  EXPECT_GOOD(set({"x", "y"}, {}, {}));
  CODECFS_NEEDS(have_ncdump());
  const std::string shown = ncdump();
  EXPECT_NE(shown.find("int v(x, y) ;"), std::string::npos) << shown;
  EXPECT_NE(shown.find("v:units = \"m\" ;"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("v:old"), std::string::npos) << shown;
}

/// What making, naming and removing `count` variables writes, in bytes.
struct Written {
  uint64_t made = 0;
  uint64_t named = 0;
  uint64_t removed = 0;
};

TEST_F(Hdf5Make, ManyVariablesWriteInProportionToTheirNumber) {
  const auto written_for = [&](int count) {
    const std::string file = path(fmt::format("{}.h5", count));
    EXPECT_GOOD(create_hdf5(file));
    crash_testing::Recorder io(folder_);
    auto source = open_hdf5(file, true, io);
    EXPECT_GOOD(source);
    const ObjectId group = (*source)->make_group((*source)->root().object, "g")->object;
    size_t counted = 0;
    const auto bytes_of_commit = [&] {
      EXPECT_GOOD((*source)->commit());
      uint64_t bytes = 0;
      for (; counted < io.operations().size(); ++counted) bytes += io.operations()[counted].bytes.size();
      return bytes;
    };
    bytes_of_commit();
    std::vector<ObjectId> objects;
    for (int i = 0; i < count; ++i) {
      const auto made = (*source)->make_variable(group, fmt::format("v{}", i), described("\"<i4\"", {4, 5}, {2, 5}));
      EXPECT_GOOD(made);
      objects.push_back(made->object);
      EXPECT_EQ((*source)->variable(made->object).value()->dimensions->size(), 2U);
    }
    Written written{.made = bytes_of_commit()};
    const std::vector<std::string> dimensions{"y", "x"};
    for (const ObjectId object : objects) EXPECT_GOOD((*source)->set_dimensions(object, dimensions));
    written.named = bytes_of_commit();
    for (int i = 0; i < count; ++i) EXPECT_GOOD((*source)->remove(group, fmt::format("v{}", i)));
    written.removed = bytes_of_commit();
    return written;
  };
  const Written few = written_for(100);
  const Written many = written_for(300);  // nine times as much, if each change wrote something for each variable
  EXPECT_LT(many.made, 4 * few.made);
  EXPECT_LT(many.named, 4 * few.named);
  EXPECT_LT(many.removed, 4 * few.removed);
}

TEST_F(Hdf5Make, AFileOpenedForReadingStaysAsItIs) {
  EXPECT_GOOD(create_hdf5(path()));
  auto source = open_hdf5(path(), false);
  ASSERT_TRUE(source);
  EXPECT_REFUSED((*source)->make_group((*source)->root().object, "a"), EROFS);
  EXPECT_REFUSED((*source)->set_attributes((*source)->root().object, std::vector<Attribute>{{"a", Json(1)}}, {}),
                 EROFS);
}

}  // namespace
}  // namespace codecfs
