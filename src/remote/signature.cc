#include "remote/signature.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>

#include "base/ascii.h"

namespace codecfs::remote {
namespace {

using Sha256 = std::array<unsigned char, 32>;  // SHA-256

constexpr std::string_view kHexDigits = "0123456789abcdef";

std::string to_hex(std::span<const unsigned char> bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const unsigned char byte : bytes) {
    text += kHexDigits[byte >> 4];
    text += kHexDigits[byte & 15];
  }
  return text;
}

std::string digest_hex(Bytes bytes, const EVP_MD* type) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (!type || EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, type, nullptr) != 1) return {};
  return to_hex({digest.data(), size});
}

Sha256 hmac(std::span<const unsigned char> key, std::string_view text) {
  Sha256 digest{};
  unsigned size = digest.size();
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
       text.size(), digest.data(), &size);
  return digest;
}

Sha256 signing_key(const std::string& secret, std::string_view date, const SigningScope& scope) {
  const std::string first = "AWS4" + secret;
  Sha256 key = hmac({reinterpret_cast<const unsigned char*>(first.data()), first.size()}, date);
  for (const std::string_view text :
       {std::string_view(scope.region), std::string_view(scope.service), std::string_view("aws4_request")}) {
    key = hmac(key, text);
  }
  return key;
}

struct UrlParts {
  std::string host;  // with a port that is not that of the scheme, as in the header Host
  std::string_view path;
  std::string_view query;
};

UrlParts split_url(std::string_view url) {
  UrlParts parts;
  url = url.substr(0, url.find('#'));
  const size_t scheme_end = url.find("://");
  const std::string_view scheme = url.substr(0, scheme_end);
  if (scheme_end != url.npos) url.remove_prefix(scheme_end + 3);
  const size_t host_end = std::min(url.find_first_of("/?"), url.size());
  std::string_view host = url.substr(0, host_end);
  if (const size_t user_end = host.rfind('@'); user_end != host.npos) host.remove_prefix(user_end + 1);
  const std::string_view default_port = scheme == "http" ? ":80" : ":443";
  if (host.ends_with(default_port)) host.remove_suffix(default_port.size());
  parts.host = host;
  url.remove_prefix(host_end);
  const size_t path_end = std::min(url.find('?'), url.size());
  parts.path = path_end == 0 ? "/" : url.substr(0, path_end);
  if (path_end < url.size()) parts.query = url.substr(path_end + 1);
  return parts;
}

/// Sorted by name, then by value. A parameter without a value has an empty one.
std::string canonical_query(std::string_view query) {
  std::vector<std::pair<std::string_view, std::string_view>> parameters;
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view parameter = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (parameter.empty()) continue;
    const size_t equals = std::min(parameter.find('='), parameter.size());
    parameters.emplace_back(parameter.substr(0, equals), parameter.substr(std::min(equals + 1, parameter.size())));
  }
  std::ranges::sort(parameters);
  std::string text;
  for (const auto& [name, value] : parameters) {
    if (!text.empty()) text += '&';
    text.append(name).append("=").append(value);
  }
  return text;
}

/// Without white space at the ends, and with one space in place of several.
std::string collapsed(std::string_view value) {
  std::string text;
  bool has_space = false;
  for (const char c : value) {
    if (c == ' ' || c == '\t') {
      has_space = true;
      continue;
    }
    if (has_space && !text.empty()) text += ' ';
    has_space = false;
    text += c;
  }
  return text;
}

struct CanonicalHeaders {
  std::string lines;
  std::string names;  // separated by semicolons
};

CanonicalHeaders canonical_headers(const HttpRequest& request, const std::string& host) {
  // Keeps the order of values that have the same name.
  std::multimap<std::string, std::string> headers{{"host", collapsed(host)}};
  for (const HttpHeader& header : request.headers) headers.emplace(lower_case(header.name), collapsed(header.value));
  CanonicalHeaders canonical;
  std::string_view last;
  for (const auto& [name, value] : headers) {
    if (name == last) {
      canonical.lines.pop_back();  // the line end
      canonical.lines += "," + value + "\n";
      continue;
    }
    canonical.lines += name + ":" + value + "\n";
    if (!canonical.names.empty()) canonical.names += ';';
    canonical.names += name;
    last = name;
  }
  return canonical;
}

/// "20130524T000000Z"
std::string signing_time(std::chrono::system_clock::time_point now) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  const auto day = std::chrono::floor<std::chrono::days>(seconds);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(seconds - day);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), time.hours().count(),
                     time.minutes().count(), time.seconds().count());
}

}  // namespace

void sign(HttpRequest& request, const Credentials& credentials, const SigningScope& scope,
          std::chrono::system_clock::time_point now) {
  constexpr std::array<std::string_view, 4> kAddedHeaders{"authorization", "x-amz-date", "x-amz-content-sha256",
                                                          "x-amz-security-token"};
  // Those of an earlier attempt.
  std::erase_if(request.headers, [&](const HttpHeader& header) {
    return std::ranges::find(kAddedHeaders, lower_case(header.name)) != kAddedHeaders.end();
  });
  const std::string time = signing_time(now);
  const std::string body_digest = sha256_hex(request.body);
  request.headers.push_back({"x-amz-date", time});
  request.headers.push_back({"x-amz-content-sha256", body_digest});
  if (!credentials.session_token.empty()) {
    request.headers.push_back({"x-amz-security-token", credentials.session_token});
  }

  const UrlParts url = split_url(request.url);
  const CanonicalHeaders headers = canonical_headers(request, url.host);
  const std::string canonical = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, url.path,
                                            canonical_query(url.query), headers.lines, headers.names, body_digest);
  const std::string date = time.substr(0, 8);
  const std::string scope_text = fmt::format("{}/{}/{}/aws4_request", date, scope.region, scope.service);
  const std::string to_sign =
      fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", time, scope_text, sha256_hex(std::as_bytes(std::span(canonical))));
  const std::string signature = to_hex(hmac(signing_key(credentials.secret_key, date, scope), to_sign));
  request.headers.push_back(
      {"Authorization", fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, "
                                    "Signature={}",
                                    credentials.access_key, scope_text, headers.names, signature)});
}

std::string sha256_hex(Bytes bytes) { return digest_hex(bytes, EVP_sha256()); }

std::string hmac_sha256(std::string_view key, std::string_view text) {
  const Sha256 digest = hmac({reinterpret_cast<const unsigned char*>(key.data()), key.size()}, text);
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string md5_hex(Bytes bytes) {
  // "-fips": also where only approved digests are used by default. It checks transfers, it protects nothing.
  static const EVP_MD* const md5 = EVP_MD_fetch(nullptr, "MD5", "-fips");
  return digest_hex(bytes, md5);
}

}  // namespace codecfs::remote
