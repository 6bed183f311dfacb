#include "fs/chunks/removed_chunks.h"

#include <iterator>
#include <new>
#include <utility>

namespace codecfs::fs {

void NumberRanges::insert(uint64_t number) {
  const auto next = ranges_.upper_bound(number);
  const auto before = next == ranges_.begin() ? ranges_.end() : std::prev(next);
  if (before != ranges_.end() && before->second >= number) return;
  const bool joins_next = next != ranges_.end() && number + 1 == next->first;
  if (before != ranges_.end() && before->second + 1 == number) {
    before->second = joins_next ? next->second : number;
    if (joins_next) ranges_.erase(next);
  } else if (joins_next) {
    set_first(next, number);
  } else {
    ranges_.emplace_hint(next, number, number);
  }
}

void NumberRanges::erase(uint64_t first, uint64_t last) {
  auto at = ranges_.upper_bound(first);
  if (at != ranges_.begin()) at = std::prev(at);
  while (at != ranges_.end() && at->first <= last) {
    const auto [from, to] = *at;
    if (to < first) {
      ++at;
    } else if (from >= first && to <= last) {
      at = ranges_.erase(at);
    } else if (from >= first) {
      set_first(at, last + 1);
      return;
    } else {
      if (to > last) ranges_.emplace(last + 1, to);
      at->second = first - 1;
      ++at;
    }
  }
}

void NumberRanges::set_first(std::map<uint64_t, uint64_t>::iterator range, uint64_t first) {
  auto node = ranges_.extract(range);
  node.key() = first;
  ranges_.insert(std::move(node));
}

bool NumberRanges::contains(uint64_t number) const {
  const auto next = ranges_.upper_bound(number);
  return next != ranges_.begin() && std::prev(next)->second >= number;
}

void RemovedChunks::insert(ObjectId variable, ChunkKey key, uint64_t number) {
  NumberRanges& numbers = numbers_[variable][key - number];
  numbers.insert(number);
  try {
    keys_.insert(key);
  } catch (const std::bad_alloc&) {
    numbers.erase(number, number);  // a range of its own, as in keys_, so that no memory is needed
    throw;
  }
}

void RemovedChunks::erase(ObjectId variable, ChunkKey key, uint64_t number) {
  const auto found = numbers_.find(variable);
  if (found == numbers_.end()) return keys_.erase(key, key);
  for (auto& [first_key, numbers] : found->second) {
    if (!numbers.contains(number)) continue;
    numbers.erase(number, number);
    try {
      keys_.erase(first_key + number, first_key + number);
    } catch (const std::bad_alloc&) {
      numbers.insert(number);  // joins the ranges again that have just been one, so that no memory is needed
      throw;
    }
  }
  keys_.erase(key, key);
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
