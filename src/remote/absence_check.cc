#include "remote/absence_check.h"

#include <string_view>
#include <utility>

#include "remote/object_requests.h"
#include "remote/signature.h"

namespace codecfs::remote {
namespace {

constexpr size_t kMaxServers = 64;

/// Proxies that compress make ETags weak.
std::string_view without_weakness(std::string_view etag) { return etag.starts_with("W/") ? etag.substr(2) : etag; }

}  // namespace

void AbsenceCheck::rely_on(const std::string& key, const ObjectPart& part) {
  Known known{.key = key, .etag = part.etag, .content = {}, .bytes = part.total};
  if (part.etag.empty()) known.content = md5_hex(part.bytes.bytes());
  const LockGuard lock(mutex_);
  if (!known_ || requests_.dialect().is_bucket()) known_ = std::move(known);
}

Result<> AbsenceCheck::confirm(const Answer& answer) {
  for (;;) {
    {
      const LockGuard lock(mutex_);
      // The server that is asked is believed: it also redirects to what is there.
      if (!answer.from.empty() && unconfirmed_.size() < kMaxServers) unconfirmed_.insert(answer.from);
      if (!known_) return {};
      if (confirmed_ && answer.arrived - *confirmed_ < kValid) {
        const std::set<std::string> servers = std::exchange(unconfirmed_, {});
        for (const std::string& server : servers)
          if (server != confirmed_by_)
            return fail(EIO, "{} answers that after a redirect, which {} is not from", server,
                        requests_.name_of(known_->key));
        return {};
      }
    }
    const auto checked = checks_.run("", [this]() -> Result<std::monostate> {
      CODECFS_TRY(check());
      return std::monostate();
    });
    if (!checked) return std::unexpected(checked.error());
  }
}

Result<> AbsenceCheck::check() {
  Known known;
  {
    const LockGuard lock(mutex_);
    known = *known_;
  }
  const Clock::time_point began = Clock::now();
  ObjectRequest request{.key = known.key, .headers = {{"Cache-Control", "no-cache"}}, .max_body = known.bytes};
  if (!known.etag.empty() && !known.etag.starts_with('~'))
    request.headers.push_back(requests_.dialect().header_of(Condition::has_changed, known.etag));
  const auto replaced = [&] {
    return fail(EIO, "{} was replaced since it was read: unmount and mount again", requests_.name_of(known.key));
  };
  std::string from;
  auto response = requests_.send(request);
  if (!response && response.error().code == EFBIG && !requests_.dialect().is_bucket()) return replaced();
  if (!response && response.error().code != EFBIG) return pass_on(response);
  if (response) {
    const HttpResponse& http = response->http;
    from = http.redirected_to;
    const bool is_unchanged = http.status == 304;
    if (response->is_absent || (http.status != 200 && !is_unchanged))
      return fail(http.status == 403 ? EACCES : EIO, "it answers {}, which was there, with status {}, too",
                  requests_.name_of(known.key), http.status);
    const std::string etag = requests_.dialect().version_of(http, http.body.size());
    const bool is_same = known.etag.empty() ? md5_hex(http.body.bytes()) == known.content
                                            : without_weakness(etag) == without_weakness(known.etag);
    // In a bucket, only the permission is in doubt.
    if (!is_unchanged && !is_same && !requests_.dialect().is_bucket()) return replaced();
  }
  const LockGuard lock(mutex_);
  confirmed_ = began;
  confirmed_by_ = std::move(from);
  return {};
}

}  // namespace codecfs::remote
