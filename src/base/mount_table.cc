#include "base/mount_table.h"

#include <fstream>
#include <ranges>
#include <sstream>

namespace codecfs {
namespace {

/// mountinfo escapes space, tab, newline and backslash as three octal digits.
std::string unescape_octal(const std::string& text) {
  const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && text.size() - i >= 4 && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
        is_octal(text[i + 3])) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace

std::vector<MountEntry> mount_table() {
  std::ifstream table("/proc/self/mountinfo");
  std::vector<MountEntry> entries;
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    MountEntry entry;
    std::string parent;
    std::string root;
    std::string path;
    if (!(fields >> entry.id >> parent >> entry.device >> root >> path >> entry.options)) continue;
    entry.path = unescape_octal(path);
    for (std::string field; fields >> field && field != "-";) continue;  // optional fields
    std::string source;
    fields >> entry.type >> source;
    entry.source = unescape_octal(source);
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::optional<MountEntry> mount_at(const std::string& path) {
  const std::vector<MountEntry> entries = mount_table();
  for (const MountEntry& entry : entries | std::views::reverse)
    if (entry.path == path) return entry;
  return std::nullopt;
}

}  // namespace codecfs
