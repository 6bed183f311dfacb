#include "support/http_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace codecfs {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

/// Appends what arrives next. False at the end.
bool receive_more(int fd, std::string& received) {
  char block[65536];
  const ssize_t count = ::recv(fd, block, sizeof block, 0);
  if (count <= 0) return false;
  received.append(block, static_cast<size_t>(count));
  return true;
}

/// The lines of a head, which become a request without its body.
ServedRequest parse_head(std::string_view head) {
  ServedRequest request;
  for (bool is_first = true; !head.empty(); is_first = false) {
    const size_t end = std::min(head.find("\r\n"), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + 2, head.size()));
    if (is_first) {
      const size_t first = line.find(' ');
      const size_t last = line.rfind(' ');
      if (first == line.npos || first == last) continue;
      request.method = line.substr(0, first);
      request.target = line.substr(first + 1, last - first - 1);
    } else if (const size_t colon = line.find(':'); colon != line.npos) {
      std::string_view value = line.substr(colon + 1);
      while (value.starts_with(' ')) value.remove_prefix(1);
      request.headers[lower(line.substr(0, colon))] = value;
    }
  }
  return request;
}

/// Takes the next request off `received`, and more from the connection. None at its end.
std::optional<ServedRequest> receive_request(int fd, std::string& received) {
  size_t end = 0;
  while ((end = received.find("\r\n\r\n")) == std::string::npos) {
    if (!receive_more(fd, received)) return {};
  }
  ServedRequest request = parse_head(std::string_view(received).substr(0, end));
  received.erase(0, end + 4);
  if (request.header("expect") == "100-continue" && !send_all(fd, "HTTP/1.1 100 Continue\r\n\r\n")) return {};
  const size_t size = std::strtoull(request.header("content-length").c_str(), nullptr, 10);
  while (received.size() < size) {
    if (!receive_more(fd, received)) return {};
  }
  request.body = received.substr(0, size);
  received.erase(0, size);
  return request;
}

bool keeps_connection(const std::string& response, bool is_head_request) {
  const size_t end = response.find("\r\n\r\n");
  if (end == std::string::npos) return false;
  const ServedRequest head = parse_head(std::string_view(response).substr(0, end));
  if (lower(head.header("connection")) == "close") return false;
  if (is_head_request) return true;
  const std::string length = head.header("content-length");
  return length.empty() || response.size() - end - 4 == std::strtoull(length.c_str(), nullptr, 10);
}

}  // namespace

std::string ServedRequest::header(const std::string& lower_name) const {
  const auto found = headers.find(lower_name);
  return found == headers.end() ? std::string() : found->second;
}

std::string http_answer(int status, const std::string& body,
                        const std::vector<std::pair<std::string, std::string>>& headers) {
  std::string answer = fmt::format("HTTP/1.1 {} Status\r\nContent-Length: {}\r\n", status, body.size());
  for (const auto& [name, value] : headers) answer += name + ": " + value + "\r\n";
  return answer + "\r\n" + body;
}

HttpServer::HttpServer(Handler handler) : handler_(std::move(handler)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (listener_ < 0 || ::bind(listener_, generic, size) != 0 || ::listen(listener_, 256) != 0 ||
      ::getsockname(listener_, generic, &size) != 0) {
    throw std::runtime_error("cannot listen on 127.0.0.1");
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

HttpServer::~HttpServer() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
  }
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  for (std::thread& thread : threads_) thread.join();
  ::close(listener_);
}

std::string HttpServer::url() const { return fmt::format("http://127.0.0.1:{}", port_); }

void HttpServer::accept_all() {
  for (;;) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const std::lock_guard lock(mutex_);
    if (fd < 0 || stops_) {
      if (fd >= 0) ::close(fd);
      return;
    }
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ++connections_;
    open_.push_back(fd);
    threads_.emplace_back([this, fd] { serve(fd); });
  }
}

void HttpServer::serve(int fd) {
  std::string received;
  while (const auto request = receive_request(fd, received)) {
    ++requests_;
    const std::string response = handler_(*request);
    if (!send_all(fd, response) || !keeps_connection(response, request->method == "HEAD")) break;
  }
  const std::lock_guard lock(mutex_);
  std::erase(open_, fd);
  ::close(fd);
}

}  // namespace codecfs
