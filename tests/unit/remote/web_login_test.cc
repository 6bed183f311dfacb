#include "remote/web_login.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/interruption.h"
#include "support/environment.h"
#include "support/http_server.h"

namespace codecfs::remote {
namespace {

// Servers on this machine differ by their ports. Hosts with names are in tests/mount/object_stores.
class WebLoginTest : public testing::Test {
 protected:
  WebLoginTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "codecfs_login_XXXXXX").string();
    home_ = mkdtemp(pattern.data());
    environment_.set("HOME", home_.string());
    environment_.unset("NETRC");
    environment_.unset_all("EARTHDATA_");
    environment_.unset("http_proxy");
  }
  ~WebLoginTest() override { std::filesystem::remove_all(home_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(home_ / name) << text;
    return home_ / name;
  }
  static Result<HttpResponse> get(WebLogin& login, const std::string& url) {
    const auto http = HttpClient::start(4).value();
    return login.perform(*http, {.url = url, .headers = {{"Range", "bytes=0-9"}}});
  }

  ScopedEnvironment environment_;
  std::filesystem::path home_;
};

TEST_F(WebLoginTest, FilesGoToTheServerThatWasNamed) {
  std::vector<std::string> seen;
  HttpServer other([&](const ServedRequest& request) {
    seen.push_back("other " + request.header("authorization") + request.header("x-key") + request.header("range"));
    return http_answer(200, "data");
  });
  HttpServer server([&](const ServedRequest& request) {
    seen.push_back("server " + request.header("authorization") + " " + request.header("x-key"));
    return request.target == "/a" ? http_answer(302, "", {{"Location", "/b"}})
                                  : http_answer(307, "", {{"Location", other.url() + "/c"}});
  });
  const auto login =
      WebLogin::make(server.url(), {.token_file = write("token", "t\n"), .header_file = write("headers", "X-Key: k\n")})
          .value();
  const auto response = get(*login, server.url() + "/a").value();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.redirects, 2U);
  EXPECT_EQ(seen, (std::vector<std::string>{"server Bearer t k", "server Bearer t k", "other bytes=0-9"}));
}

TEST_F(WebLoginTest, RedirectsAreLimited) {
  HttpServer server([](const ServedRequest&) { return http_answer(302, "", {{"Location", "/again"}}); });
  const auto login = WebLogin::make(server.url(), {}).value();
  const auto refused = get(*login, server.url() + "/a");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EPROTO);
  EXPECT_EQ(server.requests(), 11U);
}

TEST_F(WebLoginTest, ARedirectWithoutAPlaceIsTheAnswer) {
  HttpServer server([](const ServedRequest&) { return http_answer(302); });
  const auto login = WebLogin::make(server.url(), {}).value();
  EXPECT_EQ(get(*login, server.url() + "/a").value().status, 302);
}

TEST_F(WebLoginTest, FilesThatCannotBeUsedAreNoAbsence) {
  HttpServer server([](const ServedRequest&) { return http_answer(200); });
  const std::string token = write("token", "t");
  const auto login = WebLogin::make(server.url(), {.token_file = token, .header_file = {}}).value();
  EXPECT_TRUE(get(*login, server.url() + "/a"));
  for (const auto& change :
       std::vector<std::function<void()>>{[&] { write("token", "two words"); }, [&] { std::filesystem::remove(token); },
                                          [&] { std::filesystem::create_directory(token); }}) {
    change();
    EXPECT_EQ(get(*login, server.url() + "/a").error().code, EACCES);
  }
  EXPECT_EQ(WebLogin::make(server.url(), {.token_file = "/nonexistent", .header_file = {}}).error().code, EACCES);
  EXPECT_EQ(WebLogin::make("http://example.org", {.token_file = write("t", "t"), .header_file = {}}).error().code,
            EACCES);
  environment_.set("NETRC", "/nonexistent");
  EXPECT_EQ(WebLogin::make(server.url(), {}).error().code, EACCES);
}

TEST_F(WebLoginTest, ANetrcThatCannotBeReadMattersWhereALoginIsWanted) {
  HttpServer server([](const ServedRequest& request) { return http_answer(request.target == "/a" ? 200 : 401); });
  const std::string path = write(".netrc", "machine x login");
  const auto login = WebLogin::make(server.url(), {}).value();
  EXPECT_EQ(get(*login, server.url() + "/a").value().status, 200);
  const auto refused = get(*login, server.url() + "/b").value();
  EXPECT_NE(refused.advice.find("nothing follows"), std::string::npos) << refused.advice;
  environment_.set("NETRC", path);
  EXPECT_EQ(WebLogin::make(server.url(), {}).error().code, EACCES);
}

/// Redirects to signed URLs, of which those that are old lead to an error.
struct SignedUrls {
  std::atomic<int> valid = 0;  // the signature that is good
  std::string lifetime = "private, max-age=60";
  std::atomic<int> redirected = 0;
  std::atomic<int> status = 403;
  HttpServer store{[this](const ServedRequest& request) {
    if (request.target != fmt::format("/a?s={}", valid.load()))
      return http_answer(status, "<html>", {{"Content-Type", "text/html"}});
    return http_answer(200, "data");
  }};
  HttpServer data{[this](const ServedRequest&) {
    ++redirected;
    return http_answer(
        303, "", {{"Location", fmt::format("{}/a?s={}", store.url(), valid.load())}, {"Cache-Control", lifetime}});
  }};
};

TEST_F(WebLoginTest, RedirectsAreKeptUntilTheyLeadToAnError) {
  SignedUrls urls;
  const auto login = WebLogin::make(urls.data.url(), {}).value();
  const auto ask = [&] { return get(*login, urls.data.url() + "/a").value(); };
  EXPECT_EQ(ask().redirects, 1U);
  EXPECT_EQ(ask().redirects, 0U);
  EXPECT_EQ(urls.redirected, 1);
  for (const int status : {400, 403, 404, 412, 500, 200}) {
    urls.status = status;
    ++urls.valid;
    const auto response = ask();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body.size(), 4U);
    EXPECT_EQ(response.redirects, 2U) << status << ": the old URL, the redirect, the new one";
    EXPECT_EQ(ask().redirects, 0U);
  }
  const auto http = HttpClient::start(1).value();
  const HttpRequest check{.url = urls.data.url() + "/a", .headers = {{"Cache-Control", "no-cache"}}};
  EXPECT_EQ(login->perform(*http, check).value().redirects, 1U);
}

TEST_F(WebLoginTest, RedirectsThatDoNotSayForHowLongAreNotKept) {
  for (const char* const lifetime :
       {"", "private", "max-age=0", "no-store, max-age=60", "no-cache, max-age=60", "max-age=x"}) {
    SignedUrls urls;
    urls.lifetime = lifetime;
    const auto login = WebLogin::make(urls.data.url(), {}).value();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(get(*login, urls.data.url() + "/a").value().redirects, 1U) << lifetime;
  }
}

/// Wants a cookie, for which a client must log in at another server.
struct Archive {
  std::atomic<int> logins = 0;
  std::atomic<int> session = 0;
  std::atomic<bool> is_slow = false;
  HttpServer data{[this](const ServedRequest& request) {
    if (request.target == "/back") {
      session = logins.load();
      return http_answer(302, "", {{"Location", "/a"}, {"Set-Cookie", fmt::format("s={}; Path=/", session.load())}});
    }
    if (request.header("cookie") == fmt::format("s={}", session.load()) && session > 0) return http_answer(200, "data");
    return http_answer(302, "", {{"Location", fmt::format("http://localhost:{}/authorize", login.port())}});
  }};
  HttpServer login{[this](const ServedRequest& request) {
    if (is_slow) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    if (request.header("authorization") != "Basic dTpw") return http_answer(401);
    ++logins;
    return http_answer(302, "", {{"Location", data.url() + "/back"}});
  }};
};

TEST_F(WebLoginTest, CookiesAreKept) {
  Archive archive;
  // The login of a host that the URL does not name is for its usual port, so the URL is that of the login's server.
  write(".netrc", "machine localhost login u password p");
  const auto login = WebLogin::make(fmt::format("http://localhost:{}", archive.login.port()), {}).value();
  for (int i = 0; i < 3; ++i) {
    const auto response = get(*login, archive.data.url() + "/a").value();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.redirects, i == 0 ? 3U : 0U);
  }
  EXPECT_EQ(archive.logins, 1);
  const auto other = WebLogin::make(archive.data.url(), {}).value();
  const auto refused = get(*other, archive.data.url() + "/a").value();
  EXPECT_EQ(refused.status, 401) << "its own port is not that of the login";
  EXPECT_NE(refused.advice.find("usual port"), std::string::npos) << refused.advice;
}

TEST_F(WebLoginTest, ManyThreadsLogInOnce) {
  Archive archive;
  archive.is_slow = true;
  write(".netrc", "machine localhost login u password p");
  const auto login = WebLogin::make(fmt::format("http://localhost:{}", archive.login.port()), {}).value();
  std::atomic<int> good = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 16; ++i)
      threads.emplace_back([&] { good += get(*login, archive.data.url() + "/a").value().status == 200; });
  }
  EXPECT_EQ(good, 16);
  EXPECT_EQ(archive.logins, 1);
}

TEST_F(WebLoginTest, AClientThatWaitsForTheLoginOfAnotherCanBeInterrupted) {
  Archive archive;
  archive.is_slow = true;
  write(".netrc", "machine localhost login u password p");
  const auto login = WebLogin::make(fmt::format("http://localhost:{}", archive.login.port()), {}).value();
  std::jthread first([&] { EXPECT_EQ(get(*login, archive.data.url() + "/a").value().status, 200); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const Interruption::Check now = [began = std::chrono::steady_clock::now()] {
    return std::chrono::steady_clock::now() - began > std::chrono::milliseconds(50);
  };
  const Interruption::Scope scope(&now);
  EXPECT_EQ(get(*login, archive.data.url() + "/a").error().code, EINTR);
}

TEST_F(WebLoginTest, Pages) {
  const auto response_of = [](int status, const std::string& type, std::string_view text) {
    HttpResponse response;
    response.status = status;
    if (!type.empty()) response.headers.push_back({"content-type", type});
    response.body = Buffer::allocate(text.size()).value();
    std::memcpy(response.body.data(), text.data(), text.size());
    return response;
  };
  for (const char* const text : {"<html>", "<!DOCTYPE html>", "\xef\xbb\xbf \r\n<!doctype HTML>", "<HTML lang=en>"}) {
    EXPECT_TRUE(is_page(response_of(200, "text/html; charset=utf-8", text))) << text;
    EXPECT_TRUE(is_page(response_of(206, "Text/HTML", text))) << text;
    EXPECT_FALSE(is_page(response_of(200, "application/octet-stream", text))) << "data may be a page";
    EXPECT_FALSE(is_page(response_of(200, "", text)));
    EXPECT_FALSE(is_page(response_of(404, "text/html", text)));
  }
  EXPECT_TRUE(is_page(response_of(200, "text/html", "<!-- x --><html>")));
  EXPECT_FALSE(is_page(response_of(206, "text/html", "<1234"))) << "a part of data";
  EXPECT_FALSE(is_page(response_of(200, "text/html", "{\"zarr_format\": 2}")));
  EXPECT_FALSE(is_page(response_of(200, "text/html", "")));
}

}  // namespace
}  // namespace codecfs::remote
