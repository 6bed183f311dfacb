// Crash tests of writing to HDF5 files through libhdf5. A scenario writes chunks through a Source and commits in
// between; every operation on a file is recorded. For every prefix of the record, and every state that a kill or a
// power failure may leave (crash_simulator.h), the log is recovered and libhdf5 reads the whole file with its own
// driver. The content must be that of a commit: not older than the last one that returned, and not newer than the last
// one that was tried. Recoveries are also interrupted at each of their operations.
//
// Two mutants show that the tests can fail: one does not sync, the other does not recover.

#include <algorithm>
#include <array>
#include <climits>
#include <functional>
#include <iostream>
#include <tuple>
#include <unordered_map>

#include "base/log.h"
#include "support/hdf5_crash_testing.h"
#include "support/write_log_testing.h"

namespace codecfs {
namespace {

using namespace crash_testing;
using namespace hdf5_crash_testing;
using write_log_testing::content_of;

// Scenarios ---------------------------------------------------------------------------------------------------------

using Start = Layout::Start;

// One dataset for each index of the newest format (single chunk, implicit, fixed array, extensible array, B-tree v2);
// in the older ones all have a B-tree v1.
void add_one_of_each_index(const Handle& file, Start start) {
  add(file, "single",
      {.rows = 20, .columns = 20, .chunk_rows = 20, .chunk_columns = 20, .deflate = true, .start = start});
  add(file, "fixed", {.rows = 40, .columns = 40, .chunk_rows = 10, .chunk_columns = 10, .start = start});
  add(file, "checked",
      {.rows = 37,
       .columns = 33,
       .chunk_rows = 10,
       .chunk_columns = 10,
       .deflate = true,
       .checked = true,
       .start = start});
  add(file, "extensible",
      {.rows = 60,
       .columns = 10,
       .chunk_rows = 5,
       .chunk_columns = 10,
       .deflate = true,
       .unlimited = 1,
       .start = start});
  add(file, "wide",
      {.rows = 30,
       .columns = 30,
       .chunk_rows = 5,
       .chunk_columns = 10,
       .deflate = true,
       .unlimited = 2,
       .start = start});
}

constexpr const char* kOneOfEachIndex[] = {"single", "fixed", "checked", "extensible", "wide"};

struct Scenario {
  const char* name;
  std::function<void(const Handle&)> make;
  std::function<void(Work&)> run;
};
std::ostream& operator<<(std::ostream& stream, const Scenario& scenario) { return stream << scenario.name; }

const Scenario kScenarios[] = {
    {"overwriting_in_place",
     [](const Handle& file) {
       add_one_of_each_index(file, Start::noise);
       add(file, "contiguous", {.rows = 30, .columns = 30, .start = Start::noise});
     },
     [](Work& work) {
       for (uint64_t round = 0; round < 3; ++round) {
         for (const char* name : kOneOfEachIndex)
           for (uint64_t i = 0; i < 3; ++i) work.write_noise(name, (round + i * 2) % work.chunks(name));
         work.write_noise("contiguous", 0);
         work.commit();
       }
       work.write_noise("fixed", 3);  // never committed
     }},
    {"growing_chunks", [](const Handle& file) { add_one_of_each_index(file, Start::flat); },
     [](Work& work) {
       for (const bool grow : {true, false, true}) {
         for (const char* name : kOneOfEachIndex) {
           for (uint64_t number = 0; number < std::min<uint64_t>(work.chunks(name), 6); ++number)
             grow ? work.write_noise(name, number) : work.write_flat(name, number);
         }
         work.commit();
       }
       work.write_flat("wide", 0);
       work.finish();
     }},
    {"new_chunks",
     [](const Handle& file) {
       add_one_of_each_index(file, Start::absent);
       add(file, "many",
           {.rows = 100, .columns = 20, .chunk_rows = 1, .chunk_columns = 20, .deflate = true, .unlimited = 1});
       add(file, "late", {.rows = 20, .columns = 30});  // contiguous
     },
     [](Work& work) {
       for (const char* name : kOneOfEachIndex) {
         for (uint64_t i = 0; i < work.chunks(name); ++i) work.write_noise(name, (i * 7) % work.chunks(name));
         work.commit();
       }
       work.write_noise("late", 0);
       for (uint64_t i = 0; i < 90; ++i) {  // splits nodes of its index
         work.write_flat("many", i * 37 % 100);
         if (i % 30 == 29) work.commit();
       }
       work.finish();
     }},
    {"many_small_variables",
     [](const Handle& file) {
       for (int i = 0; i < 48; ++i) {
         Layout layout{.rows = 3, .columns = 4, .start = i % 2 == 0 ? Start::noise : Start::absent};
         if (i % 3 == 0) layout.chunk_rows = 2, layout.chunk_columns = 4, layout.deflate = i % 6 == 0;
         if (i % 3 == 1) layout.compact = true;
         add(file, fmt::format("v{}", i), layout);
       }
     },
     [](Work& work) {
       for (int round = 0; round < 3; ++round) {
         for (int i = 0; i < 48; ++i) {
           work.write_noise(fmt::format("v{}", i), 0);
           if (i % 16 == 15) work.commit();
         }
       }
       work.finish();
     }},
    {"partial_writes",
     [](const Handle& file) {
       add_one_of_each_index(file, Start::noise);
       add(file, "contiguous", {.rows = 50, .columns = 50, .start = Start::noise});
       add(file, "compact", {.rows = 5, .columns = 5, .start = Start::noise, .compact = true});
       add(file, "sparse", {.rows = 50, .columns = 50, .chunk_rows = 20, .chunk_columns = 20, .checked = true});
       add_text(file, "text", {"one", "two", ""});
     },
     [](Work& work) {
       for (size_t round = 0; round < 4; ++round) {
         for (const char* name : {"single", "fixed", "checked", "extensible", "wide", "contiguous", "sparse"}) {
           work.change(name, (round + 2) % work.chunks(name), round * 10, 3);
           work.change(name, (round * 5) % work.chunks(name), 7, 30);
         }
         work.change("compact", 0, round, 2);
         work.write_texts("text", {"a", std::string(100 * round, 'b'), fmt::format("round {}", round)});
         work.commit();
       }
       work.change("contiguous", 0, 2400, 50);
       work.finish();
     }},
    {"removed_chunks", [](const Handle& file) { add_one_of_each_index(file, Start::noise); },
     [](Work& work) {
       for (const char* name : kOneOfEachIndex) {
         for (uint64_t i = 0; i < std::min<uint64_t>(work.chunks(name), 5); ++i) work.remove(name, i);
         work.commit();
         work.write_noise(name, 0);
       }
       work.commit();
       work.remove("checked", 0);
       work.finish();
     }},
    {"reencoded",
     [](const Handle& file) {
       add_one_of_each_index(file, Start::absent);
       add(file, "contiguous", {.rows = 20, .columns = 20, .start = Start::noise});
       add(file, "compact", {.rows = 5, .columns = 5, .start = Start::noise, .compact = true});
       add_text(file, "text", {"one", "two", ""});
     },
     [](Work& work) {
       for (const char* name : kOneOfEachIndex)
         for (uint64_t i = 0; i < std::min<uint64_t>(work.chunks(name), 2); ++i) work.write_noise(name, i);
       work.commit();
       work.write_noise("wide", 3);  // committed by the next
       work.recode("wide", {{H5Z_FILTER_FLETCHER32, {}}});
       work.write_flat("wide", 5);
       work.write_noise("fixed", 2);
       work.commit();
       for (const char* name : {"single", "extensible", "contiguous", "compact", "text"}) {
         work.recode(name, {{H5Z_FILTER_SHUFFLE, {}}, {H5Z_FILTER_DEFLATE, {9}}});
         work.write_noise("checked", 1);
       }
       work.write_texts("text", {"four", std::string(300, 'b'), ""});
       work.write_flat("contiguous", 0);
       work.recode("checked", {});
       work.write_noise("checked", 0);
       work.finish();
       work.reopen();
       work.recode("contiguous", {{H5Z_FILTER_FLETCHER32, {}}, {H5Z_FILTER_SZIP, {H5_SZIP_NN_OPTION_MASK, 8}}});
     }},
    // Every operation of a checkpoint is a crash point; here there are several checkpoints, of large and of small logs.
    {"checkpoint_cut_short",
     [](const Handle& file) {
       add_one_of_each_index(file, Start::flat);
       add(file, "large", {.rows = 100, .columns = 100, .chunk_rows = 50, .chunk_columns = 100, .unlimited = 1});
     },
     [](Work& work) {
       for (int round = 0; round < 3; ++round) {
         for (const char* name : kOneOfEachIndex)
           for (uint64_t i = 0; i < work.chunks(name); i += 2) work.write_noise(name, i);
         work.write_noise("large", round == 1 ? 1 : 0);
         work.commit();
         work.write_flat("wide", 1);
         work.finish();
         work.reopen();
       }
       work.write_flat("checked", 0);
       work.finish();
     }},
    {"killed_and_continued", [](const Handle& file) { add_one_of_each_index(file, Start::flat); },
     [](Work& work) {
       for (int round = 0; round < 3; ++round) {
         for (const char* name : kOneOfEachIndex) work.write_noise(name, 0);
         work.commit();
         for (const char* name : kOneOfEachIndex) work.write_flat(name, work.chunks(name) - 1);
         work.commit();
         work.write_noise("fixed", 5);  // lost
         work.reopen();
       }
       work.write_noise("fixed", 6);
       work.finish();
     }},
};

// The proof ---------------------------------------------------------------------------------------------------------

std::vector<Crash> all_crashes() {
  using Fate = Crash::Fate;
  std::vector<Crash> crashes = {{.unsynced = Fate::kept, .names = Fate::kept},
                                {.unsynced = Fate::dropped, .names = Fate::dropped},
                                {.unsynced = Fate::dropped, .names = Fate::kept},
                                {.unsynced = Fate::kept, .names = Fate::dropped}};
  for (unsigned seed = 1; seed <= 2; ++seed)
    for (const Fate names : {Fate::kept, Fate::dropped, Fate::torn})
      crashes.push_back({.unsynced = Fate::torn, .names = names, .seed = seed});
  return crashes;
}

uint64_t hash_of(const std::vector<std::byte>& bytes) {
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

uint64_t hash_of(const Disk& disk) {
  std::string text;
  for (const auto& [name, number] : disk.names) {
    const FileState& file = disk.files.at(number);
    text += fmt::format("{} {:x} {} {} {};", name, hash_of(file.content), file.content.size(), file.mtime.tv_sec,
                        file.mtime.tv_nsec);
    for (const auto& [attribute, value] : file.attributes) text += attribute + "=" + value + ";";
  }
  return std::hash<std::string>{}(text);
}

/// The outcome for a state of the directory.
struct Finding {
  std::string problem;          // empty: none
  std::vector<size_t> commits;  // whose content it has
};

using Superblock = unsigned;
// Superblock 3, and all else in the newest forms of libhdf5. What is written to kLatest has these, too, as `convert
// --libver latest` writes it, to kLatestMounted what libhdf5 chooses.
constexpr Superblock kLatest = UINT_MAX;
constexpr Superblock kLatestMounted = UINT_MAX - 1;
#if H5_VERSION_GE(1, 12, 0)
constexpr std::array<Superblock, 5> kSuperblocks{0, 2, 3, kLatest, kLatestMounted};
#else
constexpr std::array<Superblock, 3> kSuperblocks{0, 2, 3};  // whose newest forms are those of superblock 3
#endif

class Hdf5Crash : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "codecfs-hdf5-crash-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = std::filesystem::canonical(name);
    source_ = directory_ / "data.h5";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void make(const Scenario& scenario, Superblock superblock) {
    const Handle access(H5Pcreate(H5P_FILE_ACCESS));
    const H5F_libver_t lowest = superblock == 0   ? H5F_LIBVER_EARLIEST
                                : superblock == 2 ? H5F_LIBVER_V18
                                : superblock == 3 ? H5F_LIBVER_V110
                                                  : H5F_LIBVER_LATEST;
    ASSERT_GE(H5Pset_libver_bounds(access.get(), lowest, superblock == 2 ? H5F_LIBVER_V18 : H5F_LIBVER_LATEST), 0);
    {
      const Handle file(H5Fcreate(source_.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access.get()));
      ASSERT_TRUE(file);
      scenario.make(file);
    }
    ASSERT_EQ(std::to_integer<Superblock>(content_of(source_).at(8)), std::min(superblock, Superblock{3}));
    is_latest_ = superblock == kLatest;
  }

  void run(const Scenario& scenario, Recorder& recorder, Work::Sealing sealing = Work::Sealing::none) {
    Work work(source_, recorder, sealing, is_latest_);
    scenario.run(work);
    commits_ = work.commits();
  }

  /// Recovers and reads the files in the directory.
  Finding examine(FileIo& io, bool recovering = true) {
    if (recovering) {
      const auto recovered = hdf5::recover_log(source_, io);
      if (!recovered) return {"recovery: " + recovered.error().reason, {}};
      if (std::distance(std::filesystem::directory_iterator(directory_), {}) != 1) return {"something is left", {}};
    }
    const auto [known, is_new] = read_.try_emplace(hash_of(content_of(source_)));
    Finding& finding = known->second;
    if (!is_new) return finding;
    try {
      const State state = read_plainly(source_);
      for (size_t i = 0; i < commits_.size(); ++i)
        if (commits_[i].state == state) finding.commits.push_back(i);
      if (finding.commits.empty()) finding.problem = "this is the content of no commit";
    } catch (const std::exception& error) {
      finding.problem = error.what();
    }
    return finding;
  }

  struct Outcome {
    size_t points = 0;
    size_t states = 0;  // number of distinct states
    size_t points_in_recovery = 0;
    std::set<size_t> found;  // commits
    size_t bad_points = 0;
    std::string first_fault;
  };

  Outcome prove(const Recorder& recorder, bool recovering = true) {
    constexpr size_t kSampled = 41;  // one of this many recoveries is interrupted
    Outcome outcome;
    const auto fault = [&](std::string what) {
      if (++outcome.bad_points == 1) outcome.first_fault = std::move(what);
    };
    UnsyncedIo io;
    std::unordered_map<uint64_t, Finding> findings;
    for (size_t count = 0; count <= recorder.operations().size(); ++count) {
      size_t first_durable = 0;  // oldest commit that may be found
      size_t first_after_kill = 0;
      size_t last = 0;
      for (size_t i = 0; i < commits_.size(); ++i) {
        if (commits_[i].returned_at <= count) first_durable = i;
        if (commits_[i].returned_at <= count || commits_[i].sealed_at <= count) first_after_kill = i;
        if (commits_[i].returned_at <= count || commits_[i].tried_at < count) last = i;
      }
      for (const Crash& crash : all_crashes()) {
        ++outcome.points;
        const bool is_kill = crash.unsynced == Crash::Fate::kept && crash.names == Crash::Fate::kept;
        const size_t first = is_kill ? first_after_kill : first_durable;
        const std::string where =
            fmt::format("after {} operations, unsynced {}, names {}, seed {}", count, static_cast<int>(crash.unsynced),
                        static_cast<int>(crash.names), crash.seed);
        const Disk disk = recorder.after_crash(count, crash);
        const auto [known, is_new] = findings.try_emplace(hash_of(disk));
        Finding& finding = known->second;
        if (is_new) {
          place(disk, directory_);
          finding = examine(io, recovering);
          if (recovering && finding.problem.empty() && ++outcome.states % kSampled == 0) {
            place(disk, directory_);
            cut_recovery_short(finding, where, outcome, fault);
          }
        }
        outcome.found.insert(finding.commits.begin(), finding.commits.end());
        const auto allowed = [&](size_t commit) { return first <= commit && commit <= last; };
        if (!finding.problem.empty()) {
          fault(where + ": " + finding.problem);
        } else if (std::ranges::none_of(finding.commits, allowed)) {
          fault(fmt::format("{}: commit {} and not one of {} to {}", where, finding.commits[0], first, last));
        }
      }
    }
    return outcome;
  }

  template <class Fault>
  void cut_recovery_short(const Finding& wanted, const std::string& where, Outcome& outcome, const Fault& fault) {
    UnsyncedIo io;
    Recorder recovery(directory_);
    if (!hdf5::recover_log(source_, recovery)) return fault(where + ": recovered only the first time");
    std::set<uint64_t> seen;
    for (size_t part = 0; part <= recovery.operations().size(); ++part) {
      for (const Crash& crash : all_crashes()) {
        ++outcome.points_in_recovery;
        const Disk disk = recovery.after_crash(part, crash);
        if (!seen.insert(hash_of(disk)).second) continue;
        place(disk, directory_);
        const Finding finding = examine(io);
        if (finding.commits != wanted.commits)
          fault(fmt::format("{}, {} operations of the recovery: {}", where, part,
                            finding.problem.empty() ? "another commit" : finding.problem));
      }
    }
  }

  std::filesystem::path directory_;
  std::filesystem::path source_;
  bool is_latest_ = false;
  std::vector<Commit> commits_;
  std::unordered_map<uint64_t, Finding> read_;  // by the hash of the file's bytes
};

class Hdf5CrashScenario : public Hdf5Crash, public testing::WithParamInterface<std::tuple<Scenario, Superblock>> {};

TEST_P(Hdf5CrashScenario, EveryPointRecoversToACommit) {
  const auto& [scenario, superblock] = GetParam();
  ASSERT_NO_FATAL_FAILURE(make(scenario, superblock));
  Recorder recorder(directory_);
  run(scenario, recorder);
  if (HasFailure()) return;
  const Outcome outcome = prove(recorder);
  EXPECT_EQ(outcome.bad_points, 0U) << outcome.first_fault;
  // Fewer states would prove too little.
  EXPECT_GE(outcome.states, 150U);
  EXPECT_GE(outcome.points_in_recovery, 500U);
  EXPECT_EQ(outcome.found.size(), commits_.size()) << "a commit was never found";
  std::cout << scenario.name << ", superblock "
            << (superblock >= kLatestMounted ? "3, latest" : std::to_string(superblock)) << ": "
            << recorder.operations().size() << " operations, " << commits_.size() - 1 << " commits, " << outcome.points
            << " crash points, " << outcome.states << " different states, and " << outcome.points_in_recovery
            << " crash points in recoveries" << std::endl;
  RecordProperty("crash_points", static_cast<int>(outcome.points));
  RecordProperty("different_states", static_cast<int>(outcome.states));
  RecordProperty("crash_points_in_recovery", static_cast<int>(outcome.points_in_recovery));
}

// As in a worker: what a call has returned must survive a kill, what was committed a power failure.
class Hdf5SealedCrash : public Hdf5Crash, public testing::WithParamInterface<const char*> {};

TEST_P(Hdf5SealedCrash, EachChangeSurvivesAKill) {
  const auto* const scenario = std::ranges::find(kScenarios, std::string_view(GetParam()), &Scenario::name);
  ASSERT_NE(scenario, std::end(kScenarios));
  ASSERT_NO_FATAL_FAILURE(make(*scenario, 0));
  Recorder recorder(directory_);
  run(*scenario, recorder, Work::Sealing::each_change);
  if (HasFailure()) return;
  const Outcome outcome = prove(recorder);
  EXPECT_EQ(outcome.bad_points, 0U) << outcome.first_fault;
  EXPECT_GE(outcome.states, 100U);
  EXPECT_EQ(outcome.found.size(), commits_.size()) << "a change was never found";
}

INSTANTIATE_TEST_SUITE_P(All, Hdf5SealedCrash,
                         testing::Values("overwriting_in_place", "growing_chunks", "killed_and_continued"),
                         [](const auto& parameter) { return std::string(parameter.param); });

// Without seals, a change that was not committed is lost.
TEST_F(Hdf5Crash, ASourceThatDoesNotSealIsFound) {
  ASSERT_NO_FATAL_FAILURE(make(kScenarios[0], 0));
  Recorder recorder(directory_);
  run(kScenarios[0], recorder, Work::Sealing::only_claimed);
  EXPECT_GT(prove(recorder).bad_points, 0U);
}

INSTANTIATE_TEST_SUITE_P(All, Hdf5CrashScenario,
                         testing::Combine(testing::ValuesIn(kScenarios), testing::ValuesIn(kSuperblocks)),
                         [](const auto& parameters) {
                           const Superblock superblock = std::get<1>(parameters.param);
                           return fmt::format("{}_{}", std::get<0>(parameters.param).name,
                                              superblock == kLatest          ? "latest"
                                              : superblock == kLatestMounted ? "latest_mounted"
                                                                             : std::to_string(superblock));
                         });

/// A mutant: never syncs.
class Unsyncing : public Recorder {
 public:
  using Recorder::Recorder;
  Result<> sync_data(const File&) override { return {}; }
  Result<> sync(const File&) override { return {}; }
};

TEST_F(Hdf5Crash, AWriterThatDoesNotSyncIsCaught) {
  ASSERT_NO_FATAL_FAILURE(make(kScenarios[0], 0));
  Unsyncing recorder(directory_);
  run(kScenarios[0], recorder);
  const Outcome outcome = prove(recorder);
  EXPECT_GT(outcome.bad_points, 0U);
  std::cout << "without syncs: " << outcome.bad_points << " of " << outcome.points
            << " crash points are bad, the first " << outcome.first_fault << std::endl;
}

TEST_F(Hdf5Crash, AWriterThatDoesNotRecoverIsCaught) {
  ASSERT_NO_FATAL_FAILURE(make(kScenarios[1], 0));
  Recorder recorder(directory_);
  run(kScenarios[1], recorder);
  const Outcome outcome = prove(recorder, false);
  EXPECT_GT(outcome.bad_points, 0U);
  std::cout << "without recovery: " << outcome.bad_points << " of " << outcome.points
            << " crash points are bad, the first " << outcome.first_fault << std::endl;
}

// A file that grew in the log of a killed writer is not reported as truncated.
TEST_F(Hdf5Crash, WhatTheLogHoldsIsNotMissing) {
  const Scenario& growing = kScenarios[1];
  ASSERT_NO_FATAL_FAILURE(make(growing, 0));
  const uintmax_t before = std::filesystem::file_size(source_);
  Recorder recorder(directory_);
  {
    Work work(source_, recorder);
    for (uint64_t number = 0; number < 4; ++number) work.write_noise("checked", number);
    work.commit();
  }
  ASSERT_TRUE(open_hdf5(source_));
  EXPECT_EQ(log::recent().find(source_.string() + " is truncated"), std::string::npos);
  ASSERT_TRUE(hdf5::recover_log(source_));
  EXPECT_GT(std::filesystem::file_size(source_), before);
}

}  // namespace
}  // namespace codecfs
