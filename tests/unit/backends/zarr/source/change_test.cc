// Changes of a Zarr directory's structure: the resulting files, refused changes, and the state after errors.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "backends/zarr/source/zarr_source.h"
#include "backends/zarr/store/directory_writer.h"
#include "filters/core/codec_json.h"
#include "model/json.h"
#include "support/zarr_testing.h"

namespace codecfs {
namespace {

namespace files = std::filesystem;

using Names = std::set<std::string>;
using Texts = std::vector<std::string>;
using Shape = std::vector<uint64_t>;

/// Calls the operating system, except for one call that fails.
class FailingIo : public FileIo {
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
    return real_file_io().rename(directory, from, to);
  }
  Result<> unlink(const File& directory, const std::string& name) override {
    return real_file_io().unlink(directory, name);
  }
  Result<> move(const File& from_directory, const std::string& from, const File& to_directory,
                const std::string& to) override {
    CODECFS_TRY(next());
    return real_file_io().move(from_directory, from, to_directory, to);
  }
  Result<> exchange(const File& directory, const std::string& one, const std::string& other) override {
    if (!has_exchange) return fail(EOPNOTSUPP, "no exchange");
    CODECFS_TRY(next());
    return real_file_io().exchange(directory, one, other);
  }
  Result<> remove_directory(const File& directory, const std::string& name) override {
    return real_file_io().remove_directory(directory, name);
  }

  /// Makes one call fail, counted from 0 from now on; returns whether it was reached.
  void fail_at(int call) {
    calls_ = 0;
    at_ = call;
  }
  bool has_failed() const { return at_ >= 0 && calls_ > at_; }

  bool has_exchange = true;

 private:
  Result<> next() {
    if (calls_++ == at_) return fail(ENOSPC, "injected");
    return {};
  }

  std::atomic<int> calls_ = 0;
  int at_ = -1;
};

std::string text_of(const Buffer& buffer) { return {reinterpret_cast<const char*>(buffer.data()), buffer.size()}; }
Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

FilterStage by_id(uint32_t id, std::vector<uint32_t> parameters = {}) {
  return {.id = id, .parameters = std::move(parameters), .codec = {}, .name = {}, .optional = true};
}

class ZarrChangeTest : public zarr_testing::StoreTest {
 protected:
  Json get_json(const std::string& key) {
    const auto json = parse_json(get(key));
    EXPECT_TRUE(json) << key;
    return json ? *json : Json();
  }
  /// All files of the store with their content.
  std::map<std::string, std::string> snapshot() {
    std::map<std::string, std::string> all;
    for (const auto& entry : files::recursive_directory_iterator(top_)) {
      const std::string key = entry.path().lexically_relative(root_).string();
      all[key] = entry.is_regular_file() ? get(key) : "";
    }
    return all;
  }
  Names names_in(const std::string& key) {
    Names names;
    for (const auto& entry : files::directory_iterator(root_ / key)) names.insert(entry.path().filename());
    return names;
  }
  /// Shape [rows, 4] in chunks of one row, int32; each row has its number as value.
  void put_array(const std::string& key, int rows, const std::string& rest = "") {
    put(key + "/.zarray",
        fmt::format(R"({{"zarr_format": 2, "shape": [{}, 4], "chunks": [1, 4], "dtype": "<i4", "compressor": null,
            "filters": null, "fill_value": -1, "order": "C"{}}})",
                    rows, rest));
    for (int i = 0; i < rows; ++i) put(fmt::format("{}/{}.0", key, i), row(i));
  }
  static std::string row(int value) {
    std::string bytes;
    for (int i = 0; i < 4; ++i) bytes += std::string{static_cast<char>(value), 0, 0, 0};
    return bytes;
  }

  Source& source() {
    if (!source_) {
      auto opened = open_zarr(root_, true, io_);
      EXPECT_TRUE(opened) << opened.error().reason;
      source_ = std::move(*opened);
    }
    return *source_;
  }
  ObjectId object(const std::string& path) {
    Entry entry = source().root();
    for (const auto& part : files::path(path)) {
      auto found = source().find(entry.object, part.string());
      EXPECT_TRUE(found) << found.error().reason;
      if (found) entry = *found;
    }
    return entry.object;
  }
  std::string read(ObjectId id, uint64_t number) {
    const auto chunk = source().read_chunk(id, number);
    return chunk ? text_of(*chunk) : "error: " + chunk.error().reason;
  }
  Result<> filter(const std::string& path, const std::vector<FilterStage>& chain) {
    return source().set_filters(object(path), chain, progress_);
  }
  Json codecs(const std::string& path) { return filters::print_codecs((*source().variable(object(path)))->filters); }

  static Variable variable(DataType type, Shape shape, Shape chunks) {
    Variable made;
    made.type = std::move(type);
    made.grid = *ChunkGrid::make(std::move(shape), std::move(chunks));
    made.chunk_bytes = made.grid.elements_per_chunk() * made.type.size;
    made.fill.resize(made.type.size);
    return made;
  }
  static Variable floats() {
    Variable made = variable(*parse_dtype("<f4"), {5, 6}, {2, 3});
    made.fill_value = Json(1.5);
    made.fill = *fill_bytes(made.type, made.fill_value);
    made.attributes = {{"units", "K"}, {"valid_range", Json::array({1, 2.5})}};
    made.dimensions = {"y", "x"};
    made.filters = {by_id(2), by_id(1, {4})};
    return made;
  }

  FailingIo io_;
  Progress progress_;
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

TEST_F(ZarrChangeTest, GroupsAreMade) {
  const auto group = source().make_group(object(""), "g");
  ASSERT_TRUE(group) << group.error().reason;
  EXPECT_EQ(group->kind, EntryKind::group);
  EXPECT_EQ(get_json("g/.zgroup"), Json({{"zarr_format", 2}}));
  ASSERT_TRUE(source().make_group(group->object, "h"));
  EXPECT_EQ(names_in("g"), (Names{".zgroup", "h"}));
  // Each name but the escaped form of another one is stored as it is.
  for (const char* name : {"a%2Eb", "%41", "%2541", "per%20cent"}) {
    const auto made = source().make_group(group->object, name);
    ASSERT_TRUE(made) << made.error().reason;
    EXPECT_EQ(made->name, name);
  }
  ASSERT_TRUE(source().make_group(group->object, "a%252Fb"));
  EXPECT_EQ(names_in("g"), (Names{"%2541", "%41", ".zgroup", "a%2Eb", "a%2Fb", "h", "per%20cent"}));
  const auto refused = source().make_group(group->object, "a%2Fb");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().reason.find("a%252Fb"), std::string::npos) << refused.error().reason;
  EXPECT_CODE(source().make_group(object(""), "g"), EEXIST);
  files::create_directory(root_ / "strange");
  EXPECT_CODE(source().make_group(object(""), "strange"), EEXIST);
  for (const char* name : {"", ".", "..", "a/b", "a%2Fb", "%2E.", "%2Ezarray", ".v.codecfs-1-1", ".nczarr"})
    EXPECT_CODE(source().make_group(object(""), name), EINVAL);
  EXPECT_CODE(source().make_link(object(""), "l", "g"), EPERM);
  put_array("v", 1);
  EXPECT_CODE(source().make_group(object("v"), "g"), ENOTDIR);
}

TEST_F(ZarrChangeTest, AVariableIsItsFiles) {
  const auto made = source().make_variable(object(""), "v", floats());
  ASSERT_TRUE(made) << made.error().reason;
  EXPECT_EQ(names_in("v"), (Names{".zarray", ".zattrs"}));
  EXPECT_EQ(get_json("v/.zarray"), *parse_json(R"({"chunks": [2, 3], "compressor": {"id": "zlib", "level": 4},
      "dimension_separator": ".", "dtype": "<f4", "fill_value": 1.5, "filters": [{"id": "shuffle", "elementsize": 4}],
      "order": "C", "shape": [5, 6], "zarr_format": 2})"));
  EXPECT_EQ(get_json("v/.zattrs"),
            *parse_json(R"({"units": "K", "valid_range": [1, 2.5], "_ARRAY_DIMENSIONS": ["y", "x"]})"));
  const std::string chunk(24, 'c');
  EXPECT_TRUE(source().write_chunk(made->object, 3, bytes_of(chunk)));
  EXPECT_EQ(read(made->object, 3), chunk);
  EXPECT_CODE(source().make_variable(object(""), "v", floats()), EEXIST);

  EXPECT_TRUE(source().make_variable(object(""), "scalar", variable(*parse_dtype("<i8"), {}, {})));
  EXPECT_FALSE(files::exists(root_ / "scalar/.zattrs"));
  Variable text = variable(*parse_dtype("|O"), {3}, {2});
  text.chunk_bytes.reset();
  text.object_codec = Json{{"id", "vlen-utf8"}};
  text.filters = {by_id(32015, {3})};
  text.fill_value = Json("");
  text.fill = {std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}};
  const auto texts = source().make_variable(object(""), "texts", text);
  ASSERT_TRUE(texts) << texts.error().reason;
  EXPECT_EQ(get_json("texts/.zarray")["filters"], Json::array({{{"id", "vlen-utf8"}}}));
  EXPECT_EQ(get_json("texts/.zarray")["compressor"]["id"], "zstd");
}

TEST_F(ZarrChangeTest, AChainMustFitTheVariable) {
  Variable made = floats();
  const auto with = [&](std::vector<FilterStage> chain) {
    made.filters = std::move(chain);
    return source().make_variable(object(""), "v", made);
  };
  EXPECT_CODE(with({by_id(54321)}), ENOENT);
  FilterStage stage;
  stage.codec = Json{{"id", "nothing-like-it"}};
  EXPECT_CODE(with({stage}), ENOENT);
  EXPECT_CODE(with({by_id(5, {0, 0})}), EINVAL);  // n-bit: no codec
  EXPECT_CODE(with({by_id(1, {77})}), EINVAL);
  EXPECT_EQ(names_in(""), Names{".zgroup"});
  // netCDF puts the checksum first, which numcodecs cannot shuffle for elements of 8 bytes.
  made = variable(*parse_dtype("<f8"), {4}, {4});
  ASSERT_TRUE(with({by_id(3), by_id(2), by_id(1, {1})}));
  EXPECT_EQ(codecs("v")[0]["id"], "shuffle");
  EXPECT_EQ(codecs("v")[1]["id"], "fletcher32");
  made.attributes = {{"_nczarr_array", Json::object()}};
  EXPECT_CODE(source().make_variable(object(""), "w", made), EPERM);
}

TEST_F(ZarrChangeTest, AVariableTakesThePlaceOfAnEmptyGroup) {
  const ObjectId group = source().make_group(object(""), "v")->object;
  EXPECT_TRUE(source().set_attributes(group, std::vector<Attribute>{{"a", 1}}, {}));
  put("v/notes.txt", "x");
  EXPECT_CODE(source().make_variable(object(""), "v", floats()), ENOTEMPTY);
  files::remove(root_ / "v/notes.txt");
  const auto made = source().make_variable(object(""), "v", floats());
  ASSERT_TRUE(made) << made.error().reason;
  EXPECT_EQ(names_in("v"), (Names{".zarray", ".zattrs"}));
  EXPECT_EQ(names_in(""), (Names{".zgroup", "v"}));
  EXPECT_CODE(source().list(group), ENOENT);
  EXPECT_NE(made->object, group);
  put("g/.zgroup", R"({"zarr_format": 2})");
  put_array("g/inner", 1);
  EXPECT_CODE(source().make_variable(object(""), "g", floats()), ENOTEMPTY);
}

TEST_F(ZarrChangeTest, Removal) {
  put_array("v", 3);
  put("g/.zgroup", R"({"zarr_format": 2})");
  put_array("g/n", 2);
  put("g/notes.txt", "mine");
  const ObjectId v = object("v");
  EXPECT_EQ(read(v, 1), row(1));
  EXPECT_TRUE(source().remove(object(""), "v"));
  EXPECT_CODE(source().read_chunk(v, 1), ESTALE);
  EXPECT_CODE(source().variable(v), ENOENT);
  EXPECT_CODE(source().remove(object(""), "v"), ENOENT);
  EXPECT_CODE(source().remove(object(""), "g"), ENOTEMPTY);
  EXPECT_TRUE(source().remove(object("g"), "n"));
  const auto refused = source().remove(object(""), "g");
  EXPECT_CODE(refused, ENOTEMPTY);
  EXPECT_NE(refused.error().reason.find("notes.txt"), std::string::npos);
  files::remove(root_ / "g/notes.txt");
  put("g/.n.codecfs-1-1/0.0", "x");
  EXPECT_TRUE(source().remove(object(""), "g"));
  EXPECT_EQ(names_in(""), Names{".zgroup"});
  ASSERT_TRUE(source().make_variable(object(""), "v", floats()));
  EXPECT_NE(object("v"), v);
}

TEST_F(ZarrChangeTest, WhatIsMovedStaysTheSameObject) {
  put("g/.zgroup", R"({"zarr_format": 2})");
  put("h/.zgroup", R"({"zarr_format": 2})");
  put_array("g/v", 3);
  const ObjectId g = object("g");
  const ObjectId v = object("g/v");
  EXPECT_EQ(read(v, 2), row(2));
  EXPECT_EQ(source().stored_chunks(v, 0, 1)->size(), 1U);
  EXPECT_TRUE(source().write_chunk(v, 0, bytes_of(row(9))));
  EXPECT_TRUE(source().rename(g, "v", g, "w"));
  EXPECT_EQ(read(v, 2), row(2));
  EXPECT_EQ(*source().stored_chunks(v, 0, 10), (Shape{0, 1, 2}));
  EXPECT_TRUE(source().rename(object(""), "g", object("h"), "k"));
  EXPECT_EQ(read(v, 0), row(9));
  EXPECT_TRUE(source().write_chunk(v, 1, bytes_of(row(8))));
  EXPECT_EQ(get("h/k/w/1.0"), row(8));
  EXPECT_EQ(object("h/k/w"), v);
  EXPECT_TRUE(source().commit());

  EXPECT_CODE(source().rename(object(""), "h", object("h/k"), "x"), EINVAL);
  EXPECT_CODE(source().rename(object(""), "h", object("h"), "x"), EINVAL);
  EXPECT_CODE(source().rename(object(""), "none", object("h"), "x"), ENOENT);
  ASSERT_TRUE(source().make_group(object(""), "m"));
  EXPECT_CODE(source().rename(object(""), "m", object("h"), "k"), EEXIST);
  EXPECT_CODE(source().rename(object(""), "m", object("h"), "%2Ezarray"), EINVAL);
  EXPECT_CODE(source().rename(object(""), "m", v, "k"), ENOTDIR);
}

TEST_F(ZarrChangeTest, LinksAreNotMovedToWhereTheyLeadElsewhere) {
  put("g/.zgroup", R"({"zarr_format": 2})");
  put("g/h/.zgroup", R"({"zarr_format": 2})");
  put_array("g/h/v", 2);
  files::rename(root_ / "g/h/v/1.0", root_ / "kept");
  files::create_symlink("../../../kept", root_ / "g/h/v/1.0");
  const ObjectId v = object("g/h/v");
  EXPECT_TRUE(source().rename(object("g/h"), "v", object("g/h"), "w"));
  EXPECT_EQ(read(v, 1), row(1));
  EXPECT_CODE(source().rename(object("g/h"), "w", object(""), "w"), EOPNOTSUPP);
  EXPECT_CODE(source().rename(object("g"), "h", object(""), "h"), EOPNOTSUPP);
  EXPECT_TRUE(filter("g/h/w", {by_id(1, {1})}));  // makes it a file
  EXPECT_TRUE(source().rename(object("g"), "h", object(""), "h"));
  EXPECT_EQ(read(v, 1), row(1));
  EXPECT_EQ(get("kept"), row(1));
}

TEST_F(ZarrChangeTest, WhatAnotherProgramHasAddedIsNoLeftover) {
  put_array("v", 2);
  const ObjectId v = object("v");
  EXPECT_EQ(read(v, 1), row(1));
  put_array("v", 4);  // as zarr-python's append() does
  EXPECT_CODE(source().resize(v, Shape{5, 4}), ESTALE);
  EXPECT_TRUE(source().resize(v, Shape{5, 4}));
  EXPECT_EQ(read(v, 3), row(3));
  put("v/.zarray", get("v/.zarray") + " ");
  EXPECT_CODE(filter("v", {by_id(1, {1})}), ESTALE);
  EXPECT_TRUE(filter("v", {by_id(1, {1})}));
}

TEST_F(ZarrChangeTest, AttributesKeepTheirOrder) {
  put_array("v", 1);
  put("v/.zattrs", R"({"b": 1, "_ARRAY_DIMENSIONS": ["y", "x"], "a": NaN, "_nczarr_x": {"k": 1}, "c": "old"})");
  const std::string before = get("v/.zattrs");
  EXPECT_TRUE(source().set_attributes(object("v"), std::vector<Attribute>{{"a", std::nan("")}, {"b", 1}}, {}));
  EXPECT_EQ(get("v/.zattrs"), before);  // nothing was changed
  EXPECT_TRUE(
      source().set_attributes(object("v"), std::vector<Attribute>{{"a", 1.0}, {"new", "\xC3\xA9"}}, Texts{"b"}));
  EXPECT_EQ(print_json(get_json("v/.zattrs")), R"({"_ARRAY_DIMENSIONS": ["y", "x"], "a": 1.0, "_nczarr_x": {"k": 1}, )"
                                               R"("c": "old", "new": "\u00e9"})");
  const auto facts = *source().variable(object("v"));
  EXPECT_EQ(facts->attributes.size(), 3U);
  EXPECT_CODE(source().set_attributes(object("v"), std::vector<Attribute>{{"q", 1}}, Texts{"none"}), ENODATA);
  EXPECT_CODE(source().set_attributes(object("v"), std::vector<Attribute>{{"_ARRAY_DIMENSIONS", 1}}, {}), EPERM);
  EXPECT_CODE(source().set_attributes(object("v"), std::vector<Attribute>{{"_NCZARR_ATTR", 1}}, {}), EPERM);
  EXPECT_CODE(source().set_attributes(object("v"), {}, Texts{"_nczarr_x"}), ENODATA);
  EXPECT_CODE(source().set_attributes(object("v"), std::vector<Attribute>{{"q", "\xFF"}}, {}), EINVAL);
  EXPECT_FALSE(get_json("v/.zattrs").contains("q"));

  EXPECT_TRUE(source().set_attributes(object(""), std::vector<Attribute>{{"title", "t"}}, {}));
  EXPECT_EQ(get_json(".zattrs"), Json({{"title", "t"}}));
  EXPECT_EQ(source().group_attributes(object(""))->size(), 1U);
}

TEST_F(ZarrChangeTest, Dimensions) {
  put_array("v", 2);
  EXPECT_TRUE(source().set_dimensions(object("v"), Texts{"y", "x"}));
  EXPECT_EQ((*source().variable(object("v")))->dimensions, (Texts{"y", "x"}));
  EXPECT_EQ(get_json("v/.zattrs"), Json({{"_ARRAY_DIMENSIONS", {"y", "x"}}}));
  EXPECT_CODE(source().set_dimensions(object("v"), Texts{"y"}), EINVAL);
}

TEST_F(ZarrChangeTest, ChunksOutsideOfTheShapeAreGone) {
  for (const char* separator : {".", "/"}) {
    const std::string name = *separator == '.' ? "v" : "n";
    put(name + "/.zarray",
        fmt::format(R"({{"zarr_format": 2, "shape": [6, 4], "chunks": [1, 2], "dtype": "<i4", "compressor": null,
            "filters": null, "fill_value": 0, "order": "C", "dimension_separator": "{}", "x": 1}})",
                    separator));
    for (int y = 0; y < 8; ++y)  // the last two are left from before
      for (int x = 0; x < 2; ++x) put(fmt::format("{}/{}{}{}", name, y, separator, x), "12345678");
    const ObjectId id = object(name);
    EXPECT_EQ(source().stored_chunks(id, 0, 100)->size(), 12U);
    EXPECT_TRUE(source().resize(id, Shape{9, 2}));
    EXPECT_EQ(*source().stored_chunks(id, 0, 100), (Shape{0, 1, 2, 3, 4, 5}));
    EXPECT_TRUE(source().resize(id, Shape{3, 4}));
    EXPECT_EQ(*source().stored_chunks(id, 0, 100), (Shape{0, 2, 4}));
    EXPECT_TRUE(source().resize(id, Shape{9, 4}));
    EXPECT_EQ(*source().stored_chunks(id, 0, 100), (Shape{0, 2, 4}));
    EXPECT_EQ((*source().variable(id))->grid.shape(), (Shape{9, 4}));
    EXPECT_EQ(get_json(name + "/.zarray")["x"], 1);
    EXPECT_EQ(get_json(name + "/.zarray")["shape"], Json({9, 4}));
    EXPECT_CODE(source().resize(id, Shape{9}), EINVAL);
    EXPECT_TRUE(source().resize(id, Shape{0, 4}));
    EXPECT_TRUE(source().stored_chunks(id, 0, 100)->empty());
  }
}

TEST_F(ZarrChangeTest, ReencodingKeepsAllElse) {
  put_array("v", 50, R"(, "extra": [1, 2])");
  put("v/.zattrs", R"({"a":1})");
  put("v/notes.txt", "mine");
  put("v/below/more.txt", "too");
  put("v/99.0", "left by a resize");
  files::remove(root_ / "v/7.0");
  ASSERT_EQ(::chmod((root_ / "v/.zattrs").c_str(), 0640), 0);
  ASSERT_EQ(::chmod((root_ / "v/3.0").c_str(), 0600), 0);
  ASSERT_EQ(::chmod((root_ / "v").c_str(), 0750), 0);
  const ObjectId v = object("v");
  EXPECT_EQ(read(v, 1), row(1));
  ASSERT_TRUE(filter("v", {by_id(2), by_id(1, {9})}));
  EXPECT_EQ(progress_.total, 49U);
  EXPECT_EQ(progress_.done, 49U);
  EXPECT_EQ(names_in(""), (Names{".zgroup", "v"}));
  EXPECT_EQ(print_json(codecs("v")), R"([{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 9}])");
  for (int i = 0; i < 50; ++i) {
    if (i == 7) continue;
    EXPECT_EQ(read(v, i), row(i));
  }
  EXPECT_CODE(source().read_chunk(v, 7), ENOENT);
  EXPECT_EQ(get("v/.zattrs"), R"({"a":1})");
  EXPECT_EQ(get("v/notes.txt"), "mine");
  EXPECT_EQ(get("v/below/more.txt"), "too");
  EXPECT_FALSE(files::exists(root_ / "v/99.0"));
  EXPECT_EQ(get_json("v/.zarray")["extra"], Json({1, 2}));
  EXPECT_EQ(files::status(root_ / "v/.zattrs").permissions(), files::perms(0640));
  EXPECT_EQ(files::status(root_ / "v/3.0").permissions(), files::perms(0600));
  EXPECT_EQ(files::status(root_ / "v").permissions(), files::perms(0750));

  // With plain zlib instead of our code.
  const std::string stored = get("v/5.0");
  std::string planes(16, '\0');
  uLongf size = 16;
  ASSERT_EQ(::uncompress(reinterpret_cast<Bytef*>(planes.data()), &size, reinterpret_cast<const Bytef*>(stored.data()),
                         stored.size()),
            Z_OK);
  EXPECT_EQ(planes, std::string(4, '\5') + std::string(12, '\0'));

  struct stat before, after;
  ASSERT_EQ(::stat((root_ / "v").c_str(), &before), 0);
  ASSERT_TRUE(filter("v", {by_id(2, {4}), by_id(1, {9})}));
  ASSERT_EQ(::stat((root_ / "v").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);  // it had this pipeline already
  EXPECT_TRUE(source().write_chunk(v, 7, bytes_of(row(77))));
  ASSERT_TRUE(filter("v", {}));
  EXPECT_EQ(get("v/7.0"), row(77));
}

TEST_F(ZarrChangeTest, ReencodingOfOtherLayouts) {
  put("f/.zarray", R"({"zarr_format": 2, "shape": [2, 3], "chunks": [2, 3], "dtype": "|u1", "compressor": null,
      "filters": null, "fill_value": null, "order": "F", "dimension_separator": "/"})");
  put("f/0/0", "adbecf");
  put("o/.zarray", R"({"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "compressor": null,
      "filters": [{"id": "vlen-utf8"}], "fill_value": "", "order": "C"})");
  put("o/0", std::string("\1\0\0\0\2\0\0\0ab", 10));
  EXPECT_EQ(read(object("f"), 0), "abcdef");
  ASSERT_TRUE(filter("f", {by_id(1, {1})}));
  EXPECT_EQ(read(object("f"), 0), "abcdef");
  EXPECT_EQ(get_json("f/.zarray")["order"], "F");
  EXPECT_TRUE(files::exists(root_ / "f/0/0"));
  ASSERT_TRUE(filter("f", {}));
  EXPECT_EQ(get("f/0/0"), "adbecf");
  ASSERT_TRUE(filter("o", {by_id(32015, {1})}));
  EXPECT_EQ(get_json("o/.zarray")["filters"], Json::array({{{"id", "vlen-utf8"}}}));
  EXPECT_EQ(read(object("o"), 0), std::string("\1\0\0\0\2\0\0\0ab", 10));
}

TEST_F(ZarrChangeTest, AReencodingThatCannotBeDoneChangesNothing) {
  put_array("v", 4);
  put("v/2.0", "too short");
  auto before = snapshot();
  auto done = filter("v", {by_id(1, {1})});
  EXPECT_CODE(done, EIO);
  EXPECT_NE(done.error().reason.find("v/2.0"), std::string::npos) << done.error().reason;
  EXPECT_EQ(snapshot(), before);
  put("v/2.0", row(2));
  before = snapshot();

  progress_.cancelled = [] { return true; };
  EXPECT_CODE(filter("v", {by_id(1, {1})}), ECANCELED);
  EXPECT_EQ(snapshot(), before);
  progress_.cancelled = nullptr;
  io_.has_exchange = false;
  EXPECT_CODE(filter("v", {by_id(1, {1})}), EOPNOTSUPP);
  EXPECT_EQ(snapshot(), before);
  io_.has_exchange = true;
  EXPECT_CODE(filter("v", {by_id(4711)}), ENOENT);
  EXPECT_CODE(filter("v", {by_id(6)}), EINVAL);
  files::create_symlink("v", root_ / "l");
  EXPECT_CODE(filter("l", {by_id(1, {1})}), EOPNOTSUPP);
  files::remove(root_ / "l");
  files::create_directory_symlink("..", root_ / "v/up");
  EXPECT_CODE(filter("v", {by_id(1, {1})}), EOPNOTSUPP);
  files::remove(root_ / "v/up");
  EXPECT_EQ(snapshot(), before);
  EXPECT_EQ(read(object("v"), 2), row(2));
}

TEST_F(ZarrChangeTest, AfterAnyErrorAllIsAsItWas) {
  put_array("v", 2);
  put("e/.zgroup", R"({"zarr_format": 2})");
  put("g/.zgroup", R"({"zarr_format": 2})");
  const auto before = snapshot();
  const std::vector<std::function<Result<>()>> changes = {
      [&]() -> Result<> {
        CODECFS_TRY(source().make_group(object(""), "n"));
        return {};
      },
      [&]() -> Result<> {
        CODECFS_TRY(source().make_variable(object(""), "n", floats()));
        return {};
      },
      [&]() -> Result<> {
        CODECFS_TRY(source().make_variable(object(""), "e", floats()));
        return {};
      },
      [&] { return source().remove(object(""), "v"); },
      [&] { return source().rename(object(""), "v", object("g"), "w"); },
      [&] { return source().set_attributes(object("v"), std::vector<Attribute>{{"a", 1}}, {}); },
      [&] { return filter("v", {by_id(1, {1})}); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    int failures = 0;
    for (int call = 0;; ++call) {
      io_.fail_at(call);
      const auto done = changes[i]();
      if (!io_.has_failed()) break;
      ++failures;
      EXPECT_CODE(done, ENOSPC);
      ASSERT_EQ(snapshot(), before) << "change " << i << ", call " << call;
    }
    io_.fail_at(-1);
    EXPECT_GT(failures, 0);
    EXPECT_TRUE(source().commit());
    source_.reset();
    files::remove_all(root_);
    for (const auto& [key, content] : before)
      if (!content.empty()) put(key, content);
  }
}

TEST_F(ZarrChangeTest, AStoreThatIsAnArray) {
  files::remove_all(root_);
  root_ = top_ / "array";
  put_array(".", 4);
  files::create_directory(top_ / ".array.codecfs-1-1");
  files::create_directory(top_ / ".other.codecfs-1-1");
  auto other = open_zarr(root_);
  ASSERT_TRUE(other);
  EXPECT_CODE(source().set_filters(source().root().object, std::vector{by_id(1, {1})}, progress_), EBUSY);
  other->reset();
  ASSERT_TRUE(source().set_filters(source().root().object, std::vector{by_id(1, {1})}, progress_));
  EXPECT_EQ(read(source().root().object, 3), row(3));
  EXPECT_TRUE(source().write_chunk(source().root().object, 3, bytes_of(row(5))));
  EXPECT_TRUE(source().commit());
  // The new directory must be locked.
  const int fd = ::open(root_.c_str(), O_RDONLY | O_DIRECTORY);
  EXPECT_NE(::flock(fd, LOCK_SH | LOCK_NB), 0);
  ::close(fd);
  EXPECT_TRUE(source().finish());
  source_.reset();
  EXPECT_EQ(read(source().root().object, 3), row(5));
  EXPECT_EQ(get_json(".zarray")["compressor"], Json({{"id", "zlib"}, {"level", 1}}));
  Names left;
  for (const auto& entry : files::directory_iterator(top_)) left.insert(entry.path().filename());
  EXPECT_EQ(left, (Names{"array", ".other.codecfs-1-1"}));
}

TEST_F(ZarrChangeTest, ReadersSeeOneStateWhileAllChanges) {
  put_array("v", 8);
  const ObjectId v = object("v");
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::atomic<int> reads = 0;
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t)
    readers.emplace_back([&, t] {
      for (uint64_t i = t; !stop; ++i, ++reads)
        if (read(v, i % 8) != row(static_cast<int>(i % 8))) ++wrong;
    });
  for (int round = 0; round < 20; ++round) {
    EXPECT_TRUE(
        source().set_filters(v, round % 2 == 0 ? std::vector{by_id(1, {1})} : std::vector<FilterStage>{}, progress_));
    EXPECT_TRUE(source().rename(object(""), round % 2 == 0 ? "v" : "w", object(""), round % 2 == 0 ? "w" : "v"));
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(reads, 0);
}

TEST_F(ZarrChangeTest, ConsolidatedMetadataAreRenewed) {
  put_array("v", 1);
  put("g/.zgroup", R"({"zarr_format": 2})");
  EXPECT_TRUE(source().set_attributes(object("v"), std::vector<Attribute>{{"a", 1}}, {}));
  EXPECT_TRUE(source().commit());
  EXPECT_FALSE(files::exists(root_ / ".zmetadata"));
  put(".zmetadata",
      R"({"metadata": {".zgroup": {"zarr_format": 2}, "old/.zgroup": {}}, "zarr_consolidated_format": 1})");
  const std::string old = get(".zmetadata");
  EXPECT_TRUE(source().write_chunk(object("v"), 0, bytes_of(row(1))));
  EXPECT_TRUE(source().commit());
  EXPECT_EQ(get(".zmetadata"), old);  // chunks are not metadata
  ASSERT_TRUE(source().make_variable(object("g"), "w", floats()));
  EXPECT_TRUE(source().finish());
  const Json renewed = get_json(".zmetadata");
  EXPECT_EQ(renewed["zarr_consolidated_format"], 1);
  Names keys;
  for (const auto& [key, value] : renewed["metadata"].items()) {
    keys.insert(key);
    EXPECT_EQ(value, get_json(key));
  }
  EXPECT_EQ(keys, (Names{".zgroup", "g/.zgroup", "g/w/.zarray", "g/w/.zattrs", "v/.zarray", "v/.zattrs"}));
}

TEST_F(ZarrChangeTest, AnEmptyStoreIsMade) {
  const std::string path = top_ / "new.zarr";
  ASSERT_TRUE(create_zarr(path));
  auto made = open_zarr(path);
  ASSERT_TRUE(made);
  EXPECT_TRUE((*made)->list((*made)->root().object)->empty());
  EXPECT_CODE(create_zarr(path), EEXIST);
  EXPECT_CODE(create_zarr(path + "/"), EEXIST);
  EXPECT_CODE(create_zarr(top_ / "none/new.zarr"), ENOENT);
  Names left;
  for (const auto& entry : files::directory_iterator(top_)) left.insert(entry.path().filename());
  EXPECT_EQ(left, (Names{"store", "new.zarr"}));
}

TEST_F(ZarrChangeTest, WhatIsReadOnlyIsNotChanged) {
  put_array("v", 1);
  source_ = *open_zarr(root_, false, io_);
  EXPECT_CODE(source().make_group(object(""), "g"), EROFS);
  EXPECT_CODE(source().remove(object(""), "v"), EROFS);
  EXPECT_CODE(source().resize(object("v"), Shape{1, 1}), EROFS);
  EXPECT_CODE(filter("v", {by_id(1, {1})}), EROFS);
}

}  // namespace
}  // namespace codecfs
