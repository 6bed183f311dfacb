#include "model/numpy_type.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "base/ascii.h"
#include "model/json.h"

namespace codecfs {
namespace {

using Name = std::pair<std::string_view, std::string_view>;

constexpr std::string_view kOrders = "<>=|";

/// The letters of C's types, as on Linux with 64 bits.
constexpr std::array<Name, 18> kLetters = {{{"?", "b1"},
                                            {"b", "i1"},
                                            {"B", "u1"},
                                            {"h", "i2"},
                                            {"H", "u2"},
                                            {"i", "i4"},
                                            {"I", "u4"},
                                            {"l", "i8"},
                                            {"L", "u8"},
                                            {"q", "i8"},
                                            {"Q", "u8"},
                                            {"p", "i8"},
                                            {"P", "u8"},
                                            {"e", "f2"},
                                            {"f", "f4"},
                                            {"d", "f8"},
                                            {"F", "c8"},
                                            {"D", "c16"}}};

constexpr std::array<Name, 39> kWords = {
    {{"bool", "b1"},    {"bool_", "b1"},    {"int8", "i1"},      {"int16", "i2"},     {"int32", "i4"},
     {"int64", "i8"},   {"uint8", "u1"},    {"uint16", "u2"},    {"uint32", "u4"},    {"uint64", "u8"},
     {"float16", "f2"}, {"float32", "f4"},  {"float64", "f8"},   {"complex64", "c8"}, {"complex128", "c16"},
     {"byte", "i1"},    {"ubyte", "u1"},    {"short", "i2"},     {"ushort", "u2"},    {"intc", "i4"},
     {"uintc", "u4"},   {"int", "i8"},      {"int_", "i8"},      {"uint", "u8"},      {"long", "i8"},
     {"ulong", "u8"},   {"longlong", "i8"}, {"ulonglong", "u8"}, {"intp", "i8"},      {"uintp", "u8"},
     {"half", "f2"},    {"single", "f4"},   {"double", "f8"},    {"float", "f8"},     {"float_", "f8"},
     {"csingle", "c8"}, {"cdouble", "c16"}, {"complex", "c16"},  {"complex_", "c16"}}};

template <size_t Count>
std::optional<std::string> found_in(const std::array<Name, Count>& names, std::string_view text) {
  const auto found = std::ranges::find(names, text, &Name::first);
  return found == names.end() ? std::nullopt : std::optional(std::string(found->second));
}

/// The name in the form of Zarr v2; none if numpy does not take it.
std::optional<std::string> canonical_name(std::string_view text) {
  const bool has_order = !text.empty() && kOrders.contains(text[0]);
  const char order = has_order && text[0] != '=' ? text[0] : '<';
  const std::string_view kind = has_order ? text.substr(1) : text;
  if (const auto letter = found_in(kLetters, kind)) return order + *letter;
  if (!has_order) {
    if (const auto word = found_in(kWords, kind)) return order + *word;
    for (const auto& [word, letter] : {Name{"datetime64", "M8"}, Name{"timedelta64", "m8"}})
      if (kind.starts_with(word)) return order + (std::string(letter) += kind.substr(word.size()));
  }
  if (kind.size() < 2) return std::nullopt;
  return order + std::string(kind);
}

}  // namespace

Result<DataType> parse_numpy_type(const Json& dtype) {
  Result<DataType> type = parse_dtype(dtype);
  if (type || !dtype.is_string()) return type;
  const auto name = canonical_name(dtype.get_ref<const std::string&>());
  if (!name) return type;
  Result<DataType> named = parse_dtype(*name);
  return named ? named : type;
}

std::optional<double> parse_numpy_special(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  if (is_same_word(text, "nan")) return std::numeric_limits<double>::quiet_NaN();
  if (!is_same_word(text, "inf") && !is_same_word(text, "infinity")) return std::nullopt;
  return is_negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
}

}  // namespace codecfs
