// In addition to the rules in the header: the empty name is "%~". Where a name is escaped, so is its '%' before two hex
// digits and before '~', so that the name can be restored and "%~" marks truncated names alone.

#include "backends/api/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/text_hash.h"
#include "base/utf8.h"

namespace codecfs {
namespace {

constexpr size_t kMaxFileName = 255;  // bytes
constexpr std::string_view kCutMark = "%~";
constexpr size_t kCutTail = 2 + 16;  // "%~" and the hash
constexpr std::string_view kEmptyName = "%~";

constexpr std::array<std::string_view, 8> kReserved = {".",       "..",         ".zarray",  ".zgroup",
                                                       ".zattrs", ".zmetadata", ".codecfs", "zarr.json"};

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/// Whether `text` starts with a '%' that begins an escape sequence.
bool starts_escape(std::string_view text) {
  if (text.size() >= 3 && hex_value(text[1]) >= 0 && hex_value(text[2]) >= 0) return true;
  return text.starts_with(kCutMark);
}

/// The escaped form of a name.
std::string escaped(std::string_view name) {
  if (name.empty()) return std::string(kEmptyName);
  const bool is_reserved = std::ranges::find(kReserved, name) != kReserved.end();
  std::string text;
  size_t cut = 0;  // the longest prefix of `text` that ends at a character boundary and leaves room for the tail
  for (std::string_view rest = name; !rest.empty();) {
    const char c = rest[0];
    size_t length = utf8_length(rest);
    if (length == 0 || c == '/' || c == '\0' || (c == '%' && starts_escape(rest)) || (is_reserved && text.empty())) {
      length = 1;
      text += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    } else {
      text += rest.substr(0, length);
    }
    rest.remove_prefix(length);
    if (text.size() <= kMaxFileName - kCutTail) cut = text.size();
  }
  if (text.size() <= kMaxFileName) return text;
  return fmt::format("{}{}{:016x}", std::string_view(text).substr(0, cut), kCutMark, text_hash(name));
}

/// The name, another one, of which this is the escaped form; none if there is none, or it was truncated.
std::optional<std::string> escaped_from(std::string_view text) {
  if (text == kEmptyName) return "";
  if (text.size() > kMaxFileName || text.find('%') == text.npos) return std::nullopt;
  std::string name;
  for (std::string_view rest = text; !rest.empty();) {
    if (rest[0] == '%' && starts_escape(rest)) {
      if (rest.starts_with(kCutMark)) return std::nullopt;
      name += static_cast<char>(hex_value(rest[1]) * 16 + hex_value(rest[2]));
      rest.remove_prefix(3);
    } else {
      name += rest[0];
      rest.remove_prefix(1);
    }
  }
  // Only the one form of a name: not "%61" for "a".
  if (name == text || escaped(name) != text) return std::nullopt;
  return name;
}

/// Whether a name cannot be a file name as it is, for itself.
bool is_unfit(std::string_view name) {
  return name.empty() || name.size() > kMaxFileName || std::ranges::find(kReserved, name) != kReserved.end() ||
         name.find_first_of(std::string_view("/\0", 2)) != name.npos || !is_utf8(name) || is_cut_name(name);
}

/// Whether the file name of a name is its escaped form: it is unfit, or is the file name of another name.
bool is_escaped(std::string_view name) {
  std::optional<std::string> other;
  while (!is_unfit(name)) {
    std::optional<std::string> before = escaped_from(name);  // shorter
    if (!before) return false;
    name = *(other = std::move(before));
  }
  return true;
}

}  // namespace

std::string escape_name(std::string_view name) { return is_escaped(name) ? escaped(name) : std::string(name); }

std::optional<std::string> unescape_name(std::string_view file_name) {
  if (!is_escaped(file_name)) return std::string(file_name);
  if (std::optional<std::string> name = escaped_from(file_name); name && is_escaped(*name)) return name;
  return std::nullopt;
}

std::string with_suffix(std::string_view file_name, std::string_view suffix) {
  if (file_name.size() + suffix.size() <= kMaxFileName) return fmt::format("{}{}", file_name, suffix);
  size_t cut = kMaxFileName - kCutTail - suffix.size();
  while (cut > 0 && (static_cast<unsigned char>(file_name[cut]) & 0xC0) == 0x80) --cut;  // character boundary
  return fmt::format("{}{}{:016x}{}", file_name.substr(0, cut), kCutMark, text_hash(file_name), suffix);
}

bool is_cut_name(std::string_view file_name) {
  if (file_name.size() <= kCutTail || file_name.size() > kMaxFileName) return false;
  const std::string_view tail = file_name.substr(file_name.size() - kCutTail);
  return tail.starts_with(kCutMark) &&
         std::ranges::all_of(tail.substr(2), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace codecfs
