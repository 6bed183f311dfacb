#include "remote/credentials.h"

#include <fmt/format.h>

#include <array>
#include <functional>

#include "base/terminal_text.h"
#include "remote/aws_profile.h"
#include "remote/credential_answers.h"
#include "remote/credential_cache.h"
#include "remote/credential_places.h"

namespace codecfs::remote {
namespace {

std::string sts_region(const CredentialOptions& options, const AwsProfile* profile) {
  if (!options.region.empty()) return options.region;
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (std::string region = environment_value(name); !region.empty()) return region;
  }
  const std::string region = profile ? setting_of(*profile, "region") : std::string();
  return region.empty() ? "us-east-1" : region;
}

Result<Credentials> find_credentials(HttpClient& http, const CredentialOptions& options) {
  // Files that cannot be used matter only if they are needed.
  const Result<AwsProfiles> profiles = AwsProfiles::load();
  const std::string name = profile_name(options.profile);
  const AwsProfile* profile = profiles ? profiles->find(name) : nullptr;
  const std::string region = sts_region(options, profile);
  const bool is_named = !options.profile.empty() || !environment_value("AWS_PROFILE").empty();

  const auto of_environment = [] { return environment_credentials(); };
  const auto of_web_identity = [&] { return web_identity_credentials(http, region); };
  const auto of_profile = [&]() -> FoundCredentials {
    if (!profiles) return std::unexpected(profiles.error());
    if (!profile && !is_named) return std::nullopt;
    return profile_credentials(http, *profiles, name, region);
  };
  using Place = std::function<FoundCredentials()>;
  std::array<Place, 3> first{of_environment, of_web_identity, of_profile};
  if (!options.profile.empty()) first = {of_profile, of_environment, of_web_identity};
  const std::array<Place, 2> last{[&] { return container_credentials(http); },
                                  [&] { return instance_credentials(http); }};
  for (const std::span<const Place> places : {std::span<const Place>(first), std::span<const Place>(last)}) {
    for (const Place& place : places) {
      const FoundCredentials found = place();
      if (!found) return fail(EACCES, "no credentials: {}", found.error().reason);
      if (*found) return **found;
    }
  }
  return fail(EACCES,
              "no credentials found (looked in the environment, the profile \"{}\" of {}, the container, the "
              "instance): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile with -o profile=, or use "
              "-o anon for a public bucket",
              printable(name), profiles->files());
}

}  // namespace

FoundCredentials environment_credentials() {
  const std::string access_key = environment_value("AWS_ACCESS_KEY_ID");
  const std::string secret_key = environment_value("AWS_SECRET_ACCESS_KEY");
  if (access_key.empty() && secret_key.empty()) return std::nullopt;
  if (access_key.empty() || secret_key.empty()) {
    return fail(EACCES, "{} is set, but {} is not", access_key.empty() ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID",
                access_key.empty() ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY");
  }
  CODECFS_ASSIGN(Credentials credentials, check_credentials({.access_key = access_key,
                                                             .secret_key = secret_key,
                                                             .session_token = environment_value("AWS_SESSION_TOKEN"),
                                                             .expires = {}},
                                                            "the environment"));
  return credentials;
}

std::unique_ptr<CredentialProvider> make_credential_provider(HttpClient& http, const CredentialOptions& options) {
  return std::make_unique<CredentialCache>([&http, options] { return find_credentials(http, options); });
}

std::unique_ptr<CredentialProvider> make_url_credential_provider(HttpClient& http, WebLogin& login,
                                                                 const std::string& url) {
  return std::make_unique<CredentialCache>([&http, &login, url] { return url_credentials(http, login, url); });
}

}  // namespace codecfs::remote
