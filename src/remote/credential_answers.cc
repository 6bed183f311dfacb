#include "remote/credential_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <thread>

#include "base/terminal_text.h"
#include "model/json.h"

namespace codecfs::remote {
namespace {

using std::chrono::milliseconds;

bool may_be_repeated(const Result<HttpResponse>& response) {
  if (!response) {
    const int code = response.error().code;
    return code == ETIMEDOUT || code == ECONNREFUSED || code == ECONNRESET || code == EHOSTUNREACH;
  }
  if (response->status == 400) {
    const std::string_view text = body_text(*response);
    return text.contains("<Code>Throttling") || text.contains("<Code>IDPCommunicationError<");
  }
  return response->status == 429 || response->status >= 500;
}

bool is_header_text(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

/// Takes decimal digits off the front. None if there are fewer.
std::optional<int> take_number(std::string_view& text, size_t digits) {
  if (text.size() < digits) return {};
  int number = 0;
  for (const char c : text.substr(0, digits)) {
    if (c < '0' || c > '9') return {};
    number = 10 * number + (c - '0');
  }
  text.remove_prefix(digits);
  return number;
}

bool take_character(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

/// "Z", "+01:00", "+0100", or nothing for UTC.
std::optional<std::chrono::minutes> parse_zone(std::string_view text) {
  if (text.empty() || text == "Z") return std::chrono::minutes(0);
  const bool is_west = text.front() == '-';
  if (!is_west && text.front() != '+') return {};
  text.remove_prefix(1);
  const auto hours = take_number(text, 2);
  take_character(text, ':');
  const auto minutes = take_number(text, 2);
  if (!hours || !minutes || !text.empty()) return {};
  const std::chrono::minutes distance(60 * *hours + *minutes);
  return is_west ? -distance : distance;
}

struct KeyNames {
  const char* access_key;
  const char* secret_key;
  const char* session_token;
  const char* expiration;
};

Result<Credentials> parse_named(std::string_view json, const KeyNames& names, const std::string& place) {
  // Its error may quote the text.
  const Result<Json> parsed = parse_json(json);
  if (!parsed || !parsed->is_object()) return fail(EACCES, "{}: the answer is not a JSON object", place);
  const auto text = [&](const char* name) {
    const auto found = parsed->find(name);
    return found != parsed->end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  Credentials credentials{.access_key = text(names.access_key),
                          .secret_key = text(names.secret_key),
                          .session_token = text(names.session_token),
                          .expires = {}};
  if (const std::string expiration = text(names.expiration); !expiration.empty()) {
    credentials.expires = parse_expiration(expiration);
    if (!credentials.expires) return fail(EACCES, "{}: the answer has a malformed {}", place, names.expiration);
  }
  return check_credentials(std::move(credentials), place);
}

}  // namespace

std::string environment_value(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Result<HttpResponse> request_credentials(HttpClient& http, const HttpRequest& request, int attempts) {
  return repeat_request([&] { return http.perform(request); }, attempts);
}

Result<HttpResponse> repeat_request(const std::function<Result<HttpResponse>()>& send, int attempts) {
  for (int attempt = 1;; ++attempt) {
    Result<HttpResponse> response = send();
    if (attempt >= attempts || !may_be_repeated(response)) return response;
    std::random_device random;
    const int most = 100 << attempt;
    std::this_thread::sleep_for(milliseconds(std::uniform_int_distribution(most / 4, most)(random)));
  }
}

HttpRequest form_request(std::string url, const std::string& form) {
  HttpRequest request;
  request.method = "POST";
  request.url = std::move(url);
  request.headers = {{"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"}};
  request.body = std::as_bytes(std::span(form));
  request.max_body = kMaxCredentialAnswer;
  return request;
}

std::string_view body_text(const HttpResponse& response) {
  return {reinterpret_cast<const char*>(response.body.data()), response.body.size()};
}

Result<Credentials> parse_credentials(std::string_view json, const char* token_name, const std::string& place) {
  return parse_named(json, {"AccessKeyId", "SecretAccessKey", token_name, "Expiration"}, place);
}

Result<Credentials> parse_earthdata_credentials(std::string_view json, const std::string& place) {
  CODECFS_ASSIGN(Credentials credentials,
                 parse_named(json, {"accessKeyId", "secretAccessKey", "sessionToken", "expiration"}, place));
  if (credentials.session_token.empty() || !credentials.expires)
    return fail(EACCES, "{}: the answer has no sessionToken or no expiration", place);
  return credentials;
}

Result<Credentials> parse_token_response(const Result<HttpResponse>& response, const std::string& place) {
  if (!response) return fail(EACCES, "{}: {}", place, response.error().reason);
  const Result<Json> parsed = parse_json(body_text(*response));
  const Json answer = parsed && parsed->is_object() ? *parsed : Json::object();
  const auto text = [&](const char* name) {
    const Json found = member(answer, name);
    return found.is_string() ? found.get<std::string>() : std::string();
  };
  if (response->status != 200) {
    const std::string description = text("error_description");
    const std::string shown = description.substr(0, description.find_first_of("\r\n"));
    return fail(EACCES, "{}: status {} {}{}{}", place, response->status, cut_to(printable(text("error")), 80),
                shown.empty() ? "" : ": ", cut_to(printable(shown), 200));
  }
  Credentials credentials{.access_key = {}, .secret_key = {}, .session_token = text("access_token"), .expires = {}};
  if (credentials.session_token.empty() || !is_header_text(credentials.session_token))
    return fail(EACCES, "{}: the answer has no token", place);
  // A number of seconds, which some write as text.
  const Json lifetime = member(answer, "expires_in");
  std::optional<int64_t> seconds;
  constexpr double kLongest = 1e9;
  if (lifetime.is_number()) seconds = static_cast<int64_t>(std::clamp(lifetime.get<double>(), 0.0, kLongest));
  if (std::string digits = text("expires_in"); !digits.empty()) {
    std::string_view rest = digits;
    seconds = take_number(rest, std::min<size_t>(digits.size(), 9));
  }
  if (!seconds || *seconds <= 0) return fail(EACCES, "{}: the answer does not say when the token expires", place);
  credentials.expires = std::chrono::system_clock::now() + std::chrono::seconds(*seconds);
  return credentials;
}

Result<Credentials> check_credentials(Credentials credentials, const std::string& place) {
  if (credentials.access_key.empty() || credentials.secret_key.empty()) {
    return fail(EACCES, "{}: an access key or a secret key is missing", place);
  }
  if (!is_header_text(credentials.access_key) || !is_header_text(credentials.secret_key) ||
      !is_header_text(credentials.session_token)) {
    return fail(EACCES, "{}: a key or the session token has characters that keys cannot have", place);
  }
  if (credentials.expires && *credentials.expires <= std::chrono::system_clock::now()) {
    return fail(EACCES, "{}: the credentials have expired", place);
  }
  return credentials;
}

std::optional<std::chrono::system_clock::time_point> parse_expiration(std::string_view text) {
  const auto year = take_number(text, 4);
  if (!year || !take_character(text, '-')) return {};
  const auto month = take_number(text, 2);
  if (!month || !take_character(text, '-')) return {};
  const auto day = take_number(text, 2);
  if (!day || (!take_character(text, 'T') && !take_character(text, ' '))) return {};
  const auto hour = take_number(text, 2);
  if (!hour || !take_character(text, ':')) return {};
  const auto minute = take_number(text, 2);
  if (!minute || !take_character(text, ':')) return {};
  const auto second = take_number(text, 2);
  if (!second || *hour > 23 || *minute > 59 || *second > 60) return {};
  if (take_character(text, '.')) {
    const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    if (end == 0) return {};
    text.remove_prefix(end);
  }
  const auto zone = parse_zone(text);
  // Times of system_clock end in 2262, and some programs write 9999 for "never".
  const std::chrono::year_month_day date{std::chrono::year(std::clamp(*year, 1970, 2200)),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!zone || !date.ok()) return {};
  return std::chrono::sys_days(date) + std::chrono::hours(*hour) + std::chrono::minutes(*minute) +
         std::chrono::seconds(*second) - *zone;
}

}  // namespace codecfs::remote
