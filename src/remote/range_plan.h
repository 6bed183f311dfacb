#pragma once
// Which requests get a set of ranges of an object.

#include <cstdint>
#include <vector>

namespace codecfs::remote {

struct ByteRange {
  uint64_t offset = 0;
  uint64_t size = 0;
  [[nodiscard]] uint64_t end() const { return offset + size; }
  bool operator==(const ByteRange&) const = default;
};

struct PlanLimits {
  uint64_t gap = uint64_t{512} << 10;    // bytes between two ranges that are requested together
  uint64_t request = uint64_t{8} << 20;  // bytes of one request of several ranges
  uint64_t whole = uint64_t{16} << 20;   // a longer range is cut into requests of `request` bytes
  unsigned amplification = 4;            // most bytes requested for each byte wanted
};

/// Requests, by offset and disjoint but where ranges overlap, that together have all bytes of the ranges: each range of
/// at most `whole` bytes is in one of them.
std::vector<ByteRange> plan_requests(std::vector<ByteRange> ranges, const PlanLimits& limits = {});

}  // namespace codecfs::remote
