#pragma once
// How far files in memory may grow into memory that they have not had before.
//
// On most machines writing memory costs what the copy costs. On a virtual machine that returns free memory to its host,
// writing it for the first time can take 40 times as long, because the host must find a page for it; large blocks of
// free memory nearly always are such memory, single pages rarely. There, a chunk is better pushed into the page cache.
//
// So each write to new memory is compared with the cheapest write so far. One that costs less than passing a chunk
// through saves is a gain, a dearer one a loss. When the losses exceed the gains by more than a small amount, growth
// ends, and is tried again, with one chunk, when many bytes of other chunks have been read.

#include <chrono>
#include <cstdint>

namespace codecfs::fs {

/// Not thread-safe.
class MemoryGrowth {
 public:
  using Cost = std::chrono::nanoseconds;  // processor time

  /// Whether files may take `total` bytes: they have had this memory, or may get more.
  [[nodiscard]] bool permits(uint64_t total) const { return total <= had_ || balance_ >= 0; }
  /// The most bytes that files have had, and whose memory they can use again.
  [[nodiscard]] uint64_t had() const { return had_; }
  /// A chunk of this size is to be read, with a file or without.
  void seen(uint64_t bytes);
  /// `bytes` were written in `cost`; with them all files take `total` bytes.
  void written(uint64_t total, uint64_t bytes, Cost cost);
  /// Memory was given back to the system: files take `total` bytes.
  void given_back(uint64_t total) { had_ = total; }

  /// The cost of a copy of `bytes`, at the speed of the cheapest write so far.
  [[nodiscard]] Cost copy_cost(uint64_t bytes) const {
    return Cost(static_cast<int64_t>(per_byte_ * static_cast<double>(bytes)));
  }

 private:
  static constexpr double kMaxBalance = 10e6;                   // ns: the most that can be lost before growth ends
  static constexpr uint64_t kFirstPause = uint64_t{256} << 20;  // bytes

  uint64_t had_ = 0;
  double per_byte_ = 0.1;         // ns, of the cheapest write; a usual value until there is one
  bool is_measured_ = false;      // whether there is one
  double balance_ = kMaxBalance;  // gains minus losses, ns; below 0: no growth
  uint64_t pause_ = kFirstPause;  // bytes that must be seen before the next trial
  uint64_t waited_ = 0;           // bytes seen since growth ended
};

}  // namespace codecfs::fs
