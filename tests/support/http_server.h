#pragma once
// An HTTP/1.1 server for tests, on a port of 127.0.0.1 that the system chooses.
//
//   HttpServer server([](const ServedRequest& request) {
//     return request.target == "/a" ? http_answer(200, "text", {{"ETag", "\"1\""}}) : http_answer(404);
//   });
//   get(server.url() + "/a");

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace codecfs {

struct ServedRequest {
  std::string method;
  std::string target;                          // path and query, as sent
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  /// Empty if there is none.
  [[nodiscard]] std::string header(const std::string& lower_name) const;
};

/// A response with a Content-Length.
std::string http_answer(int status, const std::string& body = {},
                        const std::vector<std::pair<std::string, std::string>>& headers = {});

class HttpServer {
 public:
  /// Returns all bytes of the response. The connection is closed after it if it is empty, has "Connection: close", or
  /// has fewer bytes than its Content-Length; otherwise it is kept. Called in a thread of each connection. It must end
  /// by itself before the server is destroyed.
  using Handler = std::function<std::string(const ServedRequest&)>;
  explicit HttpServer(Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] int port() const { return port_; }
  /// "http://127.0.0.1:PORT"
  [[nodiscard]] std::string url() const;
  /// Connections and requests that were accepted so far.
  [[nodiscard]] size_t connections() const { return connections_; }
  [[nodiscard]] size_t requests() const { return requests_; }

 private:
  void accept_all();
  void serve(int fd);

  const Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<size_t> connections_ = 0;
  std::atomic<size_t> requests_ = 0;
  std::mutex mutex_;
  bool stops_ = false;                // guarded by mutex_, as are these:
  std::vector<int> open_;             // connections
  std::vector<std::thread> threads_;  // one per connection
  std::thread acceptor_;
};

}  // namespace codecfs
