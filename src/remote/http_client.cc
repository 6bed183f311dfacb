#include "remote/http_client.h"

#include <curl/curl.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "base/interruption.h"
#include "base/mutex.h"
#include "remote/http_transfer.h"

namespace codecfs::remote {

// Not in the anonymous namespace, because HttpClient::Loop has members of these types.
struct FreeEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct FreeMulti {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
using Easy = std::unique_ptr<CURL, FreeEasy>;

/// The thread and what it works on. Only the thread uses libcurl's handles.
class HttpClient::Loop {
 public:
  explicit Loop(size_t connections) : connections_(connections) {}

  ~Loop() {
    {
      const LockGuard lock(mutex_);
      stops_ = true;
      if (multi_) curl_multi_wakeup(multi_.get());
    }
    if (thread_.joinable()) thread_.join();
  }

  uint64_t add(std::unique_ptr<Transfer> transfer) {
    uint64_t number = 0;
    {
      const LockGuard lock(mutex_);
      number = transfer->number = ++latest_number_;
      if (multi_ || start_thread()) {
        waiting_.push_back(std::move(transfer));
        curl_multi_wakeup(multi_.get());
      }
    }
    if (transfer) transfer->finish(fail(ENOMEM, "no memory for connections, or no thread"));
    return number;
  }

  void cancel(uint64_t number) {
    const LockGuard lock(mutex_);
    cancelled_.push_back(number);
    if (multi_) curl_multi_wakeup(multi_.get());
  }

 private:
  struct Running {
    std::unique_ptr<Transfer> transfer;
    Easy easy;  // last: its end still uses the transfer
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
      entry.transfer->give_up();
    }
    running_.clear();
  }

  void end_cancelled(CURLM* multi, const std::vector<uint64_t>& numbers) {
    if (numbers.empty()) return;
    for (auto at = running_.begin(); at != running_.end();) {
      auto& [easy, entry] = *at;
      if (std::ranges::find(numbers, entry.transfer->number) == numbers.end()) {
        ++at;
        continue;
      }
      curl_multi_remove_handle(multi, easy);  // closes its connection
      entry.transfer->give_up();
      at = running_.erase(at);
    }
  }

  /// Whether the thread goes on.
  bool start_waiting(CURLM* multi) {
    std::deque<std::unique_ptr<Transfer>> starting;
    std::vector<std::unique_ptr<Transfer>> unwanted;
    std::vector<uint64_t> cancelled;
    bool stops = false;
    {
      const LockGuard lock(mutex_);
      stops = stops_;
      cancelled.swap(cancelled_);
      for (auto& transfer : waiting_)
        if (std::ranges::find(cancelled, transfer->number) != cancelled.end()) unwanted.push_back(std::move(transfer));
      std::erase(waiting_, nullptr);
      while (!waiting_.empty() && (stops || running_.size() + starting.size() < connections_)) {
        starting.push_back(std::move(waiting_.front()));
        waiting_.pop_front();
      }
    }
    for (const auto& transfer : unwanted) transfer->give_up();
    end_cancelled(multi, cancelled);
    for (auto& transfer : starting) {
      if (stops) {
        transfer->give_up();
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
    entry = {std::move(transfer), std::move(easy)};
    entry.transfer->set_options(handle);
    curl_multi_add_handle(multi, handle);
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
      entry.transfer->finish(entry.transfer->result_of(code, static_cast<int>(status)));
    }
  }

  const size_t connections_;
  // of the thread
  std::unordered_map<CURL*, Running> running_;
  std::vector<Easy> free_;

  Mutex mutex_;
  std::unique_ptr<CURLM, FreeMulti> multi_ CODECFS_GUARDED_BY(mutex_);  // null: there is no thread yet
  std::deque<std::unique_ptr<Transfer>> waiting_ CODECFS_GUARDED_BY(mutex_);
  uint64_t latest_number_ CODECFS_GUARDED_BY(mutex_) = 0;
  std::vector<uint64_t> cancelled_ CODECFS_GUARDED_BY(mutex_);
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

uint64_t HttpClient::start_request(HttpRequest request, Done done) {
  auto transfer = std::make_unique<Transfer>();
  transfer->request = std::move(request);
  transfer->done = std::move(done);
  return loop_->add(std::move(transfer));
}

void HttpClient::cancel(uint64_t number) { loop_->cancel(number); }

Result<HttpResponse> HttpClient::perform(HttpRequest request) {
  // Of others it would not be known whether they have taken effect.
  const bool can_be_interrupted = request.method == "GET" || request.method == "HEAD";
  const Interruption::Scope scope(can_be_interrupted ? Interruption::current() : nullptr);
  struct Call {
    Mutex mutex{LockRank::http_call};
    ConditionVariable ended;
    std::optional<Result<HttpResponse>> result;
  } call;
  const auto has_ended = [&] { return call.result.has_value(); };
  const uint64_t number = start_request(std::move(request), [&](Result<HttpResponse> result) {
    const LockGuard lock(call.mutex);
    call.result = std::move(result);
    call.ended.notify_all();  // under the lock: the call ends with its owner
  });
  UniqueLock lock(call.mutex);
  if (!Interruption::wait(call.ended, lock, has_ended)) {
    cancel(number);
    call.ended.wait(lock, has_ended);
    if (!*call.result && call.result->error().code == ECANCELED) return Interruption::error();
  }
  return *std::move(call.result);
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
