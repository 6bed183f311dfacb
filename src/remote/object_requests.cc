#include "remote/object_requests.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/interruption.h"
#include "base/log.h"
#include "base/terminal_text.h"
#include "remote/credential_places.h"
#include "remote/object_endpoint.h"

namespace codecfs::remote {
namespace {

using std::chrono::milliseconds;

constexpr unsigned kFirstContact = 4;  // attempts while the host has never answered: its name may be wrong
constexpr std::chrono::seconds kLaterStall{30};

bool is_transient(int code) {
  return code == ETIMEDOUT || code == ECONNREFUSED || code == ECONNRESET || code == EHOSTUNREACH;
}

milliseconds asked_wait(const HttpResponse& response) {
  const std::string_view text = response.header("retry-after");
  unsigned seconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return std::chrono::seconds(std::min(seconds, 60U));
}

/// By which the operators of the server find the request in their logs: that of S3, Google and Azure.
std::string id_of(const HttpResponse& response) {
  for (const char* const name : {"x-amz-request-id", "x-guploader-uploadid", "x-ms-request-id"})
    if (const std::string_view id = response.header(name); !id.empty()) return printable(id.substr(0, 80));
  return {};
}

RequestStatistics::Counter& counter_of(RequestStatistics& statistics, const ObjectRequest& request) {
  if (request.method == "GET") return request.listed ? statistics.lists : statistics.gets;
  if (request.method == "HEAD") return statistics.heads;
  if (request.method == "PUT") return statistics.puts;
  return request.method == "DELETE" ? statistics.deletes : statistics.others;
}

/// The beginning of the text of a page, without its tags.
std::string excerpt(std::string_view page) {
  constexpr size_t kMaxExcerpt = 80;  // bytes
  std::string text;
  bool is_tag = false;
  for (const char c : page.substr(0, kMaxExcerpt * 8)) {
    if (text.size() == kMaxExcerpt) break;
    if (c == '<') is_tag = true;
    const bool is_space = is_tag || static_cast<unsigned char>(c) <= ' ';
    if (!is_space || (!text.empty() && !text.ends_with(' '))) text += is_space ? ' ' : c;
    if (c == '>') is_tag = false;
  }
  while (text.ends_with(' ')) text.pop_back();
  return printable(text);
}

/// "503 SlowDown (Please reduce your request rate), request 4D2...".
std::string description(const HttpResponse& response, const ObjectError& error) {
  std::string text = fmt::format("status {}", response.status);
  if (!error.code.empty()) text += " " + error.code;
  if (!error.message.empty()) text += fmt::format(" ({})", error.message);
  if (const std::string id = id_of(response); !id.empty()) text += fmt::format(", request {}", id);
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
  CODECFS_ASSIGN(auto dialect, make_dialect(url, options));
  CODECFS_ASSIGN(std::string ca_file, find_ca_file(url, options));
  // A web server may redirect each request to another host.
  CODECFS_ASSIGN(auto http, HttpClient::start(options.connections, std::move(ca_file), url.is_bucket() ? 1 : 2));
  std::unique_ptr<WebLogin> login;
  if (!options.credential_url.empty()) {
    if (url.is_bucket() && url.scheme != Scheme::s3)
      return fail(EINVAL, "-o credential_url= is for s3://; -o credential_process= serves all object stores");
    if (!options.credential_process.empty())
      return fail(EINVAL, "-o credential_url= and credential_process= are two places of the same keys");
  }
  if (url.is_bucket() && options.credential_url.empty() &&
      (!options.token_file.empty() || !options.header_file.empty()))
    return fail(EINVAL, "-o token_file= and header_file= are for web servers, and for credential_url=");
  if (!url.is_bucket() || !options.credential_url.empty()) {
    if (url.is_bucket()) CODECFS_TRY(check_credential_url(options.credential_url));
    CODECFS_ASSIGN(login, WebLogin::make(url.is_bucket() ? options.credential_url : url.base,
                                         {.token_file = options.token_file, .header_file = options.header_file}));
  }
  return std::unique_ptr<ObjectRequests>(
      new ObjectRequests(std::move(dialect), options, std::move(http), std::move(login)));
}

ObjectRequests::ObjectRequests(std::unique_ptr<Dialect> dialect, const ObjectOptions& options,
                               std::unique_ptr<HttpClient> http, std::unique_ptr<WebLogin> login)
    : options_(options),
      dialect_(std::move(dialect)),
      http_(std::move(http)),
      login_(std::move(login)),
      credentials_(login_ != nullptr && dialect_->is_bucket() && !options.anonymous
                       ? make_url_credential_provider(*http_, *login_, options.credential_url)
                       : dialect_->find_credentials(*http_)),
      retries_(options.retry_time),
      limit_(options.connections),
      statistics_(options.statistics ? options.statistics : std::make_shared<RequestStatistics>()) {}

Result<HttpRequest> ObjectRequests::prepare(const ObjectRequest& request, Attempt& attempt) {
  HttpRequest http{
      .method = request.method, .headers = request.headers, .body = request.body, .max_body = request.max_body};
  // Error texts come in the body too.
  http.max_body = std::max<uint64_t>(http.max_body, 64 << 10);
  if (attempt.failures > 0) http.stall_time = kLaterStall;
  if (credentials_ != nullptr) {
    CODECFS_ASSIGN(attempt.credentials, credentials_->get());
  }
  dialect_->address(http, request.key, request.query, credentials_ != nullptr ? &attempt.credentials : nullptr,
                    std::chrono::system_clock::now() + std::chrono::seconds(clock_offset_.load()));
  return http;
}

Result<HttpResponse> ObjectRequests::send_once(const ObjectRequest& request, Attempt& attempt) {
  const auto permit = limit_.acquire();
  if (!permit) return Interruption::error();
  CODECFS_ASSIGN(HttpRequest http, prepare(request, attempt));
  const std::string host = host_of(http.url);
  const auto began = RetryPolicy::Clock::now();
  ++counter_of(*statistics_, request);
  if (attempt.failures > 0) ++statistics_->retries;
  statistics_->bytes_sent += request.body.size();
  statistics_->begin();
  Result<HttpResponse> response =
      dialect_->is_bucket() ? http_->perform(std::move(http)) : login_->perform(*http_, http);
  const auto took = std::chrono::duration_cast<milliseconds>(RetryPolicy::Clock::now() - began);
  statistics_->end(took);
  if (response) statistics_->bytes_received += response->body.size();
  if (response) statistics_->gets += response->redirects;
  const bool is_overloaded =
      response ? response->status == 503 || response->status == 429 : response.error().code == ETIMEDOUT;
  if (is_overloaded) {
    limit_.overloaded();
  } else if (response) {
    limit_.succeeded(response->body.size());
  }
  log_request(request, host, response, took);
  return response;
}

/// The query of a URL, headers and keys are secrets.
void ObjectRequests::log_request(const ObjectRequest& request, const std::string& host,
                                 const Result<HttpResponse>& response, milliseconds took) const {
  if (!log::is_logged(log::Level::debug)) return;
  std::string text =
      request.listed ? "LIST " + name_of(*request.listed) : fmt::format("{} {}", request.method, name_of(request.key));
  for (const HttpHeader& header : request.headers)
    if (header.name == "Range") text += " " + header.value;
  text += fmt::format(" at {}: ", host);
  if (response) {
    text += fmt::format("status {}, {} bytes in {} ms", response->status, response->body.size(), took.count());
    if (const std::string id = id_of(*response); !id.empty()) text += ", request " + id;
  } else {
    text += fmt::format("{} in {} ms", response.error().reason, took.count());
  }
  log::debug("{}", text);
}

/// Whether the same request can succeed now, because of what the server says.
Result<bool> ObjectRequests::learn_from(const HttpResponse& response, const ObjectError& error, Meaning meaning,
                                        Attempt& attempt) {
  if (attempt.moves < 2 && dialect_->follows_move(response, error)) {
    ++attempt.moves;
    return true;
  }
  if (meaning == Meaning::other_clock && !attempt.has_new_clock) {
    attempt.has_new_clock = true;
    const time_t there = ::curl_getdate(std::string(response.header("date")).c_str(), nullptr);
    if (there != -1) {
      clock_offset_ = there - std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
      log::warning("the clock of this machine differs by {} s from that of {}", clock_offset_.load(), name_of(""));
      return true;
    }
  }
  if (meaning == Meaning::keys_refused && credentials_ != nullptr && !attempt.has_new_keys) {
    attempt.has_new_keys = true;
    credentials_->refused(attempt.credentials);
    CODECFS_ASSIGN(const Credentials others, credentials_->get());
    return others.access_key != attempt.credentials.access_key ||
           others.session_token != attempt.credentials.session_token;
  }
  return false;
}

Meaning ObjectRequests::meaning_of(const ObjectRequest& request, const HttpResponse& response,
                                   const ObjectError& error) const {
  const Meaning meaning = dialect_->meaning_of(request.key, response, error);
  const bool may_be_absent = options_.absent_403 && request.method == "GET" && !request.key.empty();
  return meaning == Meaning::forbidden && may_be_absent ? Meaning::absent : meaning;
}

/// Why a response that is no answer is none.
Error ObjectRequests::refusal(const HttpResponse& response, const ObjectError& error, Meaning meaning) const {
  Error refused{EIO, description(response, error)};
  const int status = response.status;
  if (error.code.empty() && !dialect_->has_secrets_in_urls()) {
    const std::string said = excerpt({reinterpret_cast<const char*>(response.body.data()), response.body.size()});
    if (!said.empty()) refused.reason += fmt::format(": \"{}\"", said);
  }
  if (!response.advice.empty()) refused.reason += "; " + response.advice;
  if (status == 401 || status == 403 || status == 400) {
    refused.code = EACCES;
    if (status == 400) refused.code = EIO;
  }
  if (meaning == Meaning::keys_refused || meaning == Meaning::forbidden) refused.code = EACCES;
  const bool may_need_keys = refused.code == EACCES || status == 400;
  if (may_need_keys && credentials_ == nullptr && dialect_->is_bucket())
    refused.reason += "; without -o anon the request would be signed";
  if (status == 405 || status == 501) refused.code = EOPNOTSUPP;
  if (meaning == Meaning::no_bucket) {
    refused.reason = "there is no such bucket: " + refused.reason;
  } else if ((status == 404 || status == 410) && !dialect_->absent_code().empty()) {
    refused.reason += fmt::format("; only {} would say that the object does not exist", dialect_->absent_code());
  }
  return refused;
}

std::unexpected<Error> ObjectRequests::give_up(const ObjectRequest& request, const Attempt& attempt,
                                               const Error& failure) const {
  ++(failure.code == EINTR ? statistics_->interrupted : statistics_->failures);
  return fail(failure.code, "{} {}: {}{}", request.method, name_of(request.key), failure.reason,
              attempt.failures > 1 ? fmt::format(", after {} attempts", attempt.failures) : "");
}

Result<ObjectResponse> ObjectRequests::send(const ObjectRequest& request) {
  Attempt attempt;
  const bool can_be_interrupted = request.method == "GET" || request.method == "HEAD";
  const Interruption::Scope scope(can_be_interrupted ? Interruption::current() : nullptr);
  while (true) {
    if (Interruption::is_requested()) return give_up(request, attempt, {EINTR, "interrupted"});
    Error failure;
    milliseconds asked{};
    bool goes_on = false;
    auto response = send_once(request, attempt);
    if (!response) {
      failure = std::move(response.error());
      if (failure.code == EINTR) return give_up(request, attempt, failure);
      goes_on = is_transient(failure.code) && (was_answered_ || attempt.failures + 1 < kFirstContact);
      if (is_transient(failure.code) || failure.code == EPROTO) failure.code = EIO;
    } else {
      was_answered_ = true;
      const int status = response->status;
      const ObjectError error = status >= 300 ? dialect_->error_of(*response) : ObjectError();
      const Meaning meaning = meaning_of(request, *response, error);
      const bool is_absent = meaning == Meaning::absent;
      const bool is_unmet = meaning == Meaning::unmet;
      if (!dialect_->is_bucket() && is_page(*response)) {
        failure = {EACCES, "the answer is a page of HTML and no data, perhaps that of a login or an error"};
        if (!response->advice.empty()) failure.reason += "; " + response->advice;
      } else if (meaning == Meaning::answer || is_absent || is_unmet) {
        const auto checked = status < 300 && request.check ? request.check(*response) : Result<>();
        if (checked) {
          return ObjectResponse{std::move(*response), error, attempt.failures > 0, is_absent, is_unmet};
        }
        failure = checked.error();
        goes_on = true;
      } else {
        CODECFS_ASSIGN(const bool can_succeed, learn_from(*response, error, meaning, attempt));
        if (can_succeed) continue;
        failure = refusal(*response, error, meaning);
        goes_on = meaning == Meaning::busy && failure.code != EOPNOTSUPP;
        asked = asked_wait(*response);
      }
    }
    const auto wait = goes_on ? retries_.next_wait(attempt.began, ++attempt.failures, asked) : std::nullopt;
    if (!wait) return give_up(request, attempt, failure);
    (void)Interruption::sleep(*wait);
  }
}

}  // namespace codecfs::remote
