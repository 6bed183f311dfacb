#pragma once
// Validates, decodes and encodes UTF-8. Source: RFC 3629 (no overlong forms, no surrogates, nothing above U+10FFFF).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace codecfs {

/// Bytes of the character at the start of `text`; 0 if no valid character starts there (also for empty text).
size_t utf8_length(std::string_view text);
/// The code point of the character at the start of `text`; utf8_length() must have found it valid.
char32_t utf8_decode(std::string_view text);
/// Appends a code point; U+FFFD for invalid ones (surrogates, above U+10FFFF).
void utf8_append(std::string& text, char32_t code_point);
bool is_utf8(std::string_view text);

}  // namespace codecfs
