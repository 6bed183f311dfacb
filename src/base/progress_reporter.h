#pragma once
// Work that may take minutes, told while it goes on: in the log, where it takes more than 10 s, as a line that changes
// on the terminal of a command that has one, and to whoever asks (user._Progress of a mount's root).
//
//   ProgressReporter work("compacting data.h5");
//   for (...) work.at(done, total);

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace codecfs {

class ProgressReporter {
 public:
  struct Pace {
    std::chrono::milliseconds log{10'000};  // before the first line in the log, and between two
    std::chrono::milliseconds terminal{300};
  };

  explicit ProgressReporter(std::string what) : ProgressReporter(std::move(what), Pace{}) {}
  ProgressReporter(std::string what, const Pace& pace);
  /// Takes the line off the terminal; where the log was told of the work, tells that it has ended.
  ~ProgressReporter();
  ProgressReporter(const ProgressReporter&) = delete;
  ProgressReporter& operator=(const ProgressReporter&) = delete;

  /// How much of how much is done, in any unit; `total` 0: not known yet. From any thread, and cheap.
  void at(uint64_t done, uint64_t total);
  /// The same for work that is done piece by piece, `total` known at its start.
  void expect(uint64_t total) { total_ = total; }
  void add(uint64_t more);
  /// add() of the latest ProgressReporter that this thread has made and that still goes on; nothing without one.
  static void add_to_current(uint64_t more);

  /// All that goes on in this process, oldest first, a line for each ("writing the archive a.zip: 37 %"), without the
  /// last newline; empty where there is none. From any thread.
  static std::string under_way();

  /// From now on in this process: lines on this terminal (a file descriptor) instead of in the log.
  static void show_on_terminal(int fd);

 private:
  using Clock = std::chrono::steady_clock;

  void tell_now_and_then();
  std::string line() const;

  const std::string what_;
  const Clock::duration pace_;
  ProgressReporter* const outer_;
  std::atomic<uint64_t> done_ = 0;
  std::atomic<uint64_t> total_ = 0;  // 0: not known
  std::atomic<Clock::rep> next_;     // when to tell next
  std::atomic<bool> told_ = false;

  static thread_local ProgressReporter* current_;
};

}  // namespace codecfs
