#include "backends/adapted/adapted_variable.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "backends/adapted/leading_part.h"
#include "backends/adapted/string_chunks.h"
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
  if (form.chunks == stored->grid.chunks() && !is_converted && !shows_bytes && !form.is_vlen) return form;

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
  }
  check_size(*shown);
  form.shown = std::move(shown);
  return form;
}

VariablePtr described(const Form& form, VariablePtr stored) {
  if (form.is_stored_form()) return stored;
  auto variable = std::make_shared<Variable>(*stored);
  take_form(*variable, *form.shown);
  const size_t rank = variable->grid.rank();
  if (std::optional<OptionalNames> names = names_of(*variable); names && names->size() < rank) {
    names->emplace_back(fmt::format("string{}", variable->grid.shape().back()));
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
