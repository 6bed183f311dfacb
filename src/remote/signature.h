#pragma once
// AWS Signature Version 4 in the Authorization header.
// Source: AWS documentation, "Create a signed AWS API request". Thread-safe.

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "remote/credentials.h"
#include "remote/http_client.h"

namespace codecfs::remote {

struct SigningScope {
  std::string region;
  std::string service = "s3";
};

/// Adds the headers Authorization, x-amz-date, x-amz-content-sha256 and x-amz-security-token. Signs the method, host,
/// path and query of `request.url`, which must be percent-encoded by percent_encode(), all its headers and its body.
/// The query may be in any order.
void sign(HttpRequest& request, const Credentials& credentials, const SigningScope& scope,
          std::chrono::system_clock::time_point now);

/// In lower case hexadecimal digits.
std::string sha256_hex(Bytes bytes);
std::string md5_hex(Bytes bytes);
/// The 32 bytes themselves.
std::string hmac_sha256(std::string_view key, std::string_view text);

}  // namespace codecfs::remote
