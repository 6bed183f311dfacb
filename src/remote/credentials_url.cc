// The keys of s3:// that a web server gives to those that are logged in: "S3 credentials" of NASA's archives.
#include <fmt/format.h>

#include "remote/credential_answers.h"
#include "remote/credential_places.h"
#include "remote/object_url.h"
#include "remote/web_login.h"

namespace codecfs::remote {
namespace {

constexpr int kUrlAttempts = 3;

}  // namespace

Result<> check_credential_url(const std::string& url) {
  CODECFS_ASSIGN(const Origin origin, origin_of(url));
  if (origin.is_private()) return {};
  return fail(EINVAL, "credential_url: {} is not encrypted: keys are only requested by https", origin.shown());
}

Result<Credentials> url_credentials(HttpClient& http, WebLogin& login, const std::string& url) {
  const HttpRequest request{.url = url, .headers = {{"Accept", "application/json"}}, .max_body = kMaxCredentialAnswer};
  const std::string place = fmt::format("the credentials at {}", shown_url(url));
  const Result<HttpResponse> response = repeat_request([&] { return login.perform(http, request); }, kUrlAttempts);
  if (!response) return fail(EACCES, "{}: {}", place, response.error().reason);
  const std::string advice = response->advice.empty() ? "" : "; " + response->advice;
  if (response->status != 200)
    return fail(EACCES, "{}: the request is refused (status {}){}", place, response->status, advice);
  if (is_page(*response))
    return fail(EACCES, "{}: the answer is a page of HTML, perhaps that of a login{}", place, advice);
  return parse_earthdata_credentials(body_text(*response), place);
}

}  // namespace codecfs::remote
