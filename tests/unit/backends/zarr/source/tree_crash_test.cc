// Crash tests of changes of a Zarr directory's structure: groups and arrays created, moved, removed and re-encoded,
// attributes and shapes changed. Like crash_test.cc, every prefix of a scenario is replayed as a kill and as power
// failures. After a kill the whole tree must be in a state after the last completed change. After a power failure each
// object must be in a state of the last commit or a later one: unsynced names may be lost individually.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <set>
#include <sstream>

#include "backends/zarr/source/zarr_source.h"
#include "backends/zarr/store/directory_writer.h"
#include "filters/core/codec_json.h"
#include "model/json.h"
#include "support/zarr_crash_testing.h"
#include "support/zarr_testing.h"

namespace codecfs {
namespace {

using namespace zarr_crash_testing;

const Key kTree = {"", 0};

std::string text_of(const Buffer& buffer) { return {reinterpret_cast<const char*>(buffer.data()), buffer.size()}; }

Bytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string describe_variable(Source& source, const Entry& entry) {
  const auto facts = source.variable(entry.object);
  if (!facts) return "error: " + facts.error().reason;
  const Variable& variable = **facts;
  std::string text = fmt::format(" array {} {}", fmt::join(variable.grid.shape(), "x"),
                                 print_json(filters::print_codecs(variable.filters)));
  if (variable.shards) text += " shards " + print_json(variable.shards->codecs);
  if (variable.dimensions) text += fmt::format(" dimensions {}", fmt::join(*variable.dimensions, ","));
  for (const Attribute& attribute : variable.attributes)
    text += fmt::format(" {}={}", attribute.name, print_json(attribute.value));
  const auto stored = source.stored_chunks(entry.object, 0, 1000);
  if (!stored) return "error: " + stored.error().reason;
  for (const uint64_t number : *stored) {
    const auto chunk = source.read_chunk(entry.object, number);
    text += fmt::format(" {}:{}", number,
                        chunk ? fmt::format("{:x}", std::hash<std::string>()(text_of(*chunk))) : chunk.error().reason);
  }
  return text;
}

/// Everything that a source shows, as text.
std::string describe(Source& source, const Entry& entry, const std::string& path) {
  std::string text = path + ":";
  if (entry.kind == EntryKind::variable) return text + describe_variable(source, entry) + "\n";
  const auto attributes = source.group_attributes(entry.object);
  if (!attributes) return text + attributes.error().reason;
  for (const Attribute& attribute : *attributes)
    text += fmt::format(" {}={}", attribute.name, print_json(attribute.value));
  text += "\n";
  const auto members = source.list(entry.object);
  if (!members) return text + members.error().reason;
  for (const Entry& member : *members) text += describe(source, member, path + "/" + member.name);
  return text;
}

std::string describe(Source& source) { return describe(source, source.root(), ""); }

class ZarrTreeCrashTest : public zarr_testing::StoreTest {
 protected:
  /// An array of `chunks` chunks of 700 bytes, all stored.
  void put_array(const std::string& key, unsigned chunks, const char* separator = ".") {
    put(key + "/.zarray", fmt::format(R"({{"zarr_format": 2, "shape": [{}, 700], "chunks": [1, 700], "dtype": "|u1",
        "compressor": null, "filters": null, "fill_value": 0, "order": "C", "dimension_separator": "{}"}})",
                                      chunks, separator));
    for (unsigned i = 0; i < chunks; ++i) put(fmt::format("{}/{}{}0", key, i, separator), noise(700, i));
  }
  static std::string noise(size_t size, unsigned seed) {
    std::mt19937 random(seed);
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(random() % 16);
    return bytes;
  }

  static std::unique_ptr<Source> open(const files::path& path, bool may_write, FileIo& io = real_file_io()) {
    auto source = open_zarr(path, may_write, io);
    EXPECT_TRUE(source) << source.error().reason;
    return source ? std::move(*source) : nullptr;
  }
  ObjectId object(const std::string& path) {
    Entry entry = source_->root();
    for (const auto& part : files::path(path)) {
      auto found = source_->find(entry.object, part.string());
      EXPECT_TRUE(found) << found.error().reason;
      if (found) entry = *found;
    }
    return entry.object;
  }

  void begin() {
    disk_.emplace(store());
    source_ = open(store(), true, io_);
    histories_[kTree].values.push_back({describe(*source_), true});
  }
  /// An atomic change of the tree.
  template <class Change>
  void change(Change make_it) {
    const size_t before = io_.events().size();
    io_.mark(Changed{"", 0, std::nullopt, false});
    const auto done = make_it();
    EXPECT_TRUE(done) << done.error().reason;
    const std::string after = describe(*source_);
    EXPECT_EQ(after, describe(*open(store(), false)));
    std::get<Changed>(io_.events()[before]).chunk = after;
    io_.mark(Changed{"", 0, after, true});
  }
  void commit() {
    io_.mark(Committed{false});
    EXPECT_TRUE(source_->commit());
    io_.mark(Committed{true});
  }

  /// The next mount changes every object a little: nothing else may change, and no temporary name may be left.
  void change_after(const files::path& path) {
    RecordingIo io;  // without syncs, which would take most of the time
    const auto source = open(path, true, io);
    const std::string before = describe(*source);
    const Attribute attribute = {"next", 1};
    const std::vector<std::string> name = {"next"};
    const std::function<void(const Entry&)> visit = [&](const Entry& entry) {
      EXPECT_TRUE(source->set_attributes(entry.object, std::span(&attribute, 1), {}));
      EXPECT_TRUE(source->set_attributes(entry.object, {}, name));
      if (entry.kind != EntryKind::group) return;
      const auto members = source->list(entry.object);
      for (const Entry& member : *members) visit(member);
    };
    visit(source->root());
    ASSERT_TRUE(source->finish());
    EXPECT_EQ(describe(*source), before);
    for (const auto& entry : files::recursive_directory_iterator(path)) {
      const files::path holder = entry.path().parent_path();
      if (holder != path && files::exists(holder.parent_path() / ".zarray"))
        continue;  // removed when a chunk is written
      EXPECT_FALSE(zarr::is_temporary_name(entry.path().filename().string())) << entry.path() << "\n" << before;
    }
  }

  /// The objects of a tree, by path.
  static std::map<std::string, std::string> objects_of(const std::string& tree) {
    std::map<std::string, std::string> objects;
    std::istringstream lines(tree);
    for (std::string line; std::getline(lines, line);) {
      const size_t colon = line.find(':');
      objects[line.substr(0, colon)] = line.substr(colon + 1);
    }
    return objects;
  }

  bool may_be(const History& history, const std::string& tree, bool after_power_cut) const {
    if (!after_power_cut) return history.may_be(tree, false);
    std::map<std::string, size_t> places;  // number of trees that have the path
    std::set<std::string> contents;
    for (size_t i = history.committed; i < history.values.size(); ++i) {
      for (const auto& [path, content] : objects_of(*history.values[i].chunk)) {
        ++places[path];
        contents.insert(content);
      }
    }
    const auto objects = objects_of(tree);
    size_t arrays = 0;
    for (const auto& [path, content] : objects) {
      if (!places.contains(path) || !contents.contains(content)) return false;
      arrays += content.starts_with(" array") ? 1 : 0;
    }
    for (const auto& [path, count] : places)
      if (count == history.values.size() - history.committed && !objects.contains(path)) return false;
    return !arrays_ || arrays == *arrays_;
  }

  struct Outcome {
    size_t points = 0;
    size_t states = 0;
    size_t bad_points = 0;
    std::string first_fault;
  };

  Outcome replay(const std::function<bool(const Event&)>& ignore, bool goes_on) {
    static constexpr int kTorn = 16;
    Outcome outcome;
    Histories histories = histories_;
    Disk disk = *disk_;
    const files::path path = top_ / "copy";
    Copy copy(path);
    copy.forget();
    std::mt19937 random(1);
    std::set<Disk::Left> seen;
    const auto check = [&](const Disk::Cut* cut, size_t prefix, const char* what) {
      ++outcome.points;
      const Disk::Left left = disk.left(cut);
      if (!seen.insert(left).second) return;
      ++outcome.states;
      copy.match(left);
      const std::string tree = describe(*open(path, false));
      if (!may_be(histories.at(kTree), tree, cut != nullptr)) {
        ++outcome.bad_points;
        if (outcome.first_fault.empty()) {
          outcome.first_fault = fmt::format("after {} events, {}:\n{}", prefix, what, tree);
          for (const auto& value : histories.at(kTree).values)
            outcome.first_fault += "was: " + value.chunk.value_or("");
        }
      } else if (goes_on && outcome.states % 5 == 0) {
        change_after(path);
        copy.forget();
      }
    };
    const auto all = [] { return true; };
    const auto none = [] { return false; };
    const auto some = [&] { return random() % 2 == 0; };
    for (size_t prefix = 0;; ++prefix) {
      seen.clear();
      check(nullptr, prefix, "kill");
      for (const Disk::Cut& cut :
           {Disk::Cut{none, none}, Disk::Cut{all, none}, Disk::Cut{none, all}, Disk::Cut{all, all}})
        check(&cut, prefix, "power cut");
      for (int i = 0; i < kTorn; ++i) {
        const Disk::Cut torn{some, some};
        check(&torn, prefix, "power cut, torn");
      }
      if (prefix == io_.events().size()) break;
      const Event& event = io_.events()[prefix];
      relocate_log(histories, event);
      if (!ignore(event)) disk.apply(event);
    }
    return outcome;
  }

  void prove(const char* scenario) {
    const Outcome outcome = replay([](const Event&) { return false; }, true);
    EXPECT_EQ(outcome.bad_points, 0U) << outcome.first_fault;
    std::cout << "crash points, " << scenario << ": " << outcome.points << " (" << outcome.states
              << " different states, " << io_.events().size() << " events)\n";
    RecordProperty("crash_points", static_cast<int>(outcome.points));
  }
  /// Number of crash points with errors if nothing were synced.
  size_t bad_points_without_syncs() {
    return replay([](const Event& event) { return std::holds_alternative<Synced>(event); }, false).bad_points;
  }

  static Variable variable(uint64_t length) {
    Variable made;
    made.type = {.kind = TypeKind::unsigned_int, .order = ByteOrder::none, .size = 1, .unit = {}, .members = {}};
    made.grid = *ChunkGrid::make({length}, {100});
    made.fill_value = Json(7);
    made.fill = {std::byte{7}};
    made.chunk_bytes = 100;
    made.attributes = {{"units", "K"}, {"long_text", std::string(600, 'x')}};
    made.dimensions = {"x"};
    return made;
  }

  RecordingIo io_;
  std::optional<Disk> disk_;
  std::optional<size_t> arrays_;  // their number, if it is constant
  Histories histories_;
};

TEST_F(ZarrTreeCrashTest, Making) {
  begin();
  change([&] { return source_->make_group(object(""), "g"); });
  change([&] { return source_->make_variable(object("g"), "v", variable(250)); });
  commit();
  change([&] { return source_->make_group(object("g"), "w"); });
  change([&] { return source_->make_variable(object("g"), "w", variable(100)); });  // replaces the group
  change([&] { return source_->write_chunk(object("g/w"), 0, bytes_of(noise(100, 1))); });
  commit();
  change([&] { return source_->make_group(object(""), "h"); });
  prove("making");
  EXPECT_GT(bad_points_without_syncs(), 0U);
}

TEST_F(ZarrTreeCrashTest, Removing) {
  put_array("v", 3);
  put_array("g/n", 3, "/");
  put("g/.zgroup", R"({"zarr_format": 2})");
  begin();
  change([&] { return source_->remove(object(""), "v"); });
  change([&] { return source_->remove(object("g"), "n"); });
  commit();
  change([&] { return source_->remove(object(""), "g"); });
  change([&] { return source_->make_group(object(""), "v"); });
  commit();
  prove("removing");
  EXPECT_GT(bad_points_without_syncs(), 0U);
}

TEST_F(ZarrTreeCrashTest, Moving) {
  arrays_ = 2;
  put_array("v", 2);
  put_array("g/n", 2, "/");
  put("g/.zgroup", R"({"zarr_format": 2})");
  begin();
  change([&] { return source_->rename(object(""), "v", object(""), "w"); });
  commit();
  change([&] { return source_->write_chunk(object("w"), 1, bytes_of(noise(700, 9))); });
  change([&] { return source_->rename(object(""), "w", object("g"), "v"); });
  commit();
  change([&] { return source_->write_chunk(object("g/n"), 1, bytes_of(noise(700, 10))); });
  change([&] { return source_->rename(object(""), "g", object(""), "h"); });
  commit();
  change([&] { return source_->rename(object("h"), "n", object(""), "n"); });
  commit();
  prove("moving");
}

TEST_F(ZarrTreeCrashTest, AttributesAndShapes) {
  put_array("v", 4);
  put_array("n", 4, "/");
  put("v/.zattrs", R"({"a": 1, "_ARRAY_DIMENSIONS": ["y", "x"]})");
  put("v/4.0", noise(700, 44));  // left outside of the shape by an earlier crash
  put("n/4/0", noise(700, 44));
  begin();
  const std::vector<Attribute> some = {{"b", std::string(700, 'b')}, {"a", 2}};
  const std::vector<std::string> gone = {"a"};
  for (const char* path : {"", "v", "n"}) change([&] { return source_->set_attributes(object(path), some, {}); });
  commit();
  change([&] { return source_->set_attributes(object("v"), {}, gone); });
  change([&] { return source_->set_dimensions(object("v"), std::vector<std::string>{"t", "x"}); });
  commit();
  for (const char* path : {"v", "n"}) {
    change([&] { return source_->resize(object(path), std::vector<uint64_t>{2, 700}); });
    commit();
    change([&] { return source_->resize(object(path), std::vector<uint64_t>{5, 701}); });
    commit();
  }
  prove("attributes and shapes");
}

TEST_F(ZarrTreeCrashTest, Recoding) {
  put_array("v", 3);
  put_array("n", 3, "/");
  put("v/.zattrs", R"({"a": 1})");
  put("v/notes.txt", noise(600, 77));
  begin();
  const std::vector<FilterStage> zlib = {{.id = 1, .parameters = {1}, .codec = {}, .name = {}, .optional = false}};
  Progress progress;
  change([&] { return source_->set_filters(object("v"), zlib, progress); });
  change([&] { return source_->write_chunk(object("v"), 1, bytes_of(noise(700, 11))); });
  commit();
  change([&] { return source_->set_filters(object("n"), zlib, progress); });
  commit();
  change([&] { return source_->set_filters(object("v"), {}, progress); });
  prove("re-encoding");
  EXPECT_GT(bad_points_without_syncs(), 0U);
}

TEST_F(ZarrTreeCrashTest, ChangedShards) {
  files::remove(store() / ".zgroup");
  put("zarr.json", R"({"zarr_format": 3, "node_type": "group"})");
  put("v/zarr.json", R"({"zarr_format": 3, "node_type": "array", "shape": [8, 700], "data_type": "uint8",
      "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 700]}}, "chunk_key_encoding": "default",
      "fill_value": 0, "codecs": ["bytes"]})");
  for (unsigned i = 0; i < 8; ++i) put(fmt::format("v/c/{}/0", i), noise(700, i));
  begin();
  Progress progress;
  Variable wanted = *source_->facts(object("v")).value();
  const auto store_in = [&](uint64_t chunks, const char* location) {
    wanted.shards.reset();
    if (chunks > 0)
      wanted.shards =
          Sharding{*ChunkGrid::make({8, 700}, {chunks, 700}),
                   *parse_json(fmt::format(R"([{{"name": "sharding_indexed", "configuration": {{"chunk_shape": [1, 700],
              "codecs": ["bytes"], "index_location": "{}"}}}}])",
                                           location))};
    change([&] { return source_->set_sharding(object("v"), wanted, progress); });
  };
  store_in(4, "end");
  commit();
  store_in(2, "start");
  store_in(8, "end");
  commit();
  store_in(0, "");
  prove("changed shards");
  EXPECT_GT(bad_points_without_syncs(), 0U);
}

}  // namespace
}  // namespace codecfs
