#pragma once
// Names of files that are made from the names of other files.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/text_hash.h"

namespace codecfs {

/// `prefix`, `name` and `suffix` together. If that is too long for a file name (NAME_MAX): instead of `name` a part of
/// it (only whole UTF-8 characters), "~" and `hash`, which should be that of `name`, in 16 hex digits.
std::string fitted_name(std::string_view prefix, std::string_view name, std::string_view suffix, uint64_t hash);
inline std::string fitted_name(std::string_view prefix, std::string_view name, std::string_view suffix) {
  return fitted_name(prefix, name, suffix, text_hash(name));
}

/// "file.h5" -> "file.h5.codecfs-rescued", "file.h5.codecfs-rescued-1" and so on: where the content of a source is
/// written that was deleted while it was changed.
std::string rescued_name(std::string_view name, unsigned number);
inline constexpr unsigned kMaxRescues = 100;  // names that are tried

}  // namespace codecfs
