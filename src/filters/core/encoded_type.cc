#include "filters/core/encoded_type.h"

#include <algorithm>
#include <array>
#include <utility>

#include "filters/core/codec_fields.h"
#include "filters/core/codec_json.h"
#include "filters/core/pipeline.h"
#include "model/json.h"
#include "model/small_float.h"
#include "model/zarr3_type.h"

namespace codecfs::filters {
namespace {

/// Codecs of numcodecs that treat each element alone.
constexpr std::array<std::string_view, 4> kOfNumbers = {"astype", "bitround", "fixedscaleoffset", "quantize"};
/// Codecs of numcodecs that name the encoded type, and the members that do so: the first that is there.
constexpr std::array<std::string_view, 4> kRetyping = {"astype", "delta", "fixedscaleoffset", "quantize"};
constexpr std::array<const char*, 3> kTypeKeys = {"encode_dtype", "astype", "dtype"};

/// Encodes one element with one stage, or decodes it. `type`: of the decoded element.
Result<std::vector<std::byte>> convert_one(const FilterStage& stage, const ElementType& element_type, Bytes element,
                                           bool is_decoding) {
  const auto& [type, name] = element_type;
  const ChunkShape chunk{.bytes = type.size, .type = type, .shape = {1}, .chunks = {1}, .type_name = name};
  CODECFS_ASSIGN(const Pipeline pipeline, Pipeline::make(std::span(&stage, 1), chunk));
  Buffer result;
  if (is_decoding) {
    CODECFS_ASSIGN(Buffer copy, Buffer::copy_of(element));
    CODECFS_ASSIGN(result, pipeline.decode(std::move(copy)));
  } else {
    CODECFS_ASSIGN(EncodedChunk encoded, pipeline.encode(element));
    result = std::move(encoded.bytes);
  }
  return std::vector<std::byte>(result.bytes().begin(), result.bytes().end());
}

}  // namespace

Result<ElementType> cast_type(const Json& codec, const DataType& from) {
  const auto given = codec.is_object() ? codec.find("data_type") : codec.end();
  if (!codec.is_object() || given == codec.end()) return fail(EINVAL, "\"data_type\" is missing");
  Result<Zarr3Type> parsed = parse_zarr3_type(*given);
  if (!parsed) return fail(EINVAL, "{}", parsed.error().reason);
  DataType type = std::move(parsed->type);
  const bool is_number =
      type.kind == TypeKind::signed_int || type.kind == TypeKind::unsigned_int || type.kind == TypeKind::floating;
  if (!is_number && small_float_named(parsed->name) == nullptr)
    return fail(EINVAL, "\"data_type\": {} is no real number, as cast_value makes them", print_json(*given));
  CODECFS_ASSIGN(const std::string endian, text_field(codec, "endian", ""));
  ByteOrder order = from.order == ByteOrder::none ? ByteOrder::little : from.order;
  if (endian == "big") order = ByteOrder::big;
  if (endian == "little") order = ByteOrder::little;
  return ElementType{with_byte_order(std::move(type), order), std::move(parsed->name)};
}

ElementType encoded_type(const FilterStage& stage, ElementType type) {
  const std::string_view id = codec_id(stage);
  if (id == kCastValue) return cast_type(stage.codec, type.type).value_or(type);
  if (std::ranges::find(kRetyping, id) == kRetyping.end()) return type;
  for (const char* const key : kTypeKeys)
    if (const auto named = dtype_field(stage.codec, key); named && *named) return {**named, {}};
  return type;
}

ElementType encoded_type(std::span<const FilterStage> stages, ElementType type) {
  for (const FilterStage& stage : stages) type = encoded_type(stage, std::move(type));
  return type;
}

std::optional<ByteOrder> decoded_order(const FilterStage& stage) {
  if (std::ranges::find(kRetyping, codec_id(stage)) == kRetyping.end()) return std::nullopt;
  for (const char* const key : {"decode_dtype", "dtype"})
    if (const auto named = dtype_field(stage.codec, key); named && *named)
      return (*named)->order == ByteOrder::none ? std::nullopt : std::optional((*named)->order);
  return std::nullopt;
}

bool decodes_to(const FilterStage& stage, const DataType& type) {
  if (std::ranges::find(kRetyping, codec_id(stage)) == kRetyping.end()) return true;
  for (const char* const key : {"decode_dtype", "dtype"})
    if (const auto named = dtype_field(stage.codec, key); named && *named)
      return with_byte_order(**named, type.order) == type;
  return true;
}

ChunkShape retyped(ChunkShape chunk, const DataType& type, std::string name) {
  if (chunk.bytes && chunk.type.size > 0) *chunk.bytes = *chunk.bytes / chunk.type.size * type.size;
  chunk.type = type;
  chunk.type_name = std::move(name);
  return chunk;
}

Result<> check_fill(std::span<const FilterStage> stages, const Variable& variable) {
  ElementType type{variable.type, variable.zarr3_type};
  std::vector<std::byte> fill = variable.fill;
  if (fill.empty()) fill.resize(type.type.size);
  for (const FilterStage& stage : stages) {
    const std::string_view id = codec_id(stage);
    if (id == kReshape) continue;
    const bool is_number = std::ranges::find(kOfNumbers, id) != kOfNumbers.end();
    if (id != kCastValue && id != kScaleOffset && !is_number) return {};
    auto encoded = convert_one(stage, type, fill, false);
    if (!encoded && is_number) return {};
    if (!encoded) return fail(EINVAL, "the fill value: {}", encoded.error().reason);
    if (id == kCastValue) {
      const auto decoded = convert_one(stage, type, *encoded, true);
      if (!decoded) return fail(EINVAL, "the fill value: {}", decoded.error().reason);
      const Zarr3Type shown{type.type, {}, type.name};
      const Json before = zarr3_fill_json(shown, fill);
      const Json after = zarr3_fill_json(shown, *decoded);
      if (print_json(before) != print_json(after))
        return fail(EINVAL, "the codec {} changes the fill value {} to {}", print_json(stage.codec), print_json(before),
                    print_json(after));
    }
    type = encoded_type(stage, std::move(type));
    fill = *std::move(encoded);
  }
  return {};
}

}  // namespace codecfs::filters
