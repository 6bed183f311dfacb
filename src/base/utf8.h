#pragma once
// Where UTF-8 ends and other bytes begin. Source: RFC 3629 (no overlong forms, no surrogates, nothing above U+10FFFF).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace codecfs {

/// Bytes of the character at the start of `text`; 0 where no valid one starts there (also for empty text).
size_t utf8_length(std::string_view text);
/// The code point of the character at the start of `text`, which utf8_length() has found valid.
char32_t utf8_decode(std::string_view text);
/// Appends a code point; what is none (surrogates, above U+10FFFF) as U+FFFD.
void utf8_append(std::string& text, char32_t code_point);
bool is_utf8(std::string_view text);

}  // namespace codecfs
