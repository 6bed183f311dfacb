#include "remote/cookies.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>

#include "base/ascii.h"

namespace codecfs::remote {
namespace {

constexpr size_t kMaxOrigins = 16;
constexpr std::chrono::seconds kLongestCookie{10LL * 366 * 86400};  // that a cookie stays; servers write year 9999, too

/// RFC 6265, 5.1.4: a cookie of "/a" is for "/a" and "/a/b", not for "/ab".
bool is_for(std::string_view path, std::string_view cookie_path) {
  if (!path.starts_with(cookie_path)) return false;
  return path.size() == cookie_path.size() || cookie_path.ends_with('/') || path[cookie_path.size()] == '/';
}

std::string default_path(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos || slash == 0 ? "/" : std::string(path.substr(0, slash));
}

bool is_text(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != '\x7f'; });
}

std::pair<std::string_view, std::string_view> split_at_equals(std::string_view text) {
  const size_t equals = std::min(text.find('='), text.size());
  return {trim(text.substr(0, equals)), trim(text.substr(std::min(equals + 1, text.size())))};
}

}  // namespace

void Cookies::store(const Origin& origin, std::string_view path, std::string_view header, Time now) {
  const std::string_view pair = header.substr(0, header.find(';'));
  const auto [name, value] = split_at_equals(pair);
  if (!pair.contains('=') || name.empty() || header.size() > kMaxBytes || !is_text(header)) return;
  Cookie cookie{.name = std::string(name), .value = std::string(value), .path = default_path(path)};
  bool has_age = false;
  header.remove_prefix(pair.size());
  while (!header.empty()) {
    header.remove_prefix(1);  // the semicolon
    const std::string_view attribute = header.substr(0, header.find(';'));
    header.remove_prefix(attribute.size());
    const auto [key, text] = split_at_equals(attribute);
    if (is_same_word(key, "path") && text.starts_with('/')) cookie.path = text;
    if (is_same_word(key, "max-age")) {
      long long seconds = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
      if (error != std::errc() || end != text.data() + text.size()) continue;
      has_age = true;
      cookie.expires = seconds <= 0 ? Time::min() : now + std::min(std::chrono::seconds(seconds), kLongestCookie);
    }
    if (is_same_word(key, "expires") && !has_age) {
      const time_t time = ::curl_getdate(std::string(text).c_str(), nullptr);
      const auto left = std::chrono::seconds(time) - std::chrono::floor<std::chrono::seconds>(now.time_since_epoch());
      if (time != -1) cookie.expires = left.count() <= 0 ? Time::min() : now + std::min(left, kLongestCookie);
    }
  }
  const LockGuard lock(mutex_);
  if (!cookies_.contains(origin) && cookies_.size() >= kMaxOrigins) return;
  auto& mine = cookies_[origin];
  std::erase_if(mine, [&](const Cookie& other) {
    return other.expires <= now || (other.name == cookie.name && other.path == cookie.path);
  });
  if (cookie.expires <= now) return;
  if (mine.size() >= kMaxOfOrigin) mine.erase(mine.begin());
  mine.push_back(std::move(cookie));
}

std::string Cookies::header_for(const Origin& origin, std::string_view path, Time now) const {
  const LockGuard lock(mutex_);
  const auto found = cookies_.find(origin);
  if (found == cookies_.end()) return {};
  std::vector<const Cookie*> sent;
  const auto length_of = [](const Cookie* cookie) { return cookie->path.size(); };
  for (const Cookie& cookie : found->second) {
    if (cookie.expires <= now || !is_for(path, cookie.path)) continue;
    sent.insert(std::ranges::upper_bound(sent, cookie.path.size(), std::ranges::greater(), length_of), &cookie);
  }
  std::string header;
  for (const Cookie* const cookie : sent) {
    if (!header.empty()) header += "; ";
    header.append(cookie->name).append("=").append(cookie->value);
  }
  return header;
}

}  // namespace codecfs::remote
