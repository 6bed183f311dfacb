#include "fs/handles/log_handle.h"

#include <memory>
#include <span>
#include <utility>

namespace codecfs::fs {

Result<Slice> LogHandle::read(uint64_t offset, size_t size) {
  constexpr size_t kKept = size_t{4} << 20;  // bytes of a log that is followed
  const LockGuard lock(mutex_);
  // After messages were dropped the file is shorter, and tail begins anew.
  if (offset == 0 && log::recent_messages(UINT64_MAX).first > messages_.first) {
    messages_ = log::recent_messages();
    begin_ = 0;
  }
  if (offset >= begin_ + messages_.text.size()) {
    log::RecentMessages later = log::recent_messages(messages_.end);
    messages_.text += later.text;
    messages_.end = later.end;
  }
  if (messages_.text.size() > kKept) {
    const size_t dropped = messages_.text.size() - kKept / 2;
    messages_.text.erase(0, dropped);
    begin_ += dropped;
  }
  if (offset < begin_) return fail(ESTALE, "/.codecfs/log: this part is not kept any more; open it again");
  if (offset - begin_ >= messages_.text.size()) return Slice{};
  const auto owner = std::make_shared<const std::string>(messages_.text.substr(offset - begin_, size));
  stats_.bytes_read += owner->size();
  return Slice{std::as_bytes(std::span(*owner)), owner};
}

}  // namespace codecfs::fs
