#include "remote/object_requests.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "base/log.h"
#include "remote/signature.h"

namespace codecfs::remote {
namespace {

using std::chrono::milliseconds;

constexpr unsigned kFirstContact = 4;  // attempts while the host has never answered: its name may be wrong
constexpr std::chrono::seconds kLaterStall{30};

bool is_answer(int status) {
  return (status >= 200 && status < 300) || status == 304 || status == 404 || status == 410 || status == 412 ||
         status == 416;
}

bool is_transient(int status, const ObjectError& error) {
  return status == 408 || status == 409 || status == 429 || status >= 500 || error.code == "RequestTimeout" ||
         error.code == "SlowDown";
}

bool is_transient(int code) {
  return code == ETIMEDOUT || code == ECONNREFUSED || code == ECONNRESET || code == EHOSTUNREACH;
}

milliseconds asked_wait(const HttpResponse& response) {
  const std::string_view text = response.header("retry-after");
  unsigned seconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return std::chrono::seconds(std::min(seconds, 60U));
}

/// "503 SlowDown (Please reduce your request rate), request 4D2...".
std::string description(const HttpResponse& response, const ObjectError& error) {
  std::string text = fmt::format("status {}", response.status);
  if (!error.code.empty()) text += " " + error.code;
  if (!error.message.empty()) text += fmt::format(" ({})", error.message);
  const std::string_view id = response.header("x-amz-request-id");
  if (!id.empty()) text += fmt::format(", request {}", id.substr(0, 80));
  return text;
}

}  // namespace

/// What is known of the attempts of one request.
struct ObjectRequests::Attempt {
  RetryPolicy::Clock::time_point began = RetryPolicy::Clock::now();
  unsigned failures = 0;
  unsigned moves = 0;         // to another region
  bool has_new_keys = false;  // after the server refused others
  bool has_new_clock = false;
  Credentials credentials{};  // of the latest attempt
};

Result<std::unique_ptr<ObjectRequests>> ObjectRequests::make(const ObjectUrl& url, const ObjectOptions& options) {
  CODECFS_ASSIGN(ObjectEndpoint endpoint, ObjectEndpoint::find(url, options));
  CODECFS_ASSIGN(auto http, HttpClient::start(options.connections));
  return std::unique_ptr<ObjectRequests>(new ObjectRequests(std::move(endpoint), options, std::move(http)));
}

ObjectRequests::ObjectRequests(ObjectEndpoint endpoint, const ObjectOptions& options, std::unique_ptr<HttpClient> http)
    : is_s3_(endpoint.is_s3()),
      options_(options),
      http_(std::move(http)),
      retries_(options.retry_time),
      endpoint_(std::move(endpoint)) {
  if (is_s3_ && !options.anonymous) {
    const LockGuard lock(mutex_);
    credentials_ = make_credential_provider(*http_, {options.profile, endpoint_.region()});
  }
}

std::string ObjectRequests::name_of(const std::string& key) const {
  const LockGuard lock(mutex_);
  return endpoint_.name_of(key);
}

std::string ObjectRequests::identity_of(const std::string& key) const {
  const LockGuard lock(mutex_);
  return endpoint_.identity_of(key);
}

RequestCounts ObjectRequests::counts() const { return {requests_, repeated_, received_, sent_}; }

Result<HttpRequest> ObjectRequests::prepare(const ObjectRequest& request, Attempt& attempt) {
  HttpRequest http{
      .method = request.method, .headers = request.headers, .body = request.body, .max_body = request.max_body};
  // Error texts come in the body too.
  http.max_body = std::max<uint64_t>(http.max_body, 64 << 10);
  if (attempt.failures > 0) http.stall_time = kLaterStall;
  std::string region;
  {
    const LockGuard lock(mutex_);
    http.url = endpoint_.url_of(request.key, request.query);
    region = endpoint_.region();
  }
  http.follows_redirects = !is_s3_;
  if (options_.requester_pays) http.headers.push_back({"x-amz-request-payer", "requester"});
  if (credentials_ != nullptr) {
    CODECFS_ASSIGN(attempt.credentials, credentials_->get());
    sign(http, attempt.credentials, {region},
         std::chrono::system_clock::now() + std::chrono::seconds(clock_offset_.load()));
  }
  return http;
}

Result<HttpResponse> ObjectRequests::send_once(const ObjectRequest& request, Attempt& attempt) {
  CODECFS_ASSIGN(HttpRequest http, prepare(request, attempt));
  const std::string host = host_of(http.url);
  const auto began = RetryPolicy::Clock::now();
  ++requests_;
  sent_ += request.body.size();
  Result<HttpResponse> response = http_->perform(std::move(http));
  if (response) received_ += response->body.size();
  const auto took = std::chrono::duration_cast<milliseconds>(RetryPolicy::Clock::now() - began).count();
  if (response) {
    log::debug("{} {} at {}: status {}, {} bytes in {} ms, request {}", request.method, name_of(request.key), host,
               response->status, response->body.size(), took, response->header("x-amz-request-id"));
  } else {
    log::debug("{} {} at {}: {} in {} ms", request.method, name_of(request.key), host, response.error().reason, took);
  }
  return response;
}

/// Whether the same request can succeed now, because of what the server says.
Result<bool> ObjectRequests::learn_from(const HttpResponse& response, const ObjectError& error, Attempt& attempt) {
  const bool is_elsewhere = response.status == 301 || response.status == 307 ||
                            error.code == "AuthorizationHeaderMalformed" ||
                            error.code == "IllegalLocationConstraintException";
  if (is_s3_ && is_elsewhere && attempt.moves++ < 2) {
    std::string region(response.header("x-amz-bucket-region"));
    if (region.empty()) region = error.region;
    const LockGuard lock(mutex_);
    if (is_region(region) && region != endpoint_.region()) {
      log::info("{}: is in region {}, not {}; -o region={} saves a request", endpoint_.name_of(""), region,
                endpoint_.region(), region);
      endpoint_.move_to(region);
      return true;
    }
  }
  if (error.code == "RequestTimeTooSkewed" && !attempt.has_new_clock) {
    attempt.has_new_clock = true;
    const time_t there = ::curl_getdate(std::string(response.header("date")).c_str(), nullptr);
    if (there != -1) {
      clock_offset_ = there - std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
      log::warning("the clock of this machine differs by {} s from that of {}", clock_offset_.load(), name_of(""));
      return true;
    }
  }
  // Not AccessDenied: other keys of the same place have the same permissions.
  const bool is_refused = error.code == "ExpiredToken" || error.code == "InvalidToken" ||
                          error.code == "TokenRefreshRequired" || error.code == "InvalidAccessKeyId";
  if (is_refused && credentials_ != nullptr && !attempt.has_new_keys) {
    attempt.has_new_keys = true;
    credentials_->refused(attempt.credentials);
    CODECFS_ASSIGN(const Credentials others, credentials_->get());
    return others.access_key != attempt.credentials.access_key ||
           others.session_token != attempt.credentials.session_token;
  }
  return false;
}

Result<ObjectResponse> ObjectRequests::send(const ObjectRequest& request) {
  Attempt attempt;
  while (true) {
    Error failure;
    milliseconds asked{};
    bool goes_on = false;
    auto response = send_once(request, attempt);
    if (!response) {
      failure = std::move(response.error());
      goes_on = is_transient(failure.code) && (was_answered_ || attempt.failures + 1 < kFirstContact);
      if (is_transient(failure.code) || failure.code == EPROTO) failure.code = EIO;
    } else {
      was_answered_ = true;
      const int status = response->status;
      const ObjectError error =
          status >= 300
              ? parse_object_error({reinterpret_cast<const char*>(response->body.data()), response->body.size()})
              : ObjectError();
      if (is_answer(status)) {
        const auto checked = status < 300 && request.check ? request.check(*response) : Result<>();
        if (checked) {
          return ObjectResponse{std::move(*response), error, attempt.failures > 0};
        }
        failure = checked.error();
        goes_on = true;
      } else {
        CODECFS_ASSIGN(const bool can_succeed, learn_from(*response, error, attempt));
        if (can_succeed) continue;
        failure = {EIO, description(*response, error)};
        goes_on = is_transient(status, error);
        asked = asked_wait(*response);
        if (status == 401 || status == 403 || status == 400) {
          failure.code = EACCES;
          if (status == 400 && error.code != "ExpiredToken" && error.code != "InvalidToken") failure.code = EIO;
          if (credentials_ == nullptr && is_s3_) failure.reason += "; without -o anon the request would be signed";
        }
        if (status == 405 || status == 501) failure.code = EOPNOTSUPP, goes_on = false;
      }
    }
    const auto wait = goes_on ? retries_.next_wait(attempt.began, ++attempt.failures, asked) : std::nullopt;
    if (!wait)
      return fail(failure.code, "{} {}: {}{}", request.method, name_of(request.key), failure.reason,
                  attempt.failures > 1 ? fmt::format(", after {} attempts", attempt.failures) : "");
    ++repeated_;
    std::this_thread::sleep_for(*wait);
  }
}

}  // namespace codecfs::remote
