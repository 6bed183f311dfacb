#include "remote/http_client.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <span>
#include <string>
#include <thread>

#include "base/interruption.h"
#include "support/environment.h"
#include "support/http_server.h"

namespace codecfs::remote {
namespace {

TEST(HttpClient, EncodesWhatAwsSigns) {
  EXPECT_EQ(percent_encode("a/b c+d(é)~", true), "a/b%20c%2Bd%28%C3%A9%29~");
  EXPECT_EQ(percent_encode("a/b", false), "a%2Fb");
}

TEST(HttpClient, NamesTheHostWithoutSecrets) {
  EXPECT_EQ(host_of("https://user:secret@example.org:8080/a/b?signature=secret"), "https://example.org:8080");
  EXPECT_EQ(host_of("http://example.org?token=secret@x"), "http://example.org");
}

TEST(HttpClient, SaysThatAHostRefuses) {
  const auto client = HttpClient::start(2).value();
  const auto response = client->perform({.url = "http://127.0.0.1:1/x?secret"});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, ECONNREFUSED);
  EXPECT_EQ(response.error().reason.find("secret"), std::string::npos);
}

// A mount goes to the background after it has read from the source.
TEST(HttpClient, AvoidsProxies) {
  HttpServer server([](const ServedRequest&) { return http_answer(200, "direct"); });
  HttpServer proxy([](const ServedRequest&) { return http_answer(200, "proxy"); });
  ScopedEnvironment variables;
  variables.set("http_proxy", proxy.url());
  variables.set("no_proxy", "");
  variables.unset("NO_PROXY");
  const auto client = HttpClient::start(2).value();
  const auto size_of = [&](bool avoids) {
    return client->perform({.url = server.url() + "/a", .avoids_proxies = avoids}).value().body.size();
  };
  EXPECT_EQ(size_of(false), std::string("proxy").size());
  EXPECT_EQ(size_of(true), std::string("direct").size());
}

TEST(HttpClient, EndsALongAnswer) {
  HttpServer server([](const ServedRequest&) { return http_answer(200, std::string(100'000, 'x')); });
  const auto client = HttpClient::start(2).value();
  EXPECT_EQ(client->perform({.url = server.url() + "/a", .max_body = 99'999}).error().code, EFBIG);
  EXPECT_EQ(client->perform({.url = server.url() + "/a", .max_body = 100'000}).value().body.size(), 100'000U);
}

TEST(HttpClient, ShortAnswersAreErrors) {
  HttpServer server(
      [](const ServedRequest&) { return std::string("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"); });
  const auto client = HttpClient::start(2).value();
  EXPECT_EQ(client->perform({.url = server.url() + "/a"}).error().code, ECONNRESET);
}

TEST(HttpClient, SendsBodies) {
  std::string seen;
  HttpServer server([&](const ServedRequest& request) {
    seen = request.method + " " + request.header("x-a") + " " + request.body;
    return http_answer(200);
  });
  const auto client = HttpClient::start(2).value();
  const std::string body(100'000, 'b');
  ASSERT_TRUE(client->perform({.method = "PUT",
                               .url = server.url() + "/a",
                               .headers = {{"x-a", "1"}},
                               .body = std::as_bytes(std::span(body))}));
  EXPECT_EQ(seen, "PUT 1 " + body);
}

TEST(HttpClient, AnInterruptedRequestEnds) {
  std::promise<void> ended;
  std::shared_future<void> end = ended.get_future();
  HttpServer server([&](const ServedRequest& request) {
    if (request.target == "/slow") end.wait();
    return http_answer(200);
  });
  const auto client = HttpClient::start(1).value();
  const auto began = std::chrono::steady_clock::now();
  const Interruption::Check later = [&] {
    return std::chrono::steady_clock::now() - began > std::chrono::milliseconds(50);
  };
  std::jthread waiting([&] {
    const Interruption::Scope scope(&later);
    EXPECT_EQ(client->perform({.url = server.url() + "/slow"}).error().code, EINTR);
  });
  // One that waits for the connection, and so was not sent.
  std::jthread queued([&] {
    const Interruption::Scope scope(&later);
    EXPECT_EQ(client->perform({.url = server.url() + "/slow"}).error().code, EINTR);
  });
  waiting.join();
  queued.join();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  EXPECT_EQ(client->perform({.url = server.url() + "/a"}).value().status, 200) << "the connection is free";
  ended.set_value();
}

TEST(HttpClient, RefusesOtherProtocols) {
  const auto client = HttpClient::start(2).value();
  EXPECT_FALSE(client->perform({.url = "file:///etc/passwd"}));
}

}  // namespace
}  // namespace codecfs::remote
