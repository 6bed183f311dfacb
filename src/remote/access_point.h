#pragma once
// ARNs of S3's access points, which clients take as names of buckets: "arn:aws:s3:REGION:ACCOUNT:accesspoint/NAME".
//
// Source: "Amazon S3 User Guide", referencing access points. Aliases of access points are ordinary names of buckets.

#include <string>
#include <string_view>

#include "base/result.h"

namespace codecfs::remote {

struct AccessPoint {
  std::string name;
  std::string account;
  std::string region;
};

inline bool is_arn(std::string_view text) { return text.starts_with("arn:"); }

/// How many bytes at the beginning of "ARN/key" are the ARN: a name may follow "accesspoint" after ":" or "/".
size_t arn_length(std::string_view text);

/// EINVAL with the reason: it is malformed, or the ARN of something else, also of access points whose requests need
/// another signature or service (Outposts, Object Lambda, Multi-Region).
Result<AccessPoint> parse_access_point(std::string_view arn);

}  // namespace codecfs::remote
