// The credentials of a profile: a role, keys, or a program.
#include <fmt/format.h>

#include <algorithm>

#include "base/terminal_text.h"
#include "remote/credential_answers.h"
#include "remote/credential_places.h"

namespace codecfs::remote {
namespace {

bool has_keys(const AwsProfile& profile) {
  return profile.contains("aws_access_key_id") || profile.contains("aws_secret_access_key");
}

class ProfileResolver {
 public:
  ProfileResolver(HttpClient& http, const AwsProfiles& profiles, const std::string& region)
      : http_(http), profiles_(profiles), region_(region) {}

  /// `is_source`: it is the source_profile of another one, or of itself; then its keys come before its role.
  FoundCredentials resolve(const std::string& name, bool is_source) {
    const AwsProfile* profile = profiles_.find(name);
    if (!profile) return fail(EACCES, "there is no profile \"{}\" in {}", printable(name), profiles_.files());
    const std::string place = fmt::format("the profile \"{}\"", printable(name));
    if (is_source && has_keys(*profile)) return keys_of(*profile, place);
    if (std::ranges::find(visited_, name) != visited_.end()) {
      return fail(EACCES, "{} is its own source_profile, directly or through others", place);
    }
    visited_.push_back(name);
    if (profile->contains("role_arn")) return role_of(*profile, place);
    if (has_keys(*profile)) return keys_of(*profile, place);
    if (profile->contains("credential_process")) {
      const Result<Credentials> found = process_credentials(setting_of(*profile, "credential_process"));
      if (!found) return fail(EACCES, "{}: {}", place, found.error().reason);
      return *found;
    }
    if (profile->contains("sso_session") || profile->contains("sso_start_url")) {
      return fail(
          EACCES,
          "{0} signs in with IAM Identity Center (sso_...), which codecfs does not do itself: use a profile with "
          "credential_process = aws configure export-credentials --profile {1} --format process",
          place, printable(name));
    }
    return std::nullopt;
  }

 private:
  static FoundCredentials keys_of(const AwsProfile& profile, const std::string& place) {
    CODECFS_ASSIGN(Credentials credentials,
                   check_credentials({.access_key = setting_of(profile, "aws_access_key_id"),
                                      .secret_key = setting_of(profile, "aws_secret_access_key"),
                                      .session_token = setting_of(profile, "aws_session_token"),
                                      .expires = {}},
                                     place));
    return credentials;
  }

  FoundCredentials role_of(const AwsProfile& profile, const std::string& place) {
    const Role role{.arn = setting_of(profile, "role_arn"),
                    .session_name = setting_of(profile, "role_session_name"),
                    .external_id = setting_of(profile, "external_id"),
                    .duration = setting_of(profile, "duration_seconds")};
    if (role.duration.find_first_not_of("0123456789") != std::string::npos) {
      return fail(EACCES, "{}: duration_seconds is not a number", place);
    }
    const Result<Credentials> found =
        profile.contains("web_identity_token_file")
            ? assume_role_with_web_identity(http_, region_, role, setting_of(profile, "web_identity_token_file"))
            : assume_role_of(profile, role);
    if (!found) return fail(EACCES, "{}: {}", place, found.error().reason);
    return *found;
  }

  Result<Credentials> assume_role_of(const AwsProfile& profile, const Role& role) {
    if (profile.contains("mfa_serial")) {
      return fail(EACCES, "mfa_serial needs a code, which codecfs cannot ask for: use temporary credentials");
    }
    CODECFS_ASSIGN(const Credentials source, source_of(profile));
    return assume_role(http_, region_, role, source);
  }

  /// The credentials with which a role is asked for.
  Result<Credentials> source_of(const AwsProfile& profile) {
    const std::string source_profile = setting_of(profile, "source_profile");
    const std::string kind = setting_of(profile, "credential_source");
    if (source_profile.empty() == kind.empty()) {
      return fail(EACCES, "role_arn needs one of source_profile, credential_source and web_identity_token_file");
    }
    FoundCredentials found;
    if (!source_profile.empty()) {
      found = resolve(source_profile, true);
    } else if (kind == "Environment") {
      found = environment_credentials();
    } else if (kind == "Ec2InstanceMetadata") {
      found = instance_credentials(http_);
    } else if (kind == "EcsContainer") {
      found = container_credentials(http_);
    } else {
      return fail(EACCES, "credential_source is none of Environment, Ec2InstanceMetadata and EcsContainer");
    }
    if (!found) return pass_on(found);
    if (!*found) {
      return fail(EACCES, "{} has no credentials for role_arn",
                  kind.empty() ? fmt::format("source_profile \"{}\"", printable(source_profile))
                               : fmt::format("credential_source {}", kind));
    }
    return **found;
  }

  HttpClient& http_;
  const AwsProfiles& profiles_;
  const std::string& region_;
  std::vector<std::string> visited_;
};

}  // namespace

FoundCredentials profile_credentials(HttpClient& http, const AwsProfiles& profiles, const std::string& profile,
                                     const std::string& region) {
  return ProfileResolver(http, profiles, region).resolve(profile, false);
}

}  // namespace codecfs::remote
