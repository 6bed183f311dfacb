// The agent of a container (ECS, EKS) on a local address.
// Source: "AWS SDKs and Tools Reference Guide", container credential provider.
#include <arpa/inet.h>
#include <curl/curl.h>
#include <fmt/format.h>

#include <memory>

#include "base/ascii.h"
#include "remote/credential_answers.h"
#include "remote/credential_places.h"
#include "remote/text_file.h"

namespace codecfs::remote {
namespace {

constexpr int kContainerAttempts = 3;
constexpr size_t kMaxAuthorizationBytes = size_t{64} << 10;

struct CurlUrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

/// A part of a URL as libcurl, which will make the request, understands it. Empty if there is none.
std::string url_part(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, 0) != CURLUE_OK) return {};
  const std::unique_ptr<char, decltype(&curl_free)> owner(text, &curl_free);
  return text;
}

/// Addresses to which the token of the container may go without encryption.
bool is_agent_address(std::string host) {
  if (lower_case(host) == "localhost") return true;
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    return (ntohl(v4.s_addr) >> 24) == 127 || host == "169.254.170.2" || host == "169.254.170.23";
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  in6_addr v6{};
  in6_addr eks{};
  if (::inet_pton(AF_INET6, host.c_str(), &v6) != 1) return false;
  ::inet_pton(AF_INET6, "fd00:ec2::23", &eks);
  return IN6_IS_ADDR_LOOPBACK(&v6) || IN6_ARE_ADDR_EQUAL(&v6, &eks);
}

Result<> check_full_uri(const std::string& uri) {
  const std::unique_ptr<CURLU, CurlUrlDeleter> url(curl_url());
  if (!url) return fail(ENOMEM, "no memory for a URL");
  if (curl_url_set(url.get(), CURLUPART_URL, uri.c_str(), 0) != CURLUE_OK) {
    return fail(EACCES, "AWS_CONTAINER_CREDENTIALS_FULL_URI is not a valid URL");
  }
  const std::string scheme = url_part(url.get(), CURLUPART_SCHEME);
  if (scheme == "https") return {};
  if (scheme == "http" && is_agent_address(url_part(url.get(), CURLUPART_HOST))) return {};
  return fail(EACCES,
              "AWS_CONTAINER_CREDENTIALS_FULL_URI must begin with https://, or be http:// with the address of a "
              "container agent (a loopback address, 169.254.170.2, 169.254.170.23, [fd00:ec2::23])");
}

/// Empty if none is set up. The file is read each time, because EKS replaces it.
Result<std::string> container_authorization() {
  std::string token = environment_value("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  const char* variable = "AWS_CONTAINER_AUTHORIZATION_TOKEN";
  if (const std::string path = environment_value("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); !path.empty()) {
    CODECFS_ASSIGN(token, read_text_file(path, kMaxAuthorizationBytes));
    token = trim(token);
    variable = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";
  }
  for (const char c : token) {
    if (c < ' ' || c > '~') return fail(EACCES, "{}: the token has characters that a header cannot have", variable);
  }
  return token;
}

}  // namespace

FoundCredentials container_credentials(HttpClient& http) {
  HttpRequest request;
  request.avoids_proxies = true;  // the service is on this machine, and a proxy must not see the token
  if (const std::string path = environment_value("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); !path.empty()) {
    if (!path.starts_with('/')) return fail(EACCES, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI must begin with '/'");
    request.url = "http://169.254.170.2" + path;
  } else if (const std::string uri = environment_value("AWS_CONTAINER_CREDENTIALS_FULL_URI"); !uri.empty()) {
    CODECFS_TRY(check_full_uri(uri));
    request.url = uri;
  } else {
    return std::nullopt;
  }
  CODECFS_ASSIGN(const std::string token, container_authorization());
  request.headers = {{"Accept", "application/json"}};
  if (!token.empty()) request.headers.push_back({"Authorization", token});
  request.max_body = kMaxCredentialAnswer;
  request.connect_time = std::chrono::milliseconds(2000);
  const std::string place = fmt::format("the container's credentials at {}", host_of(request.url));
  const Result<HttpResponse> response = request_credentials(http, request, kContainerAttempts);
  if (!response) return fail(EACCES, "{}: {}", place, response.error().reason);
  if (response->status != 200) return fail(EACCES, "{}: the request is refused (status {})", place, response->status);
  CODECFS_ASSIGN(Credentials credentials, parse_credentials(body_text(*response), "Token", place));
  return credentials;
}

}  // namespace codecfs::remote
