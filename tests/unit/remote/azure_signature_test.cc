#include "remote/azure_signature.h"

#include <gtest/gtest.h>

#include <span>

namespace codecfs::remote {
namespace {

// Friday, 26 June 2015, 23:39:12.
const std::chrono::system_clock::time_point kTime{std::chrono::seconds(1435361952)};
constexpr const char* kKey = "0123456789abcdef";

std::string header_value(const HttpRequest& request, const std::string& name) {
  for (const HttpHeader& header : request.headers)
    if (header.name == name) return header.value;
  return {};
}

// The signatures are those that azure-storage-blob 12.31 for Python makes of the same requests.
TEST(AzureSignature, SignsAsMicrosoftsOwnClient) {
  HttpRequest list{.url =
                       "https://account.blob.core.windows.net/"
                       "box?restype=container&comp=list&prefix=a%20b%2F%C3%A9&delimiter=%2F",
                   .headers = {{"x-ms-version", "2020-10-02"}}};
  sign_for_azure(list, "account", kKey,
                 {{"restype", "container"}, {"comp", "list"}, {"prefix", "a b/é"}, {"delimiter", "/"}}, kTime);
  EXPECT_EQ(header_value(list, "x-ms-date"), "Fri, 26 Jun 2015 23:39:12 GMT");
  EXPECT_EQ(header_value(list, "Authorization"), "SharedKey account:3QMcfztMCnoGDr4W/zxXaEmbrzu55OEimQXYJB3oDY4=");

  const std::string text = "content";
  HttpRequest put{.method = "PUT",
                  .url = "http://127.0.0.1:10000/account/box/a%20b/0.0",
                  .headers = {{"x-ms-version", "2020-10-02"}, {"x-ms-blob-type", "BlockBlob"}, {"If-None-Match", "*"}},
                  .body = std::as_bytes(std::span(text))};
  sign_for_azure(put, "account", kKey, {}, kTime);
  EXPECT_EQ(header_value(put, "Authorization"), "SharedKey account:irL9PWB9x5k0znDb40UuFqlrNVkTL02m3wB8jS3gpdE=");

  HttpRequest get{.url = "https://account.blob.core.windows.net/box/k",
                  .headers = {{"x-ms-version", "2020-10-02"}, {"If-Match", "\"0x8D1\""}}};
  sign_for_azure(get, "account", kKey, {}, kTime);
  EXPECT_EQ(header_value(get, "Authorization"), "SharedKey account:J9xBx+8v86V04B/plnX4j7G+zHSLhXz8NwJ1LRJ5KC0=");
}

TEST(AzureSignature, EachPartOfTheRequestCounts) {
  const auto signature = [](const HttpRequest& given, const std::vector<std::pair<std::string, std::string>>& query) {
    HttpRequest request = given;
    sign_for_azure(request, "account", kKey, query, kTime);
    return header_value(request, "Authorization");
  };
  const HttpRequest first{.url = "https://h/box/k", .headers = {{"Range", "bytes=0-9"}}};
  const std::string signed_first = signature(first, {});
  HttpRequest other = first;
  other.method = "DELETE";
  EXPECT_NE(signature(other, {}), signed_first);
  other = first;
  other.url = "https://h/box/l";
  EXPECT_NE(signature(other, {}), signed_first);
  other = first;
  other.headers = {{"Range", "bytes=0-8"}};
  EXPECT_NE(signature(other, {}), signed_first);
  EXPECT_NE(signature(first, {{"comp", "list"}}), signed_first);
}

}  // namespace
}  // namespace codecfs::remote
