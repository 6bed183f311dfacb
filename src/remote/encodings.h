#pragma once
// Base64, hexadecimal digits and percent signs as object stores use them. Thread-safe.

#include <optional>
#include <string>
#include <string_view>

namespace codecfs::remote {

/// With "=" at the end.
std::string base64_encoded(std::string_view bytes);
/// None if it is no base64.
std::optional<std::string> base64_decoded(std::string_view text);
/// In lower case.
std::string hex_of(std::string_view bytes);
/// What is no "%" with two hexadecimal digits stays as it is, also "+".
std::string percent_decoded(std::string_view text);

}  // namespace codecfs::remote
