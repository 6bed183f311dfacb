// After a kill or a power failure at any operation of a scenario, recovery gives the content of a commit that is not
// older than the last one that returned and not newer than the last one that was tried. All points are tested, not
// samples; crash_simulator.h describes the states after a power failure. Also: each operation of a scenario fails once,
// or all operations from it on.

#include <functional>
#include <iostream>

#include "backends/hdf5/wal/write_log.h"
#include "backends/hdf5/wal/write_log_search.h"
#include "support/crash_simulator.h"
#include "support/write_log_testing.h"

namespace codecfs {
namespace {

using namespace crash_testing;
using namespace write_log_testing;
using hdf5::LoggedFile;

/// A state that a commit tried to make durable.
struct Commit {
  Content content;
  size_t tried_at;     // number of operations before it
  size_t returned_at;  // number of operations when it had succeeded; SIZE_MAX: it failed
};

/// Changes the file and a model in memory in parallel, and compares them.
class Work {
 public:
  Work(const std::filesystem::path& source, FileIo& io, std::function<size_t()> operations, bool faults)
      : operations_(std::move(operations)), faults_(faults), model_(content_of(source)) {
    auto file = LoggedFile::open(source, io);
    if (!file) throw std::runtime_error(file.error().reason);
    file_ = std::move(*file);
    commits_.push_back({model_, 0, 0});
  }

  void begin() { good(file_->begin_writing()); }
  void write(uint64_t offset, size_t size) {
    const Content bytes = noise(size, ++seed_);
    if (!good(file_->reserve(size, size))) return;
    if (good(file_->write(offset, bytes))) overwrite(model_, offset, bytes);
    compare();
  }
  void set_size(uint64_t size) {
    if (good(file_->set_size(size))) model_.resize(size);
    compare();
  }
  void commit() {
    if (!file_->writing() && !good(file_->begin_writing())) return;
    commits_.push_back({model_, operations_(), SIZE_MAX});
    if (good(file_->commit())) commits_.back().returned_at = operations_();
    compare();
  }
  void checkpoint() {
    good(file_->checkpoint());
    compare();
  }
  void finish() {
    // finish() may fail before or after it has dropped uncommitted writes; if writing has ended, it has dropped them.
    if (good(file_->finish()) || !file_->writing() || shown_by(*file_) != model_) model_ = promised();
    compare();
  }

  [[nodiscard]] const std::vector<Commit>& commits() const { return commits_; }
  [[nodiscard]] const Content& promised() const {
    return std::ranges::find_if(commits_.rbegin(), commits_.rend(),
                                [](const Commit& commit) { return commit.returned_at != SIZE_MAX; })
        ->content;
  }

 private:
  bool good(const Result<>& result) {
    EXPECT_TRUE(result || (faults_ && !result.error().reason.empty())) << result.error().reason;
    return result.has_value();
  }
  void compare() { EXPECT_TRUE(shown_by(*file_) == model_); }

  const std::function<size_t()> operations_;
  const bool faults_;
  Content model_;
  std::unique_ptr<LoggedFile> file_;
  std::vector<Commit> commits_;
  unsigned seed_ = 100;
};

struct Scenario {
  const char* name;
  std::function<void(Work&)> run;
};
std::ostream& operator<<(std::ostream& stream, const Scenario& scenario) { return stream << scenario.name; }

const Scenario kScenarios[] = {
    {"overwrite_in_place",
     [](Work& work) {
       work.begin();
       work.write(0, 700);
       work.write(5000, 1500);
       work.commit();
       work.write(5100, 300);
       work.commit();
       work.write(9000, 1000);  // never committed
       work.finish();
     }},
    {"growth",
     [](Work& work) {
       work.begin();
       work.write(10'000, 3000);
       work.set_size(14'000);
       work.commit();
       work.write(20'000, 100);  // a hole before it
       work.commit();
       work.checkpoint();
       work.write(20'050, 2000);
       work.commit();
       work.finish();
     }},
    {"shrink_and_grow_again",
     [](Work& work) {
       work.begin();
       work.write(6000, 1000);
       work.commit();
       work.set_size(3001);
       work.commit();
       work.set_size(9000);
       work.write(5000, 100);
       work.commit();
       work.checkpoint();
       work.set_size(100);
       work.commit();
       work.finish();
     }},
    {"many_small_writes",
     [](Work& work) {
       work.begin();
       for (int i = 0; i < 24; ++i) {
         work.write(static_cast<uint64_t>(i) * 739 % 9900, 1 + static_cast<size_t>(i) * 37 % 200);
         if (i % 7 == 6) work.commit();
       }
       work.finish();
     }},
    {"commits_and_checkpoints",
     [](Work& work) {
       work.begin();
       for (int round = 0; round < 4; ++round) {
         const auto shift = static_cast<uint64_t>(round) * 100;
         work.write(100 + shift, 600);
         work.commit();
         work.write(400 + shift, 600);
         work.write(12'000 - shift, 10);
         work.commit();
         if (round != 2) work.checkpoint();
       }
       work.finish();
     }},
    {"buffered",
     [](Work& work) {
       work.write(10, 100);
       work.set_size(8000);
       work.write(50, 100);
       work.set_size(9000);
       work.write(8500, 10);
       work.begin();
       work.write(0, 20);
       work.commit();
       work.finish();
       work.write(3, 3);
       work.begin();
       work.commit();
     }},
    {"large_frames",
     [](Work& work) {
       work.begin();
       work.write(100, 70'000);
       work.commit();
       work.checkpoint();
       work.write(0, 80'000);
       work.commit();
     }},
};

class WriteLogCrash : public LoggedSource, public testing::WithParamInterface<Scenario> {
 protected:
  /// What happens to the files between the crash and the recovery.
  enum class Fate { none, copied, moved, moved_without_mark };
  static constexpr Fate kFates[] = {Fate::none, Fate::copied, Fate::moved, Fate::moved_without_mark};

  /// Applies the fate and returns the path of the source.
  std::filesystem::path suffer(Fate fate) {
    const auto moved = directory_ / "moved.h5";
    if (fate == Fate::none) return source_;
    if (fate == Fate::copied) {
      for (const auto& path : {source_, log_}) {
        if (!std::filesystem::exists(path)) continue;
        const UniqueFd old(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        struct stat status;
        EXPECT_EQ(::fstat(old.get(), &status), 0);
        const Disk disk{.files = {{1, {content_of(path), status.st_mtim, attributes_of(old.get())}}},
                        .names = {{path.filename().string(), 1}}};
        const auto other = directory_.string() + "-copy";
        std::filesystem::create_directory(other);
        place(disk, other);
        std::filesystem::remove(path);
        std::filesystem::rename(std::filesystem::path(other) / path.filename(), path);
        std::filesystem::remove(other);
      }
      return source_;
    }
    if (fate == Fate::moved_without_mark) ::removexattr(source_.c_str(), hdf5::kLogMark);
    std::filesystem::rename(source_, moved);
    return moved;
  }

  /// Recovers the directory and checks it. Returns the recovered bytes.
  Content recover(FileIo& io, const std::vector<const Content*>& allowed, const std::filesystem::path& source) {
    Content shown;
    bool pending = false;
    {
      const auto file = LoggedFile::open(source);
      EXPECT_TRUE(file) << file.error().reason;
      if (!file) return {};
      EXPECT_FALSE((*file)->missing_log()) << (*file)->missing_log()->reason;
      shown = shown_by(**file);
      pending = (*file)->found().pending;
    }
    const auto recovered = hdf5::recover_log(source, io);
    EXPECT_TRUE(recovered) << recovered.error().reason;
    Content content = content_of(source);
    EXPECT_TRUE(content == shown) << "a reader saw something else before the recovery";
    EXPECT_TRUE(std::ranges::any_of(allowed, [&](const Content* one) { return *one == content; }));
    // A log without a commit is not known to belong to a file of another name.
    EXPECT_TRUE((!pending && source != source_) || !std::filesystem::exists(log_));
    EXPECT_LT(::getxattr(source.c_str(), hdf5::kLogMark, nullptr, 0), 0);
    const auto again = hdf5::recover_log(source, io);
    EXPECT_TRUE(again && !again->pending);
    EXPECT_TRUE(content_of(source) == content);
    return content;
  }
};

std::vector<Crash> all_crashes() {
  using Fate = Crash::Fate;
  std::vector<Crash> crashes = {{.unsynced = Fate::kept, .names = Fate::kept},
                                {.unsynced = Fate::dropped, .names = Fate::dropped},
                                {.unsynced = Fate::dropped, .names = Fate::kept},
                                {.unsynced = Fate::kept, .names = Fate::dropped}};
  for (unsigned seed = 1; seed <= 3; ++seed) {
    for (const Fate names : {Fate::kept, Fate::dropped, Fate::torn}) {
      crashes.push_back({.unsynced = Fate::torn, .names = names, .seed = seed});
    }
  }
  return crashes;
}

TEST_P(WriteLogCrash, EveryPointRecoversToACommit) {
  constexpr size_t kSampled = 47;  // one of this many recoveries is interrupted at each of its operations
  Recorder recorder(directory_);
  std::vector<Commit> commits;
  {
    Work work(source_, recorder, [&] { return recorder.operations().size(); }, false);
    GetParam().run(work);
    commits = work.commits();
  }
  ASSERT_GT(commits.size(), 1U);

  UnsyncedIo io;
  size_t points = 0;
  size_t points_in_recovery = 0;
  for (size_t count = 0; count <= recorder.operations().size(); ++count) {
    std::vector<const Content*> allowed;
    for (const Commit& commit : commits) {
      if (commit.returned_at <= count) allowed.clear();
      if (commit.returned_at <= count || commit.tried_at < count) allowed.push_back(&commit.content);
    }
    for (const Crash& crash : all_crashes()) {
      const testing::ScopedTrace trace(
          __FILE__, __LINE__,
          fmt::format("after {} operations, unsynced {}, names {}, seed {}", count, static_cast<int>(crash.unsynced),
                      static_cast<int>(crash.names), crash.seed));
      const Disk disk = recorder.after_crash(count, crash);
      const Fate fate = kFates[points % std::size(kFates)];
      place(disk, directory_);
      const Content content = recover(io, allowed, suffer(fate));
      if (++points % kSampled == 0) {
        place(disk, directory_);
        const auto source = suffer(fate);
        Recorder recovery(directory_);
        ASSERT_TRUE(hdf5::recover_log(source, recovery));
        for (size_t part = 0; part <= recovery.operations().size(); ++part) {
          for (const Crash& second : all_crashes()) {
            place(recovery.after_crash(part, second), directory_);
            recover(io, {&content}, source);
            ++points_in_recovery;
          }
        }
      }
      if (HasFailure()) return;  // report only the first failure
    }
  }
  RecordProperty("crash_points", static_cast<int>(points));
  RecordProperty("crash_points_in_recovery", static_cast<int>(points_in_recovery));
  std::cout << GetParam().name << ": " << recorder.operations().size() << " operations, " << points
            << " crash points and " << points_in_recovery << " within recoveries" << std::endl;
}

TEST_P(WriteLogCrash, EveryOperationMayFail) {
  size_t runs = 0;
  for (const bool lasting : {false, true}) {
    for (const int code : {ENOSPC, EDQUOT, EFBIG, EIO}) {
      for (size_t at = 0;; ++at) {
        const testing::ScopedTrace trace(__FILE__, __LINE__,
                                         fmt::format("operation {} fails with {}, lasting {}", at, code, lasting));
        std::filesystem::remove(log_);
        std::filesystem::remove(source_);
        store(source_, before_);
        FaultyIo io(at, code, lasting);
        std::vector<Commit> commits;
        {
          Work work(source_, io, [&] { return io.operations(); }, true);
          GetParam().run(work);
          commits = work.commits();
        }
        ++runs;
        std::vector<const Content*> allowed;
        for (const Commit& commit : commits) {
          if (commit.returned_at != SIZE_MAX) allowed.clear();
          allowed.push_back(&commit.content);
        }
        UnsyncedIo good;
        recover(good, allowed, source_);
        if (HasFailure()) return;
        if (io.operations() <= at) break;  // no operation failed: there are no more
      }
    }
  }
  std::cout << GetParam().name << ": " << runs << " runs with a fault" << std::endl;
}

TEST_P(WriteLogCrash, EveryOperationOfARecoveryMayFail) {
  Recorder recorder(directory_);
  {
    Work work(source_, recorder, [&] { return recorder.operations().size(); }, false);
    GetParam().run(work);
  }
  size_t runs = 0;
  size_t refused = 0;
  UnsyncedIo good;
  for (size_t count = 0; count <= recorder.operations().size(); count += 1 + count % 3) {
    const Disk disk = recorder.after_crash(count, {});
    for (const bool lasting : {false, true}) {
      for (const int code : {ENOSPC, EDQUOT, EFBIG, EIO}) {
        for (size_t at = 0;; ++at) {
          const testing::ScopedTrace trace(
              __FILE__, __LINE__,
              fmt::format("after {} operations, {} of the recovery fails with {}, lasting {}", count, at, code,
                          lasting));
          place(disk, directory_);
          const Content shown = shown_by(**LoggedFile::open(source_));
          FaultyIo io(at, code, lasting);
          if (!hdf5::recover_log(source_, io)) ++refused;
          ++runs;
          recover(good, {&shown}, source_);
          if (HasFailure()) return;
          if (io.operations() <= at) break;
        }
      }
    }
  }
  EXPECT_GT(refused, 0U);
  std::cout << GetParam().name << ": " << runs << " recoveries with a fault, " << refused << " of them failed"
            << std::endl;
}

INSTANTIATE_TEST_SUITE_P(All, WriteLogCrash, testing::ValuesIn(kScenarios),
                         [](const auto& scenario) { return std::string(scenario.param.name); });

}  // namespace
}  // namespace codecfs
