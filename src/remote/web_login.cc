#include "remote/web_login.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <map>
#include <span>
#include <utility>

#include "base/ascii.h"
#include "base/interruption.h"
#include "base/log.h"
#include "model/base64.h"
#include "remote/credential_answers.h"
#include "remote/netrc.h"
#include "remote/text_file.h"

namespace codecfs::remote {
namespace {

constexpr unsigned kMaxRedirects = 10;
constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr uint64_t kMaxPageBytes = uint64_t{4} << 20;
constexpr std::string_view kEarthdataLogin = "urs.earthdata.nasa.gov";
// And all hosts below them. Other archives that know Earthdata tokens need -o token_file=.
constexpr std::array<std::string_view, 3> kEarthdataDomains{"earthdata.nasa.gov", "earthdatacloud.nasa.gov",
                                                            "eosdis.nasa.gov"};
// Headers that codecfs or libcurl sets itself.
constexpr std::array<std::string_view, 17> kOwnHeaders{"host",
                                                       "range",
                                                       "if-match",
                                                       "if-none-match",
                                                       "if-range",
                                                       "if-modified-since",
                                                       "content-length",
                                                       "connection",
                                                       "transfer-encoding",
                                                       "expect",
                                                       "if-unmodified-since",
                                                       "te",
                                                       "upgrade",
                                                       "trailer",
                                                       "accept-encoding",
                                                       "keep-alive",
                                                       "cache-control"};

bool is_earthdata(const Origin& origin) {
  return origin.scheme == "https" && origin.has_usual_port() &&
         std::ranges::any_of(kEarthdataDomains, [&](std::string_view domain) {
           return origin.host == domain ||
                  (origin.host.ends_with(domain) && origin.host[origin.host.size() - domain.size() - 1] == '.');
         });
}

bool is_header_value(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return (c >= ' ' && c <= '~') || c == '\t'; });
}

bool is_header_name(std::string_view text) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || kOthers.contains(c);
  });
}

Result<std::string> read_token(const std::string& path) {
  CODECFS_ASSIGN(const std::string text, read_text_file(path, kMaxFileBytes));
  const std::string_view token = trim(text);
  if (token.empty() || !std::ranges::all_of(token, [](char c) { return c > ' ' && c <= '~'; }))
    return fail(EINVAL, "'{}': is no token: it must have one word of ASCII and no other", path);
  return std::string(token);
}

Result<std::vector<HttpHeader>> read_headers(const std::string& path) {
  CODECFS_ASSIGN(const std::string text, read_text_file(path, kMaxFileBytes));
  std::vector<HttpHeader> headers;
  size_t number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = trim(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
    ++number;
    if (line.empty() || line.front() == '#') continue;
    const size_t colon = std::min(line.find(':'), line.size());
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = trim(line.substr(std::min(colon + 1, line.size())));
    if (!is_header_name(name) || !is_header_value(value))
      return fail(EINVAL, "'{}', line {}: is no header; write NAME: VALUE", path, number);
    if (std::ranges::find(kOwnHeaders, lower_case(name)) != kOwnHeaders.end())
      return fail(EINVAL, "'{}', line {}: codecfs sets the header {} itself", path, number, name);
    headers.push_back({std::string(name), std::string(value)});
  }
  return headers;
}

/// The logins, and the name of their file for messages.
struct Netrc {
  std::map<std::string, NetrcLogin> logins;
  std::string path;
  std::string problem;  // why there are none
};

Result<Netrc> read_netrc() {
  std::string path = environment_value("NETRC");
  const bool is_named = !path.empty();
  if (!is_named) {
    const std::string home = home_directory();
    if (home.empty()) return Netrc{};
    path = home + "/.netrc";
  }
  const Result<std::string> text = read_text_file(path, kMaxFileBytes);
  if (!text && is_named) return fail(text.error().code, "NETRC: {}", text.error().reason);
  if (!text && (text.error().code == ENOENT || text.error().code == ENOTDIR)) return Netrc{};
  auto logins = text ? parse_netrc(*text, path) : std::unexpected(text.error());
  if (logins) return Netrc{.logins = *std::move(logins), .path = path, .problem = {}};
  if (is_named) return pass_on(logins);
  // It may have nothing to do with this server.
  return Netrc{.logins = {}, .path = path, .problem = logins.error().reason};
}

std::string basic(const std::string& user, const std::string& password) {
  const std::string pair = user + ":" + password;
  return "Basic " + encode_base64(std::as_bytes(std::span(pair)));
}

bool has_header(const std::vector<HttpHeader>& headers, std::string_view name) {
  return std::ranges::any_of(headers, [&](const HttpHeader& header) { return is_same_word(header.name, name); });
}

bool has_authorization(const std::vector<HttpHeader>& headers) { return has_header(headers, "authorization"); }

/// Where a response sends the client; empty if it does not.
std::string_view redirection(const HttpResponse& response) {
  constexpr std::array<int, 5> kStatuses{301, 302, 303, 307, 308};
  const bool is_one = std::ranges::find(kStatuses, response.status) != kStatuses.end();
  return is_one ? response.header("location") : std::string_view();
}

/// For how long a redirect holds; 0 if it does not say so.
std::chrono::seconds lifetime_of(const HttpResponse& response) {
  constexpr int kLongest = 86400;
  const std::string text = lower_case(response.header("cache-control"));
  const size_t at = text.find("max-age=");
  if (at == text.npos || text.contains("no-store") || text.contains("no-cache")) return {};
  int seconds = 0;
  const char* const digits = text.data() + at + std::string_view("max-age=").size();
  const auto [end, error] = std::from_chars(digits, text.data() + text.size(), seconds);
  return std::chrono::seconds(error == std::errc() ? std::clamp(seconds, 0, kLongest) : 0);
}

bool is_html(const HttpResponse& response) {
  const std::string type = lower_case(response.header("content-type"));
  return type.starts_with("text/html") || type.starts_with("application/xhtml+xml");
}

}  // namespace

bool is_page(const HttpResponse& response) {
  if ((response.status != 200 && response.status != 206) || !is_html(response)) return false;
  constexpr size_t kLook = 512;  // bytes
  const std::string start =
      lower_case({reinterpret_cast<const char*>(response.body.data()), std::min<size_t>(response.body.size(), kLook)});
  std::string_view text = start;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
  text = trim(text);
  // A part of data may begin with any character.
  return response.status == 200 ? text.starts_with('<')
                                : text.starts_with("<!doctype html") || text.starts_with("<html");
}

/// The right to log in, which one request at a time has.
class WebLogin::Turn {
 public:
  explicit Turn(WebLogin& login) : login_(login) {}
  ~Turn() { end(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// Waits for it. False if another request has logged in since `logins` had; EINTR.
  Result<bool> take(unsigned logins) {
    UniqueLock lock(login_.mutex_);
    const auto is_free = [&]() CODECFS_REQUIRES(login_.mutex_) { return !login_.is_logging_in_; };
    if (!Interruption::wait(login_.turn_ended_, lock, is_free)) return Interruption::error();
    if (login_.logins_ != logins) return false;
    login_.is_logging_in_ = has_ = was_taken_ = true;
    return true;
  }
  /// Lets the others go on.
  void end() {
    if (!has_) return;
    has_ = false;
    const LockGuard lock(login_.mutex_);
    login_.is_logging_in_ = false;
    ++login_.logins_;
    login_.turn_ended_.notify_all();
  }
  /// Whether it was had.
  [[nodiscard]] bool was_taken() const { return was_taken_; }

 private:
  WebLogin& login_;
  bool has_ = false;
  bool was_taken_ = false;
};

Result<std::unique_ptr<WebLogin>> WebLogin::make(const std::string& url, WebLoginFiles files) {
  CODECFS_ASSIGN(Origin home, origin_of(url));
  std::unique_ptr<WebLogin> made(new WebLogin(std::move(home), std::move(files)));
  CODECFS_TRY(made->login_for(made->home_));
  return made;
}

Result<> WebLogin::add_files(Login& login) const {
  if (files_.token_file.empty() && files_.header_file.empty()) return {};
  if (!home_.is_private())
    return fail(EINVAL, "{}: what is in -o token_file= and header_file= is only sent over https", home_.shown());
  if (!files_.header_file.empty()) {
    CODECFS_ASSIGN(login.headers, read_headers(files_.header_file));
    login.from = fmt::format("the headers in '{}'", files_.header_file);
  }
  if (files_.token_file.empty()) return {};
  if (has_authorization(login.headers))
    return fail(EINVAL, "-o token_file=: '{}' has a header Authorization, too", files_.header_file);
  CODECFS_ASSIGN(const std::string token, read_token(files_.token_file));
  login.headers.push_back({"Authorization", "Bearer " + token});
  login.from = fmt::format("the token in '{}'", files_.token_file);
  return {};
}

Result<> WebLogin::add_netrc(Login& login, const Origin& origin) const {
  CODECFS_ASSIGN(const Netrc netrc, read_netrc());
  const auto found = netrc.logins.find(origin.host);
  if (found == netrc.logins.end()) {
    login.withheld = netrc.problem;
    return {};
  }
  if (!origin.is_private() || (origin != home_ && !origin.has_usual_port())) {
    login.withheld = fmt::format("the login for {} in '{}' is only sent over https{}", origin.host, netrc.path,
                                 origin.is_private() ? " on its usual port" : "");
    return {};
  }
  login.headers.push_back({"Authorization", basic(found->second.user, found->second.password)});
  login.from = fmt::format("the login for {} in '{}'", origin.host, netrc.path);
  return {};
}

Result<WebLogin::Login> WebLogin::login_for(const Origin& origin) const {
  auto login = find_login(origin);
  if (!login) return fail(EACCES, "{}", login.error().reason);
  return login;
}

Result<WebLogin::Login> WebLogin::find_login(const Origin& origin) const {
  Login login;
  if (origin == home_) CODECFS_TRY(add_files(login));
  if (has_authorization(login.headers)) return login;
  CODECFS_TRY(add_netrc(login, origin));
  if (has_authorization(login.headers) || !is_earthdata(origin)) return login;
  const std::string user = environment_value("EARTHDATA_USERNAME");
  const std::string password = environment_value("EARTHDATA_PASSWORD");
  const std::string variable = environment_value("EARTHDATA_TOKEN");
  const std::string token(trim(variable));
  if (origin.host == kEarthdataLogin && !user.empty() && !password.empty()) {
    login.headers.push_back({"Authorization", basic(user, password)});
    login.from = "EARTHDATA_USERNAME and EARTHDATA_PASSWORD";
  } else if (!token.empty()) {
    if (!is_header_value(token)) return fail(EACCES, "EARTHDATA_TOKEN has characters that a header cannot have");
    login.headers.push_back({"Authorization", "Bearer " + token});
    login.from = "EARTHDATA_TOKEN";
  }
  return login;
}

Result<HttpResponse> WebLogin::send(HttpClient& http, const HttpRequest& request, const std::string& url,
                                    const Login& login) {
  CODECFS_ASSIGN(const Origin origin, origin_of(url));
  const std::string path = path_of(url);
  HttpRequest sent = request;
  sent.url = url;
  sent.max_page = kMaxPageBytes;
  sent.headers.insert(sent.headers.end(), login.headers.begin(), login.headers.end());
  if (const std::string cookies = cookies_.header_for(origin, path, std::chrono::system_clock::now());
      !cookies.empty()) {
    const auto own = std::ranges::find_if(sent.headers,
                                          [](const HttpHeader& header) { return is_same_word(header.name, "cookie"); });
    if (own != sent.headers.end()) {
      own->value += "; " + cookies;
    } else {
      sent.headers.push_back({"Cookie", cookies});
    }
  }
  CODECFS_ASSIGN(HttpResponse response, http.perform(std::move(sent)));
  for (const HttpHeader& header : response.headers)
    if (header.name == "set-cookie") cookies_.store(origin, path, header.value, std::chrono::system_clock::now());
  return response;
}

std::string WebLogin::advice_for(const Origin& origin, const Login& login) const {
  if (!login.from.empty()) return fmt::format("{} does not accept {}", origin.shown(), login.from);
  if (!login.withheld.empty()) return login.withheld;
  return fmt::format("{} wants a login: {}-o token_file= or -o header_file=, or a line for {} in ~/.netrc",
                     origin.shown(), is_earthdata(origin) ? "EARTHDATA_TOKEN, " : "", origin.host);
}

std::string WebLogin::follow_kept(const std::string& url) {
  const auto kept = redirects_.get(url);
  return kept && kept->until > std::chrono::steady_clock::now() ? kept->target : url;
}

bool WebLogin::accepts(const Origin& origin) {
  const LockGuard lock(mutex_);
  return accepting_.contains(origin);
}

void WebLogin::note_accepted(const Origin& origin, bool is_accepted) {
  constexpr size_t kMax = 64;
  const LockGuard lock(mutex_);
  if (!is_accepted) {
    accepting_.erase(origin);
  } else if (accepting_.size() < kMax) {
    accepting_.insert(origin);
  }
}

Result<HttpResponse> WebLogin::perform(HttpClient& http, const HttpRequest& request) {
  unsigned logins = 0;
  {
    const LockGuard lock(mutex_);
    logins = logins_;
  }
  CODECFS_ASSIGN(const Origin asked, origin_of(request.url));
  Turn turn(*this);
  const bool may_use_kept = !has_header(request.headers, "cache-control");
  std::string url = may_use_kept ? follow_kept(request.url) : request.url;
  bool uses_kept = url != request.url;
  unsigned requests = 0;
  unsigned hops = 0;
  bool is_restarted = false;
  const auto begin_again = [&] {
    url = request.url;
    hops = 0;
  };
  for (;;) {
    CODECFS_ASSIGN(const Origin origin, origin_of(url));
    CODECFS_ASSIGN(const Login login, login_for(origin));
    Result<HttpResponse> sent = send(http, request, url, login);
    ++requests;
    if (uses_kept && (!sent || sent->status >= 400 || is_page(*sent))) {
      redirects_.erase(request.url);
      if (!sent) return sent;
      uses_kept = false;
      begin_again();
      continue;
    }
    if (!sent) return sent;
    HttpResponse& response = *sent;
    const std::string location(redirection(response));
    if (location.empty()) {
      // After a login some servers show a page of their own.
      if (turn.was_taken() && !is_restarted && is_page(response)) {
        is_restarted = true;
        begin_again();
        continue;
      }
      response.redirects = requests - 1;
      if (origin != asked) note_accepted(origin, response.status < 300 && !is_page(response));
      if (origin != asked) response.redirected_to = origin.shown();
      if (response.status == 401 || response.status == 403 || is_page(response))
        response.advice = response.status == 403 && origin != home_ && login.from.empty() && login.withheld.empty()
                              ? fmt::format("this is the answer of {}, after a redirect", origin.shown())
                              : advice_for(origin, login);
      return sent;
    }
    if (++hops > kMaxRedirects) return fail(EPROTO, "{}: redirects more than {} times", host_of(request.url), hops - 1);
    CODECFS_ASSIGN(std::string next, resolve_url(url, location));
    CODECFS_ASSIGN(const Origin target, origin_of(next));
    if (origin.scheme == "https" && target.scheme == "http")
      return fail(EPROTO, "{}: redirects from https to {}, which is not encrypted", origin.shown(), target.shown());
    CODECFS_ASSIGN(const Login other, login_for(target));
    // It has set its cookie, and the request for the data follows.
    if (turn.was_taken() && origin == asked) turn.end();
    if (target != origin && !other.headers.empty() && !turn.was_taken() && !is_restarted && !accepts(target)) {
      CODECFS_ASSIGN(const bool is_mine, turn.take(logins));
      if (!is_mine) {
        is_restarted = true;
        begin_again();
        continue;
      }
      log::info("logging in at {} with {}", target.shown(), other.from);
    }
    // Not on the way to a login, which is another one each time.
    if (const auto lifetime = lifetime_of(response);
        lifetime.count() > 0 && url == request.url && other.headers.empty())
      redirects_.put(url, std::make_shared<const Redirect>(next, std::chrono::steady_clock::now() + lifetime));
    url = std::move(next);
  }
}

}  // namespace codecfs::remote
