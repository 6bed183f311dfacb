// Converts .zarray and .zattrs to a Variable.

#include "backends/zarr/metadata/metadata.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "backends/zarr/metadata/nczarr.h"
#include "base/endian.h"
#include "filters/core/codec_json.h"
#include "model/base64.h"
#include "model/json.h"
#include "model/limits.h"
#include "model/numpy_type.h"

namespace codecfs::zarr {
namespace {

constexpr uint64_t kMaxTextFill = uint64_t{1} << 20;  // bytes

template <class... Args>
std::unexpected<Error> bad_array(fmt::format_string<Args...> format, Args&&... args) {
  return fail(EIO, ".zarray: {}", fmt::format(format, std::forward<Args>(args)...));
}

/// Names the file in an error, except for errors of memory.
std::unexpected<Error> blame(const char* file, const Error& error) {
  return fail(error.code == ENOMEM ? ENOMEM : EIO, "{}: {}", file, error.reason);
}

Result<Json> parse_object(const char* file, std::string_view text) {
  auto json = parse_json(text);
  if (!json) return blame(file, json.error());
  if (!json->is_object()) return fail(EIO, "{}: no JSON object", file);
  return json;
}

Result<std::vector<uint64_t>> extents(const Json& zarray, const char* key) {
  const Json value = member(zarray, key);
  const auto is_extent = [](const Json& item) { return item.is_number_unsigned(); };
  if (!value.is_array() || !std::ranges::all_of(value, is_extent))
    return bad_array("\"{}\" is not a list of lengths", key);
  if (value.size() > ChunkGrid::kMaxRank) return bad_array("\"{}\" has more than {} items", key, ChunkGrid::kMaxRank);
  std::vector<uint64_t> result;
  for (const Json& item : value) result.push_back(item.get<uint64_t>());
  return result;
}

Result<ChunkGrid> parse_grid(const Json& zarray, const std::optional<NczarrArray>& nczarr) {
  CODECFS_ASSIGN(auto shape, extents(zarray, "shape"));
  CODECFS_ASSIGN(auto chunks, extents(zarray, "chunks"));
  if (nczarr && nczarr->is_scalar && shape == std::vector<uint64_t>{1} && chunks == shape) {
    // NCZarr's scalars have one chunk of one element, which is named "0" in both forms.
    shape.clear();
    chunks.clear();
  }
  // Some writers set the chunk length of an empty dimension to 0.
  for (size_t i = 0; i < std::min(shape.size(), chunks.size()); ++i)
    if (shape[i] == 0 && chunks[i] == 0) chunks[i] = 1;
  auto grid = ChunkGrid::make(std::move(shape), std::move(chunks));
  if (!grid) return bad_array("{}", grid.error().reason);
  return grid;
}

/// Whether .zarray can show a fill value unchanged, because every reader understands it.
bool is_plain_fill(const DataType& type, const Json& fill_value) {
  switch (type.kind) {
    case TypeKind::boolean:
    case TypeKind::signed_int:
    case TypeKind::unsigned_int:
    case TypeKind::floating:
    case TypeKind::timedelta:
    case TypeKind::datetime:
      return fill_value.is_boolean() || (fill_value.is_number() && std::isfinite(fill_value.get<double>()));
    case TypeKind::unicode: return fill_value.is_string();
    default: return false;
  }
}

/// An item of vlen-utf8: LE32 length and text.
std::vector<std::byte> text_item(std::string_view text) {
  std::vector<std::byte> item(4 + text.size());
  store_le(item.data(), static_cast<uint32_t>(text.size()));
  std::ranges::copy(std::as_bytes(std::span(text)), item.begin() + 4);
  return item;
}

Result<> parse_fill(const Json& zarray, bool is_nczarr, Variable& variable) {
  variable.fill_value = member(zarray, "fill_value");
  if (is_nczarr) variable.fill_value = meant_fill(variable.type, variable.fill_value);
  const Json& given = variable.fill_value;
  variable.is_fill_undefined = given.is_null();
  if (variable.type.kind == TypeKind::object) {
    if (given.is_string() && given.get_ref<const std::string&>().size() > kMaxTextFill)
      return bad_array("\"fill_value\" is a text of more than {} MiB", kMaxTextFill >> 20);
    // Some writers use null, "" or 0 for an empty text.
    const std::string_view text = given.is_string() ? std::string_view(given.get_ref<const std::string&>()) : "";
    variable.fill = text_item(text);
    // zarr-python 3 writes bytes as base64, and no other release writes them.
    if (member(variable.object_codec, "id") == "vlen-bytes")
      if (const auto bytes = decode_base64(text))
        variable.fill = text_item({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
    return {};
  }
  if (given.is_null()) {
    variable.fill.assign(variable.type.size, std::byte{0});
    // Zero is a date: 1970.
    const bool is_time = variable.type.kind == TypeKind::datetime || variable.type.kind == TypeKind::timedelta;
    if (is_time)
      if (auto none = fill_bytes(variable.type, "NaT")) variable.fill = *std::move(none);
    return {};
  }
  if (is_nczarr && variable.type.kind == TypeKind::string && given.is_string() &&
      given.get_ref<const std::string&>().size() <= variable.type.size) {
    // netCDF-C writes text unencoded, even if it is valid base64.
    const auto text = std::as_bytes(std::span(given.get_ref<const std::string&>()));
    variable.fill.assign(text.begin(), text.end());
    variable.fill.resize(variable.type.size);
  } else {
    auto fill = fill_bytes(variable.type, given);
    if (!fill) return bad_array("{}", fill.error().reason);
    variable.fill = std::move(*fill);
  }
  if (!is_plain_fill(variable.type, given)) variable.fill_value = fill_json(variable.type, variable.fill);
  return {};
}

/// Whether all readers interpret a stored codec in the same way: some misread a shuffle whose element size is missing
/// or 0, and numbers stored as texts, as netCDF-C writes them.
bool is_unambiguous(const Json& stored, const Json& meant) {
  if (!stored.is_object() || !meant.is_object()) return true;
  return std::ranges::all_of(meant.items(), [&](const auto& item) {
    const auto found = stored.find(item.key());
    if (found == stored.end()) return item.key() != "elementsize" && item.key() != "level";
    return print_json(*found) == print_json(item.value());
  });
}

bool are_unambiguous(std::span<const FilterStage> chain) {
  const Json meant = filters::print_codecs(chain);
  for (size_t i = 0; i < chain.size(); ++i)
    if (!is_unambiguous(chain[i].codec, meant[i])) return false;
  return true;
}

Result<> parse_codecs(const Json& zarray, Variable& variable) {
  const Json compressor = member(zarray, "compressor");
  Json filters = member(zarray, "filters");
  if (variable.type.kind == TypeKind::object) {
    if (!filters.is_array() || filters.empty() || !filters[0].is_object() || !member(filters[0], "id").is_string())
      return bad_array("dtype \"|O\" without an object codec as the first of \"filters\"");
    variable.object_codec = filters[0];
    filters.erase(0);
  }
  auto chain = filters::parse_zarr_codecs(compressor, filters, variable.type.size);
  if (!chain) return blame(".zarray", chain.error());
  variable.filters = std::move(*chain);
  return {};
}

/// Whether an object codec stores a list of items that can be reordered.
bool has_items(const Json& object_codec) {
  const Json id = member(object_codec, "id");
  return id == "vlen-utf8" || id == "vlen-bytes" || id == "vlen-array";
}

/// An object of NCZarr 4.8.0. It is only a hint: invalid JSON counts as absent.
Json read_hint(const std::optional<std::string>& text) {
  auto json = text ? parse_json(*text) : Result<Json>(Json());
  return json ? std::move(*json) : Json();
}

/// Removes _ARRAY_DIMENSIONS from the attributes and returns it, if it fits the shape.
std::optional<std::vector<std::string>> take_dimensions(Json& zattrs, size_t rank) {
  const auto found = zattrs.find(kDimensions);
  if (found == zattrs.end() || !found->is_array()) return std::nullopt;
  std::vector<std::string> names;
  for (const Json& name : *found) {
    if (!name.is_string()) return std::nullopt;
    names.push_back(name.get<std::string>());
  }
  if (rank == 0 && names == std::vector<std::string>{kScalarDimension}) names.clear();  // netCDF-C marks a scalar so
  if (names.size() != rank) return std::nullopt;
  zattrs.erase(found);
  return names;
}

std::vector<Attribute> shown_attributes(const Json& zattrs, const std::optional<std::string>& nczattr) {
  const Json hint = read_hint(nczattr);
  const Json* types = attribute_types(zattrs, hint);
  std::vector<Attribute> attributes;
  for (const auto& [name, value] : zattrs.items())
    if (const Json* type = attribute_type(types, name); !is_nczarr_key(name))
      attributes.push_back({name, typed_attribute(value, type), known_attribute_type(type)});
  return attributes;
}

Result<Array> parse_array_unguarded(const ArrayTexts& texts) {
  CODECFS_ASSIGN(const Json zarray, parse_object(".zarray", texts.zarray));
  Json zattrs = Json::object();
  if (texts.zattrs) {
    CODECFS_ASSIGN(zattrs, parse_object(".zattrs", *texts.zattrs));
  }
  const auto nczarr = parse_nczarr(zarray, zattrs, read_hint(texts.nczvar));

  if (const Json format = member(zarray, "zarr_format"); !is_format(format, 2))
    return bad_array("\"zarr_format\" is {}, not 2", print_json(format));

  Array array;
  array.nczarr = nczarr;
  Variable& variable = array.variable;
  auto type = parse_numpy_type(member(zarray, "dtype"));
  if (!type) return blame(".zarray", type.error());
  variable.type = std::move(*type);
  if (variable.type.size > kMaxElementBytes)
    return bad_array("elements of {} bytes, over the limit of {}", variable.type.size, kMaxElementBytes);
  const bool is_early_text =
      nczarr && nczarr->has_u1_characters && variable.type.kind == TypeKind::unicode && variable.type.size == 4;
  if (is_early_text) {
    variable.type.kind = TypeKind::string;
    variable.type.order = ByteOrder::none;
    variable.type.size = 1;
  }
  if (nczarr && nczarr->has_wrong_big_endian && variable.type.order == ByteOrder::big)
    variable.type.order = ByteOrder::little;

  CODECFS_ASSIGN(variable.grid, parse_grid(zarray, nczarr));
  CODECFS_TRY(parse_codecs(zarray, variable));
  array.has_wrong_codecs = !are_unambiguous(variable.filters);
  CODECFS_TRY(parse_fill(zarray, nczarr.has_value(), variable));
  CODECFS_TRY(measure_chunks(variable, ".zarray"));

  const Json order = member(zarray, "order");
  if (!order.is_null() && order != "C" && order != "F")
    return bad_array("\"order\" is {}, not \"C\" or \"F\"", print_json(order));
  if (order == "F" && std::ranges::count_if(variable.grid.chunks(), [](uint64_t n) { return n > 1; }) > 1) {
    for (size_t axis = variable.grid.rank(); axis-- > 0;) variable.stored_order.push_back(axis);
  }

  const Json separator = member(zarray, "dimension_separator");
  if (!separator.is_null() && separator != "." && separator != "/")
    return bad_array("\"dimension_separator\" is {}, not \".\" or \"/\"", print_json(separator));
  if (separator == "/") array.keys.separator = '/';

  const size_t rank = variable.grid.rank();
  variable.dimensions = take_dimensions(zattrs, rank);
  if (!variable.dimensions && nczarr) {
    if (nczarr->dimensions && nczarr->dimensions->size() == rank) variable.dimensions = nczarr->dimensions;
    if (rank == 0) variable.dimensions.emplace();
  }
  array.has_items = variable.type.kind == TypeKind::object && has_items(variable.object_codec);
  if (!variable.stored_order.empty() && variable.type.kind == TypeKind::object && !array.has_items)
    variable.unreadable = Error{EOPNOTSUPP, fmt::format("object codec {} in Fortran order cannot be put in C order",
                                                        print_json(variable.object_codec))};
  if (nczarr && nczarr->references && nczarr->references->size() == rank) variable.dimension_paths = nczarr->references;
  variable.attributes = shown_attributes(zattrs, texts.nczattr);
  // netCDF-C always writes a fill value.
  variable.is_fill_unmarked = nczarr && !variable.fill_value.is_null() && !zattrs.contains(kFillAttribute) &&
                              is_default_fill(variable.type, variable.fill);
  array.may_be_narrow_text =
      variable.type.kind == TypeKind::unicode && variable.type.size == 4 && variable.filters.empty();
  return array;
}

}  // namespace

bool is_format(const Json& given, int version) {
  return given == version || (given.is_string() && given == std::to_string(version));
}

Result<> measure_chunks(Variable& variable, const char* file) {
  if (variable.type.kind == TypeKind::object) return {};
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(variable.grid.elements_per_chunk(), variable.type.size, &bytes))
    return fail(EIO, "{}: chunks of {} elements of {} bytes", file, variable.grid.elements_per_chunk(),
                variable.type.size);
  variable.chunk_bytes = bytes;
  if (bytes > max_chunk_bytes())
    variable.unreadable =
        Error{EOPNOTSUPP, fmt::format("chunks of {} bytes are over {}; rewrite the array with smaller "
                                      "chunks",
                                      bytes, max_chunk_text())};
  if (variable.type.size == 0)
    variable.unreadable =
        Error{EOPNOTSUPP, fmt::format("elements of dtype {} have no bytes", print_json(print_dtype(variable.type)))};
  return {};
}

Result<Array> parse_array(const ArrayTexts& texts) {
  try {
    return parse_array_unguarded(texts);
  } catch (const std::bad_alloc&) {
    return fail(ENOMEM, ".zarray: no memory for its metadata");
  }
}

void narrow_text(Array& array) {
  Variable& variable = array.variable;
  // The fill of one ASCII character has the same code as a byte; netCDF-C cannot have written any other.
  const std::byte fill =
      variable.fill.empty() ? std::byte{0} : variable.fill[variable.type.order == ByteOrder::big ? 3 : 0];
  variable.type = {.kind = TypeKind::string, .order = ByteOrder::none, .size = 1, .unit = {}, .members = {}};
  variable.fill = {fill};
  if (!variable.fill_value.is_null()) variable.fill_value = fill_json(variable.type, variable.fill);
  variable.chunk_bytes = variable.grid.elements_per_chunk();
  array.may_be_narrow_text = false;
}

Result<std::vector<Attribute>> parse_attributes(std::string_view zattrs, const std::optional<std::string>& nczattr) {
  try {
    CODECFS_ASSIGN(const Json object, parse_object(".zattrs", zattrs));
    return shown_attributes(object, nczattr);
  } catch (const std::bad_alloc&) {
    return fail(ENOMEM, ".zattrs: no memory for its attributes");
  }
}

Result<> check_group(std::string_view zgroup) {
  CODECFS_ASSIGN(const Json object, parse_object(".zgroup", zgroup));
  if (const Json format = member(object, "zarr_format"); !is_format(format, 2))
    return fail(EOPNOTSUPP, ".zgroup: \"zarr_format\" is {}, not 2", print_json(format));
  return {};
}

}  // namespace codecfs::zarr
