#include "commands/overview/html.h"

#include <fmt/core.h>

#include "base/human.h"
#include "base/terminal_text.h"

namespace codecfs::commands::overview {

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : printable(text)) {
    switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      case '\'': safe += "&#39;"; break;
      default: safe += c;
    }
  }
  return safe;
}

std::string escaped_part(std::string_view text, size_t most) {
  if (text.size() <= most) return escaped(text);
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // whole characters of UTF-8
  return escaped(text.substr(0, end)) + fmt::format("… ({} bytes)", human_count(text.size()));
}

}  // namespace codecfs::commands::overview
