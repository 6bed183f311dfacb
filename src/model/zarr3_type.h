#pragma once
// The data types and fill values of Zarr v3 metadata. Sources: Zarr v3 core specification, "Data types" and "Fill
// value"; zarr-extensions, "data-types".
//
// A type that numpy lacks has a DataType of the same bytes, and its name in Zarr3Type::name:
//
//   bfloat16, float8_*, complex_float16, ...   raw
//   int2, int4, uint2, uint4                   int8, uint8 (one byte per element, as the codec `bytes` stores them)
//
// A compound type has two forms. The registry demands the second one of writers, but zarr-python reads it since 3.2
// only, which needs Python 3.12; it and tensorstore read the first one too. So types that a source of another format
// has are printed in the first form, and those of Zarr v3 in their own.
//
//   {"name": "structured", "configuration": {"fields": [["a", "int16"]]}}                           fill value: base64
//   {"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "int16"}]}}          fill value: object
//
// Readers do not agree on the byte order of a fill value in base64, so big-endian compounds have the second form.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/data_type.h"
#include "model/json_value.h"

namespace codecfs {

struct Zarr3Type {
  DataType type;           // little-endian where a byte order applies; kind object for variable length
  JsonValue object_codec;  // for variable length: {"id": "vlen-utf8"} or {"id": "vlen-bytes"}; else null
  std::string name;        // of a type that numpy lacks; else empty
  bool is_struct = false;  // a compound in the form "struct"
};

/// "data_type" of a zarr.json. EINVAL if it is not a valid name or extension object, is nested deeper than 32, or an
/// element exceeds 1 GiB; EOPNOTSUPP if it is not known.
Result<Zarr3Type> parse_zarr3_type(const Json& data_type);
/// The data_type for elements of this type. `object_codec`: Variable::object_codec; `is_struct`: of Zarr3Type.
/// EOPNOTSUPP with the reason if Zarr v3 has none: members of different byte orders or with a shape, longdouble, other
/// object codecs.
Result<Json> print_zarr3_type(const DataType& type, const Json& object_codec, bool is_struct = false);

/// "fill_value" as the bytes of one element in the type's byte order, and back. Of a type of variable length, as the
/// object codec stores an element (LE32 length and bytes). EINVAL.
Result<std::vector<std::byte>> zarr3_fill_bytes(const Zarr3Type& type, const Json& fill_value);
Json zarr3_fill_json(const Zarr3Type& type, std::span<const std::byte> element);

/// A real number in JSON: a number, "NaN", "Infinity" or "-Infinity". None for other values.
std::optional<double> zarr3_number(const Json& value);

/// The byte order that applies to all parts of a type: none if there is no part with a byte order; nullopt if they
/// differ, which the codec `bytes` cannot represent.
std::optional<ByteOrder> common_byte_order(const DataType& type);
/// The type with this byte order in all parts that have one.
DataType with_byte_order(DataType type, ByteOrder order);

}  // namespace codecfs
