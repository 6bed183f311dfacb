#include "remote/credentials.h"

#include <gtest/gtest.h>

#include <string>

#include "support/credential_testing.h"

namespace codecfs::remote {
namespace {

class FindCredentials : public CredentialTest {
 protected:
  /// The access key, or the reason.
  std::string find(const CredentialOptions& options = {}) {
    const auto found = make_credential_provider(*http_, options)->get();
    EXPECT_TRUE(found || found.error().code == EACCES);
    return found ? found->access_key : found.error().reason;
  }
  void set_keys() {
    environment_.set("AWS_ACCESS_KEY_ID", "E");
    environment_.set("AWS_SECRET_ACCESS_KEY", "secret-E");
  }

  ServedRequest last_;
  std::string expiration_ = kFarFuture;
  HttpServer server_{[this](const ServedRequest& request) {
    last_ = request;
    if (request.target == "/container") return json_answer("C", expiration_);
    if (request.method == "POST") return sts_answer("AssumeRoleWithWebIdentity", "W", expiration_);
    if (request.method == "PUT") return http_answer(200, "SESSION");
    return request.target.ends_with("/role") ? json_answer("I", expiration_) : http_answer(200, "role");
  }};
};

constexpr const char* kTwoProfiles =
    "[default]\naws_access_key_id=D\naws_secret_access_key=x\n[other]\naws_access_key_id=O\naws_secret_access_key=x\n";

TEST_F(FindCredentials, TheFirstPlaceThatHasSome) {
  environment_.unset("AWS_EC2_METADATA_DISABLED");
  environment_.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", server_.url());
  EXPECT_EQ(find(), "I");
  environment_.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server_.url() + "/container");
  EXPECT_EQ(find(), "C");
  (void)write(".aws/credentials", kTwoProfiles);
  EXPECT_EQ(find(), "D");
  environment_.set("AWS_ENDPOINT_URL", server_.url());
  environment_.set("AWS_ROLE_ARN", "r");
  environment_.set("AWS_WEB_IDENTITY_TOKEN_FILE", write("token", "t"));
  EXPECT_EQ(find(), "W");
  set_keys();
  EXPECT_EQ(find(), "E");
}

TEST_F(FindCredentials, ANamedProfileComesBeforeTheEnvironment) {
  set_keys();
  (void)write(".aws/credentials", kTwoProfiles);
  EXPECT_EQ(find({.profile = "other", .region = {}}), "O");
  environment_.set("AWS_PROFILE", "other");
  EXPECT_EQ(find(), "E") << "AWS_PROFILE does not";
  environment_.unset("AWS_ACCESS_KEY_ID");
  environment_.unset("AWS_SECRET_ACCESS_KEY");
  EXPECT_EQ(find(), "O");
  EXPECT_EQ(find({.profile = "default", .region = {}}), "D");
  environment_.set("AWS_PROFILE", "missing");
  EXPECT_TRUE(find().contains("no profile \"missing\"")) << find();
  EXPECT_TRUE(find({.profile = "absent", .region = {}}).contains("no profile \"absent\""));
}

TEST_F(FindCredentials, NoneSaysWhatToDo) {
  EXPECT_EQ(find(), "no credentials found (looked in the environment, the profile \"default\" of '" + home_.string() +
                        "/.aws/credentials' and '" + home_.string() +
                        "/.aws/config', the container, the instance): set AWS_ACCESS_KEY_ID and "
                        "AWS_SECRET_ACCESS_KEY, name a profile with -o profile=, or use -o anon for a public bucket");
}

TEST_F(FindCredentials, AnIncompletePlaceIsAnError) {
  environment_.set("AWS_ACCESS_KEY_ID", "SECRET");
  EXPECT_EQ(find(), "no credentials: AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not");
  environment_.set("AWS_SECRET_ACCESS_KEY", "SECRET\n");
  EXPECT_TRUE(find().starts_with("no credentials: the environment: ")) << find();
  EXPECT_FALSE(find().contains("SECRET"));
}

TEST_F(FindCredentials, MalformedFilesMatterOnlyIfTheyAreNeeded) {
  (void)write(".aws/config", "SECRET\n");
  EXPECT_TRUE(find().contains("/.aws/config', line 1")) << find();
  EXPECT_FALSE(find().contains("SECRET"));
  set_keys();
  EXPECT_EQ(find(), "E");
}

TEST_F(FindCredentials, RegionOfSts) {
  environment_.set("AWS_ENDPOINT_URL", server_.url());
  (void)write(".aws/config", "[default]\nrole_arn=r\ncredential_source=Environment\nregion=of-profile\n");
  set_keys();
  const auto region = [&](const std::string& option) {
    EXPECT_FALSE(make_credential_provider(*http_, {.profile = "default", .region = option})->get());
    const std::string text = last_.header("authorization");  // Credential=KEY/DATE/REGION/sts/aws4_request
    const size_t end = text.find("/sts/");
    const size_t begin = text.rfind('/', end - 1) + 1;
    return text.substr(begin, end - begin);
  };
  EXPECT_EQ(region(""), "of-profile");
  environment_.set("AWS_DEFAULT_REGION", "of-default");
  EXPECT_EQ(region(""), "of-default");
  environment_.set("AWS_REGION", "of-environment");
  EXPECT_EQ(region(""), "of-environment");
  EXPECT_EQ(region("of-option"), "of-option");
  environment_.unset("AWS_REGION");
  environment_.unset("AWS_DEFAULT_REGION");
  (void)write(".aws/config", "[default]\nrole_arn=r\ncredential_source=Environment\n");
  EXPECT_EQ(region(""), "us-east-1");
}

TEST_F(FindCredentials, AreKeptUntilTheyAreRefused) {
  environment_.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server_.url() + "/container");
  const auto provider = make_credential_provider(*http_, {});
  const Credentials first = provider->get().value();
  EXPECT_EQ(provider->get()->access_key, "C");
  EXPECT_EQ(server_.requests(), 1u);
  provider->refused(first);
  EXPECT_EQ(provider->get()->access_key, "C");
  EXPECT_EQ(server_.requests(), 2u);
}

TEST_F(FindCredentials, AreRenewedBeforeTheyExpire) {
  environment_.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server_.url() + "/container");
  expiration_ = time_text(std::chrono::system_clock::now() + std::chrono::seconds(3));
  const auto provider = make_credential_provider(*http_, {});
  EXPECT_EQ(provider->get()->access_key, "C");
  EXPECT_EQ(provider->get()->access_key, "C");
  EXPECT_EQ(server_.requests(), 1u);
  expiration_ = kFarFuture;
  std::this_thread::sleep_for(std::chrono::milliseconds(1600));
  EXPECT_EQ(provider->get()->access_key, "C");
  EXPECT_EQ(provider->get()->access_key, "C");
  EXPECT_EQ(server_.requests(), 2u);
}

}  // namespace
}  // namespace codecfs::remote
