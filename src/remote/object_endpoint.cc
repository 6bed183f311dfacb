#include "remote/object_endpoint.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "remote/credentials.h"
#include "remote/http_client.h"

namespace codecfs::remote {
namespace {

std::string variable_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The first that is set of an option, variables of the environment and a setting of the profile.
Result<std::string> setting(const std::string& option, std::initializer_list<const char*> variables,
                            const std::string& profile, const char* name) {
  if (!option.empty()) return option;
  for (const char* const variable : variables)
    if (std::string value = variable_of(variable); !value.empty()) return value;
  CODECFS_ASSIGN(const auto value, profile_setting(profile, name));
  return value.value_or("");
}

}  // namespace

Result<std::string> find_ca_file(const ObjectUrl& url, const ObjectOptions& options) {
  std::string found = options.ca_file;
  if (url.scheme == Scheme::s3) {
    CODECFS_ASSIGN(found, setting(options.ca_file, {"AWS_CA_BUNDLE"}, options.profile, "ca_bundle"));
  }
  for (const char* const variable : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"})
    if (found.empty()) found = variable_of(variable);
  return found.empty() ? found : std::filesystem::absolute(found).string();
}

bool is_anonymous(const ObjectUrl& url, const ObjectOptions& options) {
  if (options.anonymous || !options.profile.empty() || url.scheme != Scheme::s3) return options.anonymous;
  std::string value = variable_of("AWS_NO_SIGN_REQUEST");
  std::ranges::transform(value, value.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return value == "true" || value == "yes" || value == "on" || value == "1";
}

bool is_region(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

Result<ObjectEndpoint> ObjectEndpoint::find(const ObjectUrl& url, const ObjectOptions& options) {
  ObjectEndpoint found;
  found.url_ = url;
  if (url.scheme != Scheme::s3) {
    found.endpoint_ = url.base;
    return found;
  }
  if (options.endpoint.empty() && variable_of("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") == "true") {
    // AWS's own.
  } else {
    CODECFS_ASSIGN(found.endpoint_, setting(options.endpoint, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"},
                                            options.profile, "endpoint_url"));
  }
  if (!found.endpoint_.empty() && !found.endpoint_.contains("://")) found.endpoint_.insert(0, "https://");
  while (found.endpoint_.ends_with('/')) found.endpoint_.pop_back();
  if (!found.endpoint_.empty() && (is_object_url(found.endpoint_) ? host_of(found.endpoint_) != found.endpoint_ : true))
    return fail(EINVAL, "the endpoint {} is not of the form https://HOST[:PORT]", shown_url(found.endpoint_));
  CODECFS_ASSIGN(found.region_,
                 setting(options.region, {"AWS_REGION", "AWS_DEFAULT_REGION"}, options.profile, "region"));
  if (found.region_.empty()) found.region_ = "us-east-1";
  if (!is_region(found.region_)) return fail(EINVAL, "\"{}\" is no name of a region", found.region_);
  // The certificates of AWS cover no bucket with a dot.
  found.path_style_ =
      options.path_style || !found.endpoint_.empty() || url.bucket.find_first_of(".:_") != url.bucket.npos;
  return found;
}

std::string ObjectEndpoint::url_of(const std::string& key,
                                   const std::vector<std::pair<std::string, std::string>>& query) const {
  if (url_.scheme != Scheme::s3)
    return fmt::format("{}/{}{}{}", endpoint_, key, url_.query.empty() ? "" : "?", url_.query);
  const char* const suffix = region_.starts_with("cn-") ? ".cn" : "";
  const std::string endpoint =
      endpoint_.empty() ? fmt::format("https://s3.{}.amazonaws.com{}", region_, suffix) : endpoint_;
  std::string made;
  if (path_style_) {
    made = fmt::format("{}/{}/{}", endpoint, percent_encode(url_.bucket, false), percent_encode(key, true));
    if (key.empty()) made.pop_back();
  } else {
    const size_t host = endpoint.find("://") + 3;
    made = fmt::format("{}{}.{}/{}", endpoint.substr(0, host), url_.bucket, endpoint.substr(host),
                       percent_encode(key, true));
  }
  char separator = '?';
  for (const auto& [name, value] : query) {
    made += fmt::format("{}{}={}", separator, percent_encode(name, false), percent_encode(value, false));
    separator = '&';
  }
  return made;
}

std::string ObjectEndpoint::name_of(const std::string& key) const {
  return url_.scheme == Scheme::s3 ? fmt::format("s3://{}/{}", url_.bucket, key) : fmt::format("{}/{}", endpoint_, key);
}

}  // namespace codecfs::remote
