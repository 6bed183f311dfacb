// Dimensions: what is created through a Source must be valid netCDF-4 for ncdump, and keep its names after removals,
// moves and resizes.

#include "support/hdf5_change_testing.h"

namespace codecfs {
namespace {

using namespace hdf5_testing;
using Names = std::vector<std::string>;

class Hdf5Dimensions : public Hdf5Changes {
 protected:
  void expect_lines(const std::string& text, const Names& lines) {
    for (const std::string& line : lines) EXPECT_NE(text.find(line), std::string::npos) << line << "\nnot in\n" << text;
  }
  /// Creates a file with netCDF's own ncgen, which stores dimension ids.
  void generate(const std::string& cdl) {
    std::ofstream(path("t.cdl")) << cdl;
    int status = 0;
    const std::string text = output_of("ncgen -4 -o '" + path() + "' '" + path("t.cdl") + "'", &status);
    ASSERT_EQ(status, 0) << text;
  }
};

TEST_F(Hdf5Dimensions, CoordinatesMayComeFirstOrLast) {
  CODECFS_NEEDS(have_ncdump());
  EXPECT_GOOD(make("lat", with_dimensions(described("\"<f8\"", {4}, {4}), {"lat"})));
  EXPECT_GOOD(make("temp", with_dimensions(described("\"<f4\"", {3, 4, 5}, {1, 4, 5}), {"time", "lat", "lon"})));
  EXPECT_EQ(names(""), (Names{"lat", "temp"}));
  EXPECT_GOOD(make("lon", with_dimensions(described("\"<f8\"", {5}, {5}), {"lon"})));
  EXPECT_GOOD(make("more", with_dimensions(described("\"<i2\"", {5, 3}, {5, 3}), {"lon", "time"})));
  EXPECT_GOOD(make("time", with_dimensions(described("\"<i8\"", {3}, {1}), {"time"})));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(names("").size(), 5U);
    EXPECT_EQ(dimensions("temp"), (Names{"time", "lat", "lon"}));
    EXPECT_EQ(dimensions("more"), (Names{"lon", "time"}));
    EXPECT_EQ(dimensions("time"), (Names{"time"}));
    reopen();
  }
  expect_lines(ncdump(), {"float temp(time, lat, lon) ;", "short more(lon, time) ;", "double lon(lon) ;",
                          "int64 time(time) ;", "time = UNLIMITED ; // (3 currently)"});
  EXPECT_TRUE(have("nccopy '" + path() + "' '" + path("copy.nc") + "'"));
}

TEST_F(Hdf5Dimensions, FixedLengthsStayFixed) {
  CODECFS_NEEDS(have_ncdump());
  Variable fixed = with_dimensions(described("\"<f4\"", {3, 4}, {3, 4}), {"y", "x"});
  fixed.max_shape = {3, 4};
  EXPECT_GOOD(make("v", fixed));
  Variable other = with_dimensions(described("\"<f4\"", {5}, {4}), {"x"});
  EXPECT_REFUSED(make("w", other), EINVAL);
  EXPECT_EQ(names(""), (Names{"v"})) << "nothing is left of what was refused";
  EXPECT_GOOD(make("w", described("\"<f4\"", {5}, {4})));
  EXPECT_REFUSED(dimensions("w", {"x"}), EINVAL);
  EXPECT_REFUSED(dimensions("w", {"a/b"}), EINVAL);
  EXPECT_REFUSED(dimensions("w", {"_nc4_non_coord_a"}), EINVAL);
  EXPECT_REFUSED(dimensions("w", {"a", "b"}), EINVAL);
  EXPECT_GOOD(dimensions("w", {"z"}));
  expect_lines(ncdump(), {"y = 3 ;", "x = 4 ;", "float v(y, x) ;", "float w(z) ;"});
}

TEST_F(Hdf5Dimensions, AVariableMayHaveTheNameOfADimensionThatIsNotItsOwn) {
  CODECFS_NEEDS(have_ncdump());
  EXPECT_GOOD(make("v", with_dimensions(described("\"<f4\"", {3, 4}, {3, 4}), {"y", "x"})));
  EXPECT_GOOD(make("x", with_dimensions(described("\"<f4\"", {3}, {3}), {"y"})));
  EXPECT_GOOD(make("q", described("\"<f4\"", {6}, {6})));
  const ObjectId q = at("q");
  EXPECT_GOOD(make("r", with_dimensions(described("\"<f4\"", {6, 3}, {6, 3}), {"q", "y"})));
  EXPECT_GOOD(make("s", with_dimensions(described("\"<f4\"", {2, 3}, {2, 3}), {"s", "y"})));
  EXPECT_EQ(at("q"), q);
  EXPECT_EQ(dimensions("x"), Names{"y"});
  EXPECT_EQ(dimensions("s"), (Names{"s", "y"}));
  // A link that gets the prefix becomes the newest one.
  EXPECT_EQ(names(""), (Names{"v", "x", "r", "q", "s"}));
  expect_lines(ncdump(), {"float v(y, x) ;", "float x(y) ;", "float r(q, y) ;", "float s(s, y) ;"});
  // It becomes a coordinate variable again.
  EXPECT_GOOD(dimensions("q", {"q"}));
  EXPECT_EQ(at("q"), object_at(source(), "q"));
  EXPECT_EQ(dimensions("r"), (Names{"q", "y"}));
  expect_lines(ncdump(), {"float q(q) ;", "float r(q, y) ;"});
  EXPECT_EQ(output_of("h5ls '" + path() + "/q'").find("_nc4"), std::string::npos);
}

TEST_F(Hdf5Dimensions, AGroupMayHaveTheNameOfADimension) {
  CODECFS_NEEDS(have_ncdump());
  EXPECT_GOOD(make("v", with_dimensions(described("\"<f4\"", {3, 4}, {3, 4}), {"y", "x"})));
  EXPECT_GOOD(make_group("x"));
  EXPECT_GOOD(make("x/inner", with_dimensions(described("\"<f4\"", {4}, {4}), {"x"})));
  EXPECT_GOOD(make_group("taken"));
  EXPECT_GOOD(make("taken/w", with_dimensions(described("\"<f4\"", {4}, {4}), {"w"})));
  EXPECT_REFUSED(dimensions("v", {"taken", "x"}), EINVAL);
  EXPECT_EQ(names(""), (Names{"v", "x", "taken"}));
  EXPECT_EQ(dimensions("v"), (Names{"y", "x"}));
  EXPECT_GOOD(move("x", "g"));
  expect_lines(ncdump(), {"float v(y, x) ;", "group: g {", "float inner(x) ;"});
  EXPECT_EQ(dimensions("g/inner"), Names{"x"});
}

TEST_F(Hdf5Dimensions, AGroupWithoutVariablesLeavesItsNameToADimension) {
  CODECFS_NEEDS(have_ncdump());
  EXPECT_GOOD(make_group("x"));
  EXPECT_GOOD(make_group("y"));
  EXPECT_GOOD(make_group("y/c"));
  EXPECT_GOOD(make("v", with_dimensions(described("\"<f4\"", {3, 4}, {3, 4}), {"y", "x"})));
  EXPECT_EQ(names(""), (Names{"v", "y", "x"}));
  expect_lines(ncdump(), {"float v(y, x) ;"});
  EXPECT_GOOD(make("x", with_dimensions(described("\"<i4\"", {4}, {2}), {"x"})));
  EXPECT_EQ(names("y"), Names{"c"});
  EXPECT_GOOD(move("y", "z"));
  EXPECT_EQ(dimensions("v"), (Names{"y", "x"}));
  expect_lines(ncdump(), {"float v(y, x) ;", "int x(x) ;", "group: z {"});
}

TEST_F(Hdf5Dimensions, ACoordinateIsThatOfTheVariablesOfItsGroup) {
  CODECFS_NEEDS(have_ncdump());
  EXPECT_GOOD(make("x", with_dimensions(described("\"<i4\"", {4}, {2}), {"x"})));
  EXPECT_GOOD(make("v", with_dimensions(described("\"<f4\"", {4}, {4}), {"x"})));
  for (const char* group : {"g", "g/h"}) EXPECT_GOOD(make_group(group));
  EXPECT_GOOD(make("g/v", with_dimensions(described("\"<f4\"", {4, 4}, {4, 4}), {"x", "x"})));
  EXPECT_GOOD(make("g/h/v", with_dimensions(described("\"<f4\"", {4}, {4}), {"x"})));
  expect_lines(ncdump(), {"float v(x, x) ;", "float v(x) ;"});
  EXPECT_GOOD(make("g/x", with_dimensions(described("\"<i4\"", {4}, {2}), {"x"})));
  EXPECT_EQ(dimensions("g/v"), (Names{"x", "x"}));
  EXPECT_EQ(dimensions("v"), Names{"x"});
  const std::string text = ncdump();
  EXPECT_EQ(text.find("(/"), std::string::npos) << "ncdump prints paths of dimensions that another one hides\n" << text;
}

TEST_F(Hdf5Dimensions, RemovedCoordinatesLeaveTheirDimension) {
  CODECFS_NEEDS(have_ncdump());
  EXPECT_GOOD(make("x", with_dimensions(described("\"<f4\"", {4}, {4}), {"x"})));
  EXPECT_GOOD(make("v", with_dimensions(described("\"<f4\"", {3, 4}, {3, 4}), {"y", "x"})));
  EXPECT_GOOD(remove("x"));
  EXPECT_EQ(names(""), Names{"v"});
  EXPECT_EQ(dimensions("v"), (Names{"y", "x"}));
  expect_lines(ncdump(), {"float v(y, x) ;", "x = UNLIMITED ; // (4 currently)"});
  EXPECT_GOOD(make("x", with_dimensions(described("\"<i4\"", {4}, {2}), {"x"})));
  EXPECT_GOOD(remove("v"));
  EXPECT_GOOD(remove("x"));
  const std::string text = ncdump();
  EXPECT_EQ(text.find(" x"), std::string::npos) << "it was unused\n" << text;
}

TEST_F(Hdf5Dimensions, UnusedDimensionsTakeAnotherLength) {
  CODECFS_NEEDS(have_ncdump());
  Variable fixed = with_dimensions(described("\"<f4\"", {3}, {3}), {"x"});
  fixed.max_shape = {3};
  EXPECT_GOOD(make("v", fixed));
  EXPECT_GOOD(remove("v"));
  fixed.grid = *ChunkGrid::make({7}, {7});
  fixed.max_shape = {7};
  EXPECT_GOOD(make("v", fixed));
  EXPECT_EQ(dimensions("v"), Names{"x"});
  expect_lines(ncdump(), {"x = 7 ;", "float v(x) ;"});
}

TEST_F(Hdf5Dimensions, GroupsSeeTheDimensionsAboveThem) {
  CODECFS_NEEDS(have_ncdump());
  EXPECT_GOOD(make("x", with_dimensions(described("\"<f4\"", {4}, {4}), {"x"})));
  EXPECT_GOOD(make_group("g"));
  EXPECT_GOOD(make_group("g/h"));
  EXPECT_GOOD(make("g/h/v", with_dimensions(described("\"<f4\"", {4, 2}, {4, 2}), {"x", "z"})));
  EXPECT_GOOD(make("v", with_dimensions(described("\"<f4\"", {5}, {5}), {"z"})));
  EXPECT_EQ(dimensions("g/h/v"), (Names{"x", "z"}));
  expect_lines(ncdump(), {"float v(z) ;", "float v(x, z) ;", "z = UNLIMITED ; // (2 currently)"});
  // The dimensions must be visible from the target of a move.
  EXPECT_GOOD(make_group("other"));
  EXPECT_GOOD(move("g/h/v", "other/v"));
  EXPECT_EQ(dimensions("other/v"), (Names{"x", "z"}));
  EXPECT_REFUSED(move("x", "g/x"), EOPNOTSUPP);
  EXPECT_GOOD(move("other", "g/h/deeper"));
  EXPECT_EQ(dimensions("g/h/deeper/v"), (Names{"x", "z"}));
  expect_lines(ncdump(), {"group: deeper {", "float v(x, z) ;"});
}

TEST_F(Hdf5Dimensions, RenamedCoordinatesRenameTheDimension) {
  CODECFS_NEEDS(have_ncdump());
  EXPECT_GOOD(make("x", with_dimensions(described("\"<f4\"", {4}, {4}), {"x"})));
  EXPECT_GOOD(make("v", with_dimensions(described("\"<f4\"", {4, 3}, {4, 3}), {"x", "y"})));
  EXPECT_REFUSED(move("x", "y"), EEXIST);
  EXPECT_GOOD(move("v", "y"));
  EXPECT_GOOD(move("x", "longitude"));
  EXPECT_EQ(dimensions("y"), (Names{"longitude", "y"}));
  EXPECT_REFUSED(dimensions("longitude", {"x"}), EINVAL);
  expect_lines(ncdump(), {"float longitude(longitude) ;", "float y(longitude, y) ;"});
}

TEST_F(Hdf5Dimensions, FilesThatNumberTheirDimensionsGoOnDoingSo) {
  CODECFS_NEEDS(have_ncdump());
  generate(R"(netcdf t { dimensions: y = 3; x = 4; t = UNLIMITED;
    variables: double x(x); float v(t, x, y); int y(y, x); int z(y);
    group: g { dimensions: w = 2; variables: int q(w, x); } })");
  EXPECT_EQ(dimensions("y"), (Names{"y", "x"}));
  EXPECT_GOOD(make("n", with_dimensions(described("\"<f4\"", {2, 5}, {2, 5}), {"t", "new"})));
  EXPECT_GOOD(make("t", with_dimensions(described("\"<f4\"", {2}, {2}), {"t"})));
  EXPECT_GOOD(dimensions("z", {"other"}));
  EXPECT_GOOD(make("g/w", with_dimensions(described("\"<f4\"", {2}, {2}), {"w"})));
  expect_lines(ncdump(), {"double x(x) ;", "float v(t, x, y) ;", "int y(y, x) ;", "int z(other) ;", "float n(t, new) ;",
                          "float t(t) ;", "int q(w, x) ;", "float w(w) ;", "t = UNLIMITED ; // (2 currently)"});
  EXPECT_GOOD(remove("x"));
  EXPECT_GOOD(remove("y"));
  EXPECT_EQ(dimensions("v"), (Names{"t", "x", "y"}));
  EXPECT_EQ(dimensions("g/q"), (Names{"w", "x"}));
  expect_lines(ncdump(), {"float v(t, x, y) ;", "int q(w, x) ;"});
  CODECFS_NEEDS(have_h5py());
  EXPECT_EQ(h5py(R"(
ids = []
f.visititems(lambda n, o: ids.append(int(o.attrs['_Netcdf4Dimid'])) if o.attrs.get('CLASS') == b'DIMENSION_SCALE' else None)
print(len(ids) == len(set(ids)), len(ids), [d[0].name for d in f['v'].dims])
)"),
            "True 6 ['/t', '/x', '/y']\n");
}

TEST_F(Hdf5Dimensions, PhonyNamesAreNoChangeAndBecomeReal) {
  CODECFS_NEEDS(have_ncdump());
  {
    const hdf5::LibraryLock lock;
    const Handle file = create();
    make_dataset(file, "a", H5T_NATIVE_INT, {5, 6});
    make_dataset(file, "b", H5T_NATIVE_INT, {6});
  }
  const auto before = std::filesystem::last_write_time(path());
  EXPECT_GOOD(dimensions("a", {"phony_dim_0", "phony_dim_1"}));
  finish();
  EXPECT_EQ(std::filesystem::last_write_time(path()), before);
  EXPECT_GOOD(dimensions("a", {"phony_dim_0", "b"}));
  EXPECT_GOOD(dimensions("b", {"b"}));
  EXPECT_EQ(dimensions("a"), (Names{"phony_dim_0", "b"}));
  expect_lines(ncdump(), {"int a(phony_dim_0, b) ;", "int b(b) ;", "b = 6 ;"});
}

// A coordinate variable is a separate array, which Zarr writers resize themselves.
TEST_F(Hdf5Dimensions, MereDimensionsGrowWithTheirVariables) {
  CODECFS_NEEDS(have_ncdump());
  EXPECT_GOOD(make("t", with_dimensions(described("\"<i4\"", {2}, {2}, "-1"), {"t"})));
  EXPECT_GOOD(make("v", with_dimensions(described("\"<i4\"", {2, 3}, {2, 3}, "-2"), {"t", "x"})));
  Variable fixed = with_dimensions(described("\"<i4\"", {4}, {4}), {"z"});
  fixed.max_shape = {4};
  EXPECT_GOOD(make("z", fixed));
  EXPECT_GOOD(make("w", with_dimensions(described("\"<i4\"", {4}, {4}), {"z"})));
  const std::vector<uint64_t> longer = {5, 4};
  EXPECT_GOOD(source().resize(at("v"), longer));
  EXPECT_EQ(variable("v")->grid.shape(), longer);
  EXPECT_EQ(variable("t")->grid.shape(), std::vector<uint64_t>{2});
  expect_lines(ncdump(), {"x = UNLIMITED ; // (4 currently)"});
  EXPECT_GOOD(source().resize(at("t"), std::vector<uint64_t>{5}));
  EXPECT_REFUSED(source().resize(at("w"), std::vector<uint64_t>{5}), EINVAL);
  EXPECT_REFUSED(source().resize(at("z"), std::vector<uint64_t>{5}), EINVAL);
  EXPECT_REFUSED(source().resize(at("v"), std::vector<uint64_t>{5}), EINVAL);
  EXPECT_GOOD(source().resize(at("v"), std::vector<uint64_t>{1, 1}));
  EXPECT_EQ(variable("t")->grid.shape(), std::vector<uint64_t>{5});
  expect_lines(ncdump(),
               {"t = UNLIMITED ; // (5 currently)", "int v(t, x) ;", "z = 4 ;", "x = UNLIMITED ; // (1 currently)"});
}

}  // namespace
}  // namespace codecfs
