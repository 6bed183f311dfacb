#include "remote/request_statistics.h"

#include <fmt/format.h>

#include <algorithm>

namespace codecfs::remote {

void RequestStatistics::begin() {
  const uint64_t running = ++now;
  uint64_t most = parallel;
  while (running > most && !parallel.compare_exchange_weak(most, running)) {
  }
}

void RequestStatistics::end(std::chrono::milliseconds took) {
  --now;
  const auto time = static_cast<uint64_t>(std::max<int64_t>(took.count(), 0));
  milliseconds += time;
  ++times.at(static_cast<size_t>(std::ranges::lower_bound(kBounds, time) - kBounds.begin()));
}

std::string RequestStatistics::print() const {
  std::string text;
  const auto line = [&](std::string_view name, uint64_t value) { text += fmt::format("object_{} {}\n", name, value); };
  line("gets", gets);
  line("heads", heads);
  line("lists", lists);
  line("puts", puts);
  line("deletes", deletes);
  line("others", others);
  line("bytes_received", bytes_received);
  line("bytes_sent", bytes_sent);
  line("retries", retries);
  line("failures", failures);
  line("interrupted", interrupted);
  line("requests_now", now);
  line("requests_parallel", parallel);
  line("memory_hits", memory_hits);
  line("memory_misses", memory_misses);
  line("mirrored_bytes", mirrored_bytes);
  line("expected_bytes", expected_bytes);
  line("disk_hits", disk_hits);
  line("disk_misses", disk_misses);
  uint64_t sum = 0;
  for (size_t i = 0; i < kBounds.size(); ++i) {
    sum += times.at(i);
    line(fmt::format("time_le_{}ms", kBounds.at(i)), sum);
  }
  line("time_count", sum + times.back());
  line("time_sum_ms", milliseconds);
  return text;
}

}  // namespace codecfs::remote
