#pragma once
// Whether a server that says that an object does not exist still has the store: proxies and gateways say the same while
// they do not reach it. The check requests another object, which was there. Thread-safe.

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include "base/mutex.h"
#include "base/result.h"
#include "base/single_flight.h"
#include "remote/object_client.h"

namespace codecfs::remote {

class ObjectRequests;

class AbsenceCheck {
 public:
  using Clock = std::chrono::steady_clock;
  /// One check confirms the answers that arrive until this time after it was begun.
  static constexpr std::chrono::seconds kValid{1};

  explicit AbsenceCheck(ObjectRequests& requests) : requests_(requests) {}

  /// The object that later checks request, which was read as a whole. Of a web server, the first one stays, so that the
  /// store is the one that was opened; in a bucket, where it may be changed, the latest replaces it.
  void rely_on(const std::string& key, const ObjectPart& part);
  /// Of the answer that is confirmed.
  struct Answer {
    Clock::time_point arrived;
    std::string from{};  // HttpResponse::redirected_to
  };
  /// Nothing as long as there is no such object: the next call confirms this answer, too. EIO with the reason if it is
  /// absent or, of a web server, another one than it was, or if the answer is from another server, after a redirect,
  /// than that of the object; and the errors of the request.
  Result<> confirm(const Answer& answer);

 private:
  struct Known {
    std::string key;
    std::string etag;     // as ObjectPart has it
    std::string content;  // its MD5 hash, where there is no ETag
    uint64_t bytes = 0;
  };
  Result<> check();

  ObjectRequests& requests_;
  SingleFlight<std::monostate> checks_;
  Mutex mutex_;
  std::optional<Known> known_ CODECFS_GUARDED_BY(mutex_);
  std::optional<Clock::time_point> confirmed_ CODECFS_GUARDED_BY(mutex_);  // when the latest good check was begun
  std::string confirmed_by_ CODECFS_GUARDED_BY(mutex_);                    // HttpResponse::redirected_to of that
  std::set<std::string> unconfirmed_ CODECFS_GUARDED_BY(mutex_);           // servers of answers, before known_
};

}  // namespace codecfs::remote
