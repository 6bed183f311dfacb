#pragma once
// How variables are sent between processes (base/rpc/message.h).

#include <tuple>

#include "base/rpc/message.h"
#include "model/chunk_grid.h"
#include "model/data_type.h"
#include "model/ended_strings.h"
#include "model/json_value.h"
#include "model/variable.h"

namespace codecfs {

/// JSON as CBOR, because JSON text has no NaN and no text that is not UTF-8.
template <>
struct rpc::Form<JsonValue> {
  static void put(Encoder& out, const JsonValue& value);
  static void get(Decoder& in, JsonValue& value);
};
template <>
struct rpc::Form<ChunkGrid> {
  static void put(Encoder& out, const ChunkGrid& grid);
  static void get(Decoder& in, ChunkGrid& grid);
};

template <>
inline constexpr auto rpc::fields<TypeMember> = [](auto& it) { return std::tie(it.name, it.type, it.shape); };
template <>
inline constexpr auto rpc::fields<DataType> =
    [](auto& it) { return std::tie(it.kind, it.order, it.size, it.unit, it.members); };
template <>
inline constexpr auto rpc::fields<EndedString> = [](auto& it) { return std::tie(it.offset, it.size); };
template <>
inline constexpr auto rpc::fields<Attribute> =
    [](auto& it) { return std::tie(it.name, it.value, it.type, it.stored_type); };
template <>
inline constexpr auto rpc::fields<LeftOutAttribute> = [](auto& it) { return std::tie(it.name, it.error); };
template <>
inline constexpr auto rpc::fields<FilterStage> = [](auto& it) {
  return std::tie(it.id, it.parameters, it.codec, it.name, it.optional, it.has_flag, it.is_complete);
};
/// The members of a variable that a source of HDF5 sets.
template <>
inline constexpr auto rpc::fields<Variable> = [](auto& it) {
  return std::tie(it.type, it.type_text, it.zarr3_type, it.stored_type, it.grid, it.storage, it.max_shape,
                  it.chunk_bytes, it.fill_value, it.fill, it.is_fill_undefined, it.is_fill_unmarked, it.object_codec,
                  it.filters, it.attributes, it.left_out_attributes, it.dimensions, it.ended_strings, it.unreadable,
                  it.unreadable_attributes);
};
template <>
inline constexpr auto rpc::is_valid<Storage> = [](Storage storage) { return storage <= Storage::virtual_sources; };
template <>
inline constexpr auto rpc::is_valid<Variable> = [](const Variable& variable) {
  const uint64_t element = variable.type.size;
  for (const EndedString& string : variable.ended_strings)
    if (string.offset > element || string.size > element - string.offset) return false;
  return true;
};
template <>
inline constexpr auto rpc::is_valid<Result<VariablePtr>> =
    [](const Result<VariablePtr>& result) { return !result || *result != nullptr; };

}  // namespace codecfs
