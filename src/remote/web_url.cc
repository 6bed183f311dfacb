#include "remote/web_url.h"

#include <arpa/inet.h>
#include <curl/curl.h>

#include <memory>

#include "base/ascii.h"
#include "remote/http_client.h"

namespace codecfs::remote {
namespace {

struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, FreeUrl>;

std::string part_of(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
  const std::unique_ptr<char, decltype(&curl_free)> owner(text, &curl_free);
  return text;
}

/// Null if it is no URL of https or http.
Url parse(const std::string& text) {
  Url url(curl_url());
  if (!url || curl_url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_PATH_AS_IS) != CURLUE_OK) return nullptr;
  const std::string scheme = part_of(url.get(), CURLUPART_SCHEME);
  return scheme == "https" || scheme == "http" ? std::move(url) : nullptr;
}

}  // namespace

bool Origin::is_private() const {
  if (scheme == "https" || host == "localhost" || host == "[::1]") return true;
  in_addr address{};
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 && (ntohl(address.s_addr) >> 24) == 127;
}

std::string Origin::shown() const {
  return fmt::format("{}://{}{}{}", scheme, host, has_usual_port() ? "" : ":", has_usual_port() ? "" : port);
}

Result<Origin> origin_of(const std::string& url) {
  const Url parsed = parse(url);
  Origin origin;
  if (parsed) {
    origin.scheme = part_of(parsed.get(), CURLUPART_SCHEME);
    origin.host = lower_case(part_of(parsed.get(), CURLUPART_HOST));
    origin.port = part_of(parsed.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT);
  }
  if (origin.host.empty()) return fail(EINVAL, "{}: is no URL of https or http", host_of(url));
  return origin;
}

std::string path_of(const std::string& url) {
  const Url parsed = parse(url);
  const std::string path = parsed ? part_of(parsed.get(), CURLUPART_PATH) : std::string();
  return path.empty() ? "/" : path;
}

Result<std::string> resolve_url(const std::string& url, const std::string& location) {
  Url parsed = parse(url);
  const bool is_set =
      parsed && curl_url_set(parsed.get(), CURLUPART_URL, location.c_str(), CURLU_URLENCODE) == CURLUE_OK;
  for (const CURLUPart part : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS, CURLUPART_FRAGMENT})
    if (is_set) curl_url_set(parsed.get(), part, nullptr, 0);
  std::string resolved = is_set ? part_of(parsed.get(), CURLUPART_URL) : std::string();
  // Its query may be a secret.
  if (!parse(resolved)) return fail(EPROTO, "{}: redirects to what is no URL of https or http", host_of(url));
  return resolved;
}

}  // namespace codecfs::remote
