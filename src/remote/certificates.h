#pragma once
// The certificates of authorities that https trusts, for a libcurl that has none of its own.
//
// A distribution's libcurl knows where that distribution keeps them. The one of the portable binary
// (scripts/make-portable) does not, as it runs on any distribution. Thread-safe.

#include <span>
#include <string>

namespace codecfs::remote {

/// The first of the files that can be read; empty if none.
std::string first_readable(std::span<const char* const> paths);

/// What libcurl must be told as CURLOPT_CAINFO: the bundle of the distribution. Empty if libcurl knows a file or
/// directory itself, or no bundle is found. Looked up once.
const std::string& system_certificates();

}  // namespace codecfs::remote
