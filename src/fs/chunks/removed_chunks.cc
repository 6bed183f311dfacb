#include "fs/chunks/removed_chunks.h"

#include <iterator>

namespace codecfs::fs {

void NumberRanges::insert(uint64_t number) {
  uint64_t first = number;
  uint64_t last = number;
  auto next = ranges_.upper_bound(number);
  if (next != ranges_.begin()) {
    const auto before = std::prev(next);
    if (before->second >= number) return;
    if (before->second + 1 == number) {
      first = before->first;
      ranges_.erase(before);
    }
  }
  if (next != ranges_.end() && number + 1 == next->first) {
    last = next->second;
    ranges_.erase(next);
  }
  ranges_.emplace(first, last);
}

void NumberRanges::erase(uint64_t first, uint64_t last) {
  auto at = ranges_.upper_bound(first);
  if (at != ranges_.begin()) at = std::prev(at);
  while (at != ranges_.end() && at->first <= last) {
    const auto [from, to] = *at;
    if (to < first) {
      ++at;
      continue;
    }
    at = ranges_.erase(at);
    if (from < first) ranges_.emplace(from, first - 1);
    if (to > last) ranges_.emplace(last + 1, to);
  }
}

bool NumberRanges::contains(uint64_t number) const {
  const auto next = ranges_.upper_bound(number);
  return next != ranges_.begin() && std::prev(next)->second >= number;
}

void RemovedChunks::insert(ObjectId variable, ChunkKey key, uint64_t number) {
  keys_.insert(key);
  numbers_[variable][key - number].insert(number);
}

void RemovedChunks::erase(ObjectId variable, ChunkKey key, uint64_t number) {
  keys_.erase(key, key);
  const auto found = numbers_.find(variable);
  if (found == numbers_.end()) return;
  for (auto& [first_key, numbers] : found->second) {
    if (!numbers.contains(number)) continue;
    numbers.erase(number, number);
    keys_.erase(first_key + number, first_key + number);
  }
  std::erase_if(found->second, [](const auto& item) { return item.second.ranges().empty(); });
  if (found->second.empty()) numbers_.erase(found);
}

void RemovedChunks::erase(ObjectId variable) {
  const auto found = numbers_.find(variable);
  if (found == numbers_.end()) return;
  for (const auto& [first_key, numbers] : found->second)
    for (const auto& [first, last] : numbers.ranges()) keys_.erase(first_key + first, first_key + last);
  numbers_.erase(found);
}

std::set<uint64_t> RemovedChunks::of(ObjectId variable) const {
  std::set<uint64_t> all;
  const auto found = numbers_.find(variable);
  if (found == numbers_.end()) return all;
  for (const auto& [first_key, numbers] : found->second)
    for (const auto& [first, last] : numbers.ranges())
      for (uint64_t number = first; number <= last; ++number) all.insert(all.end(), number);
  return all;
}

}  // namespace codecfs::fs
