#include "model/limits.h"

#include <fmt/format.h>

#include <atomic>
#include <utility>

namespace codecfs {
namespace {

std::atomic<uint64_t> max_chunk = kDefaultMaxChunk;

}  // namespace

uint64_t max_chunk_bytes() { return max_chunk.load(std::memory_order_relaxed); }

void set_max_chunk_bytes(uint64_t bytes) { max_chunk.store(bytes, std::memory_order_relaxed); }

std::string max_chunk_text() {
  const uint64_t bytes = max_chunk_bytes();
  for (const auto& [unit, shift] : {std::pair{'G', 30}, {'M', 20}, {'K', 10}})
    if ((bytes & ((uint64_t{1} << shift) - 1)) == 0)
      return fmt::format("the limit of {}{} (-o max_chunk=)", bytes >> shift, unit);
  return fmt::format("the limit of {} bytes (-o max_chunk=)", bytes);
}

}  // namespace codecfs
