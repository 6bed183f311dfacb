// What a written zarr.json changes in the source.

#include <atomic>
#include <functional>
#include <map>
#include <thread>

#include "filters/core/codec_json.h"
#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

using Names = std::vector<std::string>;

class MetadataEditorZarr3Test : public FilesystemTest {
 protected:
  static constexpr View kDecoded = View::decoded3;
  static constexpr View kEncoded = View::encoded3;

  /// zarr.json of a variable like /v, with changes.
  static std::string array(std::string_view changes = "{}") {
    Json json = *parse_json(R"({"zarr_format": 3, "node_type": "array", "shape": [8], "data_type": "uint8",
      "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
      "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
      "fill_value": 46, "codecs": [{"name": "bytes"}], "attributes": {}})");
    json.update(*parse_json(changes));
    return print_json(json);
  }
  static std::string group(std::string_view attributes) {
    return fmt::format(R"({{"zarr_format": 3, "node_type": "group", "attributes": {}}})", attributes);
  }
  Result<> put(std::string_view path, std::string_view text, View view = kDecoded) {
    return write_file(std::string(path) + "/zarr.json", text, view);
  }
  void make_directory(const std::string& path, View view = kDecoded) {
    const size_t slash = path.rfind('/');
    ASSERT_TRUE(fs().tree().make_directory(ino(path.substr(0, slash), view), path.substr(slash + 1))) << path;
  }
  Json attributes_of(const std::string& path) {
    Json json = Json::object();
    for (const Attribute& attribute : source_->described(path).attributes) json[attribute.name] = *attribute.value;
    return json;
  }
  std::string reason(std::string_view path, std::string_view text, View view = kDecoded) {
    const Result<> done = put(path, text, view);
    return done ? "done" : done.error().reason;
  }
};

TEST_F(MetadataEditorZarr3Test, AGroupGetsItsAttributes) {
  ASSERT_TRUE(put("/g", group(R"({"title": "new", "n": 1})")));
  EXPECT_EQ(source_->group_attributes(source_->object("/g"))->size(), 2);
  EXPECT_NE(read("/g/.zattrs").find("\"new\""), std::string::npos);
  ASSERT_TRUE(put("/g", R"({"zarr_format": 3, "node_type": "group", "consolidated_metadata": {"kind": "inline",
                            "must_understand": false, "metadata": {"nonsense": 1}}})"));
  EXPECT_TRUE(source_->group_attributes(source_->object("/g"))->empty());
  EXPECT_EQ(read("/g/zarr.json", kDecoded).find("nonsense"), std::string::npos);
}

TEST_F(MetadataEditorZarr3Test, ANewDirectoryIsEmptyUntilItsMetadataComes) {
  make_directory("/n");
  EXPECT_EQ(error_of(find("/n/zarr.json", kDecoded)), ENOENT);
  EXPECT_EQ(list("/n", kDecoded), Names());
  EXPECT_EQ(list("/n", kDecoded), Names()) << "also when it is listed again";
  ASSERT_TRUE(put("/n", array(R"({"attributes": {"units": "m"}, "dimension_names": ["x"]})")));
  EXPECT_EQ(list("/n", kDecoded), (Names{"zarr.json"}));
  const Variable made = source_->described("/n");
  EXPECT_EQ(made.grid.shape(), (std::vector<uint64_t>{8}));
  EXPECT_EQ(made.fill, (std::vector{std::byte{46}}));
  EXPECT_EQ(made.dimensions, (Names{"x"}));
  EXPECT_EQ(attributes_of("/n"), *parse_json(R"({"units": "m"})"));
  ASSERT_TRUE(write_file("/n/c/1", "wxyz", kDecoded));
  ASSERT_TRUE(fs().sync_all());
  EXPECT_EQ(source_->chunk("/n", 1), "wxyz");
}

TEST_F(MetadataEditorZarr3Test, AnAttributeShowsTheMetadataOfANewDirectory) {
  make_directory("/n");
  ASSERT_TRUE(fs().xattrs().set(ino("/n", kDecoded), "user.a", "1", XattrMode::any));
  EXPECT_NE(read("/n/zarr.json", kDecoded).find("\"a\": 1"), std::string::npos);
}

TEST_F(MetadataEditorZarr3Test, RefusedMetadataLeavesTheChunksThatCameFirst) {
  for (const char* const path : {"/n", "/n/c"}) make_directory(path, kEncoded);
  ASSERT_TRUE(write_file("/n/c/0", "abcd", kEncoded));
  EXPECT_EQ(error_of(put("/n", array(R"({"codecs": ["bytes", {"name": "crc32c"}]})"), kEncoded)), EINVAL);
  EXPECT_EQ(read("/n/c/0", kEncoded), "abcd");
  ASSERT_TRUE(put("/n", array(), kEncoded));
  EXPECT_EQ(read("/n/0"), "abcd");
}

TEST_F(MetadataEditorZarr3Test, OnlyAMarkedFillValueIsOneForZarr2) {
  for (const auto& [attributes, fill_value] : std::map<std::string, Json>{
           {"{}", Json()}, {R"({"_FillValue": 46})", Json(46)}, {R"({"_FillValue": 47})", Json()}}) {
    const std::string name = fmt::format("/n{}", attributes.size() + fill_value.size());
    make_directory(name + attributes.substr(attributes.size() / 2, 2));
    const std::string path = name + attributes.substr(attributes.size() / 2, 2);
    ASSERT_TRUE(put(path, array(fmt::format(R"({{"attributes": {}}})", attributes)))) << attributes;
    EXPECT_EQ(source_->described(path).fill_value, fill_value) << attributes;
    EXPECT_EQ(source_->described(path).fill, (std::vector{std::byte{46}}));
  }
}

TEST_F(MetadataEditorZarr3Test, WhatCannotBeStoredIsRefusedWithTheReason) {
  make_directory("/n");
  const std::string configuration = R"("configuration": {"chunk_shape": [2], "codecs": ["bytes"]})";
  for (const auto& [changes, part] : std::map<std::string, std::string>{
           {R"({"zarr_format": 2})", "zarr_format"},
           {R"({"node_type": "tree"})", "node_type"},
           {R"({"shape": [-1]})", "shape"},
           {R"({"shape": [8, 8]})", "dimensions"},
           {R"({"data_type": "float128"})", "data_type"},
           {R"({"data_type": "int4", "fill_value": 0})", "int4"},
           {R"({"fill_value": 256})", "fill_value"},
           {R"({"fill_value": null})", "fill_value"},
           {R"({"codecs": []})", "codecs"},
           {R"({"codecs": [{"name": "transpose", "configuration": {"order": [0]}}, {"name": "nothing"}]})", "nothing"},
           {R"({"codecs": [{"name": "bytes"}, {"name": "zstd"}]})", "view/encoded3"},
           {R"({"codecs": [{"name": "sharding_indexed", )" + configuration + "}]}", "shards"},
           {R"({"codecs": [{"name": "vlen-utf8"}]})", "vlen-utf8"},
           {R"({"chunk_grid": {"name": "rectilinear"}})", "chunk_grid"},
           {R"({"chunk_key_encoding": {"name": "v2"}})", "c/0/1"},
           {R"({"storage_transformers": [{"name": "x"}]})", "storage_transformers"},
           {R"({"dimension_names": ["x", "y"]})", "dimension_names"},
           {R"({"attributes": []})", "attributes"},
           {R"({"x": {"must_understand": false}})", "\"x\""}}) {
    EXPECT_EQ(error_of(put("/n", array(changes))), EINVAL) << changes;
    EXPECT_NE(reason("/n", array(changes)).find(part), std::string::npos) << changes << reason("/n", array(changes));
  }
  EXPECT_EQ(error_of(put("/n", "{")), EINVAL);
  EXPECT_EQ(error_of(put("/n", "[]")), EINVAL);
  EXPECT_EQ(error_of(put("/n", array(R"({"shape": [8, 8], "codecs": [{"name": "bytes"}],
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4]}}, "dimension_names": ["x", null]})"))),
            EINVAL);
  EXPECT_EQ(source_->root().kind, EntryKind::group);
  const auto entry = source_->find(source_->object(""), "n");
  EXPECT_EQ(entry->kind, EntryKind::group) << "nothing was made";
  ASSERT_TRUE(put("/n", array(R"({"codecs": ["bytes"], "dimension_names": [null]})")));
}

TEST_F(MetadataEditorZarr3Test, AnArrayChangesWhereItCan) {
  const auto written = [&](std::string_view changes) {
    Json json = *parse_json(read("/v/zarr.json", kDecoded));
    json.update(*parse_json(changes));
    return put("/v", print_json(json));
  };
  ASSERT_TRUE(written("{}"));
  EXPECT_EQ(attributes_of("/v"), Json::object());
  ASSERT_TRUE(written(R"({"attributes": {"units": "K", "n": [1, 2]}, "dimension_names": ["x"]})"));
  EXPECT_EQ(attributes_of("/v"), *parse_json(R"({"units": "K", "n": [1, 2]})"));
  EXPECT_EQ(source_->described("/v").dimensions, (Names{"x"}));
  ASSERT_TRUE(written(R"({"attributes": {"n": [1, 2]}})"));
  EXPECT_EQ(attributes_of("/v"), *parse_json(R"({"n": [1, 2]})"));
  ASSERT_TRUE(written(R"({"shape": [14]})"));
  EXPECT_EQ(source_->described("/v").grid.shape(), (std::vector<uint64_t>{14}));
  ASSERT_TRUE(write_file("/v/c/3", "wxyz", kDecoded));
  EXPECT_EQ(read("/v/3"), "wxyz");
  for (const char* const changes :
       {R"({"data_type": "int8"})", R"({"fill_value": 47})", R"({"shape": [8, 8]})",
        R"({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [7]}}})", R"({"node_type": "group"})"})
    EXPECT_EQ(error_of(written(changes)), EINVAL) << changes;
  EXPECT_EQ(read("/v/0"), "abcd");
}

TEST_F(MetadataEditorZarr3Test, CodecsAreFiltersInTheEncodedView) {
  make_directory("/n", kEncoded);
  ASSERT_TRUE(put("/n", array(R"({"codecs": ["bytes", {"name": "gzip", "configuration": {"level": 3}}]})"), kEncoded));
  EXPECT_EQ(source_->described("/n").filters.at(0).id, 1U);
  const auto codecs = [&] { return (*parse_json(read("/n/zarr.json", kEncoded)))["codecs"]; };
  EXPECT_EQ(codecs(), *parse_json(R"([{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 3}}])"));
  source_->put("/n", 0, "abcd");
  // The same text changes nothing, another codec is applied to what is there.
  ASSERT_TRUE(put("/n", read("/n/zarr.json", kEncoded), kEncoded));
  EXPECT_EQ(mount().stats.variables_recoded, 0);
  ASSERT_TRUE(put("/n", array(R"({"codecs": ["bytes", {"name": "numcodecs.zlib", "configuration": {"level": 4}}]})"),
                  kEncoded));
  EXPECT_EQ(mount().stats.variables_recoded, 1);
  EXPECT_EQ(source_->chunk("/n", 0), "abcd");
  EXPECT_EQ(error_of(put("/n", array(R"({"codecs": ["bytes", {"name": "crc32c"}]})"), kEncoded)), EINVAL);
}

TEST_F(MetadataEditorZarr3Test, AScalarOfASourceWithoutFiltersKeepsItsCodecsInTheView) {
  make_directory("/n", kEncoded);
  const std::string text = array(R"({"shape": [], "codecs": ["bytes", {"name": "gzip", "configuration": {"level": 3}}],
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": []}}})");
  ASSERT_TRUE(put("/n", text, kEncoded));
  EXPECT_TRUE(source_->described("/n").filters.empty());
  ASSERT_TRUE(put("/n", text, kEncoded));
  const auto stages = filters::parse_zarr_codecs(*parse_json(R"({"id": "gzip", "level": 1})"), {}, 1);
  const auto pipeline = filters::Pipeline::make(*stages, filters::shape_of_chunk(text_variable({}, {})));
  const std::string chunk = text_of(pipeline->encode(bytes_of("x"))->bytes.bytes());
  ASSERT_TRUE(write_file("/n/c", chunk, kEncoded));
  EXPECT_EQ(read("/n/c", kDecoded), "x");
  EXPECT_EQ(read("/n/0"), "x");
}

TEST_F(MetadataEditorZarr3Test, ChunksThatCameFirstAreAdopted) {
  for (const char* const path : {"/n", "/n/c", "/n/c/0", "/n/c/1"}) make_directory(path);
  ASSERT_TRUE(write_file("/n/c/0/1", "0123", kDecoded));
  ASSERT_TRUE(write_file("/n/c/1/0", "abcd", kDecoded));
  EXPECT_EQ(error_of(write_file("/n/1", "abcd", kDecoded)), EINVAL) << "not below c";
  ASSERT_TRUE(put("/n", array(R"({"shape": [4, 4],
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}}})")));
  EXPECT_EQ(read("/n/c/0/1", kDecoded), "0123");
  EXPECT_EQ(read("/n/1.0"), "abcd");
  EXPECT_EQ(list("/n/c", kDecoded), (Names{"0", "1"}));
  ASSERT_TRUE(fs().finish());
}

TEST_F(MetadataEditorZarr3Test, GroupsOfTheSourceAreNotTakenForDirectoriesOfChunks) {
  for (const char* const path : {"/n", "/n/c", "/n/c/0"}) source_->add_group(path);
  EXPECT_EQ(error_of(put("/n", array())), ENOTEMPTY);
  EXPECT_NE(source_->object("/n/c/0"), 0);
}

TEST_F(MetadataEditorZarr3Test, ATemporaryFileIsLinkedToItsName) {
  make_directory("/n");
  const Ino n = ino("/n", kDecoded);
  ASSERT_TRUE(write_file("/n/zarr.1.partial", group(R"({"a": 1})"), kDecoded));
  const Ino temporary = ino("/n/zarr.1.partial", kDecoded);
  const auto made = fs().tree().make_hard_link(temporary, n, "zarr.json");
  ASSERT_TRUE(made) << made.error().reason;
  EXPECT_EQ(made->st_ino, ino("/n/zarr.json", kDecoded));
  EXPECT_EQ(source_->group_attributes(source_->object("/n"))->size(), 1);
  EXPECT_EQ(error_of(fs().tree().make_hard_link(temporary, n, "zarr.json")), EEXIST);
  EXPECT_EQ(error_of(fs().tree().make_hard_link(temporary, n, "other")), EPERM);
  EXPECT_EQ(error_of(fs().tree().make_hard_link(ino("/v/c/0", kDecoded), n, "zarr.json")), EPERM);
  ASSERT_TRUE(fs().tree().unlink(n, "zarr.1.partial"));
  EXPECT_EQ(error_of(find("/n/zarr.1.partial", kDecoded)), ENOENT);
}

TEST_F(MetadataEditorZarr3Test, TemporaryFilesAreFoundWhileTheirGroupBecomesADirectoryOfChunks) {
  const auto during_change = [&](const std::string& path, const std::function<Result<>(Ino directory)>& request) {
    make_directory(path);
    make_directory(path + "/c");
    EXPECT_TRUE(write_file(path + "/c/0.x.partial", "wxyz", kDecoded));
    const Ino directory = ino(path + "/c", kDecoded);
    Result<> done = fail(EINVAL, "the request was not made");
    std::jthread other;
    std::atomic<bool> is_first = true;
    // The array is asked for when the directories of its chunks are known and the temporary files are about to move.
    source_->before_variable = [&](ObjectId id) {
      if (id != source_->object(path) || !is_first.exchange(false)) return;
      other = std::jthread([&] { done = request(directory); });
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    };
    EXPECT_TRUE(put(path, array()));
    if (other.joinable()) other.join();
    source_->before_variable = {};
    EXPECT_TRUE(done) << path << ": " << (done ? "" : done.error().reason);
  };
  during_change("/renamed",
                [&](Ino directory) { return fs().tree().rename(directory, "0.x.partial", directory, "0", true); });
  EXPECT_EQ(read("/renamed/0"), "wxyz");
  during_change("/removed", [&](Ino directory) { return fs().tree().unlink(directory, "0.x.partial"); });
  EXPECT_EQ(error_of(find("/removed/c/0.x.partial", kDecoded)), ENOENT);
  during_change("/found", [&](Ino directory) -> Result<> {
    CODECFS_TRY(fs().names().lookup(directory, "0.x.partial"));
    return {};
  });
}

TEST_F(MetadataEditorZarr3Test, AVariableIsRemovedWithItsDirectories) {
  source_->put("/v", 1, "efgh");
  const Ino v = ino("/v", kDecoded);
  EXPECT_EQ(error_of(fs().tree().remove_directory(root(kDecoded), "v")), ENOTEMPTY);
  ASSERT_TRUE(fs().tree().unlink(v, "zarr.json"));
  for (const char* const name : {"0", "1"}) ASSERT_TRUE(fs().tree().unlink(ino("/v/c", kDecoded), name));
  EXPECT_EQ(source_->chunk("/v", 0), "abcd") << "the variable may be kept yet";
  EXPECT_EQ(list("/v", kDecoded), Names());
  ASSERT_TRUE(fs().tree().remove_directory(v, "c"));
  ASSERT_TRUE(fs().tree().remove_directory(root(kDecoded), "v"));
  EXPECT_EQ(source_->object("/v"), 0);
}

TEST_F(MetadataEditorZarr3Test, AFileBelowADirectoryOfChunksKeepsItInTheList) {
  source_->add_variable("/square", text_variable({4, 4}, {2, 2}));
  ASSERT_TRUE(write_file("/square/c/1/0.x.partial", "wxyz", kDecoded));
  EXPECT_EQ(list("/square", kDecoded), (Names{"zarr.json", "c"}));
  EXPECT_EQ(list("/square/c", kDecoded), (Names{"1"}));
  EXPECT_EQ(list("/square/c/1", kDecoded), (Names{"0.x.partial"}));
  EXPECT_EQ(error_of(fs().tree().remove_directory(ino("/square/c", kDecoded), "1")), ENOTEMPTY);
  EXPECT_EQ(mount().files_not_stored(), (Names{"/.codecfs/view/decoded3/square/c/1/0.x.partial"}));
  const Ino directory = ino("/square/c/1", kDecoded);
  ASSERT_TRUE(fs().tree().rename(directory, "0.x.partial", directory, "0", true));
  EXPECT_EQ(read("/square/1.0"), "wxyz");
  ASSERT_TRUE(write_file("/square/c/0/1.x.partial", "abcd", kDecoded));
  ASSERT_TRUE(fs().tree().rename(ino("/square/c/0", kDecoded), "1.x.partial", directory, "1", true));
  EXPECT_EQ(read("/square/1.1"), "abcd");
}

TEST_F(MetadataEditorZarr3Test, FilesOfTheOtherFormatAreRefused) {
  for (const char* const name : {".zarray", ".zgroup", ".zattrs", ".zmetadata"})
    for (const std::string path : {"/v/", "/g/", "/v/c/"}) {
      const Result<> done = write_file(path + name, "{}", kEncoded);
      EXPECT_EQ(error_of(done), EINVAL) << path << name;
      EXPECT_NE(done.error().reason.find("view/encoded"), std::string::npos);
    }
  const Result<> done = write_file("/v/zarr.json", "{}", View::encoded);
  EXPECT_EQ(error_of(done), EINVAL);
  EXPECT_NE(done.error().reason.find("view/encoded3"), std::string::npos) << done.error().reason;
}

}  // namespace
}  // namespace codecfs::fs
