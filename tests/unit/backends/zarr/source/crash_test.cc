// Crash tests of writing to Zarr directories. A scenario runs once and every call that changes something is recorded.
// For every prefix of the record, the store is rebuilt as a kill or a power failure can leave it and opened. Each chunk
// must have the content of the last commit or one that was written since. zarr_crash_testing.h describes the possible
// states.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <variant>

#include "backends/zarr/source/zarr_source.h"
#include "backends/zarr/store/directory_writer.h"
#include "support/zarr_crash_testing.h"
#include "support/zarr_testing.h"

namespace codecfs {
namespace {

using namespace zarr_crash_testing;

// Scenarios ---------------------------------------------------------------------------------------------------------

std::string zarray(const char* shape, const char* chunks, const char* separator, const char* compressor = "null") {
  return fmt::format(
      R"({{"zarr_format": 2, "shape": {}, "chunks": {}, "dtype": "|u1", "compressor": {}, "filters": null,
      "fill_value": 0, "order": "C", "dimension_separator": "{}"}})",
      shape, chunks, compressor, separator);
}

/// Text that hardly compresses, so that chunks have several sectors.
std::string noise(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

class ZarrCrashTest : public zarr_testing::StoreTest {
 protected:
  static ObjectId object(Source& source, const std::string& name) {
    auto entry = source.find(source.root().object, name);
    EXPECT_TRUE(entry) << name << ": " << entry.error().reason;
    return entry ? entry->object : 0;
  }

  static std::unique_ptr<Source> open(const files::path& path, bool may_write, FileIo& io = real_file_io()) {
    auto source = open_zarr(path, may_write, io);
    EXPECT_TRUE(source) << source.error().reason;
    return source ? std::move(*source) : nullptr;
  }

  /// Starts the record; the given chunks take part.
  void begin(const std::vector<std::pair<std::string, uint64_t>>& chunks_of_variables) {
    disk_.emplace(store());
    source_ = open(store(), true, io_);
    for (const auto& [variable, count] : chunks_of_variables) {
      objects_[variable] = object(*source_, variable);
      for (uint64_t number = 0; number < count; ++number) {
        const auto chunk = read(*source_, objects_[variable], number);
        histories_[{variable, number}].values.push_back({chunk, true});
      }
    }
  }
  /// Ends the mount as a kill does, and starts the next one.
  void reopen_after_kill() {
    source_.reset();
    source_ = open(store(), true, io_);
    for (auto& [variable, id] : objects_) id = object(*source_, variable);
  }

  void write(const std::string& variable, uint64_t number, const std::string& chunk) {
    io_.mark(Changed{variable, number, chunk, false});
    const auto written = source_->write_chunk(objects_.at(variable), number, std::as_bytes(std::span(chunk)));
    EXPECT_TRUE(written) << written.error().reason;
    io_.mark(Changed{variable, number, chunk, true});
  }
  void remove(const std::string& variable, uint64_t number) {
    io_.mark(Changed{variable, number, std::nullopt, false});
    const auto removed = source_->remove_chunk(objects_.at(variable), number);
    EXPECT_TRUE(removed) << removed.error().reason;
    io_.mark(Changed{variable, number, std::nullopt, true});
  }
  void commit() {
    io_.mark(Committed{false});
    EXPECT_TRUE(source_->commit());
    io_.mark(Committed{true});
  }

  /// The chunk; none if it is not stored; a text that no chunk has if it cannot be read.
  static Chunk read(Source& source, ObjectId id, uint64_t number) {
    const auto bytes = source.read_chunk(id, number);
    if (bytes) return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    if (bytes.error().code == ENOENT) return std::nullopt;
    return "error: " + bytes.error().reason;
  }

  /// All errors in a rebuilt store.
  std::vector<std::string> faults(const files::path& path, const Histories& histories, bool after_power_cut) {
    std::vector<std::string> wrong;
    const auto source = open(path, false);
    std::map<std::string, std::vector<uint64_t>> stored;
    for (const auto& [key, history] : histories) {
      const Chunk chunk = read(*source, object(*source, key.first), key.second);
      if (chunk) stored[key.first].push_back(key.second);
      if (!history.may_be(chunk, after_power_cut))
        wrong.push_back(fmt::format("{}, chunk {}: {}", key.first, key.second,
                                    !chunk                          ? "is lost"
                                    : chunk->starts_with("error: ") ? chunk->c_str()
                                                                    : "is of another time"));
    }
    for (const auto& [variable, id] : objects_)
      if (*source->stored_chunks(object(*source, variable), 0, 10000) != stored[variable])
        wrong.push_back(variable + ": its listing is wrong");
    return wrong;
  }

  /// The next mount writes one chunk of every variable: other chunks stay, and leftovers in these directories are
  /// removed.
  void write_after(const files::path& path, const Histories& histories) {
    std::map<Key, Chunk> before;
    RecordingIo io;  // without syncs, which would take most of the time
    const auto source = open(path, true, io);
    for (const auto& [key, history] : histories) before[key] = read(*source, object(*source, key.first), key.second);
    for (const auto& [variable, id] : objects_) {
      const std::string chunk((*source->variable(object(*source, variable)))->chunk_bytes.value(), 'w');
      ASSERT_TRUE(source->write_chunk(object(*source, variable), 0, std::as_bytes(std::span(chunk))));
      before[{variable, 0}] = chunk;
      if (is_held_until_commits_) {
        ASSERT_TRUE(source->commit());
      }
      // Chunk 0 is in the directory that was searched.
      files::path directory = path / variable;
      if (files::is_directory(directory / "c")) directory /= "c";
      while (files::is_directory(directory / "0")) directory /= "0";
      for (const auto& entry : files::directory_iterator(directory))
        EXPECT_FALSE(zarr::is_temporary_name(entry.path().filename().string())) << entry.path();
    }
    ASSERT_TRUE(source->finish());
    for (const auto& [key, chunk] : before) EXPECT_EQ(read(*source, object(*source, key.first), key.second), chunk);
  }

  struct Outcome {
    size_t points = 0;
    size_t states = 0;  // number of distinct states
    size_t bad_points = 0;
    std::string first_fault;
  };

  /// Replays every prefix of the record, without the events that `ignore` selects (as if they had not happened).
  Outcome replay(const std::function<bool(const Event&)>& ignore = [](const Event&) { return false; }) {
    static constexpr int kTorn = 16;
    Outcome outcome;
    Histories histories = histories_;
    Disk disk = *disk_;
    const files::path path = top_ / "copy";
    Copy copy(path);
    copy.forget();
    std::mt19937 random(1);
    // at this prefix; a state that is valid after a kill is also valid after a power failure
    std::set<Disk::Left> seen;
    const auto check = [&](const Disk::Cut* cut, size_t prefix, const char* what) {
      ++outcome.points;
      const Disk::Left left = disk.left(cut);
      if (!seen.insert(left).second) return;
      ++outcome.states;
      copy.match(left);
      const auto wrong = faults(path, histories, cut != nullptr || is_held_until_commits_);
      if (!wrong.empty()) {
        ++outcome.bad_points;
        if (outcome.first_fault.empty())
          outcome.first_fault = fmt::format("after {} events, {}: {}", prefix, what, wrong.front());
      } else if (outcome.states % 7 == 0) {
        write_after(path, histories);
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
      const Disk::Cut torn{some, some};
      const Disk::Cut torn_data{all, some};
      for (int i = 0; i < kTorn; ++i) check(i % 2 == 0 ? &torn : &torn_data, prefix, "power cut, torn");
      if (prefix == io_.events().size()) break;
      const Event& event = io_.events()[prefix];
      relocate_log(histories, event);
      if (!ignore(event)) disk.apply(event);
    }
    return outcome;
  }

  void prove(const char* scenario) {
    const Outcome outcome = replay();
    EXPECT_EQ(outcome.bad_points, 0U) << outcome.first_fault;
    std::cout << "crash points, " << scenario << ": " << outcome.points << " (" << outcome.states
              << " different states, " << io_.events().size() << " events)\n";
    RecordProperty("crash_points", static_cast<int>(outcome.points));
  }

  /// A store of Zarr v3 with an array "v" of 16 chunks of 700 bytes in shards of four.
  void make_sharded(const char* index) {
    files::remove(store() / ".zgroup");
    put("zarr.json", R"({"zarr_format": 3, "node_type": "group"})");
    put("v/zarr.json",
        fmt::format(R"({{"zarr_format": 3, "node_type": "array", "shape": [4, 2800], "data_type": "uint8",
        "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [2, 1400]}}}},
        "chunk_key_encoding": "default", "fill_value": 0, "codecs": [{{"name": "sharding_indexed", "configuration":
        {{"chunk_shape": [1, 700], "codecs": ["bytes", {{"name": "numcodecs.zlib", "configuration": {{"level": 1}}}}]{}}}}}]}})",
                    index));
    is_held_until_commits_ = true;
  }

  RecordingIo io_;
  bool is_held_until_commits_ = false;  // what is written is in memory until then
  std::optional<Disk> disk_;            // at the start of the scenario
  Histories histories_;                 // likewise
  std::map<std::string, ObjectId> objects_;
};

constexpr const char* kZlib = R"({"id": "zlib", "level": 1})";

TEST_F(ZarrCrashTest, Overwriting) {
  put("v/.zarray", zarray("[4096]", "[1024]", ".", kZlib));
  {
    const auto before = open(store(), true);
    for (uint64_t number = 0; number < 4; ++number) {
      const std::string chunk = noise(1024, static_cast<unsigned>(number));
      ASSERT_TRUE(before->write_chunk(object(*before, "v"), number, std::as_bytes(std::span(chunk))));
    }
  }
  begin({{"v", 4}});
  for (unsigned round = 1; round < 4; ++round) {
    for (uint64_t number = 0; number < 4; ++number) write("v", number, noise(1024, 10 * round + unsigned(number)));
    write("v", 1, noise(1024, 100 + round));  // twice in one commit
    commit();
  }
  write("v", 2, noise(1024, 200));
  prove("overwriting");
}

TEST_F(ZarrCrashTest, NewChunks) {
  put("v/.zarray", zarray("[10240]", "[1024]", "."));
  put("v/.3.codecfs-1-1", noise(700, 1));  // left by an earlier crash
  begin({{"v", 10}});
  for (uint64_t number = 0; number < 10; ++number) {
    write("v", number, noise(1024, unsigned(number)));
    if (number % 3 == 2) commit();
  }
  prove("new chunks");
}

TEST_F(ZarrCrashTest, NewDirectories) {
  put("v/.zarray", zarray("[3, 2, 1400]", "[1, 1, 700]", "/", kZlib));
  begin({{"v", 12}});
  for (uint64_t number = 0; number < 12; ++number) {
    write("v", number * 5 % 12, noise(700, unsigned(number)));
    if (number % 4 == 3) commit();
  }
  prove("new directories");
}

TEST_F(ZarrCrashTest, DirectoriesThatAKilledWriterMade) {
  put("v/.zarray", zarray("[2, 2, 600]", "[1, 1, 600]", "/"));
  begin({{"v", 4}});
  write("v", 0, noise(600, 1));  // creates 0 and 0/0 and is killed before it syncs them
  reopen_after_kill();
  write("v", 0, noise(600, 2));
  commit();
  write("v", 3, noise(600, 3));
  commit();
  prove("directories of a killed writer");
}

TEST_F(ZarrCrashTest, ManySmallVariables) {
  std::vector<std::pair<std::string, uint64_t>> variables;
  for (int i = 0; i < 12; ++i) {
    variables.emplace_back(fmt::format("v{}", i), 1);
    put(variables.back().first + "/.zarray", zarray("[]", "[]", i % 2 == 0 ? "." : "/"));
  }
  begin(variables);
  for (const char value : {'a', 'b'}) {
    for (const auto& [name, count] : variables) write(name, 0, std::string(1, value));
    commit();
  }
  prove("many small variables");
}

TEST_F(ZarrCrashTest, Removal) {
  put("v/.zarray", zarray("[4, 600]", "[1, 600]", "."));
  put("n/.zarray", zarray("[4, 600]", "[1, 600]", "/"));
  for (unsigned i = 0; i < 4; ++i) {
    put(fmt::format("v/{}.0", i), noise(600, i));
    put(fmt::format("n/{}/0", i), noise(600, i));
  }
  begin({{"v", 4}, {"n", 4}});
  for (const char* name : {"v", "n"}) {
    remove(name, 0);
    remove(name, 1);
    commit();
    write(name, 1, noise(600, 10));
    remove(name, 2);
    write(name, 2, noise(600, 11));
    write(name, 3, noise(600, 12));
    remove(name, 3);
    commit();
    write(name, 3, noise(600, 13));
  }
  prove("removal");
}

TEST_F(ZarrCrashTest, SeveralThreads) {
  put("v/.zarray", zarray("[4, 2, 600]", "[1, 1, 600]", "/"));
  put("w/.zarray", zarray("[8, 600]", "[1, 600]", ".", kZlib));
  begin({{"v", 8}, {"w", 8}});
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 8; ++i) {
        write("v", 2 * (i % 4) + t, noise(600, 100 * t + i));
        if (i % 3 == 2) remove("w", 2 * (i % 4) + t);
        write("w", 2 * (i % 4) + t, noise(600, 200 * t + i));
      }
    });
  for (int i = 0; i < 3; ++i) {
    commit();
    std::this_thread::yield();
  }
  for (auto& thread : threads) thread.join();
  commit();
  prove("several threads");
}

class ZarrShardCrashTest : public ZarrCrashTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(ZarrShardCrashTest, WritingAndRemoval) {
  make_sharded(GetParam());
  begin({{"v", 16}});
  for (uint64_t number = 0; number < 16; ++number) {
    write("v", number * 5 % 16, noise(700, unsigned(number)));
    if (number % 5 == 4) commit();
  }
  commit();
  for (uint64_t number = 0; number < 16; number += 3) write("v", number, noise(700, 100 + unsigned(number)));
  remove("v", 5);
  commit();
  for (const uint64_t number : {0U, 1U, 4U, 5U}) remove("v", number);  // all of a shard
  commit();
  write("v", 4, noise(700, 300));
  prove("shards");
}

INSTANTIATE_TEST_SUITE_P(Index, ZarrShardCrashTest,
                         ::testing::Values("", R"(, "index_location": "start", "index_codecs": ["bytes"])",
                                           R"(}}, {"name": "crc32c", "configuration": {)"));

TEST_F(ZarrCrashTest, WholeShards) {
  make_sharded("");
  constexpr unsigned kInFirst[] = {0, 1, 4, 5};  // the chunks of the first shard
  begin({{"v", 16}});
  for (unsigned number = 0; number < 16; ++number) write("v", number, noise(700, number));
  commit();
  const std::string first = get("v/c/0/0");
  for (const unsigned number : kInFirst) write("v", number, noise(700, 100 + number));
  commit();
  const auto change = [&](bool is_removed) {
    const auto mark = [&](bool is_done) {
      for (const unsigned number : kInFirst)
        io_.mark(Changed{"v", number, is_removed ? Chunk() : noise(700, number), is_done});
    };
    mark(false);
    const ObjectId id = objects_.at("v");
    const auto done =
        is_removed ? source_->remove_shard(id, 0) : source_->write_shard(id, 0, std::as_bytes(std::span(first)));
    EXPECT_TRUE(done) << done.error().reason;
    mark(true);
  };
  write("v", 4, noise(700, 200));  // is held, and replaced by the shard
  write("v", 2, noise(700, 201));  // in another shard
  change(false);
  commit();
  change(true);
  commit();
  write("v", 5, noise(700, 202));
  change(false);
  prove("whole shards");
}

TEST_F(ZarrCrashTest, ShardsOfSeveralThreads) {
  make_sharded("");
  begin({{"v", 16}});
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 12; ++i) {
        write("v", 2 * (i % 8) + t, noise(700, 100 * t + i));
        if (i % 5 == 4) remove("v", 2 * (i % 8) + t);
      }
    });
  for (int i = 0; i < 4; ++i) {
    commit();
    std::this_thread::yield();
  }
  for (auto& thread : threads) thread.join();
  commit();
  prove("shards of several threads");
}

TEST_F(ZarrCrashTest, WithoutItsSyncsTheProofWouldFail) {
  put("v/.zarray", zarray("[3, 2, 700]", "[1, 1, 700]", "/", kZlib));
  begin({{"v", 6}});
  for (uint64_t number = 0; number < 6; ++number) {
    write("v", number, noise(700, unsigned(number)));
    if (number % 2 == 1) commit();
  }
  const auto is_temporary = [](const std::string& path) {
    return zarr::is_temporary_name(path.substr(path.rfind('/') + 1));
  };
  const auto without = [&](const std::function<bool(const std::string&)>& left_out) {
    return replay([&](const Event& event) {
             const auto* synced = std::get_if<Synced>(&event);
             return synced != nullptr && left_out(synced->path);
           })
        .bad_points;
  };
  EXPECT_EQ(without([](const std::string&) { return false; }), 0U);
  EXPECT_GT(without(is_temporary), 0U) << "files";
  EXPECT_GT(without([&](const std::string& path) { return path == "v"; }), 0U) << "the array's directory";
  EXPECT_GT(without([&](const std::string& path) { return path != "v" && !is_temporary(path); }), 0U) << "other files";
}

}  // namespace
}  // namespace codecfs
