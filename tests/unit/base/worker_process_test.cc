// Processes that may crash: how they are started, how their end is reported, and that supervisors replace each other.

#include "base/worker_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <ctime>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/fail_points.h"
#include "base/fd_passing.h"
#include "base/shared_channel.h"

namespace codecfs {
namespace {

// Answers the first datagram by doing what it says.
void obey(int control) {
  const Datagram order = receive_datagram(control, 64);
  begin_step(7, 1);
  note_access(4711);
  if (order.bytes == "crash") ::raise(SIGSEGV);
  if (order.bytes == "exit") return;
  if (order.bytes == "damage") end_damaged("the tree has no roots");
  if (order.bytes == "progress") {  // for longer than the limit
    constexpr clock_t kLong = 5 * CLOCKS_PER_SEC / 2;
    for (const clock_t begin = ::clock(); ::clock() - begin < kLong;) note_access(4711);
    end_damaged("it is out of branches");
  }
  if (order.bytes == "memory") {
    limit_memory(uint64_t{64} << 20);
    std::vector<char*> all;
    for (;;) all.push_back(new char[1 << 20]);
  }
  if (order.bytes == "overflow") {
    struct Deep {
      static size_t dig(size_t depth) {
        if (depth == SIZE_MAX) return 0;
        std::array<char, 4096> room{};
        ::explicit_bzero(room.data(), room.size());
        return dig(depth + 1) + static_cast<size_t>(room[depth % room.size()]);
      }
    };
    (void)Deep::dig(0);
  }
  volatile bool forever = order.bytes == "loop";
  while (forever) continue;
  std::this_thread::sleep_for(std::chrono::minutes(1));
}

std::string end_after(const char* order) {
  auto worker = start_worker(obey);
  if (!worker) return worker.error().reason;
  if (!send_datagram(worker->control.get(), order)) return "not sent";
  worker->await_end();
  EXPECT_TRUE(worker->trace->end == 0 || worker->trace->culprit == 7);
  EXPECT_TRUE(worker->trace->end == 0 || worker->trace->address == 4711);
  return worker->cause_of_end();
}

TEST(WorkerProcess, TellsHowItEnded) {
  EXPECT_EQ(end_after("crash"), "crashes (Segmentation fault)");
  EXPECT_EQ(end_after("overflow"), "crashes (Segmentation fault)");
  EXPECT_EQ(end_after("damage"), "reports damage: the tree has no roots");
#if !defined(__SANITIZE_THREAD__)  // which delays signals: a loop without system calls is never interrupted
  EXPECT_EQ(end_after("loop"), "needs more processor time than allowed");
  EXPECT_EQ(end_after("progress"), "reports damage: it is out of branches");
#endif
  EXPECT_EQ(end_after("exit"), "");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(WorkerProcess, EndsWhenMemoryIsExhausted) { EXPECT_EQ(end_after("memory"), "needs more memory than allowed"); }
#endif

TEST(WorkerProcess, OneThatCannotBeStartedWasNotKilled) {
  FailPoints::arm(FailPoint::process, 0, 1);
  auto worker = start_worker(obey);
  ASSERT_TRUE(worker) << worker.error().reason;
  EXPECT_FALSE(worker->await_start());
  const Result<> started = worker->was_started();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, EAGAIN);
  EXPECT_TRUE(started.error().reason.contains("limit of processes")) << started.error().reason;
  FailPoints::disarm();
  auto next = start_worker(obey);
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->await_start());
  EXPECT_TRUE(next->was_started());
}

TEST(WorkerProcess, DescriptorsThatRunOutAreAnError) {
  ASSERT_TRUE(start_worker(obey));  // which starts the supervisors, too
  for (int passed = 0; passed < 3; ++passed) {
    FailPoints::arm(FailPoint::descriptor, passed, 1);
    const auto worker = start_worker(obey);
    const auto channel = Channel::make();
    FailPoints::disarm();
    EXPECT_EQ(worker.has_value() && channel.has_value(), passed == 2) << passed;
    if (!worker) {
      EXPECT_EQ(worker.error().code, EMFILE);
    }
    if (!channel) {
      EXPECT_EQ(channel.error().code, EMFILE);
    }
  }
}

TEST(WorkerProcess, IsKilledWithItsOwner) {
  int pid = 0;
  {
    auto worker = start_worker(obey);
    ASSERT_TRUE(worker) << worker.error().reason;
    while (worker->trace->pid == 0) std::this_thread::yield();
    pid = worker->trace->pid;
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  while (::kill(pid, 0) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void answer(int control) {
  Datagram order = receive_datagram(control, 64);
  Channel channel(std::move(order.fds[0]), std::move(order.fds[1]));
  while (auto request = channel.receive()) {
    auto copy = Buffer::copy_of(request->bulk);
    if (!copy || !channel.send(request->kind + 1, request->head + "!", copy->bytes())) return;
  }
}

TEST(SharedChannel, CarriesCallsOfAnySize) {
  auto worker = start_worker(answer);
  ASSERT_TRUE(worker) << worker.error().reason;
  auto made = Channel::make();
  ASSERT_TRUE(made) << made.error().reason;
  auto& [channel, other] = *made;
  ASSERT_TRUE(send_datagram(worker->control.get(), "c", std::array{other.socket.get(), other.memory.get()}));
  other = {};
  for (const size_t size : {size_t{0}, size_t{10}, size_t{1} << 20, size_t{40} << 20, size_t{3}, size_t{9} << 20}) {
    std::vector<std::byte> bulk(size);
    for (size_t i = 0; i < size; ++i) bulk[i] = static_cast<std::byte>(i * 31 + size);
    ASSERT_TRUE(channel.send(static_cast<uint32_t>(size), "call", bulk));
    const auto got = channel.receive();
    ASSERT_TRUE(got) << got.error().reason;
    EXPECT_EQ(got->kind, size + 1);
    EXPECT_EQ(got->head, "call!");
    EXPECT_TRUE(std::ranges::equal(got->bulk, bulk));
  }
  worker->kill();
  EXPECT_EQ(channel.receive().error().code, EPIPE);
}

}  // namespace
}  // namespace codecfs
