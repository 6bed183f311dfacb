#pragma once
// Reports the progress of work that may take minutes: to the log if it takes more than 10 s, by a command as a line on
// the terminal that is redrawn (or as lines every 10 s where there is no terminal), and in user._Progress of the
// mount's root.
//
//   ProgressReporter work("verifying data.h5", ProgressReporter::Unit::bytes);
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
    std::chrono::milliseconds log{10'000};  // before the first line in the log, and between two lines
    std::chrono::milliseconds terminal{300};
  };

  /// What is counted, for the amounts and the rate that commands show.
  enum class Unit { unspecified, chunks, bytes };

  explicit ProgressReporter(std::string what, Unit unit = Unit::unspecified)
      : ProgressReporter(std::move(what), Pace{}, unit) {}
  ProgressReporter(std::string what, const Pace& pace, Unit unit = Unit::unspecified);
  /// Clears the line on the terminal. If the work was logged, logs its end.
  ~ProgressReporter();
  ProgressReporter(const ProgressReporter&) = delete;
  ProgressReporter& operator=(const ProgressReporter&) = delete;

  /// Sets how much is done, in any unit; `total` 0 means not known yet. Thread-safe and cheap.
  void at(uint64_t done, uint64_t total);
  /// Instead of at(), for work that is done in pieces: set `total` first, then add each piece.
  void expect(uint64_t total) { total_ = total; }
  void add(uint64_t more);
  /// Calls add() of the latest ProgressReporter that this thread has created and not yet destroyed, if any.
  static void add_to_current(uint64_t more);

  /// All running work of this process, oldest first, one per line ("writing the archive a.zip: 37 %"), without the last
  /// newline; empty if there is none. Thread-safe.
  static std::string under_way();

  /// Work of another process (`process` identifies it) is part of under_way(), after that of this process. `line`: as
  /// there; empty when the work has ended. Thread-safe.
  static void show_remote(const void* process, uint64_t id, std::string line);
  static void forget_remote(const void* process);
  /// In such a process, before there is any work: called with what show_remote() expects, by any thread, at most every
  /// 5 ms for each work beside its begin and end.
  static void forward_to(void (*forward)(uint64_t id, const std::string& line));

  /// From now on shows progress on this terminal (a file descriptor) instead of in the log.
  static void show_on_terminal(int fd);
  /// For a command: on the terminal if this file descriptor is one, else as lines, every 10 s.
  static void show_on(int fd);

 private:
  using Clock = std::chrono::steady_clock;

  void report_if_due();
  void forward_if_due();
  std::string line() const;
  /// As line(), with a bar, amounts, the rate and the time left.
  std::string line_of_command() const;
  std::string amounts(uint64_t done, uint64_t total) const;

  const std::string what_;
  const Unit unit_;
  const Clock::time_point begun_ = Clock::now();
  const Clock::duration pace_;
  ProgressReporter* const outer_;
  const uint64_t id_;  // in this process
  std::atomic<uint64_t> done_ = 0;
  std::atomic<uint64_t> total_ = 0;      // 0: not known
  std::atomic<Clock::rep> next_report_;  // time of the next report
  std::atomic<bool> reported_ = false;
  std::atomic<Clock::rep> next_forward_ = 0;

  static thread_local ProgressReporter* current_;
};

}  // namespace codecfs
