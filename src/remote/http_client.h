#pragma once
// HTTP requests through libcurl, each performed by the thread that waits for it; connections are used again.
//
// It knows nothing of retries, signatures and object stores. Thread-safe.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::remote {

struct HttpHeader {
  std::string name;
  std::string value;
};

struct HttpRequest {
  std::string method = "GET";             // GET, HEAD, PUT, POST, DELETE
  std::string url{};                      // http or https, percent-encoded; its query may hold secrets: never logged
  std::vector<HttpHeader> headers{};      // without Host and Content-Length
  Bytes body{};                           // must stay valid until the request has ended
  uint64_t max_body = uint64_t{1} << 30;  // bytes of the response; a longer one is an error
  std::chrono::milliseconds connect_time{5000};
  std::chrono::seconds stall_time{10};  // below 1 KiB/s, also before the first byte
  std::chrono::seconds most_time{300};  // for all of it
  bool avoids_proxies = false;          // whatever http_proxy and others say
  uint64_t max_page = 0;                // bytes of a response of text/html, if that is more than max_body
};

struct HttpResponse {
  int status = 0;
  std::vector<HttpHeader> headers;  // names in lower case
  Buffer body;
  unsigned redirects = 0;       // that WebLogin followed
  std::string redirected_to{};  // the server that answered, if these led to another than that of the request
  std::string advice{};         // for messages: what a server that wants a login would need; empty: nothing is known
  /// The value of a header, empty if there is none.
  [[nodiscard]] std::string_view header(std::string_view lower_name) const;
};

class HttpClient {
 public:
  /// `connections`: the most that are open, and the most requests that run at a time; others wait. `ca_file`: in PEM,
  /// the certificates of authorities that https trusts; empty: those of the system. `hosts`: to so many at a time,
  /// connections stay open, each counted by itself. EIO if libcurl cannot be used.
  static Result<std::unique_ptr<HttpClient>> start(size_t connections, std::string ca_file = {}, int hosts = 1);
  /// No request may run.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Any status is a response. Errors, which are worth a retry: ETIMEDOUT, ECONNREFUSED, ECONNRESET (also of a body
  /// that is too short), EHOSTUNREACH (no such host); not worth one: EFBIG (max_body), EPROTO (certificates, no HTTP),
  /// EINVAL (the URL), ENOMEM. Reasons name the host, not the URL.
  /// An Interruption of the thread ends a GET or HEAD: EINTR.
  Result<HttpResponse> perform(HttpRequest request);

 private:
  class Sessions;
  class Borrowed;
  HttpClient(std::unique_ptr<Sessions> sessions, std::string ca_file);
  const std::unique_ptr<Sessions> sessions_;
  const std::string ca_file_;
};

/// "https://host:port" of a URL, for messages.
std::string host_of(std::string_view url);
/// Percent-encodes everything but A-Z a-z 0-9 - . _ ~ and, with `keep_slash`, "/" (as AWS signs it).
std::string percent_encode(std::string_view text, bool keep_slash);
/// "?name=value&name=value", percent-encoded; empty if there are none.
std::string query_text(const std::vector<std::pair<std::string, std::string>>& query);

}  // namespace codecfs::remote
