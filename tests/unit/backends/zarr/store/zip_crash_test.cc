// Crash tests of writing to Zarr archives. A scenario runs once and every call that changes a file is recorded. For
// every prefix of the record, the directory of the archive is rebuilt as a kill or a power failure can leave it, and
// the archive is opened: it must have the content of the last commit that returned, or of the running one, and libzip
// must find no error in it. And the same scenario with each call failing in turn.

#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <random>
#include <set>

#include "support/crash_simulator.h"
#include "support/zarr_zip_testing.h"

namespace codecfs {
namespace {

using namespace crash_testing;
using zarr_zip_testing::by_libzip;
using zarr_zip_testing::bytes_of;
using zarr_zip_testing::describe;

/// Never syncs.
class Careless : public Recorder {
 public:
  using Recorder::Recorder;
  Result<> sync(const File&) override { return {}; }
};

std::string noise(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

class ZarrZipCrashTest : public zarr_zip_testing::ZipTest {
 protected:
  struct Commit {
    size_t begun, ended;  // number of operations before them
    std::string state;
  };

  /// Changes of all kinds, with a commit after every few. Errors are passed to `failed`.
  template <class Failed, class Committed>
  static void work(Source& source, Failed failed, Committed committed) {
    const auto check = [&](const auto& done) { failed(done ? nullptr : &done.error()); };
    const ObjectId root = source.root().object;
    check(source.make_group(root, "g"));
    check(source.make_variable(root, "v", variable(3000)));
    committed();
    if (const auto v = source.find(root, "v")) {
      for (unsigned i = 0; i < 4; ++i) check(source.write_chunk(v->object, i, bytes_of(noise(700, i))));
      committed();
      check(source.write_chunk(v->object, 1, bytes_of(noise(700, 11))));
      check(source.remove_chunk(v->object, 2));
      const Attribute attribute = {"title", std::string(700, 't')};
      check(source.set_attributes(root, std::span(&attribute, 1), {}));
      committed();
      Progress progress;
      const FilterStage deflate = {.id = 1, .parameters = {1}, .codec = {}, .name = {}, .optional = {}};
      check(source.set_filters(v->object, std::span(&deflate, 1), progress));
      const std::vector<uint64_t> shape = {1500};
      check(source.resize(v->object, shape));
      committed();
    }
    if (const auto g = source.find(root, "g")) {
      check(source.rename(root, "v", g->object, "w"));
      committed();
      check(source.remove(g->object, "w"));
    }
    check(source.finish());
    committed();
  }

  struct Outcome {
    size_t points = 0;
    size_t bad_points = 0;
    std::string first_fault;
  };

  template <class Io>
  Outcome replay(bool looks_on) {
    std::vector<Commit> commits;
    Io io(folder());
    {
      const auto source = open(archive(), true, io);
      commits.push_back({0, 0, describe(*source)});
      work(
          *source, [](const Error* error) { EXPECT_FALSE(error) << error->reason; },
          [&] {
            const size_t begun = io.operations().size();
            EXPECT_TRUE(source->commit());
            commits.push_back({begun, io.operations().size(), describe(*source)});
          });
      EXPECT_EQ(describe(*open(archive(), false)), commits.back().state);
    }
    Outcome outcome;
    std::set<std::map<std::string, std::vector<std::byte>>> seen;
    const auto check = [&](size_t count, const Crash& crash) {
      ++outcome.points;
      const Disk disk = io.after_crash(count, crash);
      place(disk, folder());
      // finish() commits within work(), before its mark.
      std::set<std::string> allowed;
      size_t last = 0;
      for (size_t i = 0; i < commits.size(); ++i)
        if (commits[i].ended <= count) last = i;
      for (size_t i = last; i < std::min(last + 2, commits.size()); ++i) allowed.insert(commits[i].state);
      const auto source = open_zarr_zip(archive(), false);
      const std::string state = source ? describe(**source) : source.error().reason;
      if (allowed.contains(state)) {
        if (looks_on) by_libzip(archive());
        return;
      }
      ++outcome.bad_points;
      if (outcome.first_fault.empty())
        outcome.first_fault = fmt::format("after {} operations:\n{}\nwas:\n{}", count, state, *allowed.begin());
    };
    using Fate = Crash::Fate;
    for (size_t count = 0; count <= io.operations().size(); ++count) {
      check(count, {});
      for (const Fate unsynced : {Fate::kept, Fate::dropped})
        for (const Fate names : {Fate::kept, Fate::dropped}) check(count, {.unsynced = unsynced, .names = names});
      for (unsigned seed = 0; seed < 8; ++seed)
        check(count, {.unsynced = Fate::torn, .names = Fate::torn, .seed = seed});
    }
    std::cout << "crash points: " << outcome.points << " (" << io.operations().size() << " operations)\n";
    return outcome;
  }
};

TEST_F(ZarrZipCrashTest, EveryPointOfAScenario) {
  const Outcome outcome = replay<Recorder>(true);
  EXPECT_EQ(outcome.bad_points, 0U) << outcome.first_fault;
  // The next program that writes removes leftovers.
  std::ofstream(folder() / ".a.zip.codecfs-4711-5") << "half of it";
  {
    const auto source = open(archive(), true);
    EXPECT_TRUE(source->make_group(source->root().object, "next"));
    EXPECT_TRUE(source->finish());
  }
  EXPECT_EQ(names(), std::set<std::string>{"a.zip"});
}

TEST_F(ZarrZipCrashTest, WithoutSyncsItWouldBeFound) { EXPECT_GT(replay<Careless>(false).bad_points, 0U); }

TEST_F(ZarrZipCrashTest, EveryCallFailsInTurn) {
  size_t operations = 1;
  for (const bool lasting : {false, true}) {
    for (const int code : {ENOSPC, EIO}) {
      for (size_t at = 0; at < operations; ++at) {
        std::filesystem::remove(archive());
        ASSERT_TRUE(create_zarr_zip(archive()));
        FaultyIo io(at, code, lasting);
        std::set<std::string> committed;
        size_t failures = 0;
        {
          const auto source = open(archive(), true, io);
          committed.insert(describe(*source));
          work(
              *source,
              [&](const Error* error) {
                if (!error) return;
                ++failures;
                EXPECT_TRUE(error->code == code || error->code == ENOENT) << error->reason;
              },
              [&] {
                const std::string state = describe(*source);
                committed.insert(state);  // also if the error occurred after the new archive was in place
                if (const auto done = source->commit(); !done) {
                  ++failures;
                  EXPECT_EQ(done.error().code, code) << done.error().reason;
                }
                EXPECT_EQ(describe(*source), state) << "a failed commit changes nothing for readers";
                EXPECT_TRUE(committed.contains(describe(*open(archive(), false))));
              });
          const auto last = source->commit();
          if (!lasting) {
            EXPECT_TRUE(last) << last.error().reason;
            EXPECT_EQ(describe(*open(archive(), false)), describe(*source)) << at;
          }
          if (io.operations() > at && !io.has_failed_after_exchange()) {
            EXPECT_GT(failures, 0U) << "operation " << at << " failed in silence";
          }
          operations = lasting ? operations : std::max(operations, std::min<size_t>(io.operations(), at + 2));
        }
        by_libzip(archive());
        EXPECT_TRUE(committed.contains(describe(*open(archive(), false))));
        for (const std::string& name : names())
          if (name != "a.zip") std::filesystem::remove(folder() / name);
      }
    }
  }
  EXPECT_GT(operations, 30U);
}

}  // namespace
}  // namespace codecfs
