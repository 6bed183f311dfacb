#include "backends/zarr/metadata/metadata_write.h"

#include <algorithm>
#include <new>

#include "backends/zarr/metadata/metadata.h"
#include "backends/zarr/metadata/nczarr.h"
#include "base/log.h"
#include "base/utf8.h"
#include "filters/core/codec_json.h"
#include "filters/core/encoded_type.h"
#include "filters/core/filter.h"
#include "filters/core/filter_rules.h"
#include "filters/core/zarr_chain.h"
#include "model/json.h"

namespace codecfs::zarr {
namespace {

constexpr int kIndent = 4;  // as zarr-python 2 writes
/// Larger chunks are not encoded to test the pipeline.
constexpr uint64_t kMaxTrial = uint64_t{1} << 20;

std::string print(const Json& json) { return print_file(json, kIndent); }

Result<Json> read_object(const char* file, std::string_view text, uint64_t most_bytes = kMaxJsonBytes) {
  auto json = parse_json(text, most_bytes);
  if (!json) return fail(json.error().code == ENOMEM ? ENOMEM : EIO, "{}: {}", file, json.error().reason);
  if (!json->is_object()) return fail(EIO, "{}: no JSON object", file);
  return json;
}

Result<Json> parse_file(const char* file, const std::optional<std::string>& text) {
  if (!text) return Json::object();
  return read_object(file, *text);
}

Result<Json> parse_zattrs(const std::optional<std::string>& zattrs) { return parse_file(".zattrs", zattrs); }

/// Whether two codecs are equal, ignoring the order of members.
bool is_same_codec(const Json& one, const Json& other) {
  if (!one.is_object() || !other.is_object() || one.size() != other.size()) return prints_same(one, other);
  return std::ranges::all_of(one.items(), [&](const auto& member) {
    const auto found = other.find(member.key());
    return found != other.end() && prints_same(member.value(), *found);
  });
}

/// The codec's JSON of a stage; null if the filter has none.
Json codec_of(const FilterStage& stage, const filters::Filter& filter) {
  const auto id = stage.codec->is_object() ? stage.codec->find("id") : stage.codec->end();
  if (id != stage.codec->end() && *id == filter.codec) return stage.codec;
  // An HDF5 id, also in the form {"id": "hdf5:32015"}.
  if (filter.codec.empty() || !filter.codec_of) return {};
  return filter.codec_of(stage.parameters);
}

Result<FilterStage> complete_stage(const FilterStage& stage, const Variable& variable) {
  const uint64_t item_size = variable.type.size;
  const filters::FilterPtr filter = filters::find_for(stage);
  if (!filter) {
    const auto why = filters::Pipeline::make(std::span(&stage, 1), {});
    return fail(ENOENT, "{}", why ? "the filter is not known" : why.error().reason);
  }
  const std::string label = filter->id == 0 ? filter->codec : fmt::format("filter {} ({})", filter->id, filter->name);
  if (!filter->encodes) return fail(EINVAL, "{}: can only be read here", label);
  const Json codec = codec_of(stage, *filter);
  if (codec.is_null()) return fail(EINVAL, "{}: has no codec in Zarr that says the same", label);
  CODECFS_ASSIGN(auto complete, filters::parse_zarr_codecs(codec, {}, item_size));
  if (!filter->visible_parameters) return std::move(complete.front());
  auto visible = filter->visible_parameters({complete.front(), filters::shape_of_stored_chunk(variable)});
  if (!visible) return fail(visible.error().code, "{}: {}", label, visible.error().reason);
  if (*visible == complete.front().parameters) return std::move(complete.front());
  const Json changed = filter->codec_of ? filter->codec_of(*visible) : Json();
  if (changed.is_null()) return fail(EINVAL, "{}: has no codec in Zarr that says the same", label);
  CODECFS_ASSIGN(complete, filters::parse_zarr_codecs(changed, {}, item_size));
  return std::move(complete.front());
}

/// Checks that a user's text can be written as JSON.
Result<> check_text(std::string_view text, std::string_view name) {
  if (!is_utf8(text)) return fail(EINVAL, "attribute {}: is not UTF-8, which JSON requires", name);
  return {};
}

Result<> check_texts(const Json& value, std::string_view name) {
  if (value.is_string()) return check_text(value.get_ref<const std::string&>(), name);
  if (!value.is_structured()) return {};
  for (const auto& [key, member] : value.items()) {
    CODECFS_TRY(check_text(key, name));
    CODECFS_TRY(check_texts(member, name));
  }
  return {};
}

}  // namespace

Result<> check_attribute_texts(const Attribute& attribute) {
  CODECFS_TRY(check_text(attribute.name, attribute.name));
  return check_texts(attribute.value, attribute.name);
}

namespace {

Result<> check_attribute(const Attribute& attribute, bool keeps_dimensions) {
  if (is_nczarr_key(attribute.name)) return fail(EPERM, "attribute {}: is NCZarr's own", attribute.name);
  if (keeps_dimensions && attribute.name == kDimensions)
    return fail(EPERM, "attribute {}: names the dimensions, and is changed as these are", kDimensions);
  return check_attribute_texts(attribute);
}

/// Whether a new value fits netCDF-C's recorded type of an attribute (">i4", "<U1" for text).
bool fits(const Json& type, const Json& value) {
  const auto known = parse_dtype(type);
  if (!known) return false;
  if (known->kind == TypeKind::unicode || known->kind == TypeKind::string)
    return value.is_string() || (value.is_array() && std::ranges::all_of(value, &Json::is_string));
  const auto fits_one = [&](const Json& item) {
    const auto bytes = fill_bytes(*known, item);
    return item.is_number() && bytes && fill_json(*known, *bytes) == item;
  };
  return value.is_array() ? std::ranges::all_of(value, fits_one) : fits_one(value);
}

/// netCDF-C records the types of attributes in an attribute of its own, and infers missing ones from the value.
void note_attribute_type(Json& zattrs, const std::string& name, const Json& value) {
  for (auto& [key, noted] : zattrs.get_ref<Json::object_t&>()) {
    if (!is_nczarr_key(key) || !noted.is_object()) continue;
    const auto types = noted.find("types");
    if (types == noted.end() || !types->is_object()) continue;
    const auto type = types->find(name);
    if (type != types->end() && (value.is_discarded() || !fits(*type, value))) types->erase(type);
  }
}

Json shape_json(std::span<const uint64_t> shape) {
  Json list = Json::array();
  for (const uint64_t length : shape) list.push_back(length);
  return list;
}

void set_chain(Json& zarray, const Variable& variable, std::span<const FilterStage> chain) {
  filters::ZarrCodecs codecs =
      filters::print_zarr_codecs(filters::for_zarr2({chain.begin(), chain.end()}, variable.type.size));
  if (!variable.object_codec.is_null()) {
    Json all = Json::array({variable.object_codec});
    if (codecs.filters.is_array()) all.insert(all.end(), codecs.filters.begin(), codecs.filters.end());
    codecs.filters = std::move(all);
  }
  zarray["compressor"] = std::move(codecs.compressor);
  zarray["filters"] = std::move(codecs.filters);
}

}  // namespace

Result<Json> print_attributes(const Variable& variable) {
  Json zattrs = Json::object();
  for (const Attribute& attribute : variable.attributes) {
    CODECFS_TRY(check_attribute(attribute, variable.dimensions.has_value()));
    zattrs[attribute.name] = attribute.value;
  }
  if (variable.dimensions) {
    if (variable.dimensions->size() != variable.grid.rank())
      return fail(EINVAL, "{} names for {} dimensions", variable.dimensions->size(), variable.grid.rank());
    for (const std::string& name : *variable.dimensions) CODECFS_TRY(check_text(name, kDimensions));
    zattrs[kDimensions] = *variable.dimensions;
  }
  return zattrs;
}

namespace {

/// Codecs that no reader of Zarr v2 has.
Result<> check_zarr2(std::span<const FilterStage> chain) {
  for (const FilterStage& stage : chain)
    if (const Json id = stage.codec->value("id", Json());
        id.is_string() && id.get_ref<const std::string&>().starts_with("zarr3:"))
      return fail(EINVAL, "the codec {} is only for Zarr v3", print_json(stage.codec));
  return {};
}

}  // namespace

std::string print_group() { return print(Json{{"zarr_format", 2}}); }

Result<Chain> complete_chain(std::span<const FilterStage> chain, const Variable& variable) {
  Chain complete;
  for (const FilterStage& stage : chain) {
    CODECFS_ASSIGN(FilterStage done, complete_stage(stage, variable));
    complete.stages.push_back(std::move(done));
  }
  if (filters::shuffle_goes_first(complete.stages, variable.type.size))
    std::swap(complete.stages[0], complete.stages[1]);
  if (const auto place = filters::shuffle_of_parts(complete.stages, filters::shape_of_chunk(variable)))
    return fail(EINVAL, "{}: numcodecs can decode it only for whole elements, and its input here is not",
                print_json(filters::print_codecs(complete.stages)[*place]));
  auto pipeline = filters::Pipeline::make(complete.stages, filters::shape_of_stored_chunk(variable));
  if (!pipeline) return fail(pipeline.error().code == ENOMEM ? ENOMEM : EINVAL, "{}", pipeline.error().reason);
  complete.pipeline = std::move(*pipeline);
  CODECFS_TRY(filters::check_fill(complete.stages, variable));
  if (!complete.pipeline.empty() && variable.chunk_bytes.value_or(kMaxTrial) < kMaxTrial) {
    // Encodes fill to detect a filter without an encoder; whether real data can be encoded depends on the data.
    CODECFS_ASSIGN(const Buffer chunk, make_fill_chunk(variable));
    const auto encoded = complete.pipeline.encode(chunk.bytes());
    if (!encoded && encoded.error().code == ENOTSUP) return fail(EINVAL, "{}", encoded.error().reason);
  }
  return complete;
}

bool are_equal(std::span<const FilterStage> one, std::span<const FilterStage> other) {
  const Json codecs = filters::print_codecs(one);
  const Json others = filters::print_codecs(other);
  return std::ranges::equal(codecs, others, is_same_codec);
}

Result<NewArray> print_array(const Variable& variable) try {
  CODECFS_ASSIGN(const Chain chain, complete_chain(variable.filters, variable));
  CODECFS_TRY(check_zarr2(chain.stages));
  Json zarray = {{"chunks", shape_json(variable.grid.chunks())},
                 {"compressor", nullptr},
                 {"dimension_separator", "."},
                 {"dtype", print_dtype(variable.type)},
                 {"fill_value", variable.fill_value},
                 {"filters", nullptr},
                 {"order", "C"},
                 {"shape", shape_json(variable.grid.shape())},
                 {"zarr_format", 2}};
  set_chain(zarray, variable, chain.stages);
  CODECFS_ASSIGN(const Json zattrs, print_attributes(variable));
  NewArray files = {.zarray = print(zarray), .zattrs = {}};
  if (!zattrs.empty()) files.zattrs = print(zattrs);

  // Read the result back: it must mean the same.
  const auto read = parse_array({.zarray = files.zarray, .zattrs = files.zattrs, .nczvar = {}});
  if (!read) return fail(read.error().code == ENOMEM ? ENOMEM : EINVAL, "{}", read.error().reason);
  if (read->variable.unreadable) return fail(EINVAL, "{}", read->variable.unreadable->reason);
  if (read->variable.type != variable.type)
    return fail(EINVAL, "elements of dtype {} cannot be represented in a .zarray",
                print_json(print_dtype(variable.type)));
  if (!variable.fill_value.is_null() && read->variable.fill != variable.fill)
    return fail(EINVAL, "the fill value {} is not what it says", print_json(variable.fill_value));
  return files;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "no memory for the metadata of a new array");
}

Result<NewArray> as_nczarr(NewArray files, const Variable& variable, NczarrForm form,
                           std::span<const std::string> references) try {
  CODECFS_ASSIGN(Json zarray, read_object(".zarray", files.zarray));
  CODECFS_ASSIGN(Json zattrs, parse_zattrs(files.zattrs));
  const bool is_scalar = variable.grid.rank() == 0;
  if (is_scalar) zarray["shape"] = zarray["chunks"] = Json::array({1});
  if (is_scalar && variable.dimensions) zattrs[kDimensions] = Json::array({kScalarDimension});
  if (variable.type.kind == TypeKind::string) {
    if (variable.type.size == 1) zarray["dtype"] = ">S1";  // a character: "|S1" is a string of length one
    if (!zarray["fill_value"].is_null()) zarray["fill_value"] = text_fill(variable).value_or("");
  }
  if (form == NczarrForm::objects) {
    Json nczvar = Json::object();
    put_nczarr_array(nczvar, form, references);
    files.nczvar = print(nczvar);
  } else {
    put_nczarr_array(form == NczarrForm::attributes ? zattrs : zarray, form, references);
  }
  if (form == NczarrForm::attributes)
    for (const Attribute& attribute : variable.attributes) put_typed_attribute(zattrs, attribute);
  files.zarray = print(zarray);
  if (!zattrs.empty()) files.zattrs = print(zattrs);
  return files;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "no memory for the metadata of a new array");
}

Result<std::string> with_shape(std::string_view text, std::span<const uint64_t> shape) try {
  CODECFS_ASSIGN(Json zarray, read_object(".zarray", text));
  zarray["shape"] = shape_json(shape);
  // Some writers set the chunk length of an empty dimension to 0, which is only valid while it is empty.
  for (Json& length : zarray["chunks"])
    if (length == 0) length = 1;
  return print(zarray);
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, ".zarray: no memory to change it");
}

Result<std::string> with_chain(std::string_view text, const Variable& variable,
                               std::span<const FilterStage> chain) try {
  CODECFS_ASSIGN(Json zarray, read_object(".zarray", text));
  CODECFS_TRY(check_zarr2(chain));
  set_chain(zarray, variable, chain);
  return print(zarray);
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, ".zarray: no memory to change it");
}

Result<std::optional<std::string>> with_attributes(const std::optional<std::string>& text,
                                                   const AttributeChange& change) try {
  CODECFS_ASSIGN(Json zattrs, parse_zattrs(text));
  bool is_changed = false;
  for (const std::string& name : change.remove) {
    const bool is_hidden = is_nczarr_key(name) || (change.keeps_dimensions && name == kDimensions);
    const auto found = zattrs.find(name);
    if (is_hidden || found == zattrs.end()) return fail(ENODATA, "there is no attribute {}", name);
    zattrs.erase(found);
    note_attribute_type(zattrs, name, Json(Json::value_t::discarded));
    is_changed = true;
  }
  for (const Attribute& attribute : change.set) {
    CODECFS_TRY(check_attribute(attribute, change.keeps_dimensions));
    const auto found = zattrs.find(attribute.name);
    const Json* type = attribute_type(attribute_types(zattrs, {}), attribute.name);
    if (found != zattrs.end() && prints_same(typed_attribute(*found, type), attribute.value)) continue;
    zattrs[attribute.name] = attribute.value;
    note_attribute_type(zattrs, attribute.name, attribute.value);
    if (zattrs.contains("_nczarr_group") || zattrs.contains("_nczarr_array")) {
      Attribute typed = attribute;
      if (typed.type.empty())
        typed.type = known_attribute_type(attribute_type(attribute_types(zattrs, {}), attribute.name));
      put_typed_attribute(zattrs, typed);
    }
    is_changed = true;
  }
  if (!is_changed) return std::nullopt;
  return print(zattrs);
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, ".zattrs: no memory to change it");
}

Result<std::string> with_dimensions(const std::optional<std::string>& text, std::span<const std::string> names) try {
  CODECFS_ASSIGN(Json zattrs, parse_zattrs(text));
  Json list = Json::array();
  for (const std::string& name : names) {
    CODECFS_TRY(check_text(name, kDimensions));
    list.push_back(name);
  }
  zattrs[kDimensions] = std::move(list);
  return print(zattrs);
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, ".zattrs: no memory to change it");
}

Result<std::string> with_references(const std::optional<std::string>& text, NczarrForm form,
                                    std::span<const std::string> references) try {
  CODECFS_ASSIGN(Json file, parse_file(nczarr_array_file(form), text));
  put_nczarr_array(file, form, references);
  return print(file);
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to change it", nczarr_array_file(form));
}

Result<std::string> with_lists(const std::optional<std::string>& text, const NczarrGroup& group) try {
  CODECFS_ASSIGN(Json file, parse_file(nczarr_group_file(group.form), text));
  put_nczarr_group(file, group);
  return print(file);
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to change it", nczarr_group_file(group.form));
}

Result<std::optional<std::string>> with_entries(std::string_view text, Json entries) try {
  auto read = read_object(".zmetadata", text, kMaxConsolidatedBytes);
  if (!read && read.error().code == ENOMEM) return pass_on(read);
  if (!read) {  // it only copies what is in other files
    log::warning(".zmetadata: is made anew: {}", read.error().reason);
    read = Json{{"zarr_consolidated_format", 1}};
  }
  Json zmetadata = *std::move(read);
  const auto form = zmetadata.find("zarr_consolidated_format");
  if (form == zmetadata.end() || *form != 1) return std::nullopt;
  zmetadata["metadata"] = std::move(entries);
  return print(zmetadata);
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, ".zmetadata: no memory to rewrite it");
}

}  // namespace codecfs::zarr
