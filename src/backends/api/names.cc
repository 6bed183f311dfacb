// In addition to the rules in the header: the empty name is "%~". Where a name is escaped, so is its '%' before two hex
// digits and before '~', so that the name can be restored and "%~" marks truncated names alone.

#include "backends/api/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
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

/// What a name is shown as.
enum class Shown { file, text };

/// Whether `text` starts with a '%' that begins an escape sequence.
bool starts_escape(std::string_view text, Shown as) {
  if (text.size() >= 3 && text[0] == '%' && hex_value(text[1]) >= 0 && hex_value(text[2]) >= 0) return true;
  return as == Shown::file && text.starts_with(kCutMark);
}

/// The escaped form of a name.
std::string escaped(std::string_view name, Shown as) {
  const bool is_file = as == Shown::file;
  if (is_file && name.empty()) return std::string(kEmptyName);
  const bool is_reserved = is_file && std::ranges::find(kReserved, name) != kReserved.end();
  std::string text;
  size_t cut = 0;  // the longest prefix of `text` that ends at a character boundary and leaves room for the tail
  for (std::string_view rest = name; !rest.empty();) {
    const char c = rest[0];
    size_t length = utf8_length(rest);
    const bool is_unfit = is_file && (c == '/' || c == '\0' || (is_reserved && text.empty()));
    if (length == 0 || is_unfit || starts_escape(rest, as)) {
      length = 1;
      text += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    } else {
      text += rest.substr(0, length);
    }
    rest.remove_prefix(length);
    if (text.size() <= kMaxFileName - kCutTail) cut = text.size();
  }
  if (!is_file || text.size() <= kMaxFileName) return text;
  return fmt::format("{}{}{:016x}", std::string_view(text).substr(0, cut), kCutMark, text_hash(name));
}

/// The name, another one, of which this is the escaped form; none if there is none, or it was truncated.
std::optional<std::string> escaped_from(std::string_view text, Shown as) {
  const bool is_file = as == Shown::file;
  if (is_file && text == kEmptyName) return "";
  if ((is_file && text.size() > kMaxFileName) || text.find('%') == text.npos) return std::nullopt;
  std::string name;
  for (std::string_view rest = text; !rest.empty();) {
    if (starts_escape(rest, as)) {
      if (is_file && rest.starts_with(kCutMark)) return std::nullopt;
      name += static_cast<char>(hex_value(rest[1]) * 16 + hex_value(rest[2]));
      rest.remove_prefix(3);
    } else {
      name += rest[0];
      rest.remove_prefix(1);
    }
  }
  // Only the one form of a name: not "%61" for "a".
  if (name == text || escaped(name, as) != text) return std::nullopt;
  return name;
}

/// Whether a name cannot be shown as it is, for itself.
bool is_unfit(std::string_view name, Shown as) {
  if (as == Shown::text) return !is_utf8(name);
  return name.empty() || name.size() > kMaxFileName || std::ranges::find(kReserved, name) != kReserved.end() ||
         name.find_first_of(std::string_view("/\0", 2)) != name.npos || !is_utf8(name) || is_cut_name(name);
}

/// Whether a name is shown in its escaped form: it is unfit, or is what another name is shown as.
bool is_escaped(std::string_view name, Shown as) {
  std::optional<std::string> other;
  while (!is_unfit(name, as)) {
    std::optional<std::string> before = escaped_from(name, as);  // shorter
    if (!before) return false;
    name = *(other = std::move(before));
  }
  return true;
}

}  // namespace

std::string escape_name(std::string_view name) {
  return is_escaped(name, Shown::file) ? escaped(name, Shown::file) : std::string(name);
}

std::optional<std::string> unescape_name(std::string_view file_name) {
  if (!is_escaped(file_name, Shown::file)) return std::string(file_name);
  if (std::optional<std::string> name = escaped_from(file_name, Shown::file); name && is_escaped(*name, Shown::file))
    return name;
  return std::nullopt;
}

std::string name_before_copy(std::string_view file_name) {
  std::optional<std::string> key = unescape_name(file_name);
  if (!key || *key == file_name) return std::string(file_name);
  const std::optional<std::string> name = unescape_name(*key);
  return name && *name != *key ? *std::move(key) : std::string(file_name);
}

std::string escape_attribute_name(std::string_view name) {
  return is_escaped(name, Shown::text) ? escaped(name, Shown::text) : std::string(name);
}

std::string unescape_attribute_name(std::string_view shown) {
  if (std::optional<std::string> name = escaped_from(shown, Shown::text); name && is_escaped(*name, Shown::text))
    return *std::move(name);
  return std::string(shown);
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

bool is_netcdf_name(std::string_view name) {
  if (name.empty() || name.size() > 256 || !is_utf8(name)) return false;
  const auto is_plain = [](unsigned char c) { return c >= 0x20 && c != 0x7f && c != '/'; };
  const auto first = static_cast<unsigned char>(name.front());
  const bool starts_well = first >= 0x80 || first == '_' || std::isalnum(first) != 0;
  return starts_well && name.back() != ' ' && std::ranges::all_of(name, is_plain);
}

}  // namespace codecfs
