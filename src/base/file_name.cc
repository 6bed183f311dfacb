#include "base/file_name.h"

#include <fmt/format.h>

#include <climits>

namespace codecfs {

std::string fitted_name(std::string_view prefix, std::string_view name, std::string_view suffix, uint64_t hash) {
  const size_t room = NAME_MAX - prefix.size() - suffix.size();
  if (name.size() <= room) return fmt::format("{}{}{}", prefix, name, suffix);
  const std::string end = fmt::format("~{:016x}", hash);
  size_t length = room - end.size();
  while (length > 0 && (static_cast<unsigned char>(name[length]) & 0xc0) == 0x80) --length;
  return fmt::format("{}{}{}{}", prefix, name.substr(0, length), end, suffix);
}

std::string rescued_name(std::string_view name, unsigned number) {
  return fitted_name("", name, number == 0 ? ".codecfs-rescued" : fmt::format(".codecfs-rescued-{}", number));
}

}  // namespace codecfs
