#pragma once
// What tests of credentials share: an environment without settings of AWS, an empty home directory, an HTTP client.

#include <fmt/chrono.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "remote/credential_places.h"
#include "support/environment.h"
#include "support/http_server.h"

namespace codecfs::remote {

class CredentialTest : public testing::Test {
 protected:
  CredentialTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "codecfs_credentials_XXXXXX").string();
    home_ = mkdtemp(pattern.data());
    std::filesystem::create_directory(home_ / ".aws");
    environment_.unset_all("AWS_");
    environment_.unset("http_proxy");
    environment_.set("HOME", home_.string());
    environment_.set("AWS_EC2_METADATA_DISABLED", "true");
    auto started = HttpClient::start(4);
    EXPECT_TRUE(started);
    http_ = std::move(*started);
  }
  ~CredentialTest() override { std::filesystem::remove_all(home_); }

  /// A file in the home directory; returns its path.
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(home_ / name) << text;
    return (home_ / name).string();
  }

  ScopedEnvironment environment_;
  std::filesystem::path home_;
  std::unique_ptr<HttpClient> http_;
};

/// "2026-11-24T02:23:47Z"
inline std::string time_text(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%FT%TZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

/// The answer of STS to AssumeRole and AssumeRoleWithWebIdentity.
inline std::string sts_answer(const std::string& action, const std::string& key, const std::string& expiration) {
  return http_answer(200, fmt::format("<{0}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n<{0}Result>"
                                      "<AssumedRoleUser><Arn>x</Arn></AssumedRoleUser>\n<Credentials>\n"
                                      "<AccessKeyId>{1}</AccessKeyId><SecretAccessKey>secret-{1}</SecretAccessKey>\n"
                                      "<SessionToken>\ntoken-{1}\n</SessionToken><Expiration>{2}</Expiration>"
                                      "</Credentials></{0}Result></{0}Response>",
                                      action, key, expiration));
}

/// The answer of a container and of an instance.
inline std::string json_answer(const std::string& key, const std::string& expiration) {
  return http_answer(200, fmt::format(R"({{"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": "{0}",
                                          "SecretAccessKey": "secret-{0}", "Token": "token-{0}",
                                          "Expiration": "{1}"}})",
                                      key, expiration));
}

/// Whether these are the credentials of the answers above.
inline testing::AssertionResult is_key(const FoundCredentials& found, const std::string& key) {
  if (!found) return testing::AssertionFailure() << found.error().reason;
  if (!*found) return testing::AssertionFailure() << "none";
  if ((*found)->access_key != key || (*found)->secret_key != "secret-" + key) {
    return testing::AssertionFailure() << (*found)->access_key << ", " << (*found)->secret_key;
  }
  return testing::AssertionSuccess();
}

/// Whether it is EACCES with all these parts.
template <class T>
testing::AssertionResult is_refusal(const Result<T>& result, std::initializer_list<std::string_view> parts) {
  if (result) return testing::AssertionFailure() << "a success";
  if (result.error().code != EACCES) return testing::AssertionFailure() << "code " << result.error().code;
  for (const std::string_view part : parts) {
    if (!result.error().reason.contains(part)) {
      return testing::AssertionFailure() << "'" << result.error().reason << "' without '" << part << "'";
    }
  }
  return testing::AssertionSuccess();
}

inline constexpr const char* kFarFuture = "2099-01-02T03:04:05Z";

}  // namespace codecfs::remote
