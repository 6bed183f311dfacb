#pragma once
// Attributes in JSON with numbers that it lacks: NaN and the infinities. They are written as the texts "NaN",
// "Infinity" and "-Infinity", and beside them is noted which attributes are numbers all the same:
//
//   .zattrs     "_nczarr_attr": {"types": {"valid_range": "<f4"}}    which netCDF-C has since 4.9.1, and xarray hides
//   zarr.json   "_FloatAttributes": ["valid_range"]                  a form that xarray can write to other files
//
// _FillValue is not noted where the elements are floats. In an attribute that is an object, or a list of texts and
// numbers, such numbers become texts.

#include <span>

#include "model/json.h"
#include "model/variable.h"

namespace codecfs {

/// The attribute of a zarr.json that names attributes which are numbers.
inline constexpr const char* kFloatAttributes = "_FloatAttributes";

/// Whether JSON lacks a number in the value.
bool has_special_numbers(const Json& value);
/// The value with texts for numbers that JSON lacks.
Json with_named_numbers(Json value);
/// The value of an attribute with numbers for these texts, also in lists.
Json with_parsed_numbers(Json value);
/// Whether two values print the same once they have texts for numbers that JSON lacks.
bool is_same_text(const Json& one, const Json& other);

/// Whether _FillValue is a float in an array of this type.
bool has_float_fill(const DataType& type);
/// Names and notes the numbers in an object of attributes, the .zattrs of an array of this type or of a group.
/// `attributes`: may have their types.
void name_numbers(Json& zattrs, std::span<const Attribute> attributes = {}, const DataType* type = nullptr);
/// The same for "attributes" of a zarr.json.
void name_zarr3_numbers(Json& attributes);
/// The inverse; removes the note.
void parse_zarr3_numbers(Json& attributes);

}  // namespace codecfs
