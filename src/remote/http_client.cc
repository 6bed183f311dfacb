#include "remote/http_client.h"

#include <curl/curl.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "base/mutex.h"

namespace codecfs::remote {

// Not in the anonymous namespace, because HttpClient::Loop has members of these types.
struct FreeEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct FreeMulti {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Easy = std::unique_ptr<CURL, FreeEasy>;

/// A request that runs: what libcurl's callbacks get.
struct Transfer {
  HttpRequest request;
  HttpClient::Done done;
  HttpResponse response;
  size_t received = 0;      // bytes in response.body, which has room for more
  size_t sent = 0;          // bytes of request.body
  size_t header_bytes = 0;  // of all responses
  std::optional<Error> failure;
  std::unique_ptr<curl_slist, FreeList> headers;
  char message[CURL_ERROR_SIZE] = {};

  void finish(Result<HttpResponse> result) {
    if (done) std::exchange(done, nullptr)(std::move(result));
  }
};

struct Received {
  Transfer* transfer;
  CURL* easy;
};

namespace {

constexpr size_t kFirstAllocation = 64 << 10;  // bytes, of a body of unknown length
constexpr size_t kMaxHeaders = 256;
constexpr size_t kMaxHeaderBytes = size_t{64} << 10;
constexpr long kSlowest = 1024;  // bytes per second

char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

size_t fail_transfer(Transfer& transfer, Error error) {
  transfer.failure = std::move(error);
  return 0;  // of fewer bytes than given: libcurl ends the transfer
}

size_t take_header(const char* bytes, size_t, size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line = trimmed({bytes, size});
  transfer.header_bytes += size;
  if (line.starts_with("HTTP/")) transfer.response.headers.clear();
  const size_t colon = line.find(':');
  if (transfer.header_bytes > kMaxHeaderBytes || transfer.response.headers.size() > kMaxHeaders)
    return fail_transfer(transfer,
                         {EPROTO, fmt::format("{}: its headers are too long", host_of(transfer.request.url))});
  if (colon == line.npos) return size;
  std::string name(line.substr(0, colon));
  std::ranges::transform(name, name.begin(), to_lower);
  transfer.response.headers.push_back({std::move(name), std::string(trimmed(line.substr(colon + 1)))});
  return size;
}

/// Room for `size` more bytes of the body.
Result<> make_room(Transfer& transfer, size_t size, CURL* easy) {
  const size_t needed = transfer.received + size;
  if (needed > transfer.request.max_body)
    return fail(EFBIG, "{}: its answer is longer than {} bytes", host_of(transfer.request.url),
                transfer.request.max_body);
  Buffer& body = transfer.response.body;
  if (needed <= body.size()) return {};
  curl_off_t announced = -1;
  curl_easy_getinfo(easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
  const uint64_t expected = announced > 0 ? static_cast<uint64_t>(announced) : 0;
  // A length that is announced but does not come must not take memory.
  const size_t room = expected >= needed && expected <= transfer.request.max_body
                          ? static_cast<size_t>(std::min<uint64_t>(expected, std::max<uint64_t>(needed * 4, 8 << 20)))
                          : std::max({needed, body.size() * 2, kFirstAllocation});
  CODECFS_ASSIGN(Buffer larger, Buffer::allocate(room));
  if (transfer.received > 0) std::memcpy(larger.data(), body.data(), transfer.received);
  body = std::move(larger);
  return {};
}

size_t send_body(char* to, size_t, size_t room, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const size_t size = std::min(room, transfer.request.body.size() - transfer.sent);
  if (size > 0) std::memcpy(to, transfer.request.body.data() + transfer.sent, size);
  transfer.sent += size;
  return size;
}

int rewind_body(void* user, curl_off_t offset, int origin) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (origin != SEEK_SET || offset < 0 || static_cast<uint64_t>(offset) > transfer.request.body.size())
    return CURL_SEEKFUNC_FAIL;
  transfer.sent = static_cast<size_t>(offset);
  return CURL_SEEKFUNC_OK;
}

int errno_of(CURLcode code) {
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT: return ETIMEDOUT;
    case CURLE_COULDNT_CONNECT: return ECONNREFUSED;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY: return EHOSTUNREACH;
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:  // also an answer that is no HTTP
    case CURLE_SSL_CONNECT_ERROR: return ECONNRESET;
    // CURLE_OUT_OF_MEMORY is also returned for long headers.
    case CURLE_URL_MALFORMAT: return EINVAL;
    default: return EPROTO;
  }
}

}  // namespace

/// The thread and what it works on. Only the thread uses libcurl's handles.
class HttpClient::Loop {
 public:
  explicit Loop(size_t connections) : connections_(connections) { Forks::add(this); }

  ~Loop() {
    Forks::remove(this);
    {
      const LockGuard lock(mutex_);
      stops_ = true;
      if (multi_) curl_multi_wakeup(multi_.get());
    }
    if (thread_.joinable()) thread_.join();
  }

  void add(std::unique_ptr<Transfer> transfer) {
    {
      const LockGuard lock(mutex_);
      if (multi_ || start_thread()) {
        waiting_.push_back(std::move(transfer));
        curl_multi_wakeup(multi_.get());
      }
    }
    if (transfer) transfer->finish(fail(ENOMEM, "no memory for connections, or no thread"));
  }

 private:
  struct Running {
    std::unique_ptr<Transfer> transfer;
    Received received;
    Easy easy;  // last: its end still uses the transfer
  };

  /// Of all clients: makes them usable in the child of a fork, where their threads do not exist.
  class Forks {
   public:
    static void add(Loop* loop) {
      static const int registered = pthread_atfork(before, after_in_parent, after_in_child);
      (void)registered;
      const LockGuard lock(mutex());
      loops().push_back(loop);
    }
    static void remove(Loop* loop) {
      const LockGuard lock(mutex());
      std::erase(loops(), loop);
    }

   private:
    static Mutex& mutex() {
      static auto* mutex = new Mutex;  // never destroyed: a fork may be the last that a process does
      return *mutex;
    }
    static std::vector<Loop*>& loops() {
      static auto* loops = new std::vector<Loop*>;
      return *loops;
    }
    static void before() CODECFS_NO_THREAD_SAFETY_ANALYSIS {
      mutex().lock();
      for (Loop* const loop : loops()) loop->mutex_.lock();
    }
    static void after_in_parent() CODECFS_NO_THREAD_SAFETY_ANALYSIS {
      for (Loop* const loop : loops()) loop->mutex_.unlock();
      mutex().unlock();
    }
    static void after_in_child() CODECFS_NO_THREAD_SAFETY_ANALYSIS {
      for (Loop* const loop : loops()) {
        loop->forget_thread();
        loop->mutex_.unlock();
      }
      mutex().unlock();
    }
  };

  bool start_thread() CODECFS_REQUIRES(mutex_) {
    multi_.reset(curl_multi_init());
    if (!multi_) return false;
    curl_multi_setopt(multi_.get(), CURLMOPT_MAX_TOTAL_CONNECTIONS, static_cast<long>(connections_));
    curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, static_cast<long>(connections_));
    // Signals are for the threads of the program, which may wait for them.
    sigset_t all_signals;
    sigset_t before;
    ::sigfillset(&all_signals);
    ::pthread_sigmask(SIG_SETMASK, &all_signals, &before);
    try {
      thread_ = std::thread([this, multi = multi_.get()] { run(multi); });
    } catch (const std::system_error&) {
      multi_.reset();
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return multi_ != nullptr;
  }

  /// Leaks what the thread of the parent process may be using: connections that both processes have cannot be closed
  /// here.
  void forget_thread() CODECFS_REQUIRES(mutex_) {
    (void)multi_.release();
    (void)new std::thread(std::move(thread_));
    thread_ = std::thread();
    running_.clear();
    for (Easy& easy : free_) (void)easy.release();
    free_.clear();
  }

  void run(CURLM* multi) {
    while (true) {
      if (!start_waiting(multi)) break;
      int running = 0;
      curl_multi_perform(multi, &running);
      finish_ended(multi);
      curl_multi_poll(multi, nullptr, 0, 1000, nullptr);
    }
    for (auto& [easy, entry] : running_) {
      curl_multi_remove_handle(multi, easy);
      entry.transfer->finish(fail(ECANCELED, "{}: the request was given up", host_of(entry.transfer->request.url)));
    }
    running_.clear();
  }

  /// Whether the thread goes on.
  bool start_waiting(CURLM* multi) {
    std::deque<std::unique_ptr<Transfer>> starting;
    bool stops = false;
    {
      const LockGuard lock(mutex_);
      stops = stops_;
      while (!waiting_.empty() && (stops || running_.size() + starting.size() < connections_)) {
        starting.push_back(std::move(waiting_.front()));
        waiting_.pop_front();
      }
    }
    for (auto& transfer : starting) {
      if (stops) {
        transfer->finish(fail(ECANCELED, "{}: the request was given up", host_of(transfer->request.url)));
      } else {
        start(multi, std::move(transfer));
      }
    }
    return !stops;
  }

  void start(CURLM* multi, std::unique_ptr<Transfer> transfer) {
    Easy easy = free_.empty() ? Easy(curl_easy_init()) : std::move(free_.back());
    if (!free_.empty()) free_.pop_back();
    if (!easy) return transfer->finish(fail(ENOMEM, "no memory for a request"));
    CURL* const handle = easy.get();
    Running& entry = running_[handle];
    entry = {std::move(transfer), {}, std::move(easy)};
    entry.received = {entry.transfer.get(), handle};
    set_options(handle, entry);
    curl_multi_add_handle(multi, handle);
  }

  static size_t take_body(const char* bytes, size_t, size_t size, void* user) {
    const auto& [transfer, easy] = *static_cast<Received*>(user);
    if (auto room = make_room(*transfer, size, easy); !room) return fail_transfer(*transfer, room.error());
    std::memcpy(transfer->response.body.data() + transfer->received, bytes, size);
    transfer->received += size;
    return size;
  }

  static void set_options(CURL* easy, Running& entry) {
    Transfer& transfer = *entry.transfer;
    const HttpRequest& request = transfer.request;
    curl_slist* headers = curl_slist_append(nullptr, "Expect:");
    for (const HttpHeader& header : request.headers)
      headers = curl_slist_append(headers, fmt::format("{}: {}", header.name, header.value).c_str());
    transfer.headers.reset(headers);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, request.url.starts_with("https:") ? "https" : "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, request.follows_redirects ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_MAXREDIRS, 5L);
    if (request.avoids_proxies) curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);  // a key may have "/../" in it
    curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_time.count()));
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, static_cast<long>(request.most_time.count()));
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, kSlowest);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.stall_time.count()));
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer.message);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Loop::take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &entry.received);
    if (request.method == "HEAD") {
      curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    } else if (request.method == "PUT" || request.method == "POST") {
      curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
      curl_easy_setopt(easy, CURLOPT_READFUNCTION, send_body);
      curl_easy_setopt(easy, CURLOPT_READDATA, &transfer);
      curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, rewind_body);
      curl_easy_setopt(easy, CURLOPT_SEEKDATA, &transfer);
      curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
      curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    } else if (request.method != "GET") {
      curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    }
  }

  void finish_ended(CURLM* multi) {
    int left = 0;
    while (const CURLMsg* const message = curl_multi_info_read(multi, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      CURL* const handle = message->easy_handle;
      const CURLcode code = message->data.result;  // the message is not valid after the next call
      long status = 0;
      curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
      curl_multi_remove_handle(multi, handle);
      auto node = running_.extract(handle);
      Running entry = std::move(node.mapped());
      curl_easy_reset(handle);
      free_.push_back(std::move(entry.easy));
      entry.transfer->finish(result_of(*entry.transfer, code, static_cast<int>(status)));
    }
  }

  static Result<HttpResponse> result_of(Transfer& transfer, CURLcode code, int status) {
    if (transfer.failure) return std::unexpected(std::move(*transfer.failure));
    if (code != CURLE_OK) {
      const char* const text = transfer.message[0] != '\0' ? transfer.message : curl_easy_strerror(code);
      return fail(errno_of(code), "{}: {}", host_of(transfer.request.url), text);
    }
    transfer.response.status = status;
    transfer.response.body.truncate(transfer.received);
    return std::move(transfer.response);
  }

  const size_t connections_;
  // of the thread
  std::unordered_map<CURL*, Running> running_;
  std::vector<Easy> free_;

  Mutex mutex_;
  std::unique_ptr<CURLM, FreeMulti> multi_ CODECFS_GUARDED_BY(mutex_);  // null: there is no thread yet
  std::deque<std::unique_ptr<Transfer>> waiting_ CODECFS_GUARDED_BY(mutex_);
  bool stops_ CODECFS_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

std::string_view HttpResponse::header(std::string_view lower_name) const {
  const auto found = std::ranges::find(headers, lower_name, &HttpHeader::name);
  return found == headers.end() ? std::string_view() : std::string_view(found->value);
}

Result<std::unique_ptr<HttpClient>> HttpClient::start(size_t connections) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (ready != CURLE_OK) return fail(EIO, "libcurl cannot be used: {}", curl_easy_strerror(ready));
  return std::unique_ptr<HttpClient>(new HttpClient(std::make_unique<Loop>(std::max<size_t>(connections, 1))));
}

HttpClient::HttpClient(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
HttpClient::~HttpClient() = default;

void HttpClient::start_request(HttpRequest request, Done done) {
  auto transfer = std::make_unique<Transfer>();
  transfer->request = std::move(request);
  transfer->done = std::move(done);
  loop_->add(std::move(transfer));
}

Result<HttpResponse> HttpClient::perform(HttpRequest request) {
  std::promise<Result<HttpResponse>> promise;
  auto future = promise.get_future();
  start_request(std::move(request), [&](Result<HttpResponse> result) { promise.set_value(std::move(result)); });
  return future.get();
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

}  // namespace codecfs::remote
