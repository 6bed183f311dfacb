#pragma once
// The places where credentials are found, one function each; credentials.cc asks them in their order.
//
// A function returns none if its place is not set up, and an error if it is, but does not yield credentials. Errors
// show no secrets. Thread-safe; they may wait for requests and programs.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "remote/aws_profile.h"
#include "remote/credentials.h"
#include "remote/http_client.h"

namespace codecfs::remote {

using FoundCredentials = Result<std::optional<Credentials>>;

/// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN.
FoundCredentials environment_credentials();

/// AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN, AWS_ROLE_SESSION_NAME.
FoundCredentials web_identity_credentials(HttpClient& http, const std::string& region);

/// The credentials of a profile; `region` is that of STS. An error if there is no such profile.
FoundCredentials profile_credentials(HttpClient& http, const AwsProfiles& profiles, const std::string& profile,
                                     const std::string& region);

/// ECS and EKS: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or AWS_CONTAINER_CREDENTIALS_FULL_URI.
FoundCredentials container_credentials(HttpClient& http);

/// The instance metadata service of EC2, version 2. None if it does not answer, or the instance has no role.
FoundCredentials instance_credentials(HttpClient& http);

/// What a web server answers, as the ".../s3credentials" of NASA's archives: JSON with accessKeyId, secretAccessKey,
/// sessionToken and expiration. EACCES.
Result<Credentials> url_credentials(HttpClient& http, WebLogin& login, const std::string& url);
/// EINVAL if it is no URL, or others could read the keys on their way.
Result<> check_credential_url(const std::string& url);

/// What a program prints (credential_process): split_command() gives its arguments. 30 s, 64 KiB.
Result<Credentials> process_credentials(const std::string& command);
/// The same without looking at what is printed. `place` names the program, for messages.
struct ProcessOutput {
  std::string text;
  std::string place;
};
Result<ProcessOutput> run_credential_process(const std::string& command);
/// Splits a command as a POSIX shell quotes: '...', "..." and backslashes; nothing is expanded. EINVAL if a quotation
/// does not end.
Result<std::vector<std::string>> split_command(std::string_view command);

/// A role that STS gives.
struct Role {
  std::string arn;
  std::string session_name;  // empty: one is made
  std::string external_id;   // empty: none
  std::string duration;      // in seconds; empty: the default of STS
};
Result<Credentials> assume_role(HttpClient& http, const std::string& region, const Role& role,
                                const Credentials& source);
Result<Credentials> assume_role_with_web_identity(HttpClient& http, const std::string& region, const Role& role,
                                                  const std::string& token_path);

}  // namespace codecfs::remote
