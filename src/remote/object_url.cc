#include "remote/object_url.h"

#include <algorithm>
#include <array>
#include <span>

#include "remote/access_point.h"
#include "remote/http_client.h"

namespace codecfs::remote {
namespace {

constexpr std::string_view kS3 = "s3://";
constexpr std::string_view kS3a = "s3a://";  // Hadoop's name for it
constexpr std::array<std::string_view, 2> kGoogle{"gs://", "gcs://"};
constexpr std::array<std::string_view, 3> kAzure{"az://", "abfs://", "abfss://"};

bool is_http(std::string_view text) { return text.starts_with("https://") || text.starts_with("http://"); }

/// 3 to 63 letters, digits, dots, hyphens; also capitals and underscores, which old buckets and other servers have.
bool is_bucket_name(std::string_view name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
           c == '_' || c == ':';  // "tenant:bucket" of Ceph
  };
  return name.size() >= 3 && name.size() <= 255 && std::ranges::all_of(name, is_allowed) && name.front() != '.';
}

bool starts_with_one_of(std::string_view text, std::span<const std::string_view> schemes) {
  return std::ranges::any_of(schemes, [&](std::string_view scheme) { return text.starts_with(scheme); });
}
bool is_google(std::string_view text) { return starts_with_one_of(text, kGoogle); }
bool is_azure(std::string_view text) { return starts_with_one_of(text, kAzure); }

/// 3 to 63 small letters, digits and hyphens; also $root and $web.
bool is_container_name(std::string_view name) {
  const auto is_allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  if (name.starts_with('$')) name.remove_prefix(1);
  return name.size() >= 3 && name.size() <= 63 && std::ranges::all_of(name, is_allowed);
}

/// az://CONTAINER/KEY, or with the account, as Hadoop writes it: abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY.
Result<ObjectUrl> parse_azure_url(std::string_view text) {
  ObjectUrl url{.scheme = Scheme::azure, .base = {}, .bucket = {}, .key = {}, .query = {}};
  const std::string_view rest = text.substr(text.find("://") + 3);
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view place = rest.substr(0, slash);
  const size_t at = std::min(place.find('@'), place.size());
  url.bucket = place.substr(0, at);
  url.key = slash < rest.size() ? rest.substr(slash + 1) : "";
  if (!is_container_name(url.bucket))
    return fail(EINVAL, "{}: \"{}\" is no name of a container; write az://CONTAINER/KEY", text, url.bucket);
  if (url.key.size() > 1024) return fail(EINVAL, "{}: keys have at most 1024 bytes", text);
  if (at == place.size()) return url;
  std::string host(place.substr(at + 1));
  const size_t dot = std::min(host.find('.'), host.size());
  url.account = host.substr(0, dot);
  // Tokens are sent there, so it must be one of Microsoft's.
  constexpr std::array<std::string_view, 5> kClouds = {"core.windows.net", "core.chinacloudapi.cn",
                                                       "core.usgovcloudapi.net", "core.cloudapi.de",
                                                       "fabric.microsoft.com"};
  std::string_view cloud = std::string_view(host).substr(dot);
  const bool is_service = cloud.starts_with(".dfs.") || cloud.starts_with(".blob.");
  if (is_service) cloud.remove_prefix(cloud.find('.', 1) + 1);
  if (!is_account_name(url.account) || !is_service || std::ranges::find(kClouds, cloud) == kClouds.end())
    return fail(EINVAL,
                "{}: \"{}\" is no server of Azure; write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY, or -o "
                "endpoint= with another",
                text, host);
  const bool is_host = std::ranges::all_of(host, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
  if (!is_host) return fail(EINVAL, "{}: \"{}\" is no name of a host", text, host);
  // The other host of the same account does not speak this protocol.
  if (host.substr(dot).starts_with(".dfs.")) host.replace(dot + 1, 3, "blob");
  url.base = "https://" + host;
  return url;
}

}  // namespace

bool is_account_name(std::string_view name) {
  return name.size() >= 3 && name.size() <= 24 &&
         std::ranges::all_of(name, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
}

bool is_object_url(std::string_view text) {
  return text.starts_with(kS3) || text.starts_with(kS3a) || is_google(text) || is_azure(text) || is_http(text);
}

Result<ObjectUrl> parse_object_url(std::string_view text) {
  if (std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }))
    return fail(EINVAL, "{}: a URL has no control characters", kS3);
  ObjectUrl url;
  if (text.starts_with(kS3) || text.starts_with(kS3a) || is_google(text)) {
    url.scheme = is_google(text) ? Scheme::gcs : Scheme::s3;
    const std::string_view rest = text.substr(text.find("://") + 3);
    const size_t slash = is_arn(rest) ? arn_length(rest) : std::min(rest.find('/'), rest.size());
    url.bucket = rest.substr(0, slash);
    url.key = slash < rest.size() ? rest.substr(slash + 1) : "";
    if (is_arn(url.bucket) && url.scheme == Scheme::s3) {
      CODECFS_TRY(parse_access_point(url.bucket));
    } else if (!is_bucket_name(url.bucket)) {
      return fail(EINVAL, "{}: \"{}\" is no name of a bucket; write {}://BUCKET/KEY", text, url.bucket,
                  is_google(text) ? "gs" : "s3");
    }
    if (url.key.size() > 1024) return fail(EINVAL, "{}: keys have at most 1024 bytes", text);
    return url;
  }
  if (is_azure(text)) return parse_azure_url(text);
  if (!is_http(text)) return fail(EINVAL, "{}: is no URL of s3, gs, az, abfss, https or http", shown_url(text));
  url.base = host_of(text);
  if (url.base.ends_with("://")) return fail(EINVAL, "{}: has no host", shown_url(text));
  if (const size_t at = text.find('@'); at < std::min(text.find_first_of("/?#", text.find("://") + 3), text.size()))
    return fail(EINVAL, "{}: user and password in a URL are not supported", url.base);
  const size_t begin = std::min(text.find_first_of("/?#", text.find("://") + 3), text.size());
  std::string_view rest = text.substr(begin);
  rest = rest.substr(0, rest.find('#'));
  const size_t question = std::min(rest.find('?'), rest.size());
  if (question < rest.size()) url.query = rest.substr(question + 1);
  rest = rest.substr(0, question);
  if (rest.starts_with('/')) rest.remove_prefix(1);
  // What a browser would encode itself.
  for (const char c : rest) {
    if (c == ' ' || c == '"' || c == '<' || c == '>' || c == '\\' || c == '^' || c == '`' || c == '{' || c == '}' ||
        static_cast<unsigned char>(c) >= 0x80) {
      url.key += percent_encode({&c, 1}, false);
    } else {
      url.key += c;
    }
  }
  return url;
}

std::string shown_url(std::string_view text) {
  if (!is_http(text)) return std::string(text);
  const size_t begin = std::min(text.find_first_of("/?#", text.find("://") + 3), text.size());
  const std::string_view path = text.substr(begin);
  return host_of(text) + std::string(path.substr(0, path.find_first_of("?#")));
}

}  // namespace codecfs::remote
