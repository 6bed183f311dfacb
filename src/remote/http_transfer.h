#pragma once
// One request as libcurl performs it, and its callbacks. Not thread-safe.

#include <curl/curl.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "base/result.h"
#include "remote/http_client.h"

namespace codecfs::remote {

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

struct Transfer {
  HttpRequest request;
  CURL* easy = nullptr;
  HttpResponse response;
  size_t received = 0;      // bytes in response.body, which has room for more
  size_t sent = 0;          // bytes of request.body
  size_t header_bytes = 0;  // of all responses
  std::optional<Error> failure;
  std::unique_ptr<curl_slist, FreeList> headers;
  char message[CURL_ERROR_SIZE] = {};

  void set_options(CURL* handle);
  /// After libcurl has ended it.
  Result<HttpResponse> result_of(CURLcode code, int status);
};

}  // namespace codecfs::remote
