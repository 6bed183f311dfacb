// What the daemon does when the process that checks a file crashes, exits or does not finish. Filter 499 of the test
// files does this to the scout when a chunk is decoded; its parameter selects what.

#include "backends/isolation/scout.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <set>
#include <thread>

#include "backends/hdf5/library/filter_registration.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "base/log.h"
#include "filters/core/filter.h"
#include "support/hdf5_testing.h"

namespace codecfs::hdf5 {
namespace {

constexpr uint32_t kFilter = 499;  // for private use
constexpr hsize_t kChunk = 8;      // bytes

enum Behaviour : uint32_t {
  fine,
  error,
  crash,
  abortion,
  exit_silently,
  endless,
  out_of_memory,
  throwing,
  damaged,
  newer,
  limits
};
constexpr std::array kNames = {"fine",          "error",    "crash",   "abortion", "exit_silently", "endless",
                               "out_of_memory", "throwing", "damaged", "newer",    "limits"};

Result<Buffer> behave(uint32_t behaviour, Buffer in) {
  switch (behaviour) {
    case error: return fail(EIO, "this chunk cannot be decoded");
    case crash: ::raise(SIGSEGV); break;
    case abortion: ::raise(SIGABRT); break;
    case exit_silently: ::_exit(3);
    case endless: {
      const itimerval soon{{0, 0}, {0, 1000}};  // instead of seconds of processor time
      ::setitimer(ITIMER_PROF, &soon, nullptr);
      for (;;) (void)::getppid();
    }
    case out_of_memory: {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // they report it themselves
      exit_out_of_memory();
#else
      static volatile char* const more = new char[2 * kScoutMemory];
      more[0] = 'x';
      return fail(EIO, "memory is not limited");
#endif
    }
    case throwing: throw std::bad_alloc();
    case damaged: exit_damaged("wrong checksum");
    case newer: exit_damaged("unknown version 9 of a message");
    case limits: {
      rlimit memory{};
      ::getrlimit(RLIMIT_AS, &memory);
      itimerval time{};
      ::getitimer(ITIMER_PROF, &time);
      const std::array<uint32_t, 2> values = {static_cast<uint32_t>(memory.rlim_cur >> 20),
                                              static_cast<uint32_t>(time.it_value.tv_sec + 1)};
      return Buffer::copy_of(std::as_bytes(std::span(values)));
    }
    default: break;
  }
  return in;
}

// Before main(), because the fork server has a copy of the registered filters.
const bool is_registered = [] {
  filters::Filter filter{.id = kFilter, .name = "test_behaviour"};
  filter.make_coder = [](const filters::StageContext& context) -> Result<filters::Coder> {
    const uint32_t behaviour = context.stage.parameters.empty() ? fine : context.stage.parameters[0];
    const auto decode = [=](Buffer in, const filters::SizeBound&) { return behave(behaviour, std::move(in)); };
    return filters::Coder{.decode = decode, .encode = [](Bytes in) { return Buffer::copy_of(in); }};
  };
  return filters::register_filter(std::move(filter)).has_value();
}();

class ScoutTest : public hdf5_testing::Hdf5Files {
 protected:
  void SetUp() override {
    ASSERT_TRUE(is_registered);
    const Handle file = create();
    for (uint32_t behaviour = 0; behaviour < kNames.size(); ++behaviour) {
      const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
      H5Pset_chunk(properties.get(), 1, &kChunk);
      const FilterStage stage{.id = kFilter, .parameters = {behaviour}, .codec = {}, .name = {}};
      ASSERT_TRUE(add_filters(properties.get(), std::array{stage}));
      const Handle dataset =
          hdf5_testing::make_dataset(file, kNames[behaviour], H5T_STD_U8LE, {kCount * kChunk}, properties.get());
      for (hsize_t number = 0; number < kCount; ++number) {
        const hsize_t start = number * kChunk;
        const std::string text = fmt::format("chunk{:3}", number);
        ASSERT_GE(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, 0, &start, text.size(), text.data()), 0);
      }
      ObjectInfo info;
      ASSERT_TRUE(object_info(dataset.get(), info));
      addresses_.push_back(info.address);
    }
  }
  void start() {
    auto started = Scout::start(path(), false);
    ASSERT_TRUE(started) << started.error().reason;
    scout_ = *std::move(started);
    scout_->set_context({.following = {}, .name = [this](uint64_t address) { return name_of(address); }});
  }
  std::string name_of(uint64_t address) const {
    const auto found = std::ranges::find(addresses_, address);
    return found == addresses_.end() ? "" : std::string("/") + kNames[static_cast<size_t>(found - addresses_.begin())];
  }
  /// The decoded chunk, or the reason of the error, with its code unless that is EIO.
  std::string chunk(Behaviour of, uint64_t number = 0) {
    const Result<std::optional<Buffer>> got = scout_->chunk(addresses_[of], number, kNames[of], kChunk);
    if (!got)
      return got.error().code == EIO ? got.error().reason : fmt::format("{}: {}", got.error().code, got.error().reason);
    if (!*got) return "nothing";
    return {reinterpret_cast<const char*>((*got)->data()), (*got)->size()};
  }
  /// The scouts of this process: children of its fork server, which the first scout tells.
  static std::set<pid_t> scouts() {
    auto probe = start_scout();
    EXPECT_TRUE(probe);
    while (probe->trace->pid == 0) std::this_thread::yield();
    std::set<pid_t> all = with_parent(parent_of(probe->trace->pid));
    all.erase(probe->trace->pid);
    probe->kill();
    return all;
  }
  /// Whether there are scouts that are not in `before`, which may have ended meanwhile.
  static bool has_others_than(const std::set<pid_t>& before) {
    return std::ranges::any_of(scouts(), [&](pid_t process) { return !before.contains(process); });
  }
  static pid_t parent_of(pid_t process) {
    std::ifstream stream(fmt::format("/proc/{}/stat", process));
    std::string line;
    std::getline(stream, line);
    const size_t name = line.rfind(')');
    return name == std::string::npos ? -1 : std::atoi(line.c_str() + name + 4);
  }
  static std::set<pid_t> with_parent(pid_t parent) {
    std::set<pid_t> children;
    for (const auto& entry : std::filesystem::directory_iterator("/proc"))
      if (const int process = std::atoi(entry.path().filename().c_str()); process > 0 && parent_of(process) == parent)
        children.insert(process);
    return children;
  }

  static constexpr hsize_t kCount = 70;
  std::vector<uint64_t> addresses_;
  std::unique_ptr<Scout> scout_;
};

TEST_F(ScoutTest, ReadsForItsParent) {
  start();
  EXPECT_EQ(chunk(fine), "chunk  0");
  EXPECT_EQ(chunk(fine, 3), "chunk  3");
  const auto stored = scout_->stored_chunks(addresses_[fine]);
  ASSERT_TRUE(stored);
  ASSERT_TRUE(*stored);
  EXPECT_EQ(hdf5_testing::elements_of<uint64_t>(**stored).size(), kCount);
  for (const uint64_t address : addresses_) EXPECT_TRUE(scout_->object(address));
}

TEST_F(ScoutTest, AnErrorIsPassedOnAndNoCrash) {
  start();
  const std::set<pid_t> before = scouts();
  EXPECT_NE(chunk(error).find("this chunk cannot be decoded"), std::string::npos) << chunk(error);
  EXPECT_EQ(chunk(fine), "chunk  0");
  EXPECT_FALSE(has_others_than(before));
}

TEST_F(ScoutTest, ACrashIsAnErrorAndTheNextRequestWorks) {
  start();
  EXPECT_EQ(chunk(crash), "libhdf5 crashes (Segmentation fault) when it reads a chunk of /crash; the file is damaged");
  EXPECT_EQ(chunk(fine), "chunk  0");
  EXPECT_EQ(chunk(abortion), "libhdf5 crashes (Aborted) when it reads a chunk of /abortion; the file is damaged");
  EXPECT_EQ(chunk(fine, 1), "chunk  1");
  EXPECT_NE(log::recent().find("a chunk of /crash; the file is damaged"), std::string::npos);
}

TEST_F(ScoutTest, WhatCrashedIsNotTriedAgain) {
  start();
  const std::string reason = chunk(crash);
  EXPECT_EQ(chunk(fine), "chunk  0");
  const std::set<pid_t> before = scouts();
  EXPECT_EQ(chunk(crash), reason);
  EXPECT_FALSE(has_others_than(before)) << "no other process was started";
}

TEST_F(ScoutTest, OnlyTheOperationThatCrashedIsRefused) {
  start();
  EXPECT_NE(chunk(crash), "chunk  0");
  EXPECT_TRUE(scout_->header(addresses_[crash]));
  EXPECT_TRUE(scout_->object(addresses_[crash]));
  EXPECT_TRUE(scout_->attributes(addresses_[crash]));
  EXPECT_TRUE(scout_->stored_chunks(addresses_[crash]));
}

TEST_F(ScoutTest, ACheckThatDoesNotFinishIsAnError) {
  start();
  EXPECT_EQ(chunk(endless), "libhdf5 does not finish when it reads a chunk of /endless; the file is damaged");
  EXPECT_EQ(chunk(fine), "chunk  0");
}

TEST_F(ScoutTest, ExhaustedMemoryIsAnError) {
  start();
  EXPECT_EQ(chunk(out_of_memory),
            "libhdf5 takes more than 768 MiB of memory when it reads a chunk of /out_of_memory; the file is damaged");
  EXPECT_EQ(chunk(fine), "chunk  0");
  EXPECT_TRUE(chunk(throwing).starts_with("12: throwing: chunk 0: no memory")) << chunk(throwing);
}

TEST_F(ScoutTest, DamageThatLibraryReportsIsAnError) {
  start();
  EXPECT_EQ(chunk(damaged),
            "libhdf5 finds damage (wrong checksum) when it reads a chunk of /damaged; the file is damaged");
  EXPECT_EQ(chunk(newer),
            "libhdf5 finds damage (unknown version 9 of a message) when it reads a chunk of /newer; the "
            "file is damaged, or newer than " +
                format_versions());
  EXPECT_EQ(chunk(fine), "chunk  0");
}

// A process that ends without a cause may have been killed by another program, so it is tried again, a few times.
TEST_F(ScoutTest, AnExitIsAnError) {
  start();
  EXPECT_EQ(chunk(exit_silently), "libhdf5 was killed when it reads a chunk of /exit_silently; the file is damaged");
  EXPECT_EQ(chunk(fine), "chunk  0");
}

TEST_F(ScoutTest, AScoutThatAnotherProgramKillsIsReplaced) {
  const std::set<pid_t> before = scouts();
  start();
  EXPECT_EQ(chunk(fine), "chunk  0");
  for (const pid_t process : scouts())
    if (!before.contains(process)) ::kill(process, SIGKILL);
  EXPECT_EQ(chunk(fine, 1), "chunk  1");
  EXPECT_EQ(chunk(fine, 2), "chunk  2");
}

TEST_F(ScoutTest, CrashesAreLimited) {
  start();
  for (uint64_t number = 0; number < 64; ++number)
    ASSERT_NE(chunk(crash, number).find("Segmentation"), std::string::npos) << number;
  EXPECT_EQ(chunk(crash, 65), path() + ": 64 of its objects are damaged; no more are tried");
  EXPECT_EQ(chunk(fine), path() + ": 64 of its objects are damaged; no more are tried");
  EXPECT_NE(chunk(crash, 3).find("Segmentation"), std::string::npos) << "known";
}

TEST_F(ScoutTest, TheLimitsAllowForTheChunk) {
  start();
  const std::string text = chunk(limits);
  std::array<uint32_t, 2> values{};
  ASSERT_EQ(text.size(), sizeof values) << text;
  std::memcpy(values.data(), text.data(), sizeof values);
  EXPECT_GE(values[0], kScoutMemory >> 20) << "MiB";
  EXPECT_GE(values[1], 1U);
  EXPECT_LE(values[1], kScoutSeconds + 1) << "seconds";
}

TEST_F(ScoutTest, AnAddressThatIsNoObjectIsRefused) {
  start();
  const uint64_t address = std::filesystem::file_size(path()) / 2 + 3;
  EXPECT_FALSE(scout_->object(address));
  EXPECT_EQ(scout_->header(address).error().code, EIO);
  EXPECT_TRUE(scout_->object(addresses_[fine]));
  EXPECT_EQ(chunk(fine), "chunk  0");
}

TEST_F(ScoutTest, AFileThatCannotBeOpenedIsAnError) {
  const auto none = Scout::start(path("none.h5"), false);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ENOENT);
  std::ofstream(path("text.h5")) << "not HDF5";
  const auto text = Scout::start(path("text.h5"), false);
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().reason.find("text.h5 cannot be opened as HDF5: "), std::string::npos) << text.error().reason;
}

TEST_F(ScoutTest, WhileWritingItChecksButDoesNotRead) {
  start();
  scout_->writing();
  EXPECT_EQ(chunk(fine), "nothing");
  EXPECT_EQ(chunk(error), "nothing") << "the parent finds the error itself";
  EXPECT_NE(chunk(crash).find("Segmentation"), std::string::npos);
  const auto stored = scout_->stored_chunks(addresses_[fine]);
  ASSERT_TRUE(stored);
  EXPECT_FALSE(*stored);
}

TEST_F(ScoutTest, AfterACheckOfAllThereIsNoScout) {
  const std::set<pid_t> before = scouts();
  start();
  ASSERT_TRUE(scout_->check_all());
  EXPECT_EQ(chunk(crash), "nothing");
  for (const uint64_t address : addresses_) EXPECT_TRUE(scout_->object(address));
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  bool is_there = true;
  while (is_there && std::chrono::steady_clock::now() < until) is_there = has_others_than(before);  // it was killed
  EXPECT_FALSE(is_there);
}

}  // namespace
}  // namespace codecfs::hdf5
