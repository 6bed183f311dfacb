#pragma once
// The type of an array's elements, as Zarr v2 (and so numpy) names it. Source: Zarr v2 specification, "Data type
// encoding"; numpy's array interface ("typestr").

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/json_value.h"

namespace codecfs {

enum class TypeKind : char {
  boolean = 'b',
  signed_int = 'i',
  unsigned_int = 'u',
  floating = 'f',
  complex = 'c',
  timedelta = 'm',
  datetime = 'M',
  string = 'S',   // bytes of fixed length, NUL padded
  unicode = 'U',  // UCS-4 of fixed length
  raw = 'V',      // opaque
  structured = 'r',
  object = 'O',  // variable length: an object codec such as vlen-utf8 defines the bytes of a chunk
};

enum class ByteOrder : char { little = '<', big = '>', none = '|' };

struct TypeMember;

struct DataType {
  TypeKind kind = TypeKind::raw;
  ByteOrder order = ByteOrder::none;  // none if it does not apply (one byte, raw, string, structured)
  uint64_t size = 0;                  // bytes of one element; 0 for object
  std::string unit;                   // of timedelta and datetime: "ns", "25s"
  std::vector<TypeMember> members;    // of structured, in order of their offsets, without gaps

  bool operator==(const DataType&) const = default;
};

struct TypeMember {
  std::string name;
  DataType type;
  std::vector<uint64_t> shape;  // empty for a single value

  /// Bytes that the member takes.
  [[nodiscard]] uint64_t size() const;
  bool operator==(const TypeMember&) const = default;
};

/// Parses the "dtype" of a .zarray: a string, or for a structured type a list of [name, dtype] and [name, dtype,
/// shape]. EINVAL if it is not a numpy type, is nested deeper than 32, or an element exceeds 1 GiB.
Result<DataType> parse_dtype(const Json& dtype);
/// The inverse of parse_dtype().
Json print_dtype(const DataType& type);

/// Convert a .zarray "fill_value" to the bytes of one element (type.size bytes in the type's byte order), and back.
/// Source: Zarr v2 specification, "Fill value encoding": numbers, true/false, "NaN", "Infinity", "-Infinity", complex
/// as a pair; base64 for string (also plain text, as NCZarr writes it), raw and structured; 0 for any of these means
/// zeros. EINVAL for null and for object types.
Result<std::vector<std::byte>> fill_bytes(const DataType& type, const Json& fill_value);
Json fill_json(const DataType& type, std::span<const std::byte> element);

}  // namespace codecfs
