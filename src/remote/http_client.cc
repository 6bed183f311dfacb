#include "remote/http_client.h"

#include <curl/curl.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <ctime>

#include "base/interruption.h"
#include "base/mutex.h"
#include "remote/certificates.h"
#include "remote/http_transfer.h"

namespace codecfs::remote {

// Not in the anonymous namespace, because HttpClient::Sessions has members of these types.
struct FreeEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct FreeMulti {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};

/// One request at a time, and the connections that the next ones use again.
struct Session {
  std::unique_ptr<CURLM, FreeMulti> multi;
  std::unique_ptr<CURL, FreeEasy> easy;
};

/// At most `connections` sessions, of which the latest that became free is used first.
class HttpClient::Sessions {
 public:
  Sessions(size_t connections, int hosts) : hosts_(hosts), left_(connections) { free_.reserve(connections); }

  /// Waits until fewer than `connections` are in use. EINTR, ENOMEM.
  Result<Session> take() {
    UniqueLock lock(mutex_);
    if (!Interruption::wait(returned_, lock, [&]() CODECFS_REQUIRES(mutex_) { return left_ > 0; }))
      return Interruption::error();
    Session session;
    if (free_.empty()) {
      session = {{curl_multi_init(), {}}, {curl_easy_init(), {}}};
      if (!session.multi || !session.easy) return fail(ENOMEM, "no memory for a request");
      curl_multi_setopt(session.multi.get(), CURLMOPT_MAX_TOTAL_CONNECTIONS, static_cast<long>(hosts_));
    } else {
      session = std::move(free_.back());
      free_.pop_back();
    }
    --left_;
    return session;
  }

  void give_back(Session session) noexcept {
    curl_easy_reset(session.easy.get());
    const LockGuard lock(mutex_);
    free_.push_back(std::move(session));  // which has room for all of them
    ++left_;
    returned_.notify_one();
  }

 private:
  Mutex mutex_;
  ConditionVariable returned_;
  std::vector<Session> free_ CODECFS_GUARDED_BY(mutex_);
  const int hosts_;
  size_t left_ CODECFS_GUARDED_BY(mutex_);  // that may still be taken
};

/// A session that is given back at the end, also when an exception ends the request.
class HttpClient::Borrowed {
 public:
  Borrowed(Sessions& all, Session session) : all_(all), session_(std::move(session)) {}
  ~Borrowed() { all_.give_back(std::move(session_)); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  [[nodiscard]] CURLM* multi() const { return session_.multi.get(); }
  [[nodiscard]] CURL* easy() const { return session_.easy.get(); }

 private:
  Sessions& all_;
  Session session_;
};

namespace {

/// A server that closes its connection while this thread writes to it must not end the program.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    ::sigemptyset(&sigpipe_);
    ::sigaddset(&sigpipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~WithoutSigpipe() {
    if (::sigismember(&before_, SIGPIPE) == 1) return;
    constexpr timespec kNow{};
    while (::sigtimedwait(&sigpipe_, nullptr, &kNow) == SIGPIPE) continue;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t sigpipe_{};
  sigset_t before_{};
};

/// Performs the request whose options are set; EINTR closes its connection.
Result<CURLcode> run(CURLM* multi, CURL* easy) {
  const WithoutSigpipe without_sigpipe;
  if (curl_multi_add_handle(multi, easy) != CURLM_OK) return CURLE_OUT_OF_MEMORY;
  const auto interval = Interruption::current() != nullptr ? Interruption::kInterval : std::chrono::milliseconds(1000);
  Result<CURLcode> code;
  for (bool has_ended = false; !has_ended;) {
    int count = 0;
    curl_multi_perform(multi, &count);
    const CURLMsg* const message = curl_multi_info_read(multi, &count);
    has_ended = message != nullptr;
    if (has_ended) {
      code = message->data.result;
    } else if (Interruption::is_requested()) {
      has_ended = true;
      code = Interruption::error();
    } else {
      curl_multi_poll(multi, nullptr, 0, static_cast<int>(interval.count()), nullptr);
    }
  }
  curl_multi_remove_handle(multi, easy);
  return code;
}

}  // namespace

std::string_view HttpResponse::header(std::string_view lower_name) const {
  const auto found = std::ranges::find(headers, lower_name, &HttpHeader::name);
  return found == headers.end() ? std::string_view() : std::string_view(found->value);
}

Result<std::unique_ptr<HttpClient>> HttpClient::start(size_t connections, std::string ca_file, int hosts) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (ready != CURLE_OK) return fail(EIO, "libcurl cannot be used: {}", curl_easy_strerror(ready));
  auto sessions = std::make_unique<Sessions>(std::max<size_t>(connections, 1), hosts);
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(sessions), std::move(ca_file)));
}

HttpClient::HttpClient(std::unique_ptr<Sessions> sessions, std::string ca_file)
    : sessions_(std::move(sessions)), ca_file_(ca_file.empty() ? system_certificates() : std::move(ca_file)) {}
HttpClient::~HttpClient() = default;

Result<HttpResponse> HttpClient::perform(HttpRequest request) {
  // Of others it would not be known whether they have taken effect.
  const bool can_be_interrupted = request.method == "GET" || request.method == "HEAD";
  const Interruption::Scope scope(can_be_interrupted ? Interruption::current() : nullptr);
  Transfer transfer;  // until the session no longer refers to it
  transfer.request = std::move(request);
  CODECFS_ASSIGN(Session taken, sessions_->take());
  const Borrowed session(*sessions_, std::move(taken));
  CURL* const easy = session.easy();
  transfer.set_options(easy);
  if (!ca_file_.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, ca_file_.c_str());
  const Result<CURLcode> code = run(session.multi(), easy);
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  if (!code) return std::unexpected(code.error());
  return transfer.result_of(*code, static_cast<int>(status));
}

std::string host_of(std::string_view url) {
  const size_t scheme = url.find("://");
  const size_t begin = scheme == url.npos ? 0 : scheme + 3;
  const size_t end = std::min(url.find_first_of("/?#", begin), url.size());
  const size_t user = url.substr(0, end).rfind('@');
  const size_t host = user == url.npos || user < begin ? begin : user + 1;
  return fmt::format("{}{}", url.substr(0, begin), url.substr(host, end - host));
}

std::string percent_encode(std::string_view text, bool keep_slash) {
  constexpr std::string_view kPlain = "-._~";
  std::string encoded;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          kPlain.contains(c) || (keep_slash && c == '/');
    if (is_plain) {
      encoded += c;
    } else {
      fmt::format_to(std::back_inserter(encoded), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

std::string query_text(const std::vector<std::pair<std::string, std::string>>& query) {
  std::string text;
  for (const auto& [name, value] : query)
    text += fmt::format("{}{}={}", text.empty() ? '?' : '&', percent_encode(name, false), percent_encode(value, false));
  return text;
}

}  // namespace codecfs::remote
