#include "remote/http_transfer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "base/ascii.h"

namespace codecfs::remote {
namespace {

constexpr size_t kFirstAllocation = 64 << 10;  // bytes, of a body of unknown length
constexpr size_t kMaxHeaders = 256;
constexpr size_t kMaxHeaderBytes = size_t{64} << 10;
constexpr long kSlowest = 1024;  // bytes per second

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
  transfer.response.headers.push_back(
      {lower_case(line.substr(0, colon)), std::string(trimmed(line.substr(colon + 1)))});
  return size;
}

/// Room for `size` more bytes of the body.
Result<> make_room(Transfer& transfer, size_t size) {
  const size_t needed = transfer.received + size;
  const uint64_t most = transfer.response.header("content-type").starts_with("text/html")
                            ? std::max(transfer.request.max_body, transfer.request.max_page)
                            : transfer.request.max_body;
  if (needed > most) return fail(EFBIG, "{}: its answer is longer than {} bytes", host_of(transfer.request.url), most);
  Buffer& body = transfer.response.body;
  if (needed <= body.size()) return {};
  curl_off_t announced = -1;
  curl_easy_getinfo(transfer.easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
  const uint64_t expected = announced > 0 ? static_cast<uint64_t>(announced) : 0;
  // A length that is announced but does not come must not take memory.
  const size_t room = expected >= needed && expected <= most
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

size_t take_body(const char* bytes, size_t, size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (auto room = make_room(transfer, size); !room) return fail_transfer(transfer, room.error());
  std::memcpy(transfer.response.body.data() + transfer.received, bytes, size);
  transfer.received += size;
  return size;
}

}  // namespace

void Transfer::set_options(CURL* handle) {
  easy = handle;
  curl_slist* list = curl_slist_append(nullptr, "Expect:");
  for (const HttpHeader& header : request.headers)
    list = curl_slist_append(list, fmt::format("{}: {}", header.name, header.value).c_str());
  headers.reset(list);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);  // does not wait for a name server when a request is cancelled
#endif
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  if (request.avoids_proxies) curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);  // a key may have "/../" in it
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, list);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_time.count()));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT, static_cast<long>(request.most_time.count()));
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, kSlowest);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.stall_time.count()));
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, message);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, this);
  if (request.method == "HEAD") {
    curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  } else if (request.method == "PUT" || request.method == "POST") {
    curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, send_body);
    curl_easy_setopt(easy, CURLOPT_READDATA, this);
    curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, rewind_body);
    curl_easy_setopt(easy, CURLOPT_SEEKDATA, this);
    curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  } else if (request.method != "GET") {
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

Result<HttpResponse> Transfer::result_of(CURLcode code, int status) {
  if (failure) return std::unexpected(std::move(*failure));
  if (code != CURLE_OK) {
    const char* const text = message[0] != '\0' ? message : curl_easy_strerror(code);
    const bool is_plain = code == CURLE_SSL_CONNECT_ERROR && std::string_view(text).contains("wrong version number");
    return fail(errno_of(code), "{}: {}{}", host_of(request.url), text,
                is_plain ? "; the server does not speak https: name it http://HOST" : "");
  }
  response.status = status;
  response.body.truncate(received);
  return std::move(response);
}

}  // namespace codecfs::remote
