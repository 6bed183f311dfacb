#pragma once
// Credentials for S3 and the places where they are found, in the order of AWS's own clients.
//
// Source: "AWS SDKs and Tools Reference Guide", standardized credential providers. Thread-safe. Secrets appear in no
// error and no log.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "remote/http_client.h"

namespace codecfs::remote {

class WebLogin;

struct Credentials {
  std::string access_key;
  std::string secret_key;
  std::string session_token;                                     // empty if there is none
  std::optional<std::chrono::system_clock::time_point> expires;  // none if they do not expire
};

class CredentialProvider {
 public:
  virtual ~CredentialProvider() = default;
  /// Credentials that are valid for at least 5 minutes more, if the place has such. May wait for a request. EACCES with
  /// the reason, and with what can be done.
  virtual Result<Credentials> get() = 0;
  /// The server has refused these: get() looks for others, unless it has others already.
  virtual void refused(const Credentials& credentials) = 0;
};

struct CredentialOptions {
  std::string profile;  // empty: AWS_PROFILE, else "default"
  std::string region;   // of STS; empty: from the environment and the profile, else us-east-1
};

/// Looks in: the environment; a web identity (AWS_WEB_IDENTITY_TOKEN_FILE); the profile (keys, role_arn with
/// source_profile or credential_source, web_identity_token_file, credential_process), before the environment if
/// `profile` is not empty; the container (ECS, EKS); the instance (IMDSv2). `http` must outlive the result.
std::unique_ptr<CredentialProvider> make_credential_provider(HttpClient& http, const CredentialOptions& options);

/// From `url` alone: url_credentials(). `http` and `login` must outlive the result.
std::unique_ptr<CredentialProvider> make_url_credential_provider(HttpClient& http, WebLogin& login,
                                                                 const std::string& url);

/// A setting of the profile that is not secret ("region", "endpoint_url"), from ~/.aws/config or ~/.aws/credentials;
/// none if it is not set. EACCES if a file that exists cannot be read, EINVAL if it is malformed.
Result<std::optional<std::string>> profile_setting(const std::string& profile, const std::string& name);

}  // namespace codecfs::remote
