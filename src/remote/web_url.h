#pragma once
// URLs of web servers as libcurl, which makes the requests, understands them. Thread-safe.

#include <compare>
#include <string>
#include <string_view>

#include "base/result.h"

namespace codecfs::remote {

/// What receives a request, and so may see what is meant for it only.
struct Origin {
  std::string scheme;  // "https" or "http"
  std::string host;    // in lower case; "[::1]" for an address of IPv6
  std::string port;    // also that of the scheme
  auto operator<=>(const Origin&) const = default;

  /// Whether others on the way cannot read what is sent: https, or http to this machine.
  [[nodiscard]] bool is_private() const;
  [[nodiscard]] bool has_usual_port() const { return port == (scheme == "https" ? "443" : "80"); }
  /// "https://host[:port]", for messages.
  [[nodiscard]] std::string shown() const;
};

/// EINVAL if it is no URL of https or http.
Result<Origin> origin_of(const std::string& url);
/// The path without the query, "/" if there is none.
std::string path_of(const std::string& url);
/// What `location`, which may be relative, means in an answer to a request for `url`; without a user and password.
/// EPROTO if it is no URL of https or http.
Result<std::string> resolve_url(const std::string& url, const std::string& location);

}  // namespace codecfs::remote
