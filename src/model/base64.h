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

/// The bytes of a little-endian double, as xarray stores the attribute _FillValue in Zarr v3.
std::string encode_base64(double number);
/// The inverse. None if the text is not base64 of 8 bytes.
std::optional<double> double_in_base64(std::string_view text);

}  // namespace codecfs
