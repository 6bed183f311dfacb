#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace codecfs {

/// The progress of a long operation, and its cancellation.
struct Progress {
  std::atomic<uint64_t> done = 0;   // chunks
  std::atomic<uint64_t> total = 0;  // chunks; 0 until it is known
  std::function<bool()> cancelled;  // called repeatedly, from any thread; empty: never
};

}  // namespace codecfs
