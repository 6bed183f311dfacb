#pragma once
// Text for HTML pages.

#include <string>
#include <string_view>

namespace codecfs::commands::overview {

/// Any bytes as text of HTML, also for an attribute in quotes: printable (base/terminal_text.h), without markup.
std::string escaped(std::string_view text);

/// As escaped(), of at most so many bytes; a longer text ends with an ellipsis and says how long it is.
std::string escaped_part(std::string_view text, size_t most);

}  // namespace codecfs::commands::overview
