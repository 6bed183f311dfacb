// Prints and parses the text forms of a pipeline. Each filter converts its own JSON (parameters_of, codec_of in
// filter.h); this file has the common parts.

#include "filters/core/codec_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <charconv>
#include <utility>

#include "filters/core/filter.h"
#include "model/json.h"

namespace codecfs::filters {
namespace {

constexpr std::string_view kGenericPrefix = "hdf5:";

/// {"id": "hdf5:32000", "name": "lzf", "parameters": [4, 261, 160]}
Json generic_codec(const FilterStage& stage, const Filter* filter) {
  Json codec = {{"id", fmt::format("{}{}", kGenericPrefix, stage.id)}};
  const std::string& name = filter != nullptr ? filter->name : stage.name;
  if (!name.empty()) codec["name"] = name;
  codec["parameters"] = stage.parameters;
  return codec;
}

Json print_codec(const FilterStage& stage) {
  const FilterPtr filter = find_for(stage);
  if (!stage.codec->is_object()) {
    Json codec = filter != nullptr && filter->codec_of ? filter->codec_of(stage.parameters) : Json();
    return codec.is_null() ? generic_codec(stage, filter.get()) : codec;
  }
  // Keep the stored JSON, but print known members as numcodecs does: integers, the real element size. Not for codecs of
  // plugins, whose conversion may lose members.
  Json codec = stage.codec;
  const bool mapped = filter != nullptr && filter->codec_of && filter->codec_library.empty();
  if (mapped && !stage.parameters.empty() && codec.value("id", Json()) == filter->codec) {
    const Json known = filter->codec_of(stage.parameters);
    for (const auto& [key, value] : known.items()) codec[key] = value;
  }
  return codec;
}

Result<FilterStage> parse_generic(const Json& codec, std::string_view number) {
  FilterStage stage;
  stage.codec = codec;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), stage.id);
  if (error != std::errc{} || end != number.data() + number.size() || stage.id == 0)
    return fail(EINVAL, "\"id\": \"{}{}\" is not a filter id", kGenericPrefix, number);
  if (const auto name = codec.find("name"); name != codec.end() && name->is_string())
    stage.name = name->get<std::string>();
  const auto parameters = codec.find("parameters");
  if (parameters == codec.end() || parameters->is_null()) return stage;
  if (!parameters->is_array()) return fail(EINVAL, "\"parameters\" of filter {} is not a list", stage.id);
  for (const Json& value : *parameters) {
    if (!value.is_number_integer() || (value.is_number_integer() && !value.is_number_unsigned() && value < 0) ||
        value.get<uint64_t>() > UINT32_MAX)
      return fail(EINVAL, "\"parameters\" of filter {}: {} is not a 32-bit number", stage.id, print_json(value));
    stage.parameters.push_back(value.get<uint32_t>());
  }
  return stage;
}

Result<FilterStage> parse_codec(const Json& codec, uint64_t item_size) {
  const auto id = codec.is_object() ? codec.find("id") : codec.end();
  if (!codec.is_object() || id == codec.end() || !id->is_string())
    return fail(EINVAL, "a codec is an object with a text \"id\", not {}", print_json(codec));
  const auto& name = id->get_ref<const std::string&>();
  if (name.starts_with(kGenericPrefix))
    return parse_generic(codec, std::string_view(name).substr(kGenericPrefix.size()));

  FilterStage stage;
  stage.codec = codec;
  const FilterPtr filter = find_by_codec(name);
  if (filter == nullptr || filter->id == 0 || !filter->parameters_of) return stage;
  Result<std::vector<uint32_t>> parameters = filter->parameters_of(codec, item_size);
  if (!parameters) return fail(parameters.error().code, "codec '{}': {}", name, parameters.error().reason);
  stage.id = filter->id;
  stage.parameters = *std::move(parameters);
  return stage;
}

/// The parameters as ncdump shows them. Of those of szip that a file holds it leaves out what HDF5 has added: the last
/// two, and all options but the coding method.
std::vector<uint32_t> shown_parameters(const FilterStage& stage) {
  constexpr uint32_t kSzip = 4;
  constexpr uint32_t kMethods = 4 | 32;  // entropy coding, nearest neighbour
  const bool is_of_file = stage.has_flag && !stage.codec->is_object();
  if (stage.id != kSzip || !is_of_file || stage.parameters.size() != 4) return stage.parameters;
  return {stage.parameters[0] & kMethods, stage.parameters[1]};
}

}  // namespace

Result<std::string> print_filter_spec(std::span<const FilterStage> chain) {
  std::string spec;
  for (const FilterStage& stage : chain) {
    if (stage.id == 0)
      return fail(
          ENODATA, "codec {} has no HDF5 filter id",
          stage.codec->is_object() && stage.codec->contains("id") ? print_json((*stage.codec)["id"]) : "without id");
    if (!spec.empty()) spec += '|';
    spec += fmt::format("{}", stage.id);
    for (const uint32_t parameter : shown_parameters(stage)) spec += fmt::format(",{}", parameter);
  }
  return spec;
}

std::string print_stored_spec(std::span<const FilterStage> chain) {
  std::string spec;
  for (const FilterStage& stage : chain) {
    if (!stage.has_flag) return {};
    spec += fmt::format("{}UD={},{},{}", spec.empty() ? "" : "|", stage.id, stage.optional ? 1 : 0,
                        stage.parameters.size());
    for (const uint32_t parameter : stage.parameters) spec += fmt::format(",{}", parameter);
  }
  return spec;
}

Json print_codecs(std::span<const FilterStage> chain) {
  Json codecs = Json::array();
  for (const FilterStage& stage : chain) codecs.push_back(print_codec(stage));
  return codecs;
}

ZarrCodecs print_zarr_codecs(std::span<const FilterStage> chain) {
  ZarrCodecs codecs;
  if (chain.empty()) return codecs;
  codecs.compressor = print_codec(chain.back());
  if (chain.size() > 1) codecs.filters = print_codecs(chain.first(chain.size() - 1));
  return codecs;
}

Result<std::vector<FilterStage>> parse_zarr_codecs(const Json& compressor, const Json& filters,
                                                   uint64_t item_size) try {
  std::vector<FilterStage> chain;
  if (!filters.is_null() && !filters.is_array())
    return fail(EINVAL, "\"filters\" is neither a list nor null: {}", print_json(filters));
  if (filters.is_array()) {
    for (const Json& codec : filters) {
      CODECFS_ASSIGN(FilterStage stage, parse_codec(codec, item_size));
      chain.push_back(std::move(stage));
    }
  }
  if (!compressor.is_null()) {
    CODECFS_ASSIGN(FilterStage stage, parse_codec(compressor, item_size));
    chain.push_back(std::move(stage));
  }
  return chain;
} catch (const std::exception& e) {
  return fail(EINVAL, "the codecs cannot be read: {}", e.what());
}

std::string codec_versions() {
  std::vector<std::string> libraries;
  for (const FilterPtr& filter : list()) {
    if (!filter->library.empty() && std::ranges::find(libraries, filter->library) == libraries.end())
      libraries.push_back(filter->library);
  }
  return fmt::format("{}", fmt::join(libraries, ", "));
}

std::string_view codec_id(const FilterStage& stage) {
  if (!stage.codec->is_object()) return {};
  const auto id = stage.codec->find("id");
  return id != stage.codec->end() && id->is_string() ? std::string_view(id->get_ref<const std::string&>()) : "";
}

}  // namespace codecfs::filters
