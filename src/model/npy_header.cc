// Prints numpy's description of a type and the header as Python does.

#include "model/npy_header.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "model/json.h"

namespace codecfs {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;     // bytes
constexpr size_t kGrowthDigits = 21;  // room that numpy reserves so that the first extent can grow in place
constexpr size_t kMaxShortText = 65535;

/// Collects the text of the header as UTF-8; npy_header() converts it if it chooses a version that stores Latin-1.
class Description {
 public:
  void print(const DataType& type);
  void print_shape(std::span<const uint64_t> shape);
  void raw(std::string_view text) { text_ += text; }

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] bool is_latin1() const { return is_latin1_; }

 private:
  void print_name(std::string_view name);

  std::string text_;
  bool is_latin1_ = true;
};

/// Whether Python's repr() shows the character unescaped. Beyond Latin-1, Python escapes some characters that this
/// function shows; both forms read the same.
bool is_printable(char32_t character) {
  return character >= 0x20 && character != 0x7f && (character < 0x80 || character > 0xa0) && character != 0xad;
}

void Description::print_name(std::string_view name) {
  const bool has_single = name.find('\'') != name.npos;
  const char quote = has_single && name.find('"') == name.npos ? '"' : '\'';
  text_ += quote;
  while (!name.empty()) {
    const size_t length = utf8_length(name);
    const char32_t character = length > 0 ? utf8_decode(name) : U'\ufffd';
    name.remove_prefix(std::max<size_t>(length, 1));
    if (character == '\n') {
      text_ += "\\n";
    } else if (character == '\r') {
      text_ += "\\r";
    } else if (character == '\t') {
      text_ += "\\t";
    } else if (!is_printable(character)) {
      text_ += fmt::format("\\x{:02x}", static_cast<uint32_t>(character));
    } else {
      if (character == '\\' || character == static_cast<char32_t>(quote)) text_ += '\\';
      utf8_append(text_, character);
      is_latin1_ = is_latin1_ && character <= 0xff;
    }
  }
  text_ += quote;
}

void Description::print_shape(std::span<const uint64_t> shape) {
  text_ += '(';
  for (size_t i = 0; i < shape.size(); ++i) text_ += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  text_ += shape.size() == 1 ? ",)" : ")";
}

bool is_padding(const TypeMember& member) {
  if (member.type.kind != TypeKind::raw || !member.shape.empty()) return false;
  if (member.name.empty()) return true;
  const std::string_view name = member.name;
  return name.starts_with("__pad") && name.size() > 5 && name.find_first_not_of("0123456789", 5) == name.npos;
}

void Description::print(const DataType& type) {
  if (type.kind != TypeKind::structured) {
    raw("'");
    raw(print_dtype(type).get_ref<const std::string&>());
    return raw("'");
  }
  if (std::ranges::all_of(type.members, is_padding)) return raw(fmt::format("'|V{}'", type.size));
  raw("[");
  const char* separator = "";
  for (const TypeMember& member : type.members) {
    raw(std::exchange(separator, ", "));
    raw("(");
    print_name(is_padding(member) ? "" : std::string_view(member.name));
    raw(", ");
    print(member.type);
    if (!member.shape.empty()) {
      raw(", ");
      print_shape(member.shape);
    }
    raw(")");
  }
  raw("]");
}

std::string to_latin1(std::string_view text) {
  std::string latin1;
  for (; !text.empty(); text.remove_prefix(utf8_length(text))) latin1 += static_cast<char>(utf8_decode(text));
  return latin1;
}

/// `text` must be encoded already.
std::string wrap(char version, std::string text) {
  const size_t length_bytes = version == 1 ? 2 : 4;
  const size_t before = kMagic.size() + 2 + length_bytes;
  text.append(kAlignment - (before + text.size() + 1) % kAlignment, ' ');
  text += '\n';
  std::string header(kMagic);
  header += version;
  header += '\0';
  for (size_t i = 0; i < length_bytes; ++i) header += static_cast<char>(text.size() >> 8 * i & 0xff);
  return header + text;
}

}  // namespace

Result<std::string> npy_header(const DataType& type, std::span<const uint64_t> shape) {
  if (type.kind == TypeKind::object)
    return fail(EOPNOTSUPP, "its elements have no fixed size, so numpy cannot map them");
  if (type.size == 0) return fail(EOPNOTSUPP, "its elements have no bytes, and numpy would read them as one each");
  Description description;
  description.raw("{'descr': ");
  description.print(type);
  description.raw(", 'fortran_order': False, 'shape': ");
  description.print_shape(shape);
  description.raw(", }");
  if (!shape.empty()) {
    const size_t digits = fmt::formatted_size("{}", shape[0]);
    description.raw(std::string(kGrowthDigits - std::min(digits, kGrowthDigits), ' '));
  }
  if (!description.is_latin1()) return wrap(3, description.text());
  std::string text = to_latin1(description.text());
  std::string header = wrap(1, text);
  if (header.size() - (kMagic.size() + 4) <= kMaxShortText) return header;  // including the padding
  return wrap(2, std::move(text));
}

}  // namespace codecfs
