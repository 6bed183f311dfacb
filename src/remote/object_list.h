#pragma once
// The XML that S3 answers. Thread-safe.

#include <string>
#include <string_view>

#include "base/result.h"
#include "remote/object_client.h"

namespace codecfs::remote {

/// The answer of ListObjectsV2. EIO if it is none, or has other keys than those with the prefix.
/// `has_generations`: ETags become those of with_generation().
Result<ObjectList> parse_object_list(std::string_view xml, std::string_view prefix, bool has_generations = false);

/// "ETAG#GENERATION" of Google Cloud Storage; the ETag alone if there is no generation.
std::string with_generation(std::string_view etag, std::string_view generation);

struct ObjectError {
  std::string code;     // "NoSuchKey"; empty if the body is no error of S3
  std::string message;  // one line, at most 200 bytes
  std::string region;   // of the bucket, if it is told
};
ObjectError parse_object_error(std::string_view xml);

}  // namespace codecfs::remote
