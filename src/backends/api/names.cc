// In addition to the rules in the header: the empty name is "%~". So a '%' before a '~' is escaped too, which keeps
// "%~" unambiguous as the mark of a truncated name.

#include "backends/api/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

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

/// FNV-1a.
uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

}  // namespace

std::string escape_name(std::string_view name) {
  if (name.empty()) return std::string(kEmptyName);
  const bool is_reserved = std::ranges::find(kReserved, name) != kReserved.end();
  std::string escaped;
  size_t cut = 0;  // the longest prefix of `escaped` that ends at a character boundary and leaves room for the tail
  for (std::string_view rest = name; !rest.empty();) {
    const char c = rest[0];
    size_t length = utf8_length(rest);
    if (length == 0 || c == '/' || c == '\0' || (c == '%' && starts_escape(rest)) || (is_reserved && escaped.empty())) {
      length = 1;
      escaped += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    } else {
      escaped += rest.substr(0, length);
    }
    rest.remove_prefix(length);
    if (escaped.size() <= kMaxFileName - kCutTail) cut = escaped.size();
  }
  if (escaped.size() <= kMaxFileName) return escaped;
  return fmt::format("{}{}{:016x}", std::string_view(escaped).substr(0, cut), kCutMark, hash_of(name));
}

std::optional<std::string> unescape_name(std::string_view file_name) {
  if (file_name == kEmptyName) return "";
  std::string name;
  for (std::string_view rest = file_name; !rest.empty();) {
    if (rest[0] == '%' && starts_escape(rest)) {
      if (rest.starts_with(kCutMark)) return std::nullopt;
      name += static_cast<char>(hex_value(rest[1]) * 16 + hex_value(rest[2]));
      rest.remove_prefix(3);
    } else {
      name += rest[0];
      rest.remove_prefix(1);
    }
  }
  // Accept only the canonical form of a name: not "%61" for "a", and not an unescaped "..".
  if (escape_name(name) != file_name) return std::nullopt;
  return name;
}

std::string with_suffix(std::string_view file_name, std::string_view suffix) {
  if (file_name.size() + suffix.size() <= kMaxFileName) return fmt::format("{}{}", file_name, suffix);
  size_t cut = kMaxFileName - kCutTail - suffix.size();
  while (cut > 0 && (static_cast<unsigned char>(file_name[cut]) & 0xC0) == 0x80) --cut;  // character boundary
  return fmt::format("{}{}{:016x}{}", file_name.substr(0, cut), kCutMark, hash_of(file_name), suffix);
}

bool is_cut_name(std::string_view file_name) {
  if (file_name.size() <= kCutTail || file_name.size() > kMaxFileName) return false;
  const std::string_view tail = file_name.substr(file_name.size() - kCutTail);
  return tail.starts_with(kCutMark) &&
         std::ranges::all_of(tail.substr(2), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace codecfs
