#include "remote/azure_signature.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/ascii.h"
#include "remote/encodings.h"
#include "remote/signature.h"

namespace codecfs::remote {
namespace {

/// The path of a URL as it is sent.
std::string_view path_of(std::string_view url) {
  const size_t scheme = url.find("://");
  url.remove_prefix(std::min(url.find_first_of("/?", scheme + 3), url.size()));
  return url.substr(0, url.find('?'));
}

std::string header_of(const HttpRequest& request, std::string_view lower_name) {
  for (const HttpHeader& header : request.headers)
    if (lower_case(header.name) == lower_name) return header.value;
  return {};
}

/// What Azure calls the string to sign.
std::string text_to_sign(const HttpRequest& request, const std::string& account,
                         const std::vector<std::pair<std::string, std::string>>& query) {
  constexpr std::array<const char*, 8> kAfterLength{"content-md5",         "content-type", "date",
                                                    "if-modified-since",   "if-match",     "if-none-match",
                                                    "if-unmodified-since", "range"};
  std::string text = fmt::format("{}\n{}\n{}\n", request.method, header_of(request, "content-encoding"),
                                 header_of(request, "content-language"));
  if (!request.body.empty()) text += fmt::format("{}", request.body.size());
  text += '\n';
  for (const char* const name : kAfterLength) text += header_of(request, name) + "\n";
  std::map<std::string, std::string> own;
  for (const HttpHeader& header : request.headers)
    if (std::string name = lower_case(header.name); name.starts_with("x-ms-"))
      own.emplace(std::move(name), header.value);
  for (const auto& [name, value] : own) text += fmt::format("{}:{}\n", name, trim(value));
  text += fmt::format("/{}{}", account, path_of(request.url));
  std::map<std::string, std::string> parameters;
  for (const auto& [name, value] : query) parameters.emplace(lower_case(name), value);
  for (const auto& [name, value] : parameters) text += fmt::format("\n{}:{}", name, value);
  return text;
}

}  // namespace

void sign_for_azure(HttpRequest& request, const std::string& account, std::string_view key,
                    const std::vector<std::pair<std::string, std::string>>& query,
                    std::chrono::system_clock::time_point now) {
  request.headers.push_back({"x-ms-date", http_date(now)});
  const std::string signature = base64_encoded(hmac_sha256(key, text_to_sign(request, account, query)));
  request.headers.push_back({"Authorization", fmt::format("SharedKey {}:{}", account, signature)});
}

std::string http_date(std::chrono::system_clock::time_point time) {
  constexpr std::array<const char*, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::tm parts = fmt::gmtime(std::chrono::system_clock::to_time_t(time));
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[static_cast<size_t>(parts.tm_wday)], parts.tm_mday,
                     kMonths[static_cast<size_t>(parts.tm_mon)], parts.tm_year + 1900, parts.tm_hour, parts.tm_min,
                     parts.tm_sec);
}

}  // namespace codecfs::remote
