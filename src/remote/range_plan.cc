#include "remote/range_plan.h"

#include <algorithm>

namespace codecfs::remote {

std::vector<ByteRange> plan_requests(std::vector<ByteRange> ranges, const PlanLimits& limits) {
  std::erase_if(ranges, [](const ByteRange& range) { return range.size == 0; });
  std::ranges::sort(ranges, {}, &ByteRange::offset);
  std::vector<ByteRange> requests;
  uint64_t wanted = 0;  // bytes of the ranges in the last request
  for (const ByteRange& range : ranges) {
    if (range.size > limits.whole) {
      for (uint64_t done = 0; done < range.size; done += limits.request)
        requests.push_back({range.offset + done, std::min(limits.request, range.size - done)});
      wanted = UINT64_MAX;  // nothing is added to it
      continue;
    }
    if (!requests.empty() && wanted != UINT64_MAX) {
      ByteRange& last = requests.back();
      const uint64_t end = std::max(last.end(), range.end());
      const uint64_t added = end - last.end();
      const bool is_near = range.offset <= last.end() || range.offset - last.end() <= limits.gap;
      const bool is_inside = added == 0;
      const bool is_cheap = end - last.offset <= (wanted + std::min(added, range.size)) * limits.amplification;
      if (is_inside || (is_near && is_cheap && end - last.offset <= limits.request)) {
        wanted += std::min(added, range.size);
        last.size = end - last.offset;
        continue;
      }
    }
    requests.push_back(range);
    wanted = range.size;
  }
  return requests;
}

}  // namespace codecfs::remote
