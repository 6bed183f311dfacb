#include "remote/object_endpoint.h"

#include <arpa/inet.h>

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

Result<Addressing> find_addressing(const ObjectOptions& options) {
  if (options.addressing != Addressing::unset) return options.addressing;
  CODECFS_ASSIGN(const auto value, profile_setting(options.profile, "s3.addressing_style"));
  if (!value || *value == "auto") return Addressing::automatic;
  if (*value == "path") return Addressing::path;
  if (*value == "virtual") return Addressing::host;
  return fail(EINVAL, "addressing_style of the profile is none of auto, path and virtual");
}

/// Whether the host of a URL without path is an address, below which there are no names.
bool is_address(std::string_view url) {
  std::string_view host = url.substr(url.find("://") + 3);
  if (host.starts_with('[')) return true;
  host = host.substr(0, host.rfind(':'));
  in_addr address{};
  return ::inet_pton(AF_INET, std::string(host).c_str(), &address) == 1;
}

/// Whether a bucket can be a part of a host's name: https has no certificates for names with dots.
bool can_be_host(std::string_view bucket, bool allows_dots) {
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const auto is_allowed = [&](char c) { return is_plain(c) || c == '-' || (c == '.' && allows_dots); };
  return bucket.size() >= 3 && bucket.size() <= 63 && is_plain(bucket.front()) && is_plain(bucket.back()) &&
         std::ranges::all_of(bucket, is_allowed) && !bucket.contains("..");
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
  const bool has_place =
      !options.profile.empty() || !options.credential_url.empty() || !options.credential_process.empty();
  if (options.anonymous || has_place || url.scheme != Scheme::s3) return options.anonymous;
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
  const bool has_endpoint = !found.endpoint_.empty();
  if (is_arn(url.bucket)) {
    CODECFS_ASSIGN(found.access_point_, parse_access_point(url.bucket));
    found.region_ = found.access_point_->region;
    if (has_endpoint && is_address(found.endpoint_))
      return fail(EINVAL, "{}: an access point is a part of the host's name, which {} has not", found.name_of(""),
                  found.endpoint_);
    return found;
  }
  CODECFS_ASSIGN(const Addressing addressing, find_addressing(options));
  const bool wants_path = addressing == Addressing::path || (addressing == Addressing::automatic && has_endpoint);
  found.path_style_ = wants_path || (has_endpoint && is_address(found.endpoint_)) ||
                      !can_be_host(url.bucket, found.endpoint_.starts_with("http:"));
  return found;
}

std::string ObjectEndpoint::url_of(const std::string& key,
                                   const std::vector<std::pair<std::string, std::string>>& query) const {
  if (url_.scheme != Scheme::s3)
    return fmt::format("{}/{}{}{}", endpoint_, key, url_.query.empty() ? "" : "?", url_.query);
  const char* const suffix = region_.starts_with("cn-") ? ".cn" : "";
  const char* const service = access_point_ ? "s3-accesspoint" : "s3";
  const std::string endpoint =
      endpoint_.empty() ? fmt::format("https://{}.{}.amazonaws.com{}", service, region_, suffix) : endpoint_;
  std::string made;
  if (path_style_) {
    made = fmt::format("{}/{}/{}", endpoint, percent_encode(url_.bucket, false), percent_encode(key, true));
    if (key.empty()) made.pop_back();
  } else {
    const size_t host = endpoint.find("://") + 3;
    const std::string name =
        access_point_ ? fmt::format("{}-{}", access_point_->name, access_point_->account) : url_.bucket;
    made = fmt::format("{}{}.{}/{}", endpoint.substr(0, host), name, endpoint.substr(host), percent_encode(key, true));
  }
  return made + query_text(query);
}

std::string ObjectEndpoint::name_of(const std::string& key) const {
  return url_.scheme == Scheme::s3 ? fmt::format("s3://{}/{}", url_.bucket, key) : fmt::format("{}/{}", endpoint_, key);
}

}  // namespace codecfs::remote
