// Attributes: ncdump and h5py read what was set through a Source, with the previous types.

#include "model/json.h"
#include "support/hdf5_change_testing.h"

namespace codecfs {
namespace {

using namespace hdf5_testing;

class Hdf5Attributes : public Hdf5Changes {
 protected:
  Result<> set(const std::string& where, const std::string& name, const Json& value) {
    const std::vector<Attribute> attributes = {{name, value}};
    return source().set_attributes(at(where), attributes, {});
  }
  Result<> set(const std::string& where, const std::string& name, const char* text) {
    return set(where, name, json(text));
  }
  Result<> unset(const std::string& where, const std::string& name) {
    return source().set_attributes(at(where), {}, std::vector{name});
  }
  /// The attributes of a variable, or of the root if there is no name, as one line of JSON.
  std::string shown(const std::string& where = "") {
    Json all = Json::object();
    const auto attributes =
        where.empty() ? *source().group_attributes(source().root().object) : variable(where)->attributes;
    for (const Attribute& attribute : attributes) all[attribute.name] = attribute.value;
    return print_json(all);
  }
  /// A file that is not netCDF.
  void make_plain() { create(); }
};

TEST_F(Hdf5Attributes, NewOnesInNetcdf) {
  CODECFS_NEEDS(have_ncdump());
  EXPECT_GOOD(make("v", described("\"<f4\"", {4}, {4})));
  EXPECT_GOOD(set("v", "units", "\"K\""));
  EXPECT_GOOD(set("v", "empty", "\"\""));
  EXPECT_GOOD(set("v", "integer", "5"));
  EXPECT_GOOD(set("v", "large", "18446744073709551615"));
  EXPECT_GOOD(set("v", "fraction", "0.1"));
  EXPECT_GOOD(set("v", "nan", "NaN"));
  EXPECT_GOOD(set("v", "list", "[1, 2, -3]"));
  EXPECT_GOOD(set("v", "mixed", "[1, 2.5, -Infinity]"));
  EXPECT_GOOD(set("v", "texts", "[\"a\", \"\\u00e9\", \"\"]"));
  EXPECT_GOOD(set("v", "yes", "true"));
  EXPECT_GOOD(set("", "title", "\"\\u00e9t\\u00e9\""));
  const std::string expected =
      R"({"units": "K", "empty": "", "integer": 5, "large": 18446744073709551615, "fraction": 0.1, "nan": "NaN", )"
      R"("list": [1, 2, -3], "mixed": [1.0, 2.5, "-Infinity"], "texts": ["a", "\u00e9", ""], "yes": 1, )"
      R"("_codecfs_float_attributes": "[\"mixed\", \"nan\"]", )"
      R"("_codecfs_phony_dimensions": "[\"phony_dim_0\"]"})";
  EXPECT_EQ(shown("v"), expected);
  reopen();
  EXPECT_EQ(shown("v"), expected);
  EXPECT_EQ(shown(), R"({"title": "\u00e9t\u00e9"})");
  const std::string text = ncdump();
  for (const char* line :
       {"v:units = \"K\" ;", "v:empty = \"\" ;", "v:integer = 5LL ;", "v:large = 18446744073709551615ULL ;",
        "v:fraction = 0.1 ;", "v:nan = NaN ;", "v:list = 1LL, 2LL, -3LL ;", "v:mixed = 1., 2.5, -Infinity ;",
        "string v:texts = \"a\", \"é\", \"\" ;", "v:yes = 1b ;", ":title = \"été\" ;"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nnot in\n" << text;
  EXPECT_EQ(text.find("string v:units"), std::string::npos);
}

TEST_F(Hdf5Attributes, NewOnesElsewhereAreWhatH5pyMakes) {
  CODECFS_NEEDS(have_h5py());
  make_plain();
  for (const char* one : {R"(["text", "K"])", R"(["integer", 5])", R"(["fraction", 0.5])", R"(["yes", true])",
                          R"(["flags", [true, false]])", R"(["list", [1]])", R"(["table", [[1, 2, 3], [4, 5, 6]]])",
                          R"(["texts", ["a", "b"]])", R"(["nothing", null])", R"(["none", []])"})
    EXPECT_GOOD(set("", json(one)[0].get<std::string>(), json(one)[1]));
  EXPECT_EQ(shown(),
            R"({"flags": [true, false], "fraction": 0.5, "integer": 5, "list": [1], "none": [], "nothing": null, )"
            R"("table": [[1, 2, 3], [4, 5, 6]], "text": "K", "texts": ["a", "b"], "yes": true})");
  EXPECT_EQ(h5py(R"(
a = f.attrs
print(repr(a['text']), a['integer'], a['integer'].dtype, a['fraction'], a['yes'], a['yes'].dtype, a['flags'])
print(a['list'], a['table'].shape, a['texts'], type(a['nothing']).__name__, a['none'])
)"),
            "'K' 5 int64 0.5 True bool [ True False]\n"
            "[1] (2, 3) ['a' 'b'] Empty []\n");
}

TEST_F(Hdf5Attributes, TypesAreKeptWhereTheValueFits) {
  CODECFS_NEEDS(have_h5py());
  h5py(R"(
a = f.create_dataset('v', data=np.arange(4)).attrs
a['f4'] = np.float32(1.5)
a['f4 again'] = np.float32(1.5)
a['i2'] = np.int16(7)
a['i2 again'] = np.int16(7)
a['u1'] = np.array([1, 2], 'u1')
a['f2'] = np.float16(0.5)
a['fixed'] = np.bytes_('abc')
a['text'] = 'abc'
a['complex'] = 1 + 2j
a['big'] = np.array(3, '>i4')
a['row'] = np.zeros(1, [('a', 'i2'), ('b', 'f4')])
a['same'] = np.array([1, 2], 'i1')
)",
       "w");
  EXPECT_GOOD(set("v", "f4", "3"));
  EXPECT_GOOD(set("v", "f4 again", "0.1000000001"));
  EXPECT_GOOD(set("v", "i2", "-32768"));
  EXPECT_GOOD(set("v", "i2 again", "32768"));
  EXPECT_GOOD(set("v", "u1", "[255, 0, 3]"));
  EXPECT_GOOD(set("v", "f2", "0.25"));
  EXPECT_GOOD(set("v", "fixed", "\"longer than before\""));
  EXPECT_GOOD(set("v", "text", "\"x\""));
  EXPECT_GOOD(set("v", "complex", "[3.5, NaN]"));
  EXPECT_GOOD(set("v", "big", "-9"));
  EXPECT_GOOD(set("v", "row", R"([{"a": 3, "b": 0.25}])"));
  EXPECT_GOOD(set("v", "same", "[1, 2]"));
  EXPECT_EQ(h5py(R"(
a = f['v'].attrs
for n in ['f4', 'f4 again', 'i2', 'i2 again', 'u1', 'f2', 'fixed', 'text', 'complex', 'big', 'row', 'same']:
    t = a.get_id(n).dtype
    print(n, a[n], t if t != object else h5.check_string_dtype(t))
)"),
            "f4 3.0 float32\n"
            "f4 again 0.1000000001 float64\n"
            "i2 -32768 int16\n"
            "i2 again 32768 int64\n"
            "u1 [255   0   3] uint8\n"
            "f2 0.25 float16\n"
            "fixed b'longer than before' |S18\n"
            "text x string_info(encoding='utf-8', length=None)\n"
            "complex (3.5+nanj) complex128\n"
            "big -9 >i4\n"
            "row [(3, 0.25)] [('a', '<i2'), ('b', '<f4')]\n"
            "same [1 2] int8\n");
}

TEST_F(Hdf5Attributes, WhatHasNoTypeIsJsonText) {
  EXPECT_GOOD(make("v", with_dimensions(described("\"<f4\"", {4}, {4}, "-1.0"), {"v"})));
  for (const char* value : {"{\"a\": 1}", "[[1], [2, 3]]", "[1, \"a\"]", "[1, [2]]", "[1, null]", "[[1, 2]]",
                            "[18446744073709551615, -1]", "[\"a\\u0000b\"]", "{}"}) {
    EXPECT_GOOD(set("v", "x", value));
    EXPECT_EQ(shown("v"), fmt::format("{{\"_FillValue\": -1.0, \"x\": {}}}", value));
  }
  EXPECT_GOOD(set("v", "x", "\"{}\""));
  EXPECT_EQ(shown("v"), R"({"_FillValue": -1.0, "x": "{}"})") << "a text";
  EXPECT_GOOD(set("v", "_codecfs_json_attributes", R"("[\"x\", \"absent\"]")"));
  EXPECT_EQ(shown("v"), R"({"_FillValue": -1.0, "x": {}})") << "as in the copy of a program that copies all attributes";
  EXPECT_REFUSED(unset("v", "_codecfs_json_attributes"), ENODATA);
}

TEST_F(Hdf5Attributes, AllOrNone) {
  EXPECT_GOOD(make("v", with_dimensions(described("\"<f4\"", {4}, {4}, "-1.0"), {"v"})));
  EXPECT_GOOD(set("v", "units", "\"K\""));
  const ObjectId v = at("v");
  const auto change = [&](std::vector<Attribute> attributes, std::vector<std::string> removed = {}) {
    return source().set_attributes(v, attributes, removed);
  };
  const Attribute good = {"good", json("1")};
  EXPECT_REFUSED(change({good, {"bad", Json(std::string("a\0b", 3))}}), EINVAL);
  EXPECT_REFUSED(change({good, {"", json("1")}}), EINVAL);
  EXPECT_REFUSED(change({good, good}), EINVAL);
  for (const char* name : {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates",
                           "_NCProperties", "_nc3_strict"})
    EXPECT_REFUSED(change({good, {name, json("1")}}), EPERM) << name;
  EXPECT_REFUSED(change({good, {"_ARRAY_DIMENSIONS", json("1")}}), EINVAL);
  EXPECT_REFUSED(change({good, {"_FillValue", json("-2.0")}}), EPERM);
  EXPECT_REFUSED(change({good}, {"nothing"}), ENODATA);
  EXPECT_REFUSED(change({good}, {"CLASS"}), ENODATA);
  EXPECT_EQ(shown("v"), R"({"_FillValue": -1.0, "units": "K"})");
  EXPECT_GOOD(change({good, {"_FillValue", json("-1.0")}}, {"units"}));
  EXPECT_EQ(shown("v"), R"({"_FillValue": -1.0, "good": 1})");
  EXPECT_GOOD(unset("v", "_FillValue"));
  EXPECT_TRUE(variable("v")->fill_value.is_null());
  EXPECT_GOOD(set("v", "_FillValue", "-1"));
  EXPECT_EQ(variable("v")->fill_value, json("-1.0"));
  EXPECT_GOOD(make("plain", described("\"<f4\"", {4}, {4})));
  EXPECT_REFUSED(set("plain", "CLASS", "\"DIMENSION_SCALE\""), EPERM);
  EXPECT_GOOD(set("", "CLASS", "\"DIMENSION_SCALE\"")) << "a group is no scale";
}

TEST_F(Hdf5Attributes, AFillValueThatIsNoneOfZarr2MarksMissingData) {
  Variable marked = described("\"<f4\"", {4}, {4});
  marked.attributes = {{"_FillValue", json("-9.5")}};
  EXPECT_GOOD(make("marked", marked));
  EXPECT_EQ(shown("marked"), R"({"_FillValue": -9.5, "_codecfs_phony_dimensions": "[\"phony_dim_0\"]"})");
  EXPECT_TRUE(variable("marked")->fill_value.is_null()) << "absent chunks are zeros";
  EXPECT_EQ(variable("marked")->fill, std::vector<std::byte>(4));
  EXPECT_GOOD(set("marked", "_FillValue", "[-8]"));
  EXPECT_EQ(shown("marked"), R"({"_FillValue": -8.0, "_codecfs_phony_dimensions": "[\"phony_dim_0\"]"})");
  EXPECT_REFUSED(set("marked", "_FillValue", "\"x\""), EINVAL);
  EXPECT_GOOD(make("plain", described("\"<i2\"", {4}, {4})));
  EXPECT_GOOD(set("plain", "_FillValue", "-99"));
  EXPECT_EQ(shown("plain"), R"({"_FillValue": -99, "_codecfs_phony_dimensions": "[\"phony_dim_0\"]"})");
  EXPECT_GOOD(set("plain", "_FillValue", "0"));
  EXPECT_EQ(variable("plain")->fill_value, json("0")) << "now it is both";
  EXPECT_REFUSED(set("plain", "_FillValue", "1"), EPERM);
}

TEST_F(Hdf5Attributes, LargeOnesWhereTheObjectHoldsThem) {
  CODECFS_NEEDS(have_h5py());
  const std::string text(200'000, 'x');
  EXPECT_GOOD(make("v", described("\"<f4\"", {4}, {4})));
  EXPECT_GOOD(set("v", "large", Json(text)));
  EXPECT_GOOD(set("v", "numbers", Json(std::vector<double>(100'000, 0.5))));
  EXPECT_REFUSED(set("v", "huge", Json(std::string((16 << 20) + 1, 'x'))), EFBIG);
  for (int i = 0; i < 20; ++i) EXPECT_GOOD(set("v", fmt::format("a{}", i), Json(i)));
  EXPECT_EQ(h5py("a = f['v'].attrs\nprint(len(a['large']), a['numbers'].sum(), list(a)[-3:], a['a19'])\n"),
            "200000 50000.0 ['a17', 'a18', 'a19'] [19]\n");
  std::filesystem::remove(path());
  {
    const hdf5::LibraryLock lock;
    make_dataset(create(), "old", H5T_NATIVE_INT, {3});
  }
  EXPECT_REFUSED(set("old", "large", Json(std::vector<double>(10'000, 0.5))), EFBIG);
  EXPECT_GOOD(set("old", "large", Json(text))) << "variable length lies elsewhere";
  EXPECT_GOOD(set("old", "smaller", Json(std::vector<double>(7'000, 0.5))));
  EXPECT_EQ(h5py("a = f['old'].attrs\nprint(len(a['large']), a['smaller'].sum())\n"), "200000 3500.0\n");
}

TEST_F(Hdf5Attributes, ReferencesAreNotReplaced) {
  CODECFS_NEEDS(have_h5py());
  h5py("f['v'] = 1\nf['v'].attrs['r'] = f['v'].ref\nf['v'].attrs['n'] = 1\n", "w");
  EXPECT_REFUSED(set("v", "r", "1"), EPERM);
  EXPECT_REFUSED(unset("v", "r"), ENODATA);
  EXPECT_GOOD(unset("v", "n"));
  EXPECT_EQ(h5py("print(list(f['v'].attrs), f[f['v'].attrs['r']].name)\n"), "['r'] /v\n");
}

}  // namespace
}  // namespace codecfs
