#include "fs/nodes/staged_names.h"

#include <algorithm>
#include <array>
#include <ranges>

namespace codecfs::fs {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_alphanumeric(char c) { return is_digit(c) || is_upper(c) || (c >= 'a' && c <= 'z'); }

/// "partial" in 0.0.5c1e.partial, "tmp5x3k" in tmp5x3k.
bool is_temporary_word(std::string_view word) {
  if (word.starts_with("tmp") || word == "part" || word == "partial" || word == "new" || word == "temporary")
    return true;
  return word.starts_with("temp") && std::ranges::all_of(word.substr(4), is_digit);
}

/// sed -i creates sedXXXXXX, perl -i XXXXXXXX, where each X is a random letter or digit.
bool is_random_name(std::string_view name) {
  if (!std::ranges::all_of(name, is_alphanumeric)) return false;
  if (name.size() == 9 && name.starts_with("sed")) return true;
  return name.size() == 8 && std::ranges::any_of(name.substr(1), [](char c) { return is_digit(c) || is_upper(c); });
}

/// Rust's object_store (obstore) writes zarr.json#1.
bool is_counted_name(std::string_view name) {
  const size_t mark = name.rfind('#');
  return mark != name.npos && std::ranges::all_of(name.substr(mark + 1), is_digit);
}

}  // namespace

bool looks_like_chunk(std::string_view name) {
  return !name.empty() && name.find_first_not_of("0123456789.") == name.npos && name[0] != '.' && name.back() != '.';
}

bool is_nczarr_file(std::string_view name) {
  return name == ".nczarr" || name == ".nczgroup" || name == ".nczarray" || name == ".nczvar" || name == ".nczattr";
}

bool is_temporary_name(std::string_view name) {
  if (name.empty() || looks_like_chunk(name)) return false;
  constexpr std::string_view kFirst = ".#~";
  constexpr std::string_view kLast = "#~";
  if (kFirst.contains(name.front()) || kLast.contains(name.back())) return true;
  // Derived from the name of a chunk or metadata file (those with a dot are handled above).
  constexpr std::string_view kZarr3 = "zarr.json";
  if (is_digit(name.front()) || name.starts_with("_Filter") || name.starts_with("_Codecs")) return true;
  if (name.starts_with(kZarr3) && name != kZarr3) return true;
  if (is_random_name(name) || is_counted_name(name)) return true;
  while (!name.empty()) {
    const auto end = std::ranges::find_if_not(name, is_alphanumeric);
    const auto length = static_cast<size_t>(end - name.begin());
    if (is_temporary_word(name.substr(0, length))) return true;
    name.remove_prefix(std::min(length + 1, name.size()));
  }
  return false;
}

bool is_temporary_path(std::string_view path) {
  return std::ranges::any_of(path | std::views::split('/'), [](const auto& part) {
    return is_temporary_name(std::string_view(part.begin(), part.end()));
  });
}

Result<> check_name(View view, std::string_view directory, std::string_view name) {
  const MetadataFormat& own = form_of(view).format();
  const View counterpart = counterpart_of(view);
  const MetadataFormat& other = form_of(counterpart).format();
  if (!other.has_file(name)) return {};
  return fail(EINVAL,
              "{}/{}: is {} metadata file of Zarr format {}, and this view is of format {}; write it to "
              ".codecfs/view/{}, or mount with -o view={}{}",
              directory, name, other.has_attributes_apart ? "a" : "the", other.version, own.version,
              name_of(counterpart), name_of(counterpart), own.advice);
}

}  // namespace codecfs::fs
