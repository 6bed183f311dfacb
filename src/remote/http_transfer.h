#pragma once
// One request as libcurl performs it, and its callbacks. Only the thread of HttpClient uses it.

#include <curl/curl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/result.h"
#include "remote/http_client.h"

namespace codecfs::remote {

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

struct Transfer {
  uint64_t number = 0;
  HttpRequest request;
  HttpClient::Done done;
  CURL* easy = nullptr;
  HttpResponse response;
  size_t received = 0;      // bytes in response.body, which has room for more
  size_t sent = 0;          // bytes of request.body
  size_t header_bytes = 0;  // of all responses
  std::optional<Error> failure;
  std::unique_ptr<curl_slist, FreeList> headers;
  char message[CURL_ERROR_SIZE] = {};

  void set_options(CURL* handle);
  /// Calls `done`, once.
  void finish(Result<HttpResponse> result) {
    if (done) std::exchange(done, nullptr)(std::move(result));
  }
  void give_up();
  /// After libcurl has ended it.
  Result<HttpResponse> result_of(CURLcode code, int status);
};

}  // namespace codecfs::remote
