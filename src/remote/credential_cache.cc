#include "remote/credential_cache.h"

#include <algorithm>
#include <utility>

#include "base/exceptions.h"
#include "base/interruption.h"
#include "base/log.h"

namespace codecfs::remote {
namespace {

using std::chrono::minutes;

constexpr minutes kRenewalBeforeEnd{5};
// Of credentials that a place gives with less than 5 minutes left, and after a failure.
constexpr minutes kRenewalPause{1};

CredentialCache::Time pause_before(CredentialCache::Time now, CredentialCache::Time expires) {
  return now + std::min<CredentialCache::Time::duration>((expires - now) / 2, kRenewalPause);
}

}  // namespace

CredentialCache::CredentialCache(std::function<Result<Credentials>()> find, std::function<Time()> now)
    : find_(std::move(find)), now_(std::move(now)) {}

bool CredentialCache::is_valid(Time now) const { return present_ && (!present_->expires || *present_->expires > now); }

Result<Credentials> CredentialCache::get() {
  UniqueLock lock(mutex_);
  const Time now = now_();
  if (is_valid(now) && (!renewal_ || now < *renewal_ || search_)) return *present_;
  if (search_) {
    const std::shared_ptr<Search> search = search_;
    while (!search->has_ended) ended_.wait(lock);
    return search->result;
  }
  const auto search = search_ = std::make_shared<Search>();
  lock.unlock();
  const Interruption::Scope scope(nullptr);  // others may wait for them, too
  Result<Credentials> found = without_exceptions(find_);
  lock.lock();
  return finish(*search, std::move(found));
}

Result<Credentials> CredentialCache::finish(Search& search, Result<Credentials> found) {
  const Time now = now_();
  if (found) {
    present_ = *found;
    renewal_.reset();
    if (found->expires) {
      renewal_ = std::max<Time>(*found->expires - kRenewalBeforeEnd, pause_before(now, *found->expires));
    }
  } else if (is_valid(now)) {
    log::warning("cannot renew the credentials, which are still valid: {}", found.error().reason);
    if (present_->expires) renewal_ = pause_before(now, *present_->expires);
    found = *present_;
  } else {
    present_.reset();
  }
  search.result = found;
  search.has_ended = true;
  search_.reset();
  ended_.notify_all();
  return found;
}

void CredentialCache::refused(const Credentials& credentials) {
  const LockGuard lock(mutex_);
  if (present_ && present_->access_key == credentials.access_key && present_->secret_key == credentials.secret_key &&
      present_->session_token == credentials.session_token) {
    present_.reset();
  }
}

}  // namespace codecfs::remote
