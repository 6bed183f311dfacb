// Calls of plugins in worker processes: what a plugin does wrong costs one call.

#include "filters/plugins/codec_workers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/sandbox.h"
#include "support/processes.h"

namespace codecfs::filters {
namespace {

constexpr unsigned kReverse = 0x0100;  // H5Z_FLAG_REVERSE

std::shared_ptr<CodecWorkers> start(const char* library, const CodecCallLimits& limits = {}) {
  auto workers = CodecWorkers::start(library, library, limits);
  EXPECT_TRUE(workers) << workers.error().reason;
  return workers ? *workers : nullptr;
}

std::vector<std::byte> data_of(const std::string& start, size_t size = 1000) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7);
  std::memcpy(bytes.data(), start.data(), std::min(size, start.size()));
  return bytes;
}

/// Decodes data that makes the plugin misbehave, and returns the reason of the failure without the library's name.
std::string failure(CodecWorkers& workers, const std::string& behaviour) {
  const std::vector<std::byte> bytes = data_of("BAD" + behaviour);
  const auto out = workers.filter(kReverse, {}, bytes, bytes.size());
  if (out) return "none";
  EXPECT_EQ(out.error().code, EIO);
  EXPECT_TRUE(out.error().reason.starts_with(CODECFS_HOSTILE_FILTER)) << out.error().reason;
  return out.error().reason.substr(std::min(out.error().reason.size(), std::strlen(CODECFS_HOSTILE_FILTER)));
}

bool decodes(CodecWorkers& workers, size_t size = 1000) {
  const std::vector<std::byte> bytes = data_of("GOOD", size);
  const auto out = workers.filter(kReverse, {}, bytes, bytes.size());
  return out && out->size() == size && std::memcmp(out->data(), bytes.data(), size) == 0;
}

TEST(CodecWorkers, ReportsWhatTheLibraryDeclares) {
  const auto workers = start(CODECFS_HOSTILE_FILTER);
  ASSERT_NE(workers, nullptr);
  const PluginDescription& plugin = workers->description();
  ASSERT_TRUE(plugin.hdf5);
  EXPECT_EQ(plugin.hdf5->id, 32903U);
  EXPECT_EQ(plugin.hdf5->name, "hostile");
  EXPECT_TRUE(plugin.hdf5->decodes && plugin.hdf5->encodes);
  EXPECT_FALSE(plugin.hdf5->has_set_local);
  EXPECT_TRUE(plugin.codecs.empty() && plugin.problems.empty());
  EXPECT_TRUE(workers->state().starts_with("1 running, 0 ended")) << workers->state();
}

TEST(CodecWorkers, NamesTheLoadersReason) {
  const auto workers = CodecWorkers::start("/no/such/library.so", "library.so");
  ASSERT_FALSE(workers);
  EXPECT_EQ(workers.error().code, ENOEXEC);
  EXPECT_NE(workers.error().reason.find("cannot open shared object file"), std::string::npos) << workers.error().reason;
}

TEST(CodecWorkers, DecodesAndEncodesDataOfAnySize) {
  const auto workers = start(CODECFS_HOSTILE_FILTER);
  ASSERT_NE(workers, nullptr);
  for (const size_t size : {size_t{1}, size_t{100000}, size_t{20} << 20, size_t{17}})
    EXPECT_TRUE(decodes(*workers, size)) << size;
  const std::vector<std::byte> bytes = data_of("BADc");
  EXPECT_TRUE(workers->filter(0, {}, bytes, SIZE_MAX));  // encodes well
  const auto short_of = workers->filter(kReverse, {}, data_of("GOOD"), 999);
  ASSERT_FALSE(short_of);
  EXPECT_NE(short_of.error().reason.find("made 1000 bytes, more than 999"), std::string::npos);
  EXPECT_TRUE(workers->state().starts_with("1 running, 0 ended")) << workers->state();
}

TEST(CodecWorkers, ACallThatEndsItsWorkerIsRefusedAlone) {
  const auto workers = start(CODECFS_HOSTILE_FILTER);
  ASSERT_NE(workers, nullptr);
  EXPECT_EQ(failure(*workers, "c"), " crashes (Segmentation fault)");
  EXPECT_TRUE(decodes(*workers));
  EXPECT_TRUE(workers->state().starts_with("1 running, 2 ended, the latest: crashes (Segmentation fault)"))
      << workers->state();
  EXPECT_EQ(failure(*workers, "a"), " crashes (Aborted)");
  EXPECT_EQ(failure(*workers, "d"), " crashes (Segmentation fault)");
  EXPECT_EQ(failure(*workers, "e"), " ends the process");
  EXPECT_EQ(failure(*workers, "E"), ": the process that runs it was killed 100 times");
  EXPECT_EQ(failure(*workers, "k"), ": the process that runs it was killed 100 times");
  EXPECT_NE(failure(*workers, "f"), "none");  // closes the connection
  EXPECT_NE(failure(*workers, "L").find("gives no room"), std::string::npos);
  const uint64_t ended = workers->ended();
  EXPECT_EQ(failure(*workers, "i"), " returns an invalid answer");
  EXPECT_EQ(workers->ended(), ended + 2);  // killed each time
  EXPECT_TRUE(decodes(*workers));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(CodecWorkers, SurvivesWritesOutOfBoundsAndExhaustedMemory) {
  const auto workers = start(CODECFS_HOSTILE_FILTER);
  ASSERT_NE(workers, nullptr);
  for (const char* behaviour : {"o", "m"}) {
    const std::string reason = failure(*workers, behaviour);
    EXPECT_TRUE(reason.starts_with(" crashes (")) << behaviour << ": " << reason;
  }
  EXPECT_TRUE(decodes(*workers));
}
#endif

TEST(CodecWorkers, LimitsTheTimeOfACall) {
  CodecCallLimits limits;
#ifndef __SANITIZE_THREAD__  // which does not deliver signals to code that calls nothing
  limits.processor = std::chrono::seconds(1);
  const auto for_loops = start(CODECFS_HOSTILE_FILTER, limits);
  ASSERT_NE(for_loops, nullptr);
  EXPECT_EQ(failure(*for_loops, "l"), " needs more processor time than allowed");
  EXPECT_TRUE(decodes(*for_loops));
#endif
  limits.processor = std::chrono::seconds(0);
  limits.elapsed = std::chrono::seconds(1);
  const auto for_sleep = start(CODECFS_HOSTILE_FILTER, limits);
  ASSERT_NE(for_sleep, nullptr);
  EXPECT_EQ(failure(*for_sleep, "s"), " did not finish in time");
  EXPECT_TRUE(decodes(*for_sleep)) << "it costs its chunk";
  EXPECT_EQ(failure(*for_sleep, "s"), " did not finish in time");
  EXPECT_EQ(failure(*for_sleep, "s"), " did not finish in time");
  EXPECT_EQ(failure(*for_sleep, "s"), " did not finish a call in time; it is called again 10 minutes later");
}

TEST(CodecWorkers, SeveralDecodeAtOnce) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one processor: one worker";
  const auto workers = start(CODECFS_HOSTILE_FILTER);
  ASSERT_NE(workers, nullptr);
  const std::vector<std::byte> bytes = data_of("BADn");  // takes 20 ms
  std::atomic<bool> all_right = true;
  {
    std::vector<std::jthread> readers;
    for (int i = 0; i < 2; ++i)
      readers.emplace_back([&] {
        while (workers->state().starts_with("1 running, 0 ended"))
          if (!workers->filter(kReverse, {}, bytes, bytes.size())) all_right = false;
      });
  }
  EXPECT_TRUE(all_right);
  EXPECT_TRUE(workers->state().starts_with("2 running, 0 ended")) << workers->state();
}

TEST(CodecWorkers, AreConfined) {
  const auto workers = start(CODECFS_HOSTILE_FILTER);
  ASSERT_NE(workers, nullptr);
  const std::vector<std::byte> bytes = data_of("BADt");
  const auto out = workers->filter(kReverse, {}, bytes, bytes.size());
  ASSERT_TRUE(out) << out.error().reason;
  // Lower case: what failed. It cannot open files, create sockets or processes, or look at paths, but has threads.
  const std::string notes(reinterpret_cast<const char*>(out->data()) + 4, 11);
  if (workers->protections() == kWholeSandbox)
    EXPECT_EQ(notes, "owsufakprTe");
  else
    std::printf("not a whole sandbox, but %s: %s\n", names_of(workers->protections()).c_str(), notes.c_str());
  EXPECT_FALSE(std::filesystem::exists("/tmp/codecfs-hostile-plugin"));
}

// Before the supervisors are forked, so that the workers are in this process's own group.
const int own_group = ::setpgid(0, 0);

/// The processes of this process group that have loaded the library.
std::vector<pid_t> processes_with_library() {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0 && ::getpgid(pid) == ::getpgrp() &&
        text_of(entry.path() / "maps").find("hostile_filter") != std::string::npos)
      found.push_back(pid);
  }
  return found;
}

TEST(CodecWorkers, RepeatsCallsWhoseWorkerIsKilled) {
  ASSERT_EQ(own_group, 0);
  const auto workers = start(CODECFS_HOSTILE_FILTER);
  ASSERT_NE(workers, nullptr);
  std::atomic<bool> done = false;
  std::atomic<int> kills = 0;
  std::jthread killer([&] {
    while (!done) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const std::vector<pid_t> found = processes_with_library();
      if (found.empty()) continue;
      const pid_t victim = found[static_cast<size_t>(kills) % found.size()];
      EXPECT_NE(victim, ::getpid());
      if (victim != ::getpid() && ::kill(victim, SIGKILL) == 0) ++kills;
    }
  });
  std::atomic<int> failures = 0;
  {
    std::vector<std::jthread> readers;
    for (int i = 0; i < 3; ++i)
      readers.emplace_back([&] {
        const std::vector<std::byte> bytes = data_of("BADn");
        for (int round = 0; round < 40; ++round) {
          const auto out = workers->filter(kReverse, {}, bytes, bytes.size());
          if (!out || std::memcmp(out->data(), bytes.data(), bytes.size()) != 0) ++failures;
        }
      });
  }
  done = true;
  EXPECT_EQ(failures, 0);
  EXPECT_GT(kills, 3);
}

}  // namespace
}  // namespace codecfs::filters
