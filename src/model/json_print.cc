// Prints JSON. See json.cc for the parser.

#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "model/json.h"

namespace codecfs {
namespace {

/// Prints as Python's repr(): shortest digits that read back, exponents below 1e-4 and from 1e16 on, always a point or
/// an exponent.
void print_double(double value, std::string& out) {
  if (std::isnan(value)) {
    out += "NaN";
    return;
  }
  if (std::isinf(value)) {
    out += value < 0 ? "-Infinity" : "Infinity";
    return;
  }
  char text[32];
  const auto scientific = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific);
  const std::string_view printed(text, static_cast<size_t>(scientific.ptr - text));
  int exponent = 0;
  const std::string_view digits = printed.substr(printed.find('e') + 1);
  std::from_chars(digits.data() + (digits[0] == '+' ? 1 : 0), digits.data() + digits.size(), exponent);
  if (exponent < -4 || exponent >= 16) {
    out += printed;
    return;
  }
  char fixed_text[40];
  const auto fixed = std::to_chars(fixed_text, fixed_text + sizeof fixed_text, value, std::chars_format::fixed);
  const std::string_view plain(fixed_text, static_cast<size_t>(fixed.ptr - fixed_text));
  out += plain;
  if (plain.find('.') == std::string_view::npos) out += ".0";
}

void print_escaped(char32_t code, std::string& out) {
  if (code < 0x10000) {
    out += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
  } else {
    const uint32_t offset = static_cast<uint32_t>(code) - 0x10000;
    out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (offset >> 10), 0xDC00 + (offset & 0x3FF));
  }
}

void print_string(std::string_view string, JsonText text, std::string& out) {
  out += '"';
  while (!string.empty()) {
    const size_t length = utf8_length(string);
    const auto c = static_cast<unsigned char>(string[0]);
    if (length == 0) {
      out += "\\ufffd";
      string.remove_prefix(1);
      continue;
    }
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      default:
        if (c >= 0x20 && (c < 0x7F || text == JsonText::utf8))
          out += string.substr(0, length);
        else
          print_escaped(utf8_decode(string), out);
    }
    string.remove_prefix(length);
  }
  out += '"';
}

class Printer {
 public:
  Printer(int indent, JsonText text, std::string& out) : indent_(indent), text_(text), out_(out) {}

  void print(const Json& value, int depth) {
    switch (value.type()) {
      case Json::value_t::object: {
        const auto& items = value.get_ref<const Json::object_t&>();
        print_items('{', '}', items, depth, [&](const auto& item) {
          print_string(item.first, text_, out_);
          out_ += ": ";
          print(item.second, depth + 1);
        });
        break;
      }
      case Json::value_t::array: {
        const auto& items = value.get_ref<const Json::array_t&>();
        print_items('[', ']', items, depth, [&](const Json& item) { print(item, depth + 1); });
        break;
      }
      case Json::value_t::string: print_string(value.get_ref<const std::string&>(), text_, out_); break;
      case Json::value_t::boolean: out_ += value.get<bool>() ? "true" : "false"; break;
      case Json::value_t::number_integer: out_ += fmt::format("{}", value.get<int64_t>()); break;
      case Json::value_t::number_unsigned: out_ += fmt::format("{}", value.get<uint64_t>()); break;
      case Json::value_t::number_float: print_double(value.get<double>(), out_); break;
      case Json::value_t::binary: {  // a large integer
        const auto& digits = value.get_binary();
        out_.append(digits.begin(), digits.end());
        break;
      }
      default: out_ += "null"; break;
    }
  }

 private:
  template <class Items, class PrintItem>
  void print_items(char open, char close, const Items& items, int depth, PrintItem print_item) {
    out_ += open;
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += indent_ < 0 ? ", " : ",";
      first = false;
      new_line(depth + 1);
      print_item(item);
    }
    if (!first) new_line(depth);
    out_ += close;
  }

  void new_line(int depth) {
    if (indent_ < 0) return;
    out_ += '\n';
    out_.append(static_cast<size_t>(indent_) * static_cast<size_t>(depth), ' ');
  }

  int indent_;
  JsonText text_;
  std::string& out_;
};

}  // namespace

std::string print_json(const Json& value, int indent, JsonText text) {
  std::string out;
  Printer(indent, text, out).print(value, 0);
  return out;
}

}  // namespace codecfs
