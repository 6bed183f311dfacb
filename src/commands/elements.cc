#include "commands/elements.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/endian.h"
#include "base/terminal_text.h"
#include "base/utf8.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr size_t kMaxColumns = 80;
constexpr size_t kMaxBytes = 40;
constexpr size_t kLengthBytes = 4;

void reverse_each(MutableBytes bytes, size_t size) {
  for (size_t at = 0; at + size <= bytes.size(); at += size) std::reverse(&bytes[at], &bytes[at] + size);
}

/// Converts elements of this type in place.
void make_little_endian(const DataType& type, MutableBytes bytes) {
  if (type.kind == TypeKind::structured) {
    for (uint64_t at = 0; at + type.size <= bytes.size(); at += type.size) {
      uint64_t offset = at;
      for (const TypeMember& member : type.members) {
        make_little_endian(member.type, bytes.subspan(offset, member.size()));
        offset += member.size();
      }
    }
    return;
  }
  if (type.order != ByteOrder::big || type.size == 0) return;
  if (type.kind == TypeKind::unicode) return reverse_each(bytes, 4);
  reverse_each(bytes, type.kind == TypeKind::complex ? type.size / 2 : type.size);
}

/// Splits a chunk of items of variable length: LE32 count, then LE32 length and bytes of each. EIO.
Result<std::vector<Bytes>> split_items(Bytes chunk, uint64_t count) {
  const auto damaged = [] { return fail(EIO, "the items of a chunk do not fill it"); };
  if (chunk.size() < kLengthBytes || load_le<uint32_t>(chunk.data()) != count) return damaged();
  std::vector<Bytes> items;
  size_t at = kLengthBytes;
  for (uint64_t i = 0; i < count; ++i) {
    if (chunk.size() - at < kLengthBytes) return damaged();
    const size_t length = load_le<uint32_t>(&chunk[at]);
    at += kLengthBytes;
    if (chunk.size() - at < length) return damaged();
    items.push_back(chunk.subspan(at, length));
    at += length;
  }
  return items;
}

std::string hexadecimal(Bytes bytes) {
  std::string text = "0x";
  for (const std::byte byte : bytes.first(std::min(bytes.size(), kMaxBytes)))
    text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return bytes.size() > kMaxBytes ? text + "…" : text;
}

std::string quoted(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), 4 * kMaxColumns));
  return "\"" + cut_to(printable(text), kMaxColumns) + "\"";
}

/// An element of a type in little-endian order.
std::string value_text(const DataType& type, Bytes element) {
  switch (type.kind) {
    case TypeKind::structured: {
      std::string text;
      size_t offset = 0;
      for (const TypeMember& member : type.members) {
        if (text.size() > 4 * kMaxColumns) break;
        std::string values;
        for (size_t at = 0; at + member.type.size <= member.size() && member.type.size > 0; at += member.type.size) {
          if (values.size() > kMaxColumns) break;
          values +=
              (values.empty() ? "" : ", ") + value_text(member.type, element.subspan(offset + at, member.type.size));
        }
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", printable(member.name),
                            member.shape.empty() ? values : "[" + values + "]");
        offset += member.size();
      }
      return "{" + text + "}";
    }
    case TypeKind::string: {
      while (!element.empty() && element.back() == std::byte{}) element = element.first(element.size() - 1);
      return quoted(element);
    }
    case TypeKind::raw: return hexadecimal(element);
    default: {
      DataType little = type;
      if (little.order == ByteOrder::big) little.order = ByteOrder::little;
      const Json value = fill_json(little, element);
      if (!value.is_string()) return print_json(value);
      const auto& text = value.get_ref<const std::string&>();
      if (type.kind != TypeKind::unicode) return text;  // NaN
      return quoted(std::as_bytes(std::span(text)));
    }
  }
}

}  // namespace

bool has_comparable_elements(const Variable& variable) {
  if (variable.type.kind != TypeKind::object) return true;
  const Json& codec = variable.object_codec;
  if (!codec.is_object() || !codec.contains("id") || !codec["id"].is_string()) return false;
  const auto& id = codec["id"].get_ref<const std::string&>();
  return id == "vlen-utf8" || id == "vlen-bytes" || id == "vlen-array";
}

Result<Elements> elements_of_chunk(const Variable& variable, Buffer chunk, uint64_t count) {
  Elements elements{.bytes = std::move(chunk), .items = {}};
  if (variable.type.kind == TypeKind::object) {
    CODECFS_ASSIGN(elements.items, split_items(elements.bytes.bytes(), count));
  } else {
    if (elements.bytes.size() / std::max<uint64_t>(variable.type.size, 1) < count)
      return fail(EIO, "a chunk has fewer than {} elements", count);
    make_little_endian(variable.type, elements.bytes.mutable_bytes());
  }
  return elements;
}

std::vector<std::byte> fill_element(const Variable& variable) {
  std::vector<std::byte> fill = variable.fill;
  if (variable.type.kind == TypeKind::object) {
    fill.erase(fill.begin(), fill.begin() + static_cast<std::ptrdiff_t>(std::min(fill.size(), kLengthBytes)));
    return fill;
  }
  fill.resize(variable.type.size);  // empty: zeros
  make_little_endian(variable.type, fill);
  return fill;
}

bool has_texts(const Variable& variable) {
  const TypeKind kind = variable.type.kind;
  if (kind != TypeKind::object) return kind == TypeKind::string || kind == TypeKind::unicode;
  const Json& codec = variable.object_codec;
  return codec.is_object() && codec.value("id", "") == "vlen-utf8";
}

Result<Elements> as_texts(const Variable& variable, Elements elements) {
  if (variable.type.kind == TypeKind::object) return elements;
  const size_t size = variable.type.size;
  const bool is_unicode = variable.type.kind == TypeKind::unicode;
  std::string all;
  std::vector<size_t> ends;
  for (size_t at = 0; size > 0 && at + size <= elements.bytes.size(); at += size) {
    const Bytes element = elements.bytes.bytes().subspan(at, size);
    const size_t begin = all.size();
    if (is_unicode) {
      for (size_t i = 0; i + sizeof(uint32_t) <= size; i += sizeof(uint32_t))
        utf8_append(all, load_le<uint32_t>(&element[i]));
    } else {
      all.append(reinterpret_cast<const char*>(element.data()), size);
    }
    while (all.size() > begin && all.back() == '\0') all.pop_back();
    ends.push_back(all.size());
  }
  Elements texts;
  CODECFS_ASSIGN(texts.bytes, Buffer::copy_of(std::as_bytes(std::span(all))));
  size_t begin = 0;
  for (const size_t end : ends) {
    texts.items.push_back(texts.bytes.bytes().subspan(begin, end - begin));
    begin = end;
  }
  return texts;
}

std::string text_for_people(Bytes text) { return quoted(text); }

std::string element_text(const Variable& variable, Bytes element) {
  if (variable.type.kind != TypeKind::object) return cut_to(value_text(variable.type, element), kMaxColumns);
  const Json& codec = variable.object_codec;
  const bool is_text = codec.is_object() && codec.value("id", "") == "vlen-utf8";
  return is_text ? quoted(element) : hexadecimal(element);
}

}  // namespace codecfs::commands
