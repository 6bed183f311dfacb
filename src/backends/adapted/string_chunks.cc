// vlen-utf8: LE32 number of elements, then for each its LE32 length and its bytes. Source: numcodecs, "vlen".
// <U: code points in 4 bytes each, padded with 0.

#include "backends/adapted/string_chunks.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "base/endian.h"
#include "base/utf8.h"
#include "model/json.h"

namespace codecfs::adapted {
namespace {

bool is_vlen(const Variable& variable) { return variable.type.kind == TypeKind::object; }

std::unexpected<Error> damaged(uint64_t elements) { return fail(EIO, "this is no chunk of {} strings", elements); }

template <class With>
Result<> each_vlen(Bytes chunk, uint64_t elements, With with) {
  if (chunk.size() < 4 || load_le<uint32_t>(chunk.data()) != elements) return damaged(elements);
  size_t at = 4;
  for (uint64_t i = 0; i < elements; ++i) {
    if (chunk.size() - at < 4) return damaged(elements);
    const uint32_t size = load_le<uint32_t>(chunk.data() + at);
    at += 4;
    if (chunk.size() - at < size) return damaged(elements);
    const std::string_view text(reinterpret_cast<const char*>(chunk.data()) + at, size);
    CODECFS_TRY(with(i, text));
    at += size;
  }
  return {};
}

template <class With>
Result<> each_utf32(const DataType& type, Bytes chunk, uint64_t elements, With with) {
  if (type.size == 0 || chunk.size() / type.size != elements) return damaged(elements);
  std::string text;
  for (uint64_t i = 0; i < elements; ++i) {
    const Bytes element = chunk.subspan(i * type.size, type.size);
    const auto code_point = [&](size_t at) {
      return type.order == ByteOrder::big ? load_be<uint32_t>(&element[at]) : load_le<uint32_t>(&element[at]);
    };
    size_t used = element.size();
    while (used > 0 && code_point(used - 4) == 0) used -= 4;
    text.clear();
    for (size_t at = 0; at < used; at += 4) {
      const uint32_t point = code_point(at);
      if (point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF))
        return fail(EIO, "string {} of the chunk has a code point that Unicode lacks, {:#x}", i, point);
      utf8_append(text, point);
    }
    CODECFS_TRY(with(i, std::string_view(text)));
  }
  return {};
}

/// Calls `with` (number, text) for each string of a chunk. EIO if the chunk has another number of strings.
template <class With>
Result<> each_string(const Variable& variable, Bytes chunk, uint64_t elements, With with) {
  return is_vlen(variable) ? each_vlen(chunk, elements, with) : each_utf32(variable.type, chunk, elements, with);
}

}  // namespace

bool has_strings(const Variable& variable) {
  if (variable.type.kind == TypeKind::unicode) return variable.type.size > 0;
  const Json& codec = variable.object_codec;
  return is_vlen(variable) && codec.is_object() && codec.value("id", "") == "vlen-utf8";
}

Result<uint64_t> longest_string(const Variable& variable, Bytes chunk, uint64_t elements) {
  uint64_t longest = 0;
  CODECFS_TRY(each_string(variable, chunk, elements, [&](uint64_t, std::string_view text) {
    longest = std::max<uint64_t>(longest, text.size());
    return Result<>();
  }));
  return longest;
}

Result<Buffer> fixed_strings(const Variable& variable, Bytes chunk, uint64_t elements, uint64_t length) {
  uint64_t size = 0;
  if (__builtin_mul_overflow(elements, length, &size)) return fail(ENOMEM, "{} strings of {} bytes", elements, length);
  CODECFS_ASSIGN(Buffer fixed, Buffer::allocate(size));
  CODECFS_TRY(each_string(variable, chunk, elements, [&](uint64_t i, std::string_view text) -> Result<> {
    if (text.size() > length)
      return fail(EIO, "string {} of the chunk has {} bytes, and is longer than the {} that the array is shown with", i,
                  text.size(), length);
    if (text.ends_with('\0'))
      return fail(EIO, "string {} of the chunk ends with NUL, which a string of fixed length cannot (-o strings=vlen)",
                  i);
    std::byte* const to = fixed.data() + i * length;
    std::memcpy(to, text.data(), text.size());
    std::memset(to + text.size(), 0, length - text.size());
    return {};
  }));
  return fixed;
}

Result<Buffer> vlen_strings(const Variable& variable, Bytes chunk, uint64_t elements) {
  uint64_t size = sizeof(uint32_t);
  CODECFS_TRY(each_string(variable, chunk, elements, [&](uint64_t, std::string_view text) {
    size += sizeof(uint32_t) + text.size();
    return Result<>();
  }));
  if (elements > UINT32_MAX) return fail(EFBIG, "a chunk of {} strings", elements);
  CODECFS_ASSIGN(Buffer strings, Buffer::allocate(size));
  std::byte* to = strings.data();
  store_le(to, static_cast<uint32_t>(elements));
  to += sizeof(uint32_t);
  CODECFS_TRY(each_string(variable, chunk, elements, [&](uint64_t, std::string_view text) {
    store_le(to, static_cast<uint32_t>(text.size()));  // of an element of at most 1 GiB
    std::ranges::copy(std::as_bytes(std::span(text)), to + sizeof(uint32_t));
    to += sizeof(uint32_t) + text.size();
    return Result<>();
  }));
  return strings;
}

}  // namespace codecfs::adapted
