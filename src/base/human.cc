#include "base/human.h"

#include <fmt/core.h>

#include <array>

namespace codecfs {

std::string human_bytes(uint64_t bytes) {
  constexpr std::array<std::string_view, 7> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  // 1023.5 and more would print as 1024.
  for (; value >= 1023.5 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  if (unit == 0 || value >= 99.95) return fmt::format("{:.0f} {}", value, kUnits[unit]);
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : 1, kUnits[unit]);
}

std::string human_duration(std::chrono::seconds duration) {
  const auto seconds = duration.count();
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
  return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

std::string human_count(uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string counted(uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", human_count(number), noun, number == 1 ? "" : "s");
}

}  // namespace codecfs
