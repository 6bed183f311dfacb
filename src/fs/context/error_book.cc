#include "fs/context/error_book.h"

#include <array>
#include <utility>

#include "fs/nodes/clock.h"

namespace codecfs::fs {

void ErrorBook::failed(Ino ino, RequestKind kind, std::string reason) {
  entries_.put(ino, std::make_shared<const Entry>(Entry{kind, std::move(reason), now()}));
  has_failed_[static_cast<size_t>(kind)] = true;
}

void ErrorBook::succeeded(Ino ino, RequestKind kind) {
  if (kind == RequestKind::other || !has_failed_[static_cast<size_t>(kind)].load(std::memory_order_relaxed)) return;
  entries_.take_if(ino, [&](const Entry& entry) { return entry.kind == kind; });
}

std::string text_of_time(const timespec& time) {
  struct tm parts{};
  gmtime_r(&time.tv_sec, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace codecfs::fs
