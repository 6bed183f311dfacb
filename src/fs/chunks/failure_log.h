#pragma once
// Logs failures of chunks, of which a full disk makes thousands: of one kind (errno) a few in a while, and how many
// more there were.

#include <chrono>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace codecfs::fs {

/// Not thread-safe.
class FailureLog {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr uint64_t kMaxLogged = 5;
  static constexpr std::chrono::seconds kWhile{10};

  FailureLog() = default;
  FailureLog(const FailureLog&) = delete;
  FailureLog& operator=(const FailureLog&) = delete;
  ~FailureLog() { finish(); }

  void add(const Error& error, Clock::time_point now = Clock::now());
  /// Logs how many failures were not logged.
  void finish();

 private:
  int code_ = 0;
  Clock::time_point begun_;
  uint64_t logged_ = 0;
  uint64_t dropped_ = 0;
  std::string last_;  // of those dropped
};

}  // namespace codecfs::fs
