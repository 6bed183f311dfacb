#pragma once
// Names of datasets in object stores: s3://bucket/key, https://host/path, http://host/path.

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace codecfs::remote {

struct ObjectUrl {
  bool is_s3 = false;
  std::string base;    // plain HTTP: "https://host[:port]"
  std::string bucket;  // S3; may be the ARN of an AccessPoint
  std::string key;     // S3: as it is; HTTP: the path without the first "/", percent-encoded as it was given
  std::string query;   // HTTP: what follows "?", which may be a signature: never shown
};

/// Whether a name of a dataset is a URL, and not a path.
bool is_object_url(std::string_view text);
/// EINVAL with the reason.
Result<ObjectUrl> parse_object_url(std::string_view text);
/// For messages and the mount table: without the query, and without what precedes "@".
std::string shown_url(std::string_view text);

}  // namespace codecfs::remote
