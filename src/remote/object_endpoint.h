#pragma once
// Where the objects are: the URL of a request for a key, from options, the environment and the profile. Not
// thread-safe.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "remote/access_point.h"
#include "remote/object_client.h"
#include "remote/object_url.h"

namespace codecfs::remote {

/// Whether a text can be the name of a region, and so be a part of a host's name.
bool is_region(std::string_view text);

/// The certificates of authorities to trust, as AWS's and curl's own programs find them: the option, AWS_CA_BUNDLE and
/// the profile's ca_bundle (for s3://), CURL_CA_BUNDLE, SSL_CERT_FILE. Empty: those of the system. Errors of
/// profile_setting().
Result<std::string> find_ca_file(const ObjectUrl& url, const ObjectOptions& options);

class ObjectEndpoint {
 public:
  /// EINVAL for an endpoint that is no URL, or cannot have access points below it; errors of profile_setting().
  static Result<ObjectEndpoint> find(const ObjectUrl& url, const ObjectOptions& options);

  /// The URL of a key, "" for the bucket. `query`: names and values as they are.
  [[nodiscard]] std::string url_of(const std::string& key,
                                   const std::vector<std::pair<std::string, std::string>>& query) const;
  /// For signatures. Empty for plain HTTP.
  [[nodiscard]] const std::string& region() const { return region_; }
  /// The bucket is in this region.
  void move_to(const std::string& region) { region_ = region; }
  /// "s3://bucket/key", "https://host/key", for messages.
  /// ObjectClient::identity_of().
  [[nodiscard]] std::string identity_of(const std::string& key) const { return endpoint_ + " " + name_of(key); }
  [[nodiscard]] std::string name_of(const std::string& key) const;

 private:
  ObjectUrl url_;
  std::string endpoint_;  // "https://host[:port]"; empty for AWS's of the region
  std::string region_;
  std::optional<AccessPoint> access_point_;
  bool path_style_ = false;
};

}  // namespace codecfs::remote
