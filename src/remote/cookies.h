#pragma once
// Cookies of web servers, each for the server that set it. Thread-safe.
//
// Source: RFC 6265, but for Domain, which is ignored: a cookie goes back to its own scheme, host and port only, and no
// list of public suffixes is needed. Cookies are kept in memory, of a limited number and size.

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "remote/web_url.h"

namespace codecfs::remote {

class Cookies {
 public:
  using Time = std::chrono::system_clock::time_point;
  static constexpr size_t kMaxOfOrigin = 64;
  static constexpr size_t kMaxBytes = 8192;  // of one

  /// The value of one header Set-Cookie in an answer to a request for `path`. What is malformed is ignored.
  void store(const Origin& origin, std::string_view path, std::string_view header, Time now);
  /// The value of the header Cookie of a request; empty if there is none.
  [[nodiscard]] std::string header_for(const Origin& origin, std::string_view path, Time now) const;

 private:
  struct Cookie {
    std::string name;
    std::string value;
    std::string path;
    Time expires = Time::max();
  };
  mutable Mutex mutex_;
  std::map<Origin, std::vector<Cookie>> cookies_ CODECFS_GUARDED_BY(mutex_);
};

}  // namespace codecfs::remote
