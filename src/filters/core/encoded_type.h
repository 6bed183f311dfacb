#pragma once
// What codecs that map arrays to arrays make of the type of elements, and of the fill value. Sources: zarr-extensions,
// "cast_value" and "scale_offset".

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "filters/core/filter.h"
#include "model/data_type.h"
#include "model/json_value.h"
#include "model/variable.h"

namespace codecfs::filters {

inline constexpr std::string_view kCastValue = "zarr3:cast_value";
inline constexpr std::string_view kScaleOffset = "zarr3:scale_offset";
inline constexpr std::string_view kReshape = "zarr3:reshape";
inline constexpr std::string_view kPackbits = "zarr3:packbits";

/// The type of elements.
struct ElementType {
  DataType type;
  std::string name;  // Variable::zarr3_type
  bool operator==(const ElementType&) const = default;
};

/// The encoded type of a codec cast_value that is applied to elements of type `from`. Its byte order, if it has one, is
/// the member "endian" of the stage's JSON, which Zarr v3 states in the codec `bytes`; else that of `from`, else
/// little. EINVAL for a data type that is not a real number.
Result<ElementType> cast_type(const Json& codec, const DataType& from);

/// The type of the elements behind a stage, or behind stages. A stage that does not say leaves it unchanged.
ElementType encoded_type(const FilterStage& stage, ElementType type);
ElementType encoded_type(std::span<const FilterStage> stages, ElementType type);

/// The byte order of the elements that a stage decodes to, if its codec names their type and that has one.
std::optional<ByteOrder> decoded_order(const FilterStage& stage);
/// Whether a stage decodes to elements of this type, in whatever byte order. Always, where its codec names no type.
bool decodes_to(const FilterStage& stage, const DataType& type);

/// The chunk with elements of another type. `name`: Variable::zarr3_type.
ChunkShape retyped(ChunkShape chunk, const DataType& type, std::string name = {});

/// EINVAL if cast_value or scale_offset cannot encode the fill value of the variable, or cast_value does not decode it
/// to itself: readers of Zarr v3 refuse such an array.
Result<> check_fill(std::span<const FilterStage> stages, const Variable& variable);

}  // namespace codecfs::filters
