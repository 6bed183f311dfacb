// Parses JSON. See json_print.cc for the printer.
//
// nlohmann's parser cannot read NaN and the infinities, refuses numbers that overflow, does not bound the nesting, and
// takes time quadratic in the number of an object's keys. This parser does not, and builds nlohmann's tree.

#include "model/json.h"

#include <malloc.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <new>
#include <unordered_map>

#include "base/utf8.h"
#include "model/limits.h"

namespace codecfs {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Whether a JSON number that does not fit a double is too large (else it is too small).
bool overflows(std::string_view number) {
  if (number.starts_with('-')) number.remove_prefix(1);
  const size_t e = number.find_first_of("eE");
  const std::string_view mantissa = number.substr(0, e);
  const size_t first = mantissa.find_first_of("123456789");
  if (first == std::string_view::npos) return false;
  const size_t point = std::min(mantissa.find('.'), mantissa.size());
  // Position of the first nonzero digit relative to the point: 0 is the units, -1 the tenths.
  const auto place = static_cast<int64_t>(point) - static_cast<int64_t>(first) - (first < point ? 1 : 0);
  if (e == std::string_view::npos) return place > 0;
  const bool negative = number[e + 1] == '-';
  int64_t exponent = 0;
  for (const char c : number.substr(e + 1))
    if (is_digit(c)) exponent = std::min<int64_t>(exponent * 10 + (c - '0'), int64_t{1} << 40);
  return place + (negative ? -exponent : exponent) > 0;
}

class Parser {
 public:
  Parser(std::string_view text, uint64_t most_bytes) : text_(text), most_bytes_(most_bytes) {}

  Result<Json> parse() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // skip the byte order mark that some editors write
    Json value;
    CODECFS_TRY(read_value(value, 0));
    skip_space();
    if (at_ < text_.size()) return error("expected the end");
    return value;
  }

  /// After a failed parse(): whether it failed only because the text ends too early.
  [[nodiscard]] bool is_cut() const { return is_cut_; }

 private:
  /// Whether the rest of the text, where the error is, may be the beginning of what was expected there.
  [[nodiscard]] bool is_at_cut(bool in_value) const {
    constexpr size_t kEscape = 6;
    constexpr size_t kCharacter = 4;
    const std::string_view rest = text_.substr(std::min(at_, text_.size()));
    if (rest.empty() || (rest[0] == '\\' && rest.size() < kEscape && (rest.size() == 1 || rest[1] == 'u'))) return true;
    if (static_cast<unsigned char>(rest[0]) >= 0xC2) return rest.size() < kCharacter;
    if (!in_value) return false;
    for (const std::string_view word : {"true", "false", "null", "NaN", "Infinity", "-Infinity"})
      if (word.starts_with(rest)) return true;
    return rest[0] == '"' || rest.find_first_not_of("+-.0123456789eE") == std::string_view::npos;
  }

  std::unexpected<Error> error(std::string_view what, bool in_value = false) {
    is_cut_ = is_at_cut(in_value);
    size_t line = 1;
    size_t column = 1;
    for (const char c : text_.substr(0, at_)) {
      ++column;
      if (c == '\n') {
        ++line;
        column = 1;
      }
    }
    if (at_ >= text_.size())
      return fail(EINVAL, "JSON: {} at line {} column {}, where the text ends", what, line, column);
    return fail(EINVAL, "JSON: {} at line {} column {}", what, line, column);
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }

  bool take(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  /// Counts memory that is about to be allocated.
  Result<> spend(uint64_t bytes) {
    if (bytes > room_) return fail(EFBIG, "JSON: needs more than the limit of {} MiB of memory", most_bytes_ >> 20);
    room_ -= bytes;
    return {};
  }

  Result<> read_value(Json& value, int depth) {
    constexpr uint64_t kBlock = 32;  // minimum size of an allocation
    if (depth > kMaxJsonDepth) return error("nested too deep");
    CODECFS_TRY(spend(sizeof(Json)));
    skip_space();
    if (at_ == text_.size()) return error("expected a value", true);
    if (const char c = text_[at_]; c == '{' || c == '[' || c == '"') CODECFS_TRY(spend(kBlock));
    switch (text_[at_]) {
      case '{': return read_object(value, depth);
      case '[': return read_array(value, depth);
      case '"': {
        std::string string;
        CODECFS_TRY(read_string(string));
        value = std::move(string);
        return {};
      }
      default: break;
    }
    if (take("true")) {
      value = true;
    } else if (take("false")) {
      value = false;
    } else if (take("null")) {
      value = nullptr;
    } else if (take("NaN")) {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (take("Infinity")) {
      value = std::numeric_limits<double>::infinity();
    } else if (take("-Infinity")) {
      value = -std::numeric_limits<double>::infinity();
    } else {
      return read_number(value);
    }
    return {};
  }

  Result<> read_array(Json& value, int depth) {
    Json::array_t items;
    ++at_;
    skip_space();
    if (!take("]")) {
      while (true) {
        CODECFS_TRY(read_value(items.emplace_back(), depth + 1));
        skip_space();
        if (take("]")) break;
        if (!take(",")) return error("expected ',' or ']'");
      }
    }
    value = std::move(items);
    return {};
  }

  Result<> read_object(Json& value, int depth) {
    Json::object_t items;
    std::unordered_map<std::string, size_t> places;
    ++at_;
    skip_space();
    if (!take("}")) {
      while (true) {
        skip_space();
        if (at_ == text_.size() || text_[at_] != '"') return error("expected a key in quotes");
        std::string key;
        CODECFS_TRY(read_string(key));
        CODECFS_TRY(spend(sizeof key));
        skip_space();
        if (!take(":")) return error("expected ':'");
        Json item;
        CODECFS_TRY(read_value(item, depth + 1));
        // Of duplicate keys the last value counts. push_back does not search for the key, unlike operator[].
        const auto [place, is_new] = places.try_emplace(key, items.size());
        if (is_new) {
          items.push_back({std::move(key), std::move(item)});
        } else {
          (items.begin() + static_cast<ptrdiff_t>(place->second))->second = std::move(item);
        }
        skip_space();
        if (take("}")) break;
        if (!take(",")) return error("expected ',' or '}'");
      }
    }
    value = std::move(items);
    return {};
  }

  Result<> read_string(std::string& string) {
    const size_t start = at_++;
    while (true) {
      if (at_ == text_.size()) {
        at_ = start;
        return error("a string that does not end", true);
      }
      const char c = text_[at_];
      if (c == '"') break;
      if (c == '\\') {
        CODECFS_TRY(read_escape(string));
        continue;
      }
      if (static_cast<unsigned char>(c) < 0x20) return error("a control character in a string (write it as \\u00XX)");
      const size_t length = utf8_length(text_.substr(at_));
      if (length == 0) return error("bytes that are not UTF-8");
      CODECFS_TRY(spend(length));
      string.append(text_, at_, length);
      at_ += length;
    }
    ++at_;
    return {};
  }

  Result<> read_escape(std::string& string) {
    const char c = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    static constexpr std::string_view kEscapes = "\"\\/bfnrt";
    static constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (const size_t index = kEscapes.find(c); c != '\0' && index != std::string_view::npos) {
      string.push_back(kMeanings[index]);
      at_ += 2;
      return {};
    }
    if (c != 'u') return error("an unknown escape");
    CODECFS_ASSIGN(const char32_t unit, read_unit());
    if (unit < 0xD800 || unit > 0xDFFF) {
      utf8_append(string, unit);
      return {};
    }
    if (unit > 0xDBFF || !text_.substr(at_).starts_with("\\u")) return error("half of a surrogate pair");
    CODECFS_ASSIGN(const char32_t low, read_unit());
    if (low < 0xDC00 || low > 0xDFFF) return error("half of a surrogate pair");
    utf8_append(string, 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00));
    return {};
  }

  /// The 16 bits of a \uXXXX; the caller has read "\u".
  Result<char32_t> read_unit() {
    uint32_t unit = 0;
    const std::string_view digits = text_.substr(at_ + 2, 4);
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
    if (digits.size() < 4 || digits[0] == '-' || code != std::errc() || end != digits.data() + 4)
      return error("expected four hexadecimal digits");
    at_ += 6;
    return char32_t{unit};
  }

  Result<> read_number(Json& value) {
    size_t end = at_;
    const auto digits = [&] {
      const size_t start = end;
      while (end < text_.size() && is_digit(text_[end])) ++end;
      return end > start;
    };
    if (text_[end] == '-') ++end;
    const size_t first = end;
    if (!digits()) return error("expected a value", true);
    if (text_[first] == '0' && end > first + 1) return error("a number with a leading zero");
    bool integer = true;
    if (end < text_.size() && text_[end] == '.') {
      integer = false;
      ++end;
      if (!digits()) return error("a number without digits after the point", true);
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      integer = false;
      ++end;
      if (end < text_.size() && (text_[end] == '+' || text_[end] == '-')) ++end;
      if (!digits()) return error("a number without digits in the exponent", true);
    }
    const std::string_view number = text_.substr(at_, end - at_);
    at_ = end;
    if (integer) {
      if (number[0] == '-' ? read_as<int64_t>(number, value) : read_as<uint64_t>(number, value)) return {};
      CODECFS_TRY(spend(number.size()));
      value = Json::binary({number.begin(), number.end()});
      return {};
    }
    if (!read_as<double>(number, value)) {
      const double magnitude = overflows(number) ? std::numeric_limits<double>::infinity() : 0.0;
      value = number[0] == '-' ? -magnitude : magnitude;
    }
    return {};
  }

  template <class T>
  static bool read_as(std::string_view number, Json& value) {
    T result{};
    if (std::from_chars(number.data(), number.data() + number.size(), result).ec != std::errc()) return false;
    value = result;
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool is_cut_ = false;
  const uint64_t most_bytes_;
  uint64_t room_ = most_bytes_;
};

}  // namespace

bool is_beginning_of_json(std::string_view text) {
  Parser parser(text, kMaxJsonBytes);
  return !parser.parse() && parser.is_cut();
}

Result<Json> parse_json(std::string_view text, uint64_t most_bytes) {
  constexpr size_t kLarge = size_t{1} << 20;
  try {
    Result<Json> value = Parser(text, most_bytes).parse();
    // The discarded tree consists of many small blocks, which malloc's per-thread arenas would keep.
    if (!value && text.size() > kLarge) ::malloc_trim(0);
    return value;
  } catch (const std::bad_alloc&) {
    return fail(ENOMEM, "JSON: no memory for a text of {} bytes", text.size());
  }
}

std::optional<double> rounded_number(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (!is_large_integer(value)) return std::nullopt;
  const auto& digits = value.get_binary();
  const char* const begin = reinterpret_cast<const char*>(digits.data());
  double number = 0;
  const bool fits = std::from_chars(begin, begin + digits.size(), number).ec == std::errc();
  if (!fits)
    number = digits[0] == '-' ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  return number;
}

Json member(const Json& object, std::string_view key) {
  const auto found = object.find(key);  // end() unless it is an object
  return found == object.end() ? Json() : *found;
}

bool prints_same(const Json& one, const Json& other) { return print_json(one) == print_json(other); }

void append_member(Json& object, std::string key, Json value) {
  static_cast<Json::object_t::Container&>(object.get_ref<Json::object_t&>())
      .emplace_back(std::move(key), std::move(value));
}

double shortest_double(float value) {
  if (!std::isfinite(value)) return value;
  char text[32];
  const auto printed = std::to_chars(text, text + sizeof text, value);
  double result = value;
  std::from_chars(text, printed.ptr, result);
  return result;
}

JsonValue::JsonValue(const Json& value) : value_(std::make_shared<const Json>(value)) {}
JsonValue::JsonValue(Json&& value) : value_(std::make_shared<const Json>(std::move(value))) {}
JsonValue::JsonValue(std::string text) : JsonValue(Json(std::move(text))) {}
JsonValue::JsonValue(const char* text) : JsonValue(Json(text)) {}

const Json& JsonValue::operator*() const {
  static const Json null;
  return value_ ? *value_ : null;
}

bool JsonValue::is_null() const { return !value_ || value_->is_null(); }

bool operator==(const JsonValue& one, const JsonValue& other) { return one.value_ == other.value_ || *one == *other; }
bool operator==(const JsonValue& one, const Json& other) { return *one == other; }

}  // namespace codecfs
