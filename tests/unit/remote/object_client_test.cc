#include "remote/object_client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "base/interruption.h"
#include "remote/absence_check.h"
#include "remote/signature.h"
#include "support/environment.h"
#include "support/http_server.h"

namespace codecfs::remote {
namespace {

using Headers = std::vector<std::pair<std::string, std::string>>;

std::unique_ptr<ObjectClient> client_of(const HttpServer& server) {
  const ObjectUrl url{.scheme = Scheme::s3, .base = {}, .bucket = "bucket", .key = {}, .query = {}};
  ObjectOptions options;
  options.endpoint = server.url();
  options.region = "us-east-1";
  options.anonymous = true;
  options.retry_time = std::chrono::seconds(5);
  return ObjectClient::make(url, options).value();
}

std::string text_of(const ObjectPart& part) {
  return {reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size()};
}

TEST(ObjectClient, ReadsPartsOfOneState) {
  std::string seen;
  HttpServer server([&](const ServedRequest& request) {
    seen = request.target + " " + request.header("range") + " " + request.header("if-match");
    return http_answer(206, "cde", {{"ETag", "\"1\""}, {"Content-Range", "bytes 2-4/10"}});
  });
  const auto client = client_of(server);
  const auto part = client->get("a b/+", ObjectRange{.offset = 2, .size = 3}, 3, "\"1\"").value();
  EXPECT_EQ(seen, "/bucket/a%20b/%2B bytes=2-4 \"1\"");
  EXPECT_EQ(text_of(*part), "cde");
  EXPECT_EQ(part->total, 10U);
  EXPECT_EQ(client->get("k", ObjectRange{.offset = 2, .size = 3}, 3, "\"2\"").error().code, ESTALE)
      << "a server that ignores If-Match";
}

TEST(ObjectClient, AnotherPartIsAskedForAgain) {
  std::atomic<int> count = 0;
  HttpServer server([&](const ServedRequest&) {
    return ++count == 1 ? http_answer(206, "abc", {{"Content-Range", "bytes 0-2/10"}})
                        : http_answer(206, "cde", {{"Content-Range", "bytes 2-4/10"}});
  });
  const auto client = client_of(server);
  EXPECT_EQ(text_of(*client->get("k", ObjectRange{.offset = 2, .size = 3}, 3).value()), "cde");
  EXPECT_EQ(client->statistics().retries, 1U);
}

TEST(ObjectClient, AServerWithoutPartsIsToldSo) {
  HttpServer server([](const ServedRequest&) { return http_answer(200, "abcdefghij"); });
  EXPECT_EQ(client_of(server)->get("k", ObjectRange{.offset = 2, .size = 3}, 3).error().code, EOPNOTSUPP);
}

TEST(ObjectClient, AbsenceIsNoError) {
  HttpServer server([](const ServedRequest&) { return http_answer(404, "<Error><Code>NoSuchKey</Code></Error>"); });
  EXPECT_FALSE(client_of(server)->get("k", {}, 10).value());
}

// What proxies, gateways and servers in another state say instead of NoSuchKey.
TEST(ObjectClient, OnlyNoSuchKeyIsAbsence) {
  struct Case {
    int status;
    const char* body;
    int code;
    const char* reason;
  };
  const std::vector<Case> cases{
      {404, "default backend - 404", EIO, "default backend - 404"},
      {404, "", EIO, "only NoSuchKey"},
      {404, "<html><body><h1>404 Not Found</h1><hr>nginx</body></html>", EIO, "404 Not Found nginx"},
      {404, "<Error><Code>NoSuchBucket</Code></Error>", EIO, "there is no such bucket"},
      {404, "<Error><Code>NoSuchVersion</Code></Error>", EIO, "NoSuchVersion"},
      {404, "<Error><Code>XAdminUserNotFound</Code><Message>No user exists</Message></Error>", EACCES,
       "No user exists"},
      {404, "<Error><Code>NoSuchKey</Code>", EIO, "404"},
      {410, "<Error><Code>NoSuchKey</Code></Error>", EIO, "410"},
      {403, "<Error><Code>NoSuchKey</Code></Error>", EACCES, "403"},
  };
  for (const Case& one : cases) {
    HttpServer server([&](const ServedRequest&) { return http_answer(one.status, one.body); });
    const auto client = client_of(server);
    const std::string text = "content";
    const auto outcome = [](const auto& result) -> Result<> {
      if (!result) return std::unexpected(result.error());
      return {};
    };
    const std::vector<Result<>> results{outcome(client->get("k", {}, 10)), outcome(client->list("k/", true, "")),
                                        outcome(client->put("k", std::as_bytes(std::span(text)), {})),
                                        client->remove("k")};
    for (size_t i = 0; i < results.size(); ++i) {
      ASSERT_FALSE(results[i]) << one.body << " " << i;
      EXPECT_EQ(results[i].error().code, one.code) << one.body << " " << i;
      EXPECT_NE(results[i].error().reason.find(one.reason), std::string::npos) << results[i].error().reason;
    }
    EXPECT_EQ(client->statistics().requests(), results.size()) << "none is repeated";
  }
}

TEST(ObjectClient, AChangeWithAnotherAnswerHasNotTakenPlace) {
  for (const int status : {304, 416}) {
    HttpServer server([&](const ServedRequest&) { return http_answer(status); });
    const auto client = client_of(server);
    EXPECT_EQ(client->remove("k").error().code, EIO) << status;
    EXPECT_EQ(client->put("k", {}, {}).error().code, EIO) << status;
    EXPECT_EQ(client->list("k", true, "").error().code, EIO) << status;
  }
}

TEST(ObjectClient, RemovingWhatIsNotThereIsNoError) {
  HttpServer server([](const ServedRequest&) { return http_answer(404, "<Error><Code>NoSuchKey</Code></Error>"); });
  EXPECT_TRUE(client_of(server)->remove("k"));
  EXPECT_EQ(client_of(server)->put("k", {}, {.is_new = false, .etag = "\"1\""}).error().code, ESTALE);
}

/// A web server with the object "meta", which can be replaced or go away with the store.
struct WebServer {
  std::atomic<int> version = 1;
  std::atomic<bool> has_store = true;
  std::atomic<bool> has_etags = true;
  std::atomic<int> checks = 0;
  std::string sent;  // of the latest check
  HttpServer server{[this](const ServedRequest& request) { return answer(request); }};

  std::string answer(const ServedRequest& request) {
    if (!has_store || request.target != "/meta") return http_answer(404, "<html>Not Found</html>");
    if (!request.header("cache-control").empty()) {
      ++checks;
      sent = request.header("cache-control") + " " + request.header("if-none-match");
    }
    const std::string etag = fmt::format("\"{}\"", version.load());
    if (has_etags && request.header("if-none-match") == etag) return http_answer(304, "", {{"ETag", etag}});
    return http_answer(200, fmt::format("metadata {}", version.load()),
                       has_etags ? Headers{{"ETag", etag}} : Headers{});
  }
  std::unique_ptr<ObjectClient> client(bool absent_403 = false) {
    ObjectOptions options;
    options.retry_time = std::chrono::seconds(1);
    options.absent_403 = absent_403;
    return ObjectClient::make({.scheme = Scheme::http, .base = server.url(), .bucket = {}, .key = {}, .query = {}},
                              options)
        .value();
  }
};

TEST(ObjectClient, AWebServerIsBelievedWhileItHasTheMetadata) {
  for (const bool has_etags : {true, false}) {
    WebServer web;
    web.has_etags = has_etags;
    const auto client = web.client();
    EXPECT_FALSE(client->get("a", {}, 10).value()) << "nothing is known yet";
    const auto meta = client->get("meta", {}, 100).value();
    client->rely_on("meta", *meta);
    for (int i = 0; i < 20; ++i) EXPECT_FALSE(client->get("a", {}, 10).value());
    EXPECT_EQ(web.checks, 1) << "one answers for those of the next second";
    EXPECT_EQ(web.sent, has_etags ? "no-cache \"1\"" : "no-cache ");
    EXPECT_TRUE(client->confirm_absences());

    std::this_thread::sleep_for(AbsenceCheck::kValid);
    web.has_store = false;
    const auto gone = client->get("a", {}, 10);
    ASSERT_FALSE(gone);
    EXPECT_EQ(gone.error().code, EIO);
    EXPECT_NE(gone.error().reason.find("/meta"), std::string::npos) << gone.error().reason;
    web.has_store = true;
    EXPECT_FALSE(client->get("a", {}, 10).value()) << "it heals";

    std::this_thread::sleep_for(AbsenceCheck::kValid);
    ++web.version;
    const auto replaced = client->get("a", {}, 10);
    ASSERT_FALSE(replaced);
    EXPECT_EQ(replaced.error().code, EIO);
    EXPECT_NE(replaced.error().reason.find("was replaced"), std::string::npos) << replaced.error().reason;
  }
}

TEST(ObjectClient, ManyReadersShareTheCheck) {
  WebServer web;
  const auto client = web.client();
  client->rely_on("meta", *client->get("meta", {}, 100).value());
  std::vector<std::thread> readers;
  for (int i = 0; i < 16; ++i) readers.emplace_back([&] { EXPECT_FALSE(client->get("a", {}, 10).value()); });
  for (std::thread& reader : readers) reader.join();
  EXPECT_LE(web.checks, 3);
}

TEST(ObjectClient, ForbiddenIsAbsentOnRequestWhileTheMetadataCanBeRead) {
  std::atomic<bool> is_all_forbidden = false;
  HttpServer server([&](const ServedRequest& request) {
    if (request.target == "/bucket/meta" && !is_all_forbidden) return http_answer(200, "metadata", {{"ETag", "\"1\""}});
    return http_answer(403, "<Error><Code>AccessDenied</Code></Error>");
  });
  EXPECT_EQ(client_of(server)->get("a", {}, 10).error().code, EACCES) << "only on request";
  ObjectOptions options;
  options.endpoint = server.url();
  options.anonymous = true;
  options.absent_403 = true;
  const auto client =
      ObjectClient::make({.scheme = Scheme::s3, .base = {}, .bucket = "bucket", .key = {}, .query = {}}, options)
          .value();
  client->rely_on("meta", *client->get("meta", {}, 100).value());
  EXPECT_FALSE(client->get("a", {}, 10).value());
  EXPECT_EQ(client->list("", true, "").error().code, EACCES);
  EXPECT_EQ(client->remove("a").error().code, EACCES);
  std::this_thread::sleep_for(AbsenceCheck::kValid);
  is_all_forbidden = true;
  EXPECT_EQ(client->get("a", {}, 10).error().code, EACCES);
}

TEST(ObjectClient, RefusalIsNoAbsence) {
  HttpServer server([](const ServedRequest&) {
    return http_answer(403, "<Error><Code>AccessDenied</Code><Message>no</Message></Error>",
                       {{"x-amz-request-id", "id7"}});
  });
  const auto refused = client_of(server)->get("k", {}, 10);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EACCES);
  EXPECT_NE(refused.error().reason.find("AccessDenied (no), request id7"), std::string::npos) << refused.error().reason;
}

TEST(ObjectClient, RepeatsWhatFails) {
  std::atomic<int> count = 0;
  HttpServer server([&](const ServedRequest&) {
    ++count;
    if (count == 1) return http_answer(503, "<Error><Code>SlowDown</Code></Error>");
    if (count == 2) return std::string("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    return http_answer(200, "abcdefghij");
  });
  EXPECT_EQ(text_of(*client_of(server)->get("k", {}, 10).value()), "abcdefghij");
  EXPECT_EQ(count, 3);
}

TEST(ObjectClient, GivesUpWithTheAnswer) {
  HttpServer server([](const ServedRequest&) { return http_answer(500, "<Error><Code>InternalError</Code></Error>"); });
  const auto failed = client_of(server)->get("k", {}, 10);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, EIO);
  EXPECT_NE(failed.error().reason.find("InternalError"), std::string::npos);
}

TEST(ObjectClient, AHostThatNeverAnsweredIsGivenUpSoon) {
  const ObjectUrl url{.scheme = Scheme::http, .base = "http://127.0.0.1:1", .bucket = {}, .key = {}, .query = {}};
  const auto client = ObjectClient::make(url, {}).value();
  EXPECT_EQ(client->get("k", {}, 10).error().code, EIO);
  EXPECT_EQ(client->statistics().requests(), 4U) << "not as many as to a host that did";
}

TEST(ObjectClient, ConditionsOfWrites) {
  std::string seen;
  std::atomic<int> status = 200;
  HttpServer server([&](const ServedRequest& request) {
    seen =
        request.method + " " + request.header("if-none-match") + "," + request.header("if-match") + " " + request.body;
    return http_answer(status, "", {{"ETag", "\"new\""}});
  });
  const auto client = client_of(server);
  const std::string text = "content";
  const Bytes bytes = std::as_bytes(std::span(text));
  EXPECT_EQ(client->put("k", bytes, {.is_new = true, .etag = {}}).value(), "\"new\"");
  EXPECT_EQ(seen, "PUT *, content");
  EXPECT_TRUE(client->put("k", bytes, {.is_new = false, .etag = "\"old\""}));
  EXPECT_EQ(seen, "PUT ,\"old\" content");
  status = 412;
  EXPECT_EQ(client->put("k", bytes, {.is_new = true, .etag = {}}).error().code, EEXIST);
  EXPECT_EQ(client->put("k", bytes, {.is_new = false, .etag = "\"old\""}).error().code, ESTALE);
}

// The answer of the first attempt is lost, but it took effect.
TEST(ObjectClient, ARepeatedWriteRecognisesItself) {
  const std::string text = "content";
  const Bytes bytes = std::as_bytes(std::span(text));
  std::atomic<int> count = 0;
  HttpServer server([&](const ServedRequest& request) {
    if (request.method == "GET")
      return http_answer(206, "c", {{"ETag", "\"" + md5_hex(bytes) + "\""}, {"Content-Range", "bytes 0-0/7"}});
    return ++count == 1 ? std::string() : http_answer(412);
  });
  EXPECT_TRUE(client_of(server)->put("k", bytes, {.is_new = true, .etag = {}}));
}

// What a change asks for after its own request belongs to it.
TEST(ObjectClient, AWriteThatWasMadeIsNotRefusedIfItIsInterrupted) {
  const std::string text = "content";
  const Bytes bytes = std::as_bytes(std::span(text));
  HttpServer server([&](const ServedRequest& request) {
    if (request.method == "GET")
      return http_answer(206, "c", {{"ETag", "\"" + md5_hex(bytes) + "\""}, {"Content-Range", "bytes 0-0/7"}});
    return http_answer(412);
  });
  const auto client = client_of(server);
  const Interruption::Check yes = [] { return true; };
  const Interruption::Scope scope(&yes);
  EXPECT_TRUE(client->put("k", bytes, {.is_new = false, .etag = "\"old\""}));
  EXPECT_EQ(client->get("k", {}, 10).error().code, EINTR);
}

// A region is a part of a host's name: one that a server makes up must not lead elsewhere.
TEST(ObjectClient, RegionsOfServersAreNames) {
  for (const char* const region : {"evil.example/", "a@b", "a:80", "a?b", ""}) {
    HttpServer server([&](const ServedRequest&) { return http_answer(301, "", {{"x-amz-bucket-region", region}}); });
    const auto client = client_of(server);
    EXPECT_FALSE(client->get("k", {}, 10)) << region;
    EXPECT_EQ(client->statistics().requests(), 1U) << region;
  }
}

TEST(ObjectClient, SignedRequestsFollowNoRedirects) {
  HttpServer other([](const ServedRequest&) { return http_answer(200, "other"); });
  HttpServer server([&](const ServedRequest&) { return http_answer(307, "", {{"Location", other.url() + "/x"}}); });
  EXPECT_FALSE(client_of(server)->get("k", {}, 10));
  EXPECT_EQ(other.requests(), 0U);
}

/// A server with one object, whose ETag counts its states.
class OneObjectServer {
 public:
  enum class Heeds { all, unquoted, creation, none };
  explicit OneObjectServer(Heeds heeds) : heeds_(heeds) {}

  std::string answer(const ServedRequest& request) {
    const std::lock_guard lock(mutex_);
    if (request.method == "DELETE") {
      state_ = 0;
      return http_answer(204);
    }
    const std::string etag = fmt::format("{}", state_);
    if (request.method == "GET")
      return http_answer(206, "x", {{"ETag", "\"" + etag + "\""}, {"Content-Range", "bytes 0-0/5"}});
    const std::string match = request.header("if-match");
    if (heeds_ != Heeds::none && request.header("if-none-match") == "*" && state_ != 0) return http_answer(412);
    const bool matches = match == etag || (heeds_ == Heeds::all && match == "\"" + etag + "\"");
    if ((heeds_ == Heeds::all || heeds_ == Heeds::unquoted) && !match.empty() && !matches) return http_answer(412);
    state_ = ++count_;
    return http_answer(200, "", {{"ETag", fmt::format("\"{}\"", state_)}});
  }
  [[nodiscard]] bool is_there() const { return state_ != 0; }

 private:
  const Heeds heeds_;
  std::mutex mutex_;
  unsigned state_ = 0;  // 0: there is none
  unsigned count_ = 0;
};

TEST(ObjectClient, FindsOutHowAServerHeedsConditions) {
  using Heeds = OneObjectServer::Heeds;
  for (const Heeds heeds : {Heeds::all, Heeds::unquoted, Heeds::creation, Heeds::none}) {
    OneObjectServer object(heeds);
    HttpServer server([&](const ServedRequest& request) { return object.answer(request); });
    const auto client = client_of(server);
    const auto checked = client->check_conditions("probe");
    EXPECT_FALSE(object.is_there()) << "it is removed again";
    if (heeds == Heeds::creation || heeds == Heeds::none) {
      EXPECT_EQ(checked.error().code, EOPNOTSUPP);
      continue;
    }
    ASSERT_TRUE(checked) << checked.error().reason;
    const std::string first = client->put("k", {}, {.is_new = true, .etag = {}}).value();
    const auto second = client->put("k", {}, {.is_new = false, .etag = first});
    ASSERT_TRUE(second) << second.error().reason;
    EXPECT_EQ(client->put("k", {}, {.is_new = false, .etag = first}).error().code, ESTALE);
  }
}

std::unique_ptr<ObjectClient> azure_client_of(const HttpServer& server) {
  ObjectOptions options;
  options.endpoint = server.url();
  options.account = "account";
  options.anonymous = true;
  options.retry_time = std::chrono::seconds(5);
  return ObjectClient::make(parse_object_url("az://box/k").value(), options).value();
}

/// What each function of a client makes of an answer.
std::vector<Result<>> outcomes(ObjectClient& client) {
  const auto outcome = [](const auto& result) -> Result<> {
    if (!result) return std::unexpected(result.error());
    return {};
  };
  return {outcome(client.get("k", {}, 10)), outcome(client.get("k", ObjectRange{.offset = 0, .size = 3}, 3)),
          outcome(client.list("k/", true, "")), outcome(client.put("k", {}, {})), client.remove("k")};
}

TEST(ObjectClient, OnlyBlobNotFoundIsAbsenceInAzure) {
  struct Case {
    int status;
    const char* code;  // in the header
    const char* body;
    int error;
  };
  for (const Case& one : std::vector<Case>{{404, "", "<Error><Code>BlobNotFound</Code></Error>", EIO},
                                           {404, "", "", EIO},
                                           {404, "", "default backend - 404", EIO},
                                           {404, "ResourceNotFound", "", EIO},
                                           {404, "ContainerNotFound", "", EIO},
                                           {404, "NoSuchKey", "", EIO},
                                           {410, "BlobNotFound", "", EIO},
                                           {409, "BlobArchived", "", EIO},
                                           {409, "PublicAccessNotPermitted", "", EACCES},
                                           {412, "LeaseIdMissing", "", EIO},
                                           {401, "NoAuthenticationInformation", "", EACCES},
                                           {403, "BlobNotFound", "", EACCES},
                                           {403, "AuthenticationFailed", "", EACCES},
                                           {403, "AuthorizationFailure", "", EACCES}}) {
    HttpServer server(
        [&](const ServedRequest&) { return http_answer(one.status, one.body, {{"x-ms-error-code", one.code}}); });
    const auto client = azure_client_of(server);
    for (const Result<>& result : outcomes(*client)) {
      ASSERT_FALSE(result) << one.status << " " << one.code;
      EXPECT_EQ(result.error().code, one.error) << one.status << " " << one.code << ": " << result.error().reason;
    }
    EXPECT_EQ(client->statistics().requests(), 5U) << "none is repeated";
  }
  HttpServer server([](const ServedRequest&) { return http_answer(404, "", {{"x-ms-error-code", "BlobNotFound"}}); });
  const auto client = azure_client_of(server);
  EXPECT_FALSE(client->get("k", {}, 10).value());
  EXPECT_TRUE(client->remove("k"));
  EXPECT_EQ(client->list("", true, "").error().code, EIO) << "a list is of the container";
}

TEST(ObjectClient, OnlyNoSuchKeyIsAbsenceInGoogleCloudStorage) {
  const auto client_for = [](const HttpServer& server) {
    ObjectOptions options;
    options.endpoint = server.url();
    options.anonymous = true;
    return ObjectClient::make(parse_object_url("gs://bucket/k").value(), options).value();
  };
  struct Case {
    int status;
    const char* body;
    int error;
  };
  for (const Case& one : std::vector<Case>{{404, "", EIO},
                                           {404, "No such object: bucket/k", EIO},
                                           {404, R"({"error": {"errors": [{"reason": "notFound"}]}})", EIO},
                                           {404, "<Error><Code>NoSuchBucket</Code></Error>", EIO},
                                           {404, "<Error><Code>NoSuchKey</Code>", EIO},
                                           {410, "<Error><Code>NoSuchKey</Code></Error>", EIO},
                                           {400, "<Error><Code>UserProjectMissing</Code></Error>", EIO},
                                           {401, "<Error><Code>AuthenticationRequired</Code></Error>", EACCES},
                                           {403, "<Error><Code>AccessDenied</Code></Error>", EACCES},
                                           {403, "<Error><Code>NoSuchKey</Code></Error>", EACCES}}) {
    HttpServer server([&](const ServedRequest&) { return http_answer(one.status, one.body); });
    const auto client = client_for(server);
    for (const Result<>& result : outcomes(*client)) {
      ASSERT_FALSE(result) << one.status << " " << one.body;
      EXPECT_EQ(result.error().code, one.error) << one.status << " " << one.body << ": " << result.error().reason;
    }
    EXPECT_EQ(client->statistics().requests(), 5U) << "none is repeated";
  }
  HttpServer server([](const ServedRequest&) { return http_answer(404, "<Error><Code>NoSuchKey</Code></Error>"); });
  EXPECT_FALSE(client_for(server)->get("k", {}, 10).value());
}

// Azure has no ranges of the last bytes.
TEST(ObjectClient, TheEndOfABlobIsReadInTwoRequests) {
  std::vector<std::string> seen;
  std::atomic<int> replaced = 0;
  HttpServer server([&](const ServedRequest& request) {
    seen.push_back(request.header("range") + " " + request.header("if-match"));
    if (!request.header("if-match").empty() && replaced-- > 0)
      return http_answer(412, "", {{"x-ms-error-code", "ConditionNotMet"}});
    if (request.header("range") == "bytes=0-0")
      return http_answer(206, "a", {{"ETag", "\"1\""}, {"Content-Range", "bytes 0-0/10"}});
    return http_answer(206, "hij", {{"ETag", "\"1\""}, {"Content-Range", "bytes 7-9/10"}});
  });
  const auto client = azure_client_of(server);
  const ObjectRange end{.offset = 0, .size = 3, .is_at_end = true};
  const auto part = client->get("k", end, 3);
  ASSERT_TRUE(part) << part.error().reason;
  EXPECT_EQ(text_of(**part), "hij");
  EXPECT_EQ((*part)->total, 10U);
  EXPECT_EQ(seen, (std::vector<std::string>{"bytes=0-0 ", "bytes=7-9 \"1\""}));
  replaced = 1;
  EXPECT_EQ(text_of(*client->get("k", end, 3).value()), "hij") << "it was replaced between the two";
  replaced = 100;
  EXPECT_EQ(client->get("k", end, 3).error().code, ESTALE);
}

TEST(ObjectClient, ConditionsOfWritesToAzure) {
  std::string answer;
  std::string seen;
  HttpServer server([&](const ServedRequest& request) {
    if (request.method == "GET") return http_answer(404, "", {{"x-ms-error-code", "BlobNotFound"}});
    seen = request.header("if-none-match") + "," + request.header("if-match") + " " + request.header("x-ms-blob-type");
    return answer;
  });
  const auto client = azure_client_of(server);
  answer = http_answer(201, "", {{"ETag", "\"0x8D1\""}});
  EXPECT_EQ(client->put("k", {}, {.is_new = true, .etag = {}}).value(), "\"0x8D1\"");
  EXPECT_EQ(seen, "*, BlockBlob");
  EXPECT_TRUE(client->put("k", {}, {.is_new = false, .etag = "\"0x8D1\""}));
  EXPECT_EQ(seen, ",\"0x8D1\" BlockBlob");
  answer = http_answer(409, "", {{"x-ms-error-code", "BlobAlreadyExists"}});
  EXPECT_EQ(client->put("k", {}, {.is_new = true, .etag = {}}).error().code, EEXIST);
  answer = http_answer(412, "", {{"x-ms-error-code", "ConditionNotMet"}});
  EXPECT_EQ(client->put("k", {}, {.is_new = false, .etag = "\"0x8D1\""}).error().code, ESTALE);
  answer = http_answer(412, "", {{"x-ms-error-code", "LeaseIdMissing"}});
  EXPECT_EQ(client->put("k", {}, {.is_new = false, .etag = "\"0x8D1\""}).error().code, EIO);
  answer = http_answer(409, "", {{"x-ms-error-code", "SnapshotsPresent"}});
  EXPECT_EQ(client->remove("k").error().code, EIO);
  answer = http_answer(404, "", {{"x-ms-error-code", "BlobNotFound"}});
  EXPECT_TRUE(client->remove("k"));
}

// Reads depend on an ETag or a generation, writes only on a generation.
TEST(ObjectClient, ConditionsOfGoogleAreGenerations) {
  std::string seen;
  std::atomic<int> status = 200;
  HttpServer server([&](const ServedRequest& request) {
    seen = request.method + " " + request.target + " " + request.header("x-goog-if-generation-match") + "," +
           request.header("if-match") + "," + request.header("if-none-match");
    if (request.method == "GET" && status == 412) return http_answer(404, "<Error><Code>NoSuchKey</Code></Error>");
    return http_answer(status, "", {{"ETag", "\"e\""}, {"x-goog-generation", "7"}});
  });
  ObjectOptions options;
  options.endpoint = server.url();
  options.anonymous = true;
  const auto client = ObjectClient::make(parse_object_url("gs://bucket/k").value(), options).value();
  EXPECT_EQ(client->put("a b", {}, {.is_new = true, .etag = {}}).value(), "\"e\"#7");
  EXPECT_EQ(seen, "PUT /bucket/a%20b 0,,");
  EXPECT_TRUE(client->put("k", {}, {.is_new = false, .etag = "\"e\"#7"}));
  EXPECT_EQ(seen, "PUT /bucket/k 7,,");
  EXPECT_EQ(client->get("k", {}, 10, "\"e\"#7").value()->etag, "\"e\"#7");
  EXPECT_EQ(seen, "GET /bucket/k 7,,");
  EXPECT_EQ(client->get("k", {}, 10, "\"e\"#6").error().code, ESTALE) << "a server that ignores the condition";
  status = 304;
  EXPECT_EQ(client->get_if_changed("k", {.offset = 0, .size = 9}, "\"e\"#7").value()->etag, "\"e\"#7");
  EXPECT_EQ(seen, "GET /bucket/k ,,\"e\"");
  status = 200;
  EXPECT_EQ(client->get_if_changed("k", {.offset = 0, .size = 9}, "\"e\"#6").value()->etag, "\"e\"#7");
  EXPECT_EQ(client->put("k", {}, {.is_new = false, .etag = "\"e\""}).error().code, EOPNOTSUPP) << "no generation";
  status = 412;
  EXPECT_EQ(client->put("k", {}, {.is_new = true, .etag = {}}).error().code, EEXIST);
  EXPECT_EQ(client->put("k", {}, {.is_new = false, .etag = "\"e\"#7"}).error().code, ESTALE);
}

TEST(ObjectClient, TheSameBytesInAnotherGenerationAreAnotherState) {
  std::vector<std::string> seen;
  bool says_generation = true;
  HttpServer server([&](const ServedRequest& request) {
    seen.push_back(request.header("if-none-match"));
    std::vector<std::pair<std::string, std::string>> headers{{"ETag", "\"e\""}};
    if (says_generation || seen.back().empty()) headers.push_back({"x-goog-generation", "8"});
    return http_answer(seen.back().empty() ? 200 : 304, seen.back().empty() ? "text" : "", headers);
  });
  ObjectOptions options;
  options.endpoint = server.url();
  options.anonymous = true;
  const auto client = ObjectClient::make(parse_object_url("gs://bucket/k").value(), options).value();
  for (const bool says : {true, false}) {
    says_generation = says;
    seen.clear();
    const auto part = client->get_if_changed("k", {.offset = 0, .size = 9}, "\"e\"#7").value();
    EXPECT_EQ(part->etag, "\"e\"#8");
    EXPECT_EQ(part->bytes.size(), 4U);
    EXPECT_EQ(seen, (std::vector<std::string>{"\"e\"", ""}));
  }
}

TEST(ObjectClient, PartsThatDoNotSayTheirStateAreNotThoseOfAState) {
  HttpServer server([](const ServedRequest&) { return http_answer(206, "abcd", {{"Content-Range", "bytes 0-3/10"}}); });
  const ObjectRange range{.offset = 0, .size = 4};
  EXPECT_EQ(client_of(server)->get("k", range, 4, "\"1\"").error().code, ESTALE);
  EXPECT_TRUE(client_of(server)->get("k", range, 4, ""));
}

TEST(ObjectClient, TokensAreNotSentWithoutEncryption) {
  ObjectOptions options;
  options.credential_process = "echo secret";
  options.endpoint = "http://192.0.2.1:8080";
  options.account = "name";
  for (const char* const url : {"gs://bucket/k", "az://container/k"}) {
    EXPECT_EQ(ObjectClient::make(parse_object_url(url).value(), options).error().code, EACCES) << url;
    options.anonymous = true;
    EXPECT_TRUE(ObjectClient::make(parse_object_url(url).value(), options)) << url;
    options.anonymous = false;
  }
}

TEST(ObjectClient, SignaturesInUrlsAreNotRepeated) {
  for (const char* const form : {"Cannot GET {}", "<Error><Code>Odd</Code><Message>no {}</Message></Error>"}) {
    HttpServer server([&](const ServedRequest& request) {
      return http_answer(404, fmt::format(fmt::runtime(form), request.target));
    });
    ObjectOptions options;
    options.endpoint = server.url();
    options.account = "name";
    options.credential_process = "echo 'sv=2020-10-02&sig=SECRET'";
    const auto client = ObjectClient::make(parse_object_url("az://container/k").value(), options).value();
    const auto refused = client->get("k", {}, 10, "");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().reason.find("SECRET"), std::string::npos) << refused.error().reason;
    EXPECT_EQ(refused.error().code, EIO);
  }
}

TEST(ObjectClient, AnEtagThatIsNoneIsNoCondition) {
  HttpServer server([](const ServedRequest&) { return http_answer(200); });
  EXPECT_EQ(client_of(server)->put("k", {}, {.is_new = false, .etag = "W/\"1\""}).error().code, EOPNOTSUPP);
}

}  // namespace
}  // namespace codecfs::remote
