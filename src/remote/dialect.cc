#include "remote/dialect.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "remote/signature.h"

namespace codecfs::remote {

std::string Dialect::etag_of(const HttpResponse& response) const { return std::string(response.header("etag")); }

std::string Dialect::version_of(const HttpResponse& response, uint64_t total) const {
  std::string etag = etag_of(response);
  if (!etag.empty()) return etag;
  const std::string_view modified = response.header("last-modified");
  return modified.empty() ? "" : fmt::format("~{} {}", modified, total);
}

std::string Dialect::md5_of(const HttpResponse& response) const {
  return std::string(unquoted(response.header("etag")));
}

std::string Dialect::etag_of_none() const { return "\"" + md5_hex(std::as_bytes(std::span("another object"))) + "\""; }

HttpHeader Dialect::header_of(Condition condition, const std::string& etag) const {
  switch (condition) {
    case Condition::is_same: return {"If-Match", etag};
    case Condition::has_changed: return {"If-None-Match", etag};
    case Condition::is_new: break;
  }
  return {"If-None-Match", "*"};
}

Result<std::unique_ptr<Dialect>> make_dialect(const ObjectUrl& url, const ObjectOptions& options) {
  switch (url.scheme) {
    case Scheme::s3: return make_s3_dialect(url, options);
    case Scheme::azure: return make_azure_dialect(url, options);
    case Scheme::gcs: return make_gcs_dialect(url, options);
    case Scheme::http: break;
  }
  return make_http_dialect(url, options);
}

Result<std::string> checked_endpoint(std::string endpoint, std::string_view form) {
  if (!endpoint.contains("://")) endpoint.insert(0, "https://");
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const size_t host = endpoint.find("://") + 3;
  const bool is_http = endpoint.starts_with("https://") || endpoint.starts_with("http://");
  const bool is_url = std::ranges::all_of(endpoint, [](char c) { return c > ' ' && c <= '~'; });
  if (!is_http || !is_url || host == endpoint.size() || endpoint.find_first_of("?#@", host) != std::string::npos)
    return fail(EINVAL, "the endpoint {} is not of the form {}", shown_url(endpoint), form);
  return endpoint;
}

Meaning meaning_of_status(int status) {
  if ((status >= 200 && status < 300) || status == 304 || status == 416) return Meaning::answer;
  const bool is_busy = status == 408 || status == 409 || status == 429 || status >= 500;
  return is_busy ? Meaning::busy : Meaning::failed;
}

std::string_view text_of(const HttpResponse& response) {
  return {reinterpret_cast<const char*>(response.body.data()), response.body.size()};
}

std::string_view unquoted(std::string_view etag) {
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') return etag.substr(1, etag.size() - 2);
  return etag;
}

}  // namespace codecfs::remote
