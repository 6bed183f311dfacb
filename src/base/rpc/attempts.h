#pragma once
// How often a call is made if the processes that serve it end: one rule for all processes that run the code of others.
//
//   rpc::Attempts attempts;
//   for (;;) {
//     ... make the call; return its answer ...
//     if (!attempts.again(rpc::End::crashed)) return fail(EIO, ...);
//   }

#include <cstdint>

namespace codecfs::rpc {

/// How a process ended during a call.
enum class End : uint8_t {
  killed,   // by another program
  crashed,  // by the call: a fatal signal, too much memory, an answer that is none
  late,     // the call did not return in time
};

/// The attempts to make one call. One thread at a time.
class Attempts {
 public:
  static constexpr unsigned kMaxKills = 100;
  static constexpr unsigned kMaxCrashes = 2;

  /// Whether to make the call again after this end: a kill says nothing about the call, a crash may have another cause
  /// once, and a call that did not return would let its caller wait as long again.
  [[nodiscard]] bool again(End end) {
    switch (end) {
      case End::killed: return ++kills_ < kMaxKills;
      case End::crashed: return ++crashes_ < kMaxCrashes;
      case End::late: return false;
    }
    return false;
  }

 private:
  unsigned kills_ = 0;
  unsigned crashes_ = 0;
};

}  // namespace codecfs::rpc
