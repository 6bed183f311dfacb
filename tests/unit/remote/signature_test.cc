#include "remote/signature.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace codecfs::remote {
namespace {

using std::chrono::sys_days;
using namespace std::chrono_literals;

// The time and the keys of the examples in "Authenticating Requests: Using the Authorization Header (AWS Signature
// Version 4)". Signatures of other requests were computed with botocore 1.x and with Python's hmac.
constexpr auto kTime = sys_days(std::chrono::year(2013) / 5 / 24);
const Credentials kKeys{.access_key = "AKIAIOSFODNN7EXAMPLE",
                        .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                        .session_token = {},
                        .expires = {}};

Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

HttpRequest request_for(const std::string& method, const std::string& url, std::vector<HttpHeader> headers = {},
                        std::string_view body = {}) {
  HttpRequest request;
  request.method = method;
  request.url = url;
  request.headers = std::move(headers);
  request.body = bytes_of(body);
  return request;
}

std::string header(const HttpRequest& request, const std::string& name) {
  std::string value;
  for (const HttpHeader& header : request.headers) {
    if (header.name != name) continue;
    EXPECT_EQ(value, "") << name << " is there twice";
    value = header.value;
  }
  return value;
}

std::string authorization(HttpRequest request, const std::string& token = {},
                          const SigningScope& scope = {"us-east-1"}) {
  Credentials keys = kKeys;
  keys.session_token = token;
  sign(request, keys, scope, kTime);
  return header(request, "Authorization");
}

std::string signature(HttpRequest request, const std::string& token = {}, const SigningScope& scope = {"us-east-1"}) {
  const std::string text = authorization(std::move(request), token, scope);
  return text.substr(text.rfind('=') + 1);
}

TEST(Signature, PublishedExamples) {
  const std::string host = "https://examplebucket.s3.amazonaws.com";
  EXPECT_EQ(authorization(request_for("GET", host + "/test.txt", {{"Range", "bytes=0-9"}})),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(
      signature(request_for("PUT", host + "/test%24file.text",
                            {{"Date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                            "Welcome to Amazon S3.")),
      "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  EXPECT_EQ(signature(request_for("GET", host + "/?lifecycle")),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(signature(request_for("GET", host + "/?prefix=J&max-keys=2")),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(Signature, KeysWithSpecialCharacters) {
  const std::string key = "a/b%2Bc%20%28d%29%2520%C3%A9/%E6%96%87.nc";  // "a/b+c (d)%20é/文.nc"
  EXPECT_EQ(authorization(request_for("GET", "http://127.0.0.1:7070/bucket/" + key,
                                      {{"Range", "bytes=0-9"}, {"If-Match", "\"abc\""}}),
                          "TOKEN/+=", {"eu-central-1"}),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/eu-central-1/s3/aws4_request, "
            "SignedHeaders=host;if-match;range;x-amz-content-sha256;x-amz-date;x-amz-security-token, "
            "Signature=220268305d447ffd0eda0414fb3dc74426d4e297f400d58cef9b704c9ea0a769");
}

TEST(Signature, SortsTheQueryByNameThenValue) {
  // "prefix" before "prefix-", although '-' is less than '='.
  const std::string expected = "2080ff6882bc089c79d2882136fcffef1c631794a42f24bfdcf46f6ea6d90083";
  const std::string url = "http://127.0.0.1:7070/bucket?";
  for (const std::string query : {"prefix=a%2Fb%20c%2B&list-type=2&delimiter=%2F&prefix-=1&continuation-token=",
                                  "continuation-token&delimiter=%2F&list-type=2&prefix-=1&prefix=a%2Fb%20c%2B",
                                  "&&continuation-token=&prefix-=1"
                                  "&prefix=a%2Fb%20c%2B"
                                  "&list-type=2&delimiter=%2F&"}) {
    EXPECT_EQ(signature(request_for("GET", url + query), {}, {"eu-central-1"}), expected) << query;
  }
  EXPECT_EQ(signature(request_for("GET", url + "a=2&a=1&a=10")), signature(request_for("GET", url + "a=10&a=1&a=2")));
  EXPECT_NE(signature(request_for("GET", url + "a=2&a=1")), signature(request_for("GET", url + "a=1&a=1")));
}

TEST(Signature, TrimsHeadersAndDropsTheDefaultPort) {
  const std::string expected = "da45b2037e64c5231d0aabe12697bb063331883a821a5c05da25265fda764a64";
  const std::string body("\x00\xff", 2);
  for (const std::string url : {"http://[::1]:80/b/k", "http://[::1]/b/k", "http://user@[::1]/b/k#part"}) {
    EXPECT_EQ(signature(request_for("PUT", url, {{"X-Amz-Meta-A", "  two   spaces "}}, body), {}, {"eu-central-1"}),
              expected)
        << url;
  }
  EXPECT_NE(signature(request_for("PUT", "http://[::1]:443/b/k", {{"X-Amz-Meta-A", "two spaces"}}, body), {},
                      {"eu-central-1"}),
            expected);
  EXPECT_EQ(signature(request_for("GET", "https://h:443/")), signature(request_for("GET", "https://h")));
  EXPECT_NE(signature(request_for("GET", "https://h:80/")), signature(request_for("GET", "https://h")));
}

TEST(Signature, JoinsHeadersOfTheSameName) {
  const std::string url = "https://h/";
  EXPECT_EQ(signature(request_for("GET", url, {{"X-B", "2"}, {"x-a", "3"}, {"x-b", " 1"}})),
            signature(request_for("GET", url, {{"x-a", "3"}, {"x-b", "2,1"}})));
}

TEST(Signature, OtherService) {
  EXPECT_EQ(signature(request_for("POST", "https://sts.us-east-1.amazonaws.com/",
                                  {{"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"}},
                                  "Action=GetCallerIdentity&Version=2011-06-15"),
                      "TOKEN", {"us-east-1", "sts"}),
            "a47ab19ecdc54a1d80567dd4c74f87ae26ad3fe826f07c82e08214114e8ad55a");
}

TEST(Signature, AddsTheHeadersAndReplacesThemTheNextTime) {
  HttpRequest request = request_for("GET", "https://examplebucket.s3.amazonaws.com/test.txt", {{"Range", "bytes=0-9"}});
  Credentials temporary = kKeys;
  temporary.session_token = "TOKEN";
  sign(request, temporary, {"us-east-1"}, kTime + 23h + 59min + 58s + 999ms);
  EXPECT_EQ(header(request, "x-amz-date"), "20130524T235958Z");
  EXPECT_EQ(header(request, "x-amz-security-token"), "TOKEN");
  EXPECT_EQ(header(request, "x-amz-content-sha256"),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::string before = header(request, "Authorization");
  sign(request, kKeys, {"us-east-1"}, kTime);
  EXPECT_EQ(header(request, "x-amz-date"), "20130524T000000Z");
  EXPECT_EQ(header(request, "x-amz-security-token"), "");
  EXPECT_NE(header(request, "Authorization"), before);
  EXPECT_TRUE(
      header(request, "Authorization").ends_with("f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"));
}

TEST(Signature, Digests) {
  EXPECT_EQ(sha256_hex(bytes_of("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(md5_hex(bytes_of("abc")), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(md5_hex({}), "d41d8cd98f00b204e9800998ecf8427e");
}

}  // namespace
}  // namespace codecfs::remote
