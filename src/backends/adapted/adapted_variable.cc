#include "backends/adapted/adapted_variable.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "backends/adapted/leading_part.h"
#include "backends/adapted/string_chunks.h"
#include "backends/api/names.h"
#include "model/float_attributes.h"
#include "model/json.h"
#include "model/limits.h"

namespace codecfs::adapted {
namespace {

bool has_items(const Variable& variable) {
  const Json& codec = variable.object_codec;
  const std::string id = codec.is_object() ? codec.value("id", "") : "";
  return id == "vlen-utf8" || id == "vlen-bytes" || id == "vlen-array";
}

/// Lengths of chunks that exceed the array would make netCDF-C refuse it.
std::vector<uint64_t> clamped_chunks(const Variable& stored) {
  std::vector<uint64_t> chunks = stored.grid.chunks();
  if (stored.type.kind == TypeKind::object && !has_items(stored)) return chunks;
  for (size_t axis = 0; axis < chunks.size(); ++axis)
    chunks[axis] = std::min(chunks[axis], std::max<uint64_t>(stored.grid.shape()[axis], 1));
  return chunks;
}

/// The fill of strings, which an empty vector is too.
Result<std::vector<std::byte>> fixed_fill(const Variable& stored, uint64_t length) {
  std::vector<std::byte> fill(length);
  if (stored.fill.empty()) return fill;
  Variable one = stored;
  Buffer chunk;
  CODECFS_ASSIGN(one.grid, ChunkGrid::make({}, {}));
  CODECFS_ASSIGN(chunk, make_fill_chunk(one));
  CODECFS_ASSIGN(const Buffer fixed, fixed_strings(one, chunk.bytes(), 1, length));
  std::ranges::copy(fixed.bytes(), fill.begin());
  return fill;
}

Result<> show_fixed(Variable& shown, const Variable& stored, uint64_t length) {
  shown.type = {TypeKind::string, ByteOrder::none, length, {}, {}};
  shown.zarr3_type.clear();
  shown.object_codec = Json();
  shown.fill.assign(length, std::byte{0});
  CODECFS_ASSIGN(shown.fill, fixed_fill(stored, length));
  if (!shown.fill_value.is_null()) shown.fill_value = fill_json(shown.type, shown.fill);
  return {};
}

Result<> show_vlen(Variable& shown, const Variable& stored) {
  shown.type = {TypeKind::object, ByteOrder::none, 0, {}, {}};
  shown.zarr3_type.clear();
  shown.object_codec = Json{{"id", "vlen-utf8"}};
  std::vector<std::byte> zeros(stored.type.size);
  constexpr size_t kCount = sizeof(uint32_t);  // before the element itself
  CODECFS_ASSIGN(const Buffer fill, vlen_strings(stored, stored.fill.empty() ? Bytes(zeros) : Bytes(stored.fill), 1));
  shown.fill.assign(fill.bytes().begin() + kCount, fill.bytes().end());
  if (!shown.fill_value.is_null())
    shown.fill_value = Json(std::string(reinterpret_cast<const char*>(fill.data()) + kCount + sizeof(uint32_t),
                                        fill.size() - kCount - sizeof(uint32_t)));
  return {};
}

/// One dimension more, except for single bytes.
Result<> show_bytes(Variable& shown, bool is_converted) {
  const uint64_t length = shown.type.size;
  shown.type = {TypeKind::unsigned_int, ByteOrder::none, 1, {}, {}};
  shown.zarr3_type.clear();
  shown.fill.assign(1, shown.fill.size() == 1 ? shown.fill[0] : std::byte{0});
  if (!shown.fill_value.is_null()) shown.fill_value = std::to_integer<unsigned>(shown.fill[0]);
  if (length == 1 && !is_converted) return {};
  std::vector<uint64_t> shape = shown.grid.shape();
  std::vector<uint64_t> chunks = shown.grid.chunks();
  shape.push_back(length);
  chunks.push_back(length);
  if (!shown.max_shape.empty() || shown.grid.rank() == 0) shown.max_shape.emplace_back(length);
  CODECFS_ASSIGN(shown.grid, ChunkGrid::make(std::move(shape), std::move(chunks)));
  return {};
}

bool is_big_endian_number(const DataType& type) {
  const bool is_number =
      type.kind == TypeKind::signed_int || type.kind == TypeKind::unsigned_int || type.kind == TypeKind::floating;
  return is_number && type.order == ByteOrder::big && type.size > 1;
}

/// An array of one element: its chunk has the name and the bytes of that of the scalar.
Result<> show_scalar(Variable& shown) {
  CODECFS_ASSIGN(shown.grid, ChunkGrid::make({1}, {1}));
  if (!shown.max_shape.empty()) shown.max_shape = {uint64_t{1}};
  return {};
}

/// netCDF-C 4.9 gives a list the type of its first number, the smallest integer type that has it, and cuts or refuses
/// the others.
bool have_type_of_first(const Json& list) {
  if (!list.is_array() || list.empty()) return false;
  if (list[0].is_number_float()) return std::ranges::all_of(list, [](const Json& one) { return one.is_number(); });
  // Without the sign: -1 and 0 have none.
  const auto bits = [](const Json& one) {
    if (one.is_number_unsigned()) return static_cast<int>(std::bit_width(one.get<uint64_t>()));
    const auto number = one.get<int64_t>();
    return static_cast<int>(std::bit_width(static_cast<uint64_t>(number < 0 ? ~number : number)));
  };
  if (!std::ranges::all_of(list, [](const Json& one) { return one.is_number_integer(); })) return false;
  const int first = bits(list[0]);
  if (first == 32 || first == 64) return false;  // of an unsigned type
  const int width = first < 8 ? 8 : first < 16 ? 16 : first < 32 ? 32 : 64;
  return std::ranges::all_of(list, [&](const Json& one) { return bits(one) < width; });
}

/// Numbers that are exact as floating-point numbers.
bool have_floats(const Json& list) {
  constexpr int64_t kExact = int64_t{1} << 53;
  return list.is_array() && !list.empty() && std::ranges::all_of(list, [](const Json& one) {
           if (one.is_number_unsigned()) return one.get<uint64_t>() <= uint64_t{kExact};
           return one.is_number_float() ||
                  (one.is_number_integer() && one.get<int64_t>() >= -kExact && one.get<int64_t>() <= kExact);
         });
}

/// netCDF-C knows \n and the like, and no \u0001.
std::string without_controls(std::string text) {
  std::erase_if(text, [](unsigned char c) {
    return c < 0x20 && std::string_view("\b\f\n\r\t").find(static_cast<char>(c)) == std::string_view::npos;
  });
  return text;
}

Json as_floats(const Json& list) {
  Json floats = Json::array();
  for (const Json& one : list) floats.push_back(one.get<double>());
  return floats;
}

void check_size(Variable& shown) {
  if (shown.type.kind == TypeKind::object) {
    shown.chunk_bytes.reset();
    return;
  }
  const uint64_t elements = shown.grid.elements_per_chunk();
  const bool fits = elements <= max_chunk_bytes() / std::max<uint64_t>(shown.type.size, 1);
  if (!fits && !shown.unreadable)
    shown.unreadable = Error{EFBIG, fmt::format("a chunk of {} elements of {} bytes is larger than {}", elements,
                                                shown.type.size, max_chunk_text())};
  uint64_t bytes = 0;
  shown.chunk_bytes.reset();
  if (!__builtin_mul_overflow(elements, shown.type.size, &bytes)) shown.chunk_bytes = bytes;
}

/// What describes the form, from `stored` with or without its attributes.
void take_form(Variable& variable, const Variable& shown) {
  variable.type = shown.type;
  variable.grid = shown.grid;
  variable.max_shape = shown.max_shape;
  variable.chunk_bytes = shown.chunk_bytes;
  variable.fill_value = shown.fill_value;
  variable.fill = shown.fill;
  variable.object_codec = shown.object_codec;
  variable.filters = shown.filters;
  variable.shards = shown.shards;
  variable.zarr3_type = shown.zarr3_type;
  variable.stored_order = shown.stored_order;
  variable.unreadable = shown.unreadable;
}

}  // namespace

bool needs_length(const Variable& stored, const Adaptation& adaptation) {
  const bool is_fixed = adaptation.strings == StringForm::fixed || adaptation.strings == StringForm::bytes;
  return is_fixed && has_strings(stored);
}

Result<Form> make_form(VariablePtr stored, const Adaptation& adaptation, const Result<uint64_t>& longest) {
  Form form{.stored = stored, .shown = stored, .chunks = stored->grid.chunks()};
  if (adaptation.clamps_chunks) form.chunks = clamped_chunks(*stored);
  const bool is_converted = needs_length(*stored, adaptation);
  const bool shows_bytes =
      adaptation.strings == StringForm::bytes && (is_converted || stored->type.kind == TypeKind::string);
  form.is_vlen =
      adaptation.strings == StringForm::utf8 && stored->type.kind == TypeKind::unicode && has_strings(*stored);
  form.suits_netcdf = adaptation.suits_netcdf;
  const bool shows_scalar = adaptation.suits_netcdf && stored->grid.rank() == 0;
  form.is_swapped = adaptation.suits_netcdf && is_big_endian_number(stored->type);
  if (form.chunks == stored->grid.chunks() && !is_converted && !shows_bytes && !form.is_vlen && !shows_scalar &&
      !form.is_swapped)
    return form;

  auto shown = std::make_shared<Variable>(*stored);
  CODECFS_ASSIGN(shown->grid, ChunkGrid::make(stored->grid.shape(), form.chunks));
  shown->filters.clear();
  shown->shards.reset();
  shown->stored_order.clear();
  if (is_converted) {
    // numpy has no strings of no bytes.
    form.string_length = longest ? std::clamp<uint64_t>(*longest, 1, kMaxElementBytes) : 1;
    if (!longest && !shown->unreadable) shown->unreadable = longest.error();
    if (longest && *longest > kMaxElementBytes && !shown->unreadable)
      shown->unreadable =
          Error{EFBIG, fmt::format("its longest string has {} bytes; -o strings=vlen shows it", *longest)};
    const Result<> is_fixed = show_fixed(*shown, *stored, form.string_length);
    if (!is_fixed && !shown->unreadable) shown->unreadable = is_fixed.error();
  }
  if (form.is_vlen) {
    // Of a file that it cannot write, libhdf5 1.10 does not read chunks that are not stored with the fill of a string.
    form.shows_fill = !is_all_zero(stored->fill);
    CODECFS_TRY(show_vlen(*shown, *stored));
  }
  if (shows_bytes) {
    form.shows_fill = shown->type.size > 1 && !is_all_zero(shown->fill);
    CODECFS_TRY(show_bytes(*shown, is_converted));
    if (shown->grid.rank() > stored->grid.rank()) form.added = fmt::format("string{}", shown->grid.shape().back());
  }
  if (form.is_swapped) {
    shown->type.order = ByteOrder::little;
    std::ranges::reverse(shown->fill);
  }
  if (shows_scalar && shown->grid.rank() == 0) {
    CODECFS_TRY(show_scalar(*shown));
    form.added = "scalar";
  }
  check_size(*shown);
  form.shown = std::move(shown);
  return form;
}

std::string why_not_netcdf(std::string_view name, const Variable& stored, const Adaptation& adaptation) {
  if (!is_netcdf_name(name)) return "has a name that netCDF does not have";
  const std::vector<uint64_t>& shape = stored.grid.shape();
  if (std::ranges::find(shape, 0) != shape.end())
    return "has a dimension of length 0, for which it refuses a whole store";
  if (needs_length(stored, adaptation)) return {};
  switch (stored.type.kind) {
    case TypeKind::signed_int:
    case TypeKind::unsigned_int:
    case TypeKind::string: return {};
    case TypeKind::floating:
      if (stored.type.size == 4 || stored.type.size == 8) return {};
      return fmt::format("has floating-point numbers of {} bytes", stored.type.size);
    default: return "has a type that it does not read of Zarr";
  }
}

std::vector<Attribute> for_netcdf(std::vector<Attribute> attributes) {
  restore_floats(attributes);
  std::erase_if(attributes, [](const Attribute& attribute) {
    return attribute.name.starts_with("_codecfs_") || attribute.name.starts_with("_nczarr_") ||
           attribute.name.starts_with("_NCZARR_") || !is_netcdf_name(attribute.name);
  });
  // Of another form, netCDF-C refuses the variable or its store. NaN needs no mark.
  std::erase_if(attributes, [](Attribute& attribute) {
    if (attribute.name != kFillAttribute) return false;
    if (attribute.value->is_array() && attribute.value->size() == 1) attribute.value = Json((*attribute.value)[0]);
    return !attribute.value->is_number() || !std::isfinite(attribute.value->get<double>());
  });
  for (Attribute& attribute : attributes) {
    if (attribute.value->is_string()) attribute.value = Json(without_controls(attribute.value->get<std::string>()));
    const Json& value = *attribute.value;
    if (value.is_string() || value.is_number() || value.is_boolean()) continue;
    attribute.value = have_type_of_first(value) ? value
                      : have_floats(value)      ? as_floats(value)
                                                : Json(without_controls(print_json(value, -1, JsonText::utf8)));
  }
  return attributes;
}

VariablePtr described(const Form& form, VariablePtr stored) {
  if (form.is_stored_form() && !form.suits_netcdf) return stored;
  auto variable = std::make_shared<Variable>(*stored);
  if (form.suits_netcdf) variable->attributes = for_netcdf(std::move(variable->attributes));
  if (form.is_stored_form()) return variable;
  take_form(*variable, *form.shown);
  const size_t rank = variable->grid.rank();
  std::optional<OptionalNames> names = names_of(*variable);
  if (!names && form.stored->grid.rank() == 0) names.emplace();
  if (names && names->size() < rank) {
    names->emplace_back(form.added);
    set_names(*variable, std::move(names));
  }
  // netCDF-C refuses a variable with a fill value of another type.
  if (form.shown->type.kind == TypeKind::unsigned_int && form.stored->type.kind != TypeKind::unsigned_int)
    std::erase_if(variable->attributes, [](const Attribute& attribute) { return attribute.name == kFillAttribute; });
  return variable;
}

Result<Buffer> shown_chunk(const Form& form, Buffer chunk) {
  const Variable& stored = *form.stored;
  if (form.chunks != stored.grid.chunks()) {
    if (stored.type.kind == TypeKind::object) {
      CODECFS_ASSIGN(chunk, leading_items(chunk.bytes(), stored.grid.chunks(), form.chunks));
    } else {
      CODECFS_ASSIGN(chunk, leading_part(chunk.bytes(), stored.grid.chunks(), form.chunks, stored.type.size));
    }
  }
  if (form.is_swapped) {
    const MutableBytes bytes = chunk.mutable_bytes();
    for (size_t at = 0; at + stored.type.size <= bytes.size(); at += stored.type.size)
      std::ranges::reverse(bytes.subspan(at, stored.type.size));
  }
  if (form.string_length == 0 && !form.is_vlen) return chunk;
  uint64_t elements = 1;
  for (const uint64_t length : form.chunks) elements *= length;
  if (form.is_vlen) return vlen_strings(stored, chunk.bytes(), elements);
  return fixed_strings(stored, chunk.bytes(), elements, form.string_length);
}

Result<Buffer> fill_chunk(const Form& form) {
  CODECFS_ASSIGN(Buffer chunk, make_fill_chunk(*form.stored));
  return shown_chunk(form, std::move(chunk));
}

}  // namespace codecfs::adapted
