#pragma once
// Sends requests to where the objects are, signed, and repeats them. Thread-safe.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "remote/adaptive_limit.h"
#include "remote/credentials.h"
#include "remote/dialect.h"
#include "remote/http_client.h"
#include "remote/object_client.h"
#include "remote/object_list.h"
#include "remote/request_statistics.h"
#include "remote/retry_policy.h"
#include "remote/web_login.h"

namespace codecfs::remote {

struct ObjectRequest {
  std::string method = "GET";
  std::string key{};
  Query query{};
  std::optional<std::string> listed{};  // the prefix, if it is for a list
  std::vector<HttpHeader> headers{};
  Bytes body{};
  uint64_t max_body = uint64_t{1} << 20;
  /// Finds what is wrong with a response that has no error; the request is then repeated.
  std::function<Result<>(const HttpResponse&)> check{};
};

struct ObjectResponse {
  HttpResponse http;
  ObjectError error;         // of statuses from 400 on
  bool is_repeated = false;  // an earlier attempt may have taken effect
  bool is_absent = false;    // the server says that there is no such object
  bool is_unmet = false;     // a condition of the request does not hold
};

class ObjectRequests {
 public:
  static Result<std::unique_ptr<ObjectRequests>> make(const ObjectUrl& url, const ObjectOptions& options);

  /// Answers 2xx, 304 and 416, and those that say that there is no such object, or that a condition does not hold.
  /// Errors of object_client.h for all else. An Interruption of the thread ends a GET or HEAD with EINTR.
  Result<ObjectResponse> send(const ObjectRequest& request);
  [[nodiscard]] RequestStatistics& statistics() const { return *statistics_; }
  [[nodiscard]] const Dialect& dialect() const { return *dialect_; }
  /// Whether a response that says that an object is absent may be another program's than the store's, or be of missing
  /// permissions: then AbsenceCheck must confirm it.
  [[nodiscard]] bool must_be_confirmed(const ObjectResponse& response) const {
    return response.is_absent && (!dialect_->is_bucket() || response.http.status == 403);
  }
  /// "s3://bucket/key", for messages.
  [[nodiscard]] std::string name_of(const std::string& key) const { return dialect_->name_of(key); }

 private:
  struct Attempt;

  ObjectRequests(std::unique_ptr<Dialect> dialect, const ObjectOptions& options, std::unique_ptr<HttpClient> http,
                 std::unique_ptr<WebLogin> login);
  [[nodiscard]] Meaning meaning_of(const ObjectRequest& request, const HttpResponse& response,
                                   const ObjectError& error) const;
  [[nodiscard]] Error refusal(const HttpResponse& response, const ObjectError& error, Meaning meaning) const;
  Result<HttpRequest> prepare(const ObjectRequest& request, Attempt& attempt);
  Result<bool> learn_from(const HttpResponse& response, const ObjectError& error, Meaning meaning, Attempt& attempt);
  Result<HttpResponse> send_once(const ObjectRequest& request, Attempt& attempt);
  void log_request(const ObjectRequest& request, const std::string& host, const Result<HttpResponse>& response,
                   std::chrono::milliseconds took) const;
  [[nodiscard]] std::unexpected<Error> give_up(const ObjectRequest& request, const Attempt& attempt,
                                               const Error& failure) const;

  const ObjectOptions options_;
  const std::unique_ptr<Dialect> dialect_;
  std::unique_ptr<HttpClient> http_;
  std::unique_ptr<WebLogin> login_;                  // of the web server, or of credential_url; null if there is none
  std::unique_ptr<CredentialProvider> credentials_;  // after http_, which it uses; null for anonymous requests
  RetryPolicy retries_;
  AdaptiveLimit limit_;
  std::atomic<int64_t> clock_offset_ = 0;  // seconds that the server's clock is ahead
  std::atomic<bool> was_answered_ = false;
  const std::shared_ptr<RequestStatistics> statistics_;
};

}  // namespace codecfs::remote
