// Changes of netCDF-C's stores: its lists are correct after every change, and if possible after every step of one, in
// the form of each release. netCDF-C's rules are reimplemented here (zsync.c of 4.10.1): it refuses a store in which a
// listed member is missing or has another length.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "backends/open/source_opener.h"
#include "backends/zarr/metadata/nczarr.h"
#include "backends/zarr/source/zarr_source.h"
#include "backends/zarr/store/directory_store.h"
#include "filters/core/codec_json.h"
#include "model/json.h"
#include "support/zarr_testing.h"

namespace codecfs {
namespace {

namespace files = std::filesystem;
using zarr::NczarrForm;

using Names = std::set<std::string>;
using Texts = std::vector<std::string>;
using Shape = std::vector<uint64_t>;

/// Calls the operating system and inspects the store after every change of a name. A call may fail.
class WatchedIo : public FileIo {
 public:
  Result<File> create(const File& directory, const std::string& name, mode_t mode) override {
    CODECFS_TRY(next());
    return real_file_io().create(directory, name, mode);
  }
  Result<> write(const File& file, uint64_t offset, Bytes bytes) override {
    CODECFS_TRY(next());
    return real_file_io().write(file, offset, bytes);
  }
  Result<> truncate(const File&, uint64_t) override { return fail(ENOSYS, "not used"); }
  Result<> sync_data(const File&) override { return fail(ENOSYS, "not used"); }
  Result<> sync(const File&) override { return next(); }
  Result<> make_directory(const File& directory, const std::string& name, mode_t mode) override {
    CODECFS_TRY(next());
    return real_file_io().make_directory(directory, name, mode);
  }
  Result<> rename(const File& directory, const std::string& from, const std::string& to) override {
    CODECFS_TRY(next());
    return watched(real_file_io().rename(directory, from, to));
  }
  Result<> unlink(const File& directory, const std::string& name) override {
    return watched(real_file_io().unlink(directory, name));
  }
  Result<> move(const File& from_directory, const std::string& from, const File& to_directory,
                const std::string& to) override {
    CODECFS_TRY(next());
    return watched(real_file_io().move(from_directory, from, to_directory, to));
  }
  Result<> exchange(const File& directory, const std::string& one, const std::string& other) override {
    CODECFS_TRY(next());
    return watched(real_file_io().exchange(directory, one, other));
  }
  Result<> remove_directory(const File& directory, const std::string& name) override {
    return watched(real_file_io().remove_directory(directory, name));
  }

  /// Makes one call fail, counted from 0 from now on; returns whether it was reached.
  void fail_at(int call) {
    calls_ = 0;
    at_ = call;
  }
  [[nodiscard]] bool has_failed() const { return at_ >= 0 && calls_ > at_; }

  std::function<void()> watch;

 private:
  Result<> next() {
    if (calls_++ == at_) return fail(ENOSPC, "injected");
    return {};
  }
  Result<> watched(Result<> done) const {
    if (watch) watch();
    return done;
  }

  int calls_ = 0;
  int at_ = -1;
};

class NczarrStoreTest : public zarr_testing::StoreTest, public testing::WithParamInterface<NczarrForm> {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    fill_store();
  }

  NczarrForm form() const { return GetParam(); }
  bool is_current() const { return form() == NczarrForm::attributes; }

  /// / has y = 2, x = 4, t = 3 (without limit), a(y, x), b(t, x), s; /g has z = 2, c(z, x).
  void fill_store() {
    put_group("", {{"y", 2, false}, {"x", 4, false}, {"t", 3, is_current()}}, {"a", "b", "s"}, {"g"});
    put_group("g", {{"z", 2, false}}, {"c"}, {});
    put_array("a", {2, 4}, {"/y", "/x"});
    put_array("b", {3, 4}, {"/t", "/x"});
    put_array("s", {1}, {});
    put_array("g/c", {2, 4}, {"/g/z", "/x"});
  }
  void put_json(const std::string& key, const Json& json) const { put(key, print_json(json)); }
  void put_group(const std::string& key, std::vector<zarr::NczarrDimension> dimensions, Texts arrays, Texts groups) {
    const zarr::NczarrGroup lists{form(), std::move(dimensions), std::move(arrays), std::move(groups)};
    Json own = Json::object();
    if (std::string_view(zarr::nczarr_group_file(form())) == ".zgroup") own["zarr_format"] = 2;
    put_nczarr_group(own, lists);
    put_json(zarr::join_key(key, ".zgroup"), {{"zarr_format", 2}});
    put_json(zarr::join_key(key, zarr::nczarr_group_file(form())), own);
  }
  void put_array(const std::string& key, const Shape& shape, const Texts& references) {
    Json zarray = {{"zarr_format", 2}, {"shape", shape},        {"chunks", Shape(shape.size(), 1)},
                   {"dtype", "<i4"},   {"compressor", nullptr}, {"filters", nullptr},
                   {"fill_value", -1}, {"order", "C"}};
    Json zattrs = {{"units", "K"}};
    Json nczvar = Json::object();
    Json names = Json::array();
    for (const std::string& path : references) names.push_back(path.substr(path.rfind('/') + 1));
    zattrs["_ARRAY_DIMENSIONS"] = names;
    put_nczarr_array(is_current() ? zattrs : form() == NczarrForm::objects ? nczvar : zarray, form(), references);
    put_json(key + "/.zarray", zarray);
    put_json(key + "/.zattrs", zattrs);
    if (form() == NczarrForm::objects) put_json(key + "/.nczvar", nczvar);
    put(key + (shape.size() == 1 ? "/0" : "/0.0"), std::string{7, 0, 0, 0});
  }

  // --- what netCDF-C reads

  Json json_of(const std::string& key) const {
    if (!files::exists(root_ / key)) return {};
    const auto json = parse_json(get(key));
    EXPECT_TRUE(json) << key;
    return json ? *json : Json();
  }
  std::optional<zarr::NczarrGroup> lists_of(const std::string& key) const {
    return zarr::parse_nczarr_group(json_of(zarr::join_key(key, ".zgroup")), json_of(zarr::join_key(key, ".zattrs")),
                                    json_of(zarr::join_key(key, ".nczgroup")));
  }
  std::optional<zarr::NczarrArray> own_of(const std::string& key) const {
    return zarr::parse_nczarr(json_of(key + "/.zarray"), json_of(key + "/.zattrs"), json_of(key + "/.nczvar"));
  }
  /// Everything that netCDF-C would find, or "error: ..." if it refuses the store.
  std::string netcdf(const std::string& key = "") const {
    const auto lists = lists_of(key);
    if (!lists) return fmt::format("error: {} has no lists", key);
    if (lists->form != form()) return fmt::format("error: {} is of another form", key);
    std::string text = fmt::format("/{}:", key);
    for (const auto& one : lists->dimensions)
      text += fmt::format(" {}={}{}", one.name, one.length, one.is_unlimited ? "*" : "");
    Names names;
    for (const std::string& name : lists->arrays) {
      if (!names.insert(name).second) return fmt::format("error: {} is listed twice", name);
      text += " " + netcdf_array(zarr::join_key(key, name));
    }
    for (const std::string& name : lists->groups) {
      if (!names.insert(name).second) return fmt::format("error: {} is listed twice", name);
      text += "\n" + netcdf(zarr::join_key(key, name));
    }
    if (const size_t error = text.find("error: "); error != std::string::npos) return text.substr(error);
    return text;
  }
  std::string netcdf_array(const std::string& key) const {
    const Json zarray = json_of(key + "/.zarray");
    const auto own = own_of(key);
    if (zarray.is_null() || !own || !own->references) return fmt::format("error: {} is not there", key);
    Shape shape = zarray["shape"].get<Shape>();
    if (own->is_scalar) shape.clear();
    if (shape.size() != own->references->size()) return fmt::format("error: {} has another rank", key);
    for (size_t i = 0; i < shape.size(); ++i) {
      const std::string& path = (*own->references)[i];
      const size_t slash = path.rfind('/');
      const std::string group = slash == 0 ? "" : path.substr(1, slash - 1);
      auto lists = lists_of(group);
      const auto* dimension = lists ? lists->find(path.substr(slash + 1)) : nullptr;
      const bool is_seen = group.empty() || key.starts_with(group + "/");
      if (dimension == nullptr || !is_seen) return fmt::format("error: {} has no dimension {}", key, path);
      if (dimension->length != shape[i]) return fmt::format("error: {} is not as long as {}", key, path);
    }
    return fmt::format("{}({})", key, fmt::join(*own->references, ","));
  }
  void expect_netcdf(const std::string& what) const { EXPECT_EQ(netcdf(), what); }

  /// All files of the store with their content, except those that a kill may leave.
  std::map<std::string, std::string> snapshot() const {
    std::map<std::string, std::string> all;
    for (const auto& one : files::recursive_directory_iterator(root_)) {
      const std::string key = one.path().lexically_relative(root_).string();
      if (key.find(".codecfs-") == std::string::npos) all[key] = one.is_regular_file() ? get(key) : "";
    }
    return all;
  }

  // --- the source

  Source& source() {
    if (!source_) {
      auto opened = open_zarr(root_, true, io_);
      EXPECT_TRUE(opened) << opened.error().reason;
      source_ = std::move(*opened);
    }
    return *source_;
  }
  /// Ends as an unmount does.
  void finish() {
    EXPECT_TRUE(source().finish());
    source_.reset();
  }
  Entry entry(const std::string& path) {
    Entry at = source().root();
    for (const auto& part : files::path(path)) {
      auto found = source().find(at.object, part.string());
      EXPECT_TRUE(found) << path << ": " << (found ? "" : found.error().reason);
      if (found) at = *found;
    }
    return at;
  }
  ObjectId object(const std::string& path) { return entry(path).object; }
  static Variable variable(const char* dtype, Shape shape, std::optional<Texts> dimensions) {
    Variable made;
    made.type = *parse_dtype(dtype);
    Shape chunks(shape.size(), 1);
    made.grid = *ChunkGrid::make(std::move(shape), std::move(chunks));
    made.chunk_bytes = made.grid.elements_per_chunk() * made.type.size;
    made.fill.resize(made.type.size);
    made.fill_value = Json(0);
    if (made.type.kind == TypeKind::string) made.fill_value = Json("");
    made.dimensions = std::move(dimensions);
    return made;
  }
  /// For a store whose form does not support unlimited dimensions.
  std::string mark() const { return is_current() ? "*" : ""; }

  WatchedIo io_;
};

template <class T>
void expect_code(const Result<T>& result, int code) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, code) << result.error().reason;
}

#define EXPECT_CODE(result, code) \
  {                               \
    SCOPED_TRACE(#result);        \
    expect_code(result, code);    \
  }

std::string name_of(const testing::TestParamInfo<NczarrForm>& form) {
  constexpr std::array kNames = {"Objects", "UpperKeys", "LowerKeys", "Attributes"};
  return kNames[static_cast<size_t>(form.param)];
}

INSTANTIATE_TEST_SUITE_P(Forms, NczarrStoreTest,
                         testing::Values(NczarrForm::objects, NczarrForm::upper_keys, NczarrForm::lower_keys,
                                         NczarrForm::attributes),
                         name_of);

/// Unlimited dimensions exist since 4.9.3.
class CurrentNczarrTest : public NczarrStoreTest {};
INSTANTIATE_TEST_SUITE_P(Forms, CurrentNczarrTest, testing::Values(NczarrForm::attributes), name_of);

TEST_P(NczarrStoreTest, IsRead) {
  const auto b = *source().variable(object("b"));
  EXPECT_EQ(b->dimensions, (Texts{"t", "x"}));
  const std::vector<std::optional<uint64_t>> limits = {is_current() ? std::nullopt : std::optional<uint64_t>(3), 4};
  EXPECT_EQ(b->max_shape, limits);
  EXPECT_TRUE((*source().variable(object("s")))->max_shape.empty());
  EXPECT_EQ((*source().variable(object("g/c")))->dimensions, (Texts{"z", "x"}));
  EXPECT_TRUE(source().group_attributes(object("g"))->empty());
  EXPECT_EQ(netcdf(), fmt::format("/: y=2 x=4 t=3{} a(/y,/x) b(/t,/x) s()\n/g: z=2 g/c(/g/z,/x)", mark()));
}

TEST_P(NczarrStoreTest, FilesDecideWhatIsThere) {
  put_group("", {{"y", 2, false}, {"x", 4, false}}, {"a", "gone"}, {"lost"});
  const auto members = *source().list(object(""));
  Names names;
  for (const Entry& member : members) names.insert(member.name);
  EXPECT_EQ(names, (Names{"a", "b", "g", "s"}));
  EXPECT_TRUE((*source().variable(object("b")))->max_shape.empty());  // its dimension is in no list
  ASSERT_TRUE(source().make_variable(object(""), "gone", variable("<i4", {2}, Texts{"y"})));
  ASSERT_TRUE(source().make_group(object(""), "lost"));
  EXPECT_EQ(lists_of("")->arrays, (Texts{"a", "gone"}));
  EXPECT_EQ(lists_of("")->groups, Texts{"lost"});
}

TEST_P(NczarrStoreTest, MembersAreMade) {
  io_.watch = [&] { EXPECT_FALSE(netcdf().starts_with("error")) << netcdf(); };
  ASSERT_TRUE(source().make_group(object("g"), "h"));
  ASSERT_TRUE(source().make_variable(object("g/h"), "v", variable("<f8", {2, 5}, Texts{"z", "x"})));
  ASSERT_TRUE(source().make_variable(object("g"), "h2", variable("<i2", {4}, Texts{"x"})));
  ASSERT_TRUE(source().make_variable(object(""), "scalar", variable("<i8", {}, Texts{})));
  ASSERT_TRUE(source().make_variable(object(""), "free", variable("|u1", {7}, std::nullopt)));
  expect_netcdf(
      fmt::format("/: y=2 x=4 t=3{0} _Anonymous_Dim_7=7{0} a(/y,/x) b(/t,/x) s() scalar() "
                  "free(/_Anonymous_Dim_7)\n/g: z=2 g/c(/g/z,/x) g/h2(/x)\n/g/h: x=5{0} g/h/v(/g/z,/g/h/x)",
                  mark()));
  EXPECT_EQ((*source().variable(object("g/h/v")))->dimensions, (Texts{"z", "x"}));
  const auto scalar = *source().variable(object("scalar"));
  EXPECT_EQ(scalar->grid.rank(), 0U);
  EXPECT_EQ(scalar->dimensions, Texts{});
  EXPECT_EQ((*source().variable(object("free")))->dimensions, Texts{"_Anonymous_Dim_7"});
  finish();
  EXPECT_FALSE(netcdf().starts_with("error")) << netcdf();
}

TEST_P(NczarrStoreTest, AnArrayTakesThePlaceOfAGroup) {
  io_.watch = [&] { EXPECT_FALSE(netcdf().starts_with("error")) << netcdf(); };
  ASSERT_TRUE(source().make_group(object(""), "v"));
  EXPECT_EQ(lists_of("")->groups, (Texts{"g", "v"}));
  ASSERT_TRUE(source().make_variable(object(""), "v", variable("<i4", {4}, Texts{"x"})));
  EXPECT_EQ(lists_of("")->groups, Texts{"g"});
  EXPECT_EQ(lists_of("")->arrays, (Texts{"a", "b", "s", "v"}));
}

TEST_P(NczarrStoreTest, WhatNetcdfCannotReadIsInNoList) {
  const bool is_early = form() == NczarrForm::objects || form() == NczarrForm::upper_keys;
  const std::vector<std::pair<const char*, bool>> types = {
      {"|b1", false},        {"<f2", false},        {"<c8", false},     {"<M8[s]", false},
      {"<U3", false},        {"|i1", true},         {"<u8", true},      {"<f4", true},
      {">i4", is_current()}, {">f8", is_current()}, {"|S1", !is_early}, {"|S5", !is_early}};
  for (size_t i = 0; i < types.size(); ++i) {
    const auto& [dtype, is_listed] = types[i];
    const std::string name = fmt::format("v{}", i);
    const auto made = source().make_variable(object(""), name, variable(dtype, {4}, Texts{"x"}));
    if (is_current() && !is_listed) {
      EXPECT_CODE(made, EINVAL);
      EXPECT_FALSE(files::exists(root_ / name));
      continue;
    }
    ASSERT_TRUE(made) << dtype;
    EXPECT_EQ(std::ranges::count(lists_of("")->arrays, name), is_listed ? 1 : 0) << dtype;
    EXPECT_EQ(own_of(name).has_value(), is_listed) << dtype;
    EXPECT_EQ(print_json(print_dtype((*source().variable(object(name)))->type)), print_json(dtype));
    const bool is_character = is_listed && std::string_view(dtype) == "|S1";
    EXPECT_EQ(json_of(name + "/.zarray")["dtype"], is_character ? ">S1" : dtype);
  }
  Variable text = variable("|S2", {4}, Texts{"x"});
  text.fill = {std::byte{'a'}, std::byte{'b'}};
  text.fill_value = Json("YWI=");
  ASSERT_TRUE(source().make_variable(object(""), "filled", text));
  EXPECT_EQ(own_of("filled").has_value(), !is_early);
  EXPECT_EQ(json_of("filled/.zarray")["fill_value"], is_early ? "YWI=" : "ab");
  ASSERT_TRUE(source().make_variable(object(""), "(odd)", variable("<i4", {4}, Texts{"x"})));
  ASSERT_TRUE(source().make_group(object(""), "odd "));
  ASSERT_TRUE(source().make_variable(object("odd "), "v", variable("<i4", {4}, Texts{"x"})));
  Variable long_chunk = variable("<i4", {4}, Texts{"x"});
  long_chunk.grid = *ChunkGrid::make({4}, {9});
  long_chunk.chunk_bytes = 36;
  ASSERT_TRUE(source().make_variable(object(""), "long_chunk", long_chunk));
  EXPECT_EQ(own_of("long_chunk").has_value(), is_current());
  EXPECT_FALSE(netcdf().starts_with("error")) << netcdf();
  EXPECT_EQ(lists_of("")->groups, Texts{"g"});
}

TEST_P(NczarrStoreTest, DimensionsThatDoNotFitAreRefused) {
  EXPECT_CODE(source().make_variable(object(""), "v", variable("<i4", {5}, Texts{"x"})), EINVAL);
  EXPECT_CODE(source().make_variable(object(""), "v", variable("<i4", {5, 6}, Texts{"n", "n"})), EINVAL);
  EXPECT_CODE(source().make_variable(object(""), "v", variable("<i4", {5}, Texts{"a/b"})), EINVAL);
  EXPECT_FALSE(files::exists(root_ / "v"));
  // A dimension without users may change its length.
  ASSERT_TRUE(source().remove(object("g"), "c"));
  ASSERT_TRUE(source().make_variable(object("g"), "v", variable("<i4", {5}, Texts{"z"})));
  EXPECT_EQ(lists_of("g")->dimensions[0].length, 5U);
  // A dimension of a parent group with another length is a different dimension.
  ASSERT_TRUE(source().make_variable(object("g"), "w", variable("<i4", {9}, Texts{"x"})));
  EXPECT_EQ(*own_of("g/w")->references, Texts{"/g/x"});
}

TEST_P(NczarrStoreTest, MembersAreRemoved) {
  io_.watch = [&] { EXPECT_FALSE(netcdf().starts_with("error")) << netcdf(); };
  ASSERT_TRUE(source().remove(object(""), "a"));
  EXPECT_CODE(source().remove(object(""), "g"), ENOTEMPTY);
  ASSERT_TRUE(source().remove(object("g"), "c"));
  ASSERT_TRUE(source().remove(object(""), "g"));
  expect_netcdf(fmt::format("/: y=2 x=4 t=3{} b(/t,/x) s()", mark()));
}

TEST_P(NczarrStoreTest, MembersAreMoved) {
  io_.watch = [&] { EXPECT_FALSE(netcdf().starts_with("error")) << netcdf(); };
  ASSERT_TRUE(source().rename(object(""), "a", object(""), "A"));
  ASSERT_TRUE(source().make_group(object("g"), "deep"));
  ASSERT_TRUE(source().make_variable(object("g/deep"), "d", variable("<i4", {2}, Texts{"z"})));
  ASSERT_TRUE(source().rename(object(""), "g", object(""), "k"));
  expect_netcdf(
      fmt::format("/: y=2 x=4 t=3{} b(/t,/x) s() A(/y,/x)\n/k: z=2 k/c(/k/z,/x)\n/k/deep: k/deep/d(/k/z)", mark()));
  // Moved out of the group that defines its dimension, it gets one in its new group.
  ASSERT_TRUE(source().rename(object("k"), "deep", object(""), "deep"));
  ASSERT_TRUE(source().rename(object("k"), "c", object(""), "c"));
  expect_netcdf(
      fmt::format("/: y=2 x=4 t=3{} z=2 b(/t,/x) s() A(/y,/x) c(/z,/x)\n/k: z=2\n/deep: z=2 deep/d(/deep/z)", mark()));
  EXPECT_EQ((*source().variable(object("deep/d")))->dimensions, Texts{"z"});
  EXPECT_EQ((*source().variable(object("c")))->dimensions, (Texts{"z", "x"}));
}

TEST_P(NczarrStoreTest, DimensionsAreRenamed) {
  io_.watch = [&] { EXPECT_FALSE(netcdf().starts_with("error")) << netcdf(); };
  const ObjectId a = object("a");
  ASSERT_TRUE(source().set_dimensions(a, Texts{"lat", "x"}));  // no other array uses y
  expect_netcdf(fmt::format("/: x=4 t=3{} lat=2 a(/lat,/x) b(/t,/x) s()\n/g: z=2 g/c(/g/z,/x)", mark()));
  ASSERT_TRUE(source().set_dimensions(a, Texts{"lat", "lon"}));  // but other arrays use x
  expect_netcdf(fmt::format("/: x=4 t=3{} lat=2 lon=4 a(/lat,/lon) b(/t,/x) s()\n/g: z=2 g/c(/g/z,/x)", mark()));
  ASSERT_TRUE(source().set_dimensions(object("b"), Texts{"time", "lon"}));  // without limit as before
  expect_netcdf(
      fmt::format("/: x=4 lat=2 lon=4 time=3{} a(/lat,/lon) b(/time,/lon) s()\n/g: z=2 g/c(/g/z,/x)", mark()));
  EXPECT_CODE(source().set_dimensions(a, Texts{"lat", "lat"}), EINVAL);
  EXPECT_CODE(source().set_dimensions(object("b"), Texts{"x", "lon"}), EINVAL);
  EXPECT_EQ((*source().variable(object("b")))->dimensions, (Texts{"time", "lon"}));
  EXPECT_EQ(json_of("b/.zattrs")["_ARRAY_DIMENSIONS"], Json({"time", "lon"}));
  // Names replace those of previously anonymous dimensions.
  ASSERT_TRUE(source().make_variable(object("g"), "n", variable("<i4", {4, 9}, std::nullopt)));
  ASSERT_TRUE(source().set_dimensions(object("g/n"), Texts{"lon", "m"}));
  EXPECT_EQ(*own_of("g/n")->references, (Texts{"/lon", "/g/m"}));
  EXPECT_EQ(lists_of("g")->dimensions.size(), 2U);
}

TEST_P(CurrentNczarrTest, ADimensionWithoutLimitGrows) {
  ASSERT_TRUE(source().make_variable(object("g"), "t2", variable("<i4", {4, 3}, Texts{"x", "t"})));
  EXPECT_EQ(*own_of("g/t2")->references, (Texts{"/x", "/t"}));
  ASSERT_TRUE(source().resize(object("b"), Shape{5, 4}));
  // A program that knows only arrays resizes one after another: each has the shape that was set.
  EXPECT_EQ((*source().variable(object("g/t2")))->grid.shape(), (Shape{4, 3}));
  EXPECT_EQ(lists_of("")->find("t")->length, 5U);
  EXPECT_TRUE(netcdf().starts_with("error: g/t2 is not as long"));
  finish();
  expect_netcdf("/: y=2 x=4 t=5* a(/y,/x) b(/t,/x) s()\n/g: z=2 g/c(/g/z,/x) g/t2(/x,/t)");
  EXPECT_EQ((*source().variable(object("g/t2")))->grid.shape(), (Shape{4, 5}));
  // It is as long as the longest array.
  ASSERT_TRUE(source().resize(object("b"), Shape{2, 4}));
  EXPECT_EQ(lists_of("")->find("t")->length, 5U);
  ASSERT_TRUE(source().resize(object("g/t2"), Shape{4, 1}));
  EXPECT_EQ(lists_of("")->find("t")->length, 2U);
  finish();
  expect_netcdf("/: y=2 x=4 t=2* a(/y,/x) b(/t,/x) s()\n/g: z=2 g/c(/g/z,/x) g/t2(/x,/t)");
  // Created shorter or longer than the dimension.
  ASSERT_TRUE(source().make_variable(object(""), "t3", variable("<i4", {7}, Texts{"t"})));
  ASSERT_TRUE(source().make_variable(object(""), "t4", variable("<i4", {1}, Texts{"t"})));
  finish();
  EXPECT_EQ(json_of("b/.zarray")["shape"], Json({7, 4}));
  EXPECT_EQ(json_of("t4/.zarray")["shape"], Json({7}));
  EXPECT_FALSE(netcdf().starts_with("error")) << netcdf();
}

TEST_P(CurrentNczarrTest, WhatAKillLeftIsPutRightByTheNextUnmount) {
  put_array("b", {6, 4}, {"/t", "/x"});  // its .zarray was written, the list was not
  EXPECT_TRUE(netcdf().starts_with("error"));
  ASSERT_TRUE(source().remove(object(""), "s"));
  finish();
  expect_netcdf("/: y=2 x=4 t=6* a(/y,/x) b(/t,/x)\n/g: z=2 g/c(/g/z,/x)");
}

TEST_P(NczarrStoreTest, AFixedDimensionChangesWithItsOnlyArray) {
  const auto refused = source().resize(object("a"), Shape{2, 5});
  EXPECT_CODE(refused, EINVAL);
  EXPECT_NE(refused.error().reason.find("/x has a fixed length"), std::string::npos) << refused.error().reason;
  EXPECT_EQ(json_of("a/.zarray")["shape"], Json({2, 4}));
  ASSERT_TRUE(source().resize(object("a"), Shape{3, 4}));
  expect_netcdf(fmt::format("/: y=3 x=4 t=3{} a(/y,/x) b(/t,/x) s()\n/g: z=2 g/c(/g/z,/x)", mark()));
  EXPECT_TRUE(source().resize(object("a"), Shape{3, 4}));
}

TEST_P(NczarrStoreTest, AttributesKeepNoWrongTypes) {
  Json zattrs = json_of("a/.zattrs");
  const char* key = form() == NczarrForm::upper_keys ? "_NCZARR_ATTR" : "_nczarr_attr";
  zattrs["n"] = 3;
  zattrs["f"] = 1;
  zattrs[key]["types"]["n"] = "<i2";
  zattrs[key]["types"]["units"] = ">S1";
  zattrs[key]["types"]["f"] = "<f4";
  put_json("a/.zattrs", zattrs);
  // Writing an unchanged value changes nothing.
  EXPECT_TRUE(source().set_attributes(object("a"), std::vector<Attribute>{{"f", 1.0}, {"n", 3}}, {}));
  EXPECT_EQ(print_json(json_of("a/.zattrs")), print_json(zattrs));
  EXPECT_TRUE(
      source().set_attributes(object("a"), std::vector<Attribute>{{"n", 70000}, {"units", "m"}, {"f", 2.5}}, {}));
  EXPECT_FALSE(json_of("a/.zattrs")[key]["types"].contains("n"));
  EXPECT_EQ(json_of("a/.zattrs")[key]["types"]["units"], ">S1");
  EXPECT_EQ(json_of("a/.zattrs")[key]["types"]["f"], "<f4");
  EXPECT_CODE(source().set_attributes(object(""), std::vector<Attribute>{{"_NCProperties", "x"}}, {}), EPERM);
  EXPECT_FALSE(netcdf().starts_with("error")) << netcdf();
}

TEST_P(NczarrStoreTest, AnErrorLeavesAllAsItWas) {
  const std::vector<std::function<Result<>()>> changes = {
      [&] { return source().make_group(object("g"), "h") ? Result<>() : fail(EIO, ""); },
      [&] {
        return source().make_variable(object("g"), "v", variable("<i4", {2, 6}, Texts{"z", "new"})) ? Result<>()
                                                                                                    : fail(EIO, "");
      },
      [&] { return source().remove(object(""), "a"); },
      [&] { return source().rename(object(""), "a", object("g"), "a"); },
      [&] { return source().rename(object(""), "g", object(""), "k"); },
      [&] { return source().set_dimensions(object("b"), Texts{"time", "lon"}); },
      [&] { return source().resize(object("a"), Shape{1, 4}); }};
  for (size_t i = 0; i < changes.size(); ++i) {
    bool has_failed = true;
    for (int call = 0; has_failed; ++call) {
      SCOPED_TRACE(fmt::format("change {}, call {}", i, call));
      source_.reset();
      files::remove_all(root_);
      files::create_directory(root_);
      fill_store();
      ASSERT_TRUE(source().begin_writing_to(source().root().object));
      const std::string before = netcdf();
      const auto files_before = snapshot();
      io_.fail_at(call);
      const Result<> done = changes[i]();
      has_failed = io_.has_failed();
      io_.fail_at(-1);
      EXPECT_FALSE(netcdf().starts_with("error")) << netcdf();
      EXPECT_EQ(netcdf() == before, !done) << netcdf();
      EXPECT_EQ(snapshot() == files_before, !done);
      ASSERT_LT(call, 200);
    }
  }
}

TEST_P(NczarrStoreTest, CodecsAreToldRightBeforeAChunkIsStored) {
  Json zarray = json_of("a/.zarray");
  zarray["filters"] = Json::array({{{"id", "shuffle"}, {"elementsize", "0"}}});
  zarray["compressor"] = {{"id", "zlib"}, {"level", "5"}};
  for (const char* name : {"written", "stored", "removed", "resized", "attribute"}) {
    files::copy(root_ / "a", root_ / name);
    put_json(std::string(name) + "/.zarray", zarray);
  }
  const auto right = [&](const std::string& name) {
    const Json now = json_of(name + "/.zarray");
    return print_json(now["filters"]) == R"([{"id": "shuffle", "elementsize": 4}])" &&
           print_json(now["compressor"]) == R"({"id": "zlib", "level": 5})" && now.size() == zarray.size();
  };
  EXPECT_EQ(print_json(filters::print_codecs((*source().variable(object("written")))->filters)),
            R"([{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 5}])");
  const std::string bytes = {1, 2, 3, 4};
  ASSERT_TRUE(source().write_chunk(object("written"), 3, std::as_bytes(std::span(bytes))));
  EXPECT_TRUE(right("written"));
  const auto chunk = source().read_chunk(object("written"), 3);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(std::memcmp(chunk->data(), bytes.data(), 4), 0);
  ASSERT_TRUE(source().remove_chunk(object("removed"), 0));
  EXPECT_TRUE(right("removed"));
  const auto encoded = source().read_stored(object("written"), 3);
  ASSERT_TRUE(encoded && *encoded);
  const auto passed = source().write_stored(object("stored"), 1, (*encoded)->bytes());
  EXPECT_TRUE(passed && *passed);
  EXPECT_TRUE(right("stored"));
  for (const char* name : {"a", "written", "stored", "removed", "attribute"}) {  // other users of the dimension
    ASSERT_TRUE(source().set_dimensions(object(name), Texts{"other", "x"}));
  }
  ASSERT_TRUE(source().resize(object("resized"), Shape{3, 4}));
  EXPECT_TRUE(right("resized"));
  ASSERT_TRUE(source().set_attributes(object("attribute"), std::vector<Attribute>{{"n", 1}}, {}));
  EXPECT_FALSE(right("attribute"));  // only a write of the array corrects it
}

TEST(NczarrStore, PlainZarrStaysPlain) {
  std::string top = (files::temp_directory_path() / "codecfs_nczarr_XXXXXX").string();
  ASSERT_NE(::mkdtemp(top.data()), nullptr);
  const std::string path = top + "/store";
  ASSERT_TRUE(SourceOpener().create(path, "zarr"));
  {
    auto source = *open_zarr(path, true);
    const Entry group = *source->make_group(source->root().object, "g");
    Variable v;
    v.type = *parse_dtype("<i4");
    v.grid = *ChunkGrid::make({4}, {2});
    v.chunk_bytes = 8;
    v.fill.resize(4);
    v.dimensions = {"x"};
    const auto made = source->make_variable(group.object, "v", v);
    ASSERT_TRUE(made) << made.error().reason;
    EXPECT_TRUE(source->resize(made->object, Shape{9}));
    EXPECT_TRUE(source->set_dimensions(made->object, Texts{"y"}));
    EXPECT_TRUE(source->rename(source->root().object, "g", source->root().object, "h"));
    EXPECT_TRUE((*source->variable(made->object))->max_shape.empty());
    EXPECT_TRUE(source->finish());
  }
  for (const auto& file : files::recursive_directory_iterator(path)) {
    if (!file.is_regular_file()) continue;
    std::ifstream in(file.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(text.find("nczarr"), std::string::npos) << file.path();
  }
  files::remove_all(top);
}

}  // namespace
}  // namespace codecfs
