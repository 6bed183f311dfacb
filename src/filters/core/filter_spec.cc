// Parses filter specs. netcdf-c's parser stops at the first character that it does not understand and takes what it
// has; this one rejects the text and points at that character.

#include "filters/core/filter_spec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/ascii.h"
#include "base/closest_name.h"
#include "filters/core/filter.h"

namespace codecfs::filters {
namespace {

struct KnownName {
  std::string_view name;
  uint32_t id;
};

// Names from netCDF's table and from common practice that are not names of registered filters. They take precedence
// over the registry, so that no plugin can change their meaning.
constexpr std::array kKnownNames{
    KnownName{"zip", 1},         KnownName{"mafisc", 32002},       KnownName{"snappy", 32003},
    KnownName{"apax", 32005},    KnownName{"cbf", 32006},          KnownName{"jpeg-xr", 32007},
    KnownName{"spdp", 32009},    KnownName{"lpc-rice", 32010},     KnownName{"ccsds-123", 32011},
    KnownName{"jpeg-ls", 32012}, KnownName{"zfp", 32013},          KnownName{"fpzip", 32014},
    KnownName{"b3d", 32016},     KnownName{"sz", 32017},           KnownName{"fcidecomp", 32018},
    KnownName{"blosc2", 32026},  KnownName{"user-defined", 32768},
};

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return to_lower(c) >= 'a' && to_lower(c) <= 'z'; }
bool is_name_character(char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '_' || c == '.'; }

void push_words(std::vector<uint32_t>& words, uint64_t value) {
  words.push_back(static_cast<uint32_t>(value));
  words.push_back(static_cast<uint32_t>(value >> 32));
}

/// Positions in a token of the form [-]digits[.digits][e[+-]digits]tag.
struct Number {
  bool negative = false;
  size_t digits = 0;               // first digit
  size_t integer_end = 0;          // end of the digits before a point
  size_t end = 0;                  // end of the number: its tag
  std::optional<size_t> float_at;  // the point or exponent
};

class Parser {
 public:
  Parser(std::string_view text, size_t start) : text_(text), at_(start) {}

  Result<std::vector<FilterStage>> run() {
    skip_space();
    CODECFS_TRY(parse_format_tag());
    std::vector<FilterStage> chain;
    if (is_none(text_.substr(at_))) return chain;
    while (at_ < text_.size()) {
      if (chain.size() == kMaxChain) return error(at_, fmt::format("a pipeline has at most {} filters", kMaxChain));
      CODECFS_ASSIGN(FilterStage stage, parse_filter());
      chain.push_back(std::move(stage));
      if (at_ == text_.size()) break;
      ++at_;  // '|'
      skip_space();
    }
    return chain;
  }

 private:
  [[nodiscard]] std::unexpected<Error> error(size_t at, std::string_view what) const {
    return fail_at(text_, at, what);
  }

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  /// "[0]", which netCDF prints before a pipeline that applies to every file format.
  Result<> parse_format_tag() {
    if (at_ == text_.size() || text_[at_] != '[') return {};
    ++at_;
    skip_space();
    if (at_ == text_.size() || text_[at_] != '0') return error(at_, "the format tag is [0], which means any format");
    ++at_;
    skip_space();
    if (at_ == text_.size() || text_[at_] != ']') return error(at_, "the format tag is [0], with a closing ']'");
    ++at_;
    skip_space();
    return {};
  }

  /// Returns the text before the next ',', '|' or the end, without surrounding white space. Stops there.
  std::string_view take_token() {
    skip_space();
    token_at_ = at_;
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '|') ++at_;
    size_t end = at_;
    while (end > token_at_ && is_space(text_[end - 1])) --end;
    return text_.substr(token_at_, end - token_at_);
  }

  Result<FilterStage> parse_filter() {
    constexpr std::string_view kUserDefined = "UD=";
    skip_space();
    if (is_same_word(text_.substr(at_, kUserDefined.size()), kUserDefined)) {
      at_ += kUserDefined.size();
      return parse_user_defined();
    }
    FilterStage stage;
    CODECFS_ASSIGN(stage.id, parse_id(take_token()));
    while (at_ < text_.size() && text_[at_] == ',') {
      ++at_;
      CODECFS_TRY(parse_constant(take_token(), stage.parameters));
    }
    return stage;
  }

  /// h5repack's form, after "UD=".
  Result<FilterStage> parse_user_defined() {
    FilterStage stage;
    stage.has_flag = true;
    CODECFS_ASSIGN(stage.id, parse_id(take_token()));
    const auto next = [&] {
      if (at_ < text_.size() && text_[at_] == ',') ++at_;
      return take_token();
    };
    const std::string_view flag = next();
    if (flag != "0" && flag != "1") return error(token_at_, "after UD= and the id: 1 for an optional filter, or 0");
    stage.optional = flag == "1";
    const std::string_view count = next();
    const size_t count_at = token_at_;
    size_t parameters = 0;
    if (count.empty() ||
        std::from_chars(count.data(), count.data() + count.size(), parameters).ptr != count.data() + count.size())
      return error(count_at, "after UD=, the id and the flag: the number of parameters");
    while (at_ < text_.size() && text_[at_] == ',') {
      ++at_;
      CODECFS_TRY(parse_constant(take_token(), stage.parameters));
    }
    if (stage.parameters.size() == parameters) return stage;
    return error(count_at, fmt::format("this says {} parameters, and {} follow", parameters, stage.parameters.size()));
  }

  Result<uint32_t> parse_id(std::string_view token) const {
    if (token.empty()) return error(token_at_, "a filter is missing here: an id or a name");
    if (is_letter(token[0])) return parse_name(token);
    if (token[0] == '-') return error(token_at_, "a filter id is not negative");
    const auto wrong = std::ranges::find_if_not(token, is_digit);
    if (wrong != token.end())
      return error(token_at_ + static_cast<size_t>(wrong - token.begin()), "a filter id is a plain number, or a name");
    uint32_t id = 0;
    if (std::from_chars(token.data(), token.data() + token.size(), id).ec != std::errc{})
      return error(token_at_, "a filter id has 32 bits");
    if (id == 0) return error(token_at_, "0 is not a filter id; for no filters write none");
    return id;
  }

  Result<uint32_t> parse_name(std::string_view token) const {
    const auto wrong = std::ranges::find_if_not(token, is_name_character);
    if (wrong != token.end())
      return error(token_at_ + static_cast<size_t>(wrong - token.begin()),
                   "a filter name has letters, digits, '-', '_' and '.'");
    if (is_same_word(token, "none")) return error(token_at_, "none stands alone");
    for (const KnownName& known : kKnownNames)
      if (is_same_word(known.name, token)) return known.id;
    const FilterPtr filter = find_by_name(token);
    if (filter == nullptr) return error(token_at_, fmt::format("no filter of this name is known{}", hint_for(token)));
    if (filter->id == 0) return error(token_at_, "this codec has no HDF5 filter id, so no filter spec can name it");
    return filter->id;
  }

  static std::string hint_for(std::string_view name) {
    const std::vector<FilterPtr> filters = list();
    std::vector<std::string_view> names;
    for (const FilterPtr& filter : filters) {
      if (filter->id == 0) continue;
      names.push_back(filter->name);
      names.insert(names.end(), filter->aliases.begin(), filter->aliases.end());
    }
    for (const KnownName& known : kKnownNames) names.push_back(known.name);
    const std::string hint = did_you_mean(name, names);
    return hint.empty() ? "; its number always works" : hint;
  }

  /// Splits a token into number and tag.
  Result<Number> parse_number(std::string_view token) const {
    Number number;
    size_t at = 0;
    const auto skip_digits = [&] {
      const size_t first = at;
      while (at < token.size() && is_digit(token[at])) ++at;
      return at - first;
    };
    if (token.empty()) return error(token_at_, "a number is missing here");
    if (token[0] == '+') return error(token_at_, "a number has no '+' in front");
    number.negative = token[0] == '-';
    number.digits = at = number.negative ? 1 : 0;
    size_t digits = skip_digits();
    number.integer_end = at;
    if (at < token.size() && token[at] == '.') {
      number.float_at = at++;
      digits += skip_digits();
    }
    if (digits == 0) return error(token_at_ + number.digits, "a number with at least one digit is expected here");
    if (at < token.size() && to_lower(token[at]) == 'e') {
      if (!number.float_at) number.float_at = at;
      ++at;
      if (at < token.size() && (token[at] == '+' || token[at] == '-')) ++at;
      if (skip_digits() == 0) return error(token_at_ + at, "an exponent needs digits");
    }
    number.end = at;
    return number;
  }

  Result<> parse_constant(std::string_view token, std::vector<uint32_t>& words) const {
    CODECFS_ASSIGN(const Number number, parse_number(token));
    size_t at = number.end;
    const bool is_unsigned = at < token.size() && to_lower(token[at]) == 'u';
    if (is_unsigned) ++at;
    char type = '\0';
    if (at < token.size() &&
        std::string_view(is_unsigned ? "bsl" : "bslfd").find(to_lower(token[at])) != std::string::npos)
      type = to_lower(token[at++]);
    if (at < token.size()) return error(token_at_ + at, tag_hint(token, number));

    if (type == 'f' || type == 'd') return parse_float(token, number, type == 'd', words);
    if (number.float_at) {
      return error(token_at_ + *number.float_at,
                   at > number.end ? "an integer has no fraction and no exponent; the types of floats are f and d"
                                   : "a number with a fraction or an exponent needs its type: add f or d");
    }
    return parse_integer(token, number, is_unsigned, type, words);
  }

  static std::string_view tag_hint(std::string_view token, const Number& number) {
    const std::string_view tag = token.substr(number.end);
    if (to_lower(tag[0]) == 'x' && token.substr(number.digits, number.end - number.digits) == "0")
      return "hexadecimal numbers are not known here; write it in decimal";
    if (tag.size() == 2 && to_lower(tag[1]) == 'u') return "the u comes first: ub, us, ul";
    if (to_lower(tag[0]) == 'l' || is_same_word(tag, "ull")) return "64 bits are l or ul, with one l";
    return "this is not a type; the types are b, s, l, u, ub, us, ul, f, d";
  }

  Result<> parse_integer(std::string_view token, const Number& number, bool is_unsigned, char type,
                         std::vector<uint32_t>& words) const {
    constexpr uint64_t kSign32 = uint64_t{1} << 31;
    constexpr uint64_t kSign64 = uint64_t{1} << 63;
    uint64_t magnitude = 0;
    if (std::from_chars(token.data() + number.digits, token.data() + number.integer_end, magnitude).ec != std::errc{})
      return error(token_at_, "this number does not fit 64 bits");
    const uint64_t value = number.negative ? 0 - magnitude : magnitude;

    if (type == 'l') {
      if (magnitude > (number.negative ? kSign64 : is_unsigned ? UINT64_MAX : kSign64 - 1))
        return error(token_at_, number.negative ? "this number does not fit 64 bits"
                                                : "this number does not fit 64 bits with a sign: make it ul");
      push_words(words, value);
      return {};
    }
    if (type == '\0' && !is_unsigned && !number.negative && magnitude > UINT32_MAX) {
      push_words(words, value);
      return {};
    }
    if (magnitude > (number.negative ? kSign32 : UINT32_MAX)) {
      if (type != '\0') return error(token_at_, "this number does not even fit 32 bits");
      return error(token_at_, is_unsigned ? "this number does not fit 32 bits: make it ul"
                                          : "this number does not fit 32 bits: add l");
    }
    const uint64_t mask = type == 'b' ? 0xff : type == 's' ? 0xffff : UINT32_MAX;
    words.push_back(static_cast<uint32_t>(value & mask));
    return {};
  }

  Result<> parse_float(std::string_view token, const Number& number, bool is_double,
                       std::vector<uint32_t>& words) const {
    double value = 0;
    if (std::from_chars(token.data(), token.data() + number.end, value).ec != std::errc{})
      return error(token_at_, "this number does not fit a 64-bit float");
    if (is_double) {
      push_words(words, std::bit_cast<uint64_t>(value));
      return {};
    }
    // Rounds from decimal to double to float, as netcdf-c does, so that equal text gives equal bits.
    const auto rounded = static_cast<float>(value);
    if (std::isinf(rounded) || (rounded == 0 && value != 0))
      return error(token_at_, "this number does not fit a 32-bit float: make it d");
    words.push_back(std::bit_cast<uint32_t>(rounded));
    return {};
  }

  const std::string_view text_;
  size_t at_;
  size_t token_at_ = 0;  // start of the latest token
};

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

}  // namespace

std::unexpected<Error> fail_at(std::string_view text, size_t at, std::string_view what) {
  constexpr size_t kAround = 40;    // bytes shown before and after the position,
  constexpr size_t kCharacter = 3;  // plus up to so many to the next UTF-8 character boundary
  size_t first = at > 2 * kAround ? at - kAround : 0;
  for (size_t i = 0; i < kCharacter && first > 0 && !starts_character(text[first]); ++i) --first;
  size_t last = text.size() - at > 2 * kAround ? at + kAround : text.size();
  for (size_t i = 0; i < kCharacter && last < text.size() && !starts_character(text[last]); ++i) ++last;
  std::string shown(text.substr(first, last - first));
  for (char& c : shown)
    // keeps the message on one line
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = is_space(c) ? ' ' : '?';
  if (first > 0) shown.insert(0, "...");
  if (last < text.size()) shown += "...";
  if (at >= text.size()) return fail(EINVAL, "at the end of \"{}\": {}", shown, what);
  const auto position = std::ranges::count_if(text.substr(0, at), starts_character) + 1;
  return fail(EINVAL, "character {} of \"{}\": {}", position, shown, what);
}

bool is_none(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return is_same_word(text, "none");
}

Result<std::vector<FilterStage>> parse_filter_spec(std::string_view text, size_t start) {
  return Parser(text, std::min(start, text.size())).run();
}

}  // namespace codecfs::filters
