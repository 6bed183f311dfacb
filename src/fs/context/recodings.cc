#include "fs/context/recodings.h"

#include <fmt/format.h>

#include "fs/chunks/recoding_policy.h"

namespace codecfs::fs {

Result<Recodings::Turn> Recodings::begin() {
  if (RecodingPolicy::current() == DuringRecoding::refuse)
    return RecodingPolicy::refuse("the variable must be re-encoded first, for which this request does not wait");
  UniqueLock lock(mutex_);
  while (is_running_) {
    if (RecodingPolicy::current() != DuringRecoding::wait)
      return RecodingPolicy::refuse(fmt::format(
          "{} is being re-encoded, and variables are re-encoded one at a time; try again when it is done", path_));
    if (RecodingPolicy::is_cancelled()) return fail(EINTR, "cancelled; nothing has changed");
    (void)ended_.wait_until(lock, std::chrono::steady_clock::now() + RecodingPolicy::kInterval);
  }
  is_running_ = true;
  return Turn(*this);
}

Result<> Recodings::check_idle(ObjectId object, std::string_view path) const {
  const LockGuard lock(mutex_);
  if (!variable_) return {};
  const bool is_below = path_.size() > path.size() && path_.starts_with(path) && path_[path.size()] == '/';
  if (*variable_ != object && path_ != path && !is_below) return {};
  return RecodingPolicy::refuse(
      fmt::format("{}: is being re-encoded (user._Progress tells how far); try again when it is done", path_));
}

std::optional<Recodings::Chunks> Recodings::of(ObjectId variable) const {
  const LockGuard lock(mutex_);
  if (progress_ == nullptr || variable_ != variable) return std::nullopt;
  return Chunks{progress_->done, progress_->total};
}

Recodings::Chunks Recodings::of_all() const {
  const LockGuard lock(mutex_);
  return progress_ == nullptr ? Chunks{} : Chunks{progress_->done, progress_->total};
}

void Recodings::name(ObjectId variable, std::string path) {
  const LockGuard lock(mutex_);
  variable_ = variable;
  path_ = std::move(path);
}

void Recodings::show(const Progress* progress) {
  const LockGuard lock(mutex_);
  progress_ = progress;
}

void Recodings::end() {
  const LockGuard lock(mutex_);
  is_running_ = false;
  variable_.reset();
  path_.clear();
  progress_ = nullptr;
  ended_.notify_all();
}

}  // namespace codecfs::fs
