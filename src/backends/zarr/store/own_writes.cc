#include "backends/zarr/store/own_writes.h"

namespace codecfs::zarr {

OwnWrites::Underway::Underway(OwnWrites& writes, const std::string& key) : writes_(writes), key_(key) {
  const LockGuard lock(writes_.mutex_);
  if (writes_.rows_.size() >= kMax) {
    std::erase_if(writes_.rows_, [](const auto& row) { return row.second.mark.underway == 0; });
    writes_.known_since_ = Clock::now();
    writes_.forgotten_ = writes_.count_;
  }
  Row& row = writes_.rows_[key_];
  row.mark.number = ++writes_.count_;
  row.is_overlapped = ++row.mark.underway > 1;
}

void OwnWrites::Underway::end(Write::Outcome outcome, uint64_t bytes) {
  if (has_ended_) return;
  has_ended_ = true;
  const LockGuard lock(writes_.mutex_);
  Row& row = writes_.rows_[key_];
  row.mark.number = ++writes_.count_;
  --row.mark.underway;
  row.last = {.outcome = row.is_overlapped ? Write::Outcome::unknown : outcome, .bytes = bytes, .at = Clock::now()};
}

OwnWrites::Mark OwnWrites::mark_of(const std::string& key) const {
  const LockGuard lock(mutex_);
  const auto found = rows_.find(key);
  return found == rows_.end() ? Mark{.number = forgotten_, .underway = 0} : found->second.mark;
}

bool OwnWrites::is_unchanged(const std::string& key, const Mark& since) const {
  if (since.underway > 0) return false;
  const Mark now = mark_of(key);
  return now.underway == 0 && now.number == since.number;
}

std::optional<OwnWrites::Write> OwnWrites::of(const std::string& key, Clock::time_point since) const {
  const LockGuard lock(mutex_);
  const auto found = rows_.find(key);
  if (found == rows_.end() || !is_since(found->second, since)) return std::nullopt;
  Write write = found->second.last;
  if (found->second.mark.underway > 0) write.outcome = Write::Outcome::unknown;
  return write;
}

void OwnWrites::for_each(const std::string& prefix, Clock::time_point since,
                         const std::function<void(const std::string& key, const Write& write)>& visit) const {
  const LockGuard lock(mutex_);
  for (auto at = rows_.lower_bound(prefix); at != rows_.end() && at->first.starts_with(prefix); ++at) {
    if (!is_since(at->second, since)) continue;
    Write write = at->second.last;
    if (at->second.mark.underway > 0) write.outcome = Write::Outcome::unknown;
    visit(at->first, write);
  }
}

bool OwnWrites::has_any(const std::string& prefix, Clock::time_point since) const {
  const LockGuard lock(mutex_);
  for (auto at = rows_.lower_bound(prefix); at != rows_.end() && at->first.starts_with(prefix); ++at)
    if (is_since(at->second, since)) return true;
  return false;
}

OwnWrites::Clock::time_point OwnWrites::known_since() const {
  const LockGuard lock(mutex_);
  return known_since_;
}

}  // namespace codecfs::zarr
