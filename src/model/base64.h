#pragma once
// Base64 with padding, as Zarr v2 fill values use it. Source: RFC 4648, section 4.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace codecfs {

std::string encode_base64(std::span<const std::byte> bytes);
/// None if the text is not canonical base64 (length, alphabet, padding, nonzero trailing bits).
std::optional<std::vector<std::byte>> decode_base64(std::string_view text);

}  // namespace codecfs
