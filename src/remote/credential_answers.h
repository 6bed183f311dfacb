#pragma once
// What the places of credentials share: requests, and how they answer. Errors show no content of answers. Thread-safe.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "remote/credentials.h"
#include "remote/http_client.h"

namespace codecfs::remote {

/// The value of an environment variable, empty if it is not set.
std::string environment_value(const char* name);

/// A request that is repeated after errors that may be gone the next time: of the connection, 429, 5xx, and 400 of STS
/// if it is too busy.
Result<HttpResponse> request_credentials(HttpClient& http, const HttpRequest& request, int attempts);
Result<HttpResponse> repeat_request(const std::function<Result<HttpResponse>()>& send, int attempts);

/// A POST of a form. `form` must stay valid until the request has ended.
HttpRequest form_request(std::string url, const std::string& form);
std::string_view body_text(const HttpResponse& response);

/// From {"AccessKeyId", "SecretAccessKey", `token_name`, "Expiration"}. `place` begins the message of errors. EACCES.
Result<Credentials> parse_credentials(std::string_view json, const char* token_name, const std::string& place);
/// From {"accessKeyId", "secretAccessKey", "sessionToken", "expiration"}, all of which there must be. EACCES.
Result<Credentials> parse_earthdata_credentials(std::string_view json, const std::string& place);

/// The bearer token of an answer of OAuth 2.0, {"access_token", "expires_in"}, as Credentials::session_token. EACCES
/// with the answer's "error" and "error_description", or that of the request.
Result<Credentials> parse_token_response(const Result<HttpResponse>& response, const std::string& place);

/// EACCES if they have expired, are incomplete, or hold characters that do not belong into a header.
Result<Credentials> check_credentials(Credentials credentials, const std::string& place);

/// "2026-11-24T02:23:47Z", also with a fraction of seconds or a distance from UTC ("+01:00").
std::optional<std::chrono::system_clock::time_point> parse_expiration(std::string_view text);

inline constexpr uint64_t kMaxCredentialAnswer = uint64_t{1} << 20;  // bytes

}  // namespace codecfs::remote
