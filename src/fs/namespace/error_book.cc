#include "fs/namespace/error_book.h"

#include <array>

#include "fs/namespace/clock.h"

namespace codecfs::fs {

std::atomic<size_t>* ErrorBook::count_of(RequestKind kind) {
  switch (kind) {
    case RequestKind::reading: return &readings_;
    case RequestKind::writing: return &writings_;
    case RequestKind::attributes: return &attributes_;
    case RequestKind::other: break;
  }
  return nullptr;
}

void ErrorBook::drop(std::unordered_map<Ino, std::list<Item>::iterator>::iterator found) {
  if (std::atomic<size_t>* count = count_of(found->second->second.kind)) --*count;
  items_.erase(found->second);
  map_.erase(found);
}

void ErrorBook::failed(Ino ino, RequestKind kind, std::string reason) {
  const std::lock_guard lock(mutex_);
  if (const auto found = map_.find(ino); found != map_.end()) drop(found);
  if (items_.size() >= kMaxInodes) drop(map_.find(items_.back().first));
  items_.emplace_front(ino, Entry{kind, std::move(reason), now()});
  map_.emplace(ino, items_.begin());
  if (std::atomic<size_t>* count = count_of(kind)) ++*count;
}

void ErrorBook::succeeded(Ino ino, RequestKind kind) {
  const std::atomic<size_t>* count = count_of(kind);
  if (count == nullptr || count->load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(mutex_);
  if (const auto found = map_.find(ino); found != map_.end() && found->second->second.kind == kind) drop(found);
}

bool ErrorBook::remove(Ino ino) {
  const std::lock_guard lock(mutex_);
  const auto found = map_.find(ino);
  if (found == map_.end()) return false;
  drop(found);
  return true;
}

std::optional<ErrorBook::Entry> ErrorBook::find(Ino ino) const {
  const std::lock_guard lock(mutex_);
  const auto found = map_.find(ino);
  return found == map_.end() ? std::nullopt : std::optional(found->second->second);
}

std::string text_of_time(const timespec& time) {
  struct tm parts{};
  gmtime_r(&time.tv_sec, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace codecfs::fs
