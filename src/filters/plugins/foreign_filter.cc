#include "filters/plugins/foreign_filter.h"

#include <H5PLextern.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "filters/core/pipeline.h"
#include "model/json.h"

namespace codecfs::filters {
namespace {

Result<Coder> make_foreign_coder(const Plugin& plugin, const StageContext& context) {
  const std::vector<uint32_t>& parameters = context.stage.parameters;
  const unsigned optional = context.stage.optional ? H5Z_FLAG_OPTIONAL : 0;
  const std::shared_ptr<PluginCalls> calls = plugin.calls;
  Coder coder;
  if (plugin.description.hdf5->decodes)
    coder.decode = [=](const Buffer& in, const SizeBound& out) {
      return calls->filter(optional | H5Z_FLAG_REVERSE, parameters, in.bytes(), out.max);
    };
  else
    coder.decode = [path = plugin.description.path](const Buffer&, const SizeBound&) -> Result<Buffer> {
      return fail(EIO, "{} can only encode", path);
    };
  if (plugin.description.hdf5->encodes)
    coder.encode = [=](Bytes in) { return calls->filter(optional, parameters, in, max_of_plugin(in.size())); };
  // The API does not declare the encoded size.
  coder.encoded = [](const SizeBound& decoded) -> SizeBound { return {max_of_plugin(decoded.max), std::nullopt}; };
  return coder;
}

/// netCDF's own codecs read "level" without checking that it is present.
Json with_defaults(Json codec) {
  const std::string id = codec.value("id", "");
  if ((id == "zlib" || id == "bz2" || id == "zstd") && !codec.contains("level")) codec["level"] = id == "zstd" ? 0 : 1;
  return codec;
}

/// netCDF's own codec of shuffle stores 0, which numcodecs takes as it is.
void set_element_size(std::vector<uint32_t>& parameters, const DataType& type) {
  if (parameters.empty()) parameters.push_back(0);
  if (parameters[0] == 0) parameters[0] = static_cast<uint32_t>(std::min<uint64_t>(type.size, UINT32_MAX));
}

Json parsed_codec(const Result<std::string>& text) {
  if (!text) {
    if (text.error().code != EINVAL) log::warning("{}", text.error().reason);
    return nullptr;
  }
  Result<Json> codec = parse_json(*text);
  return codec && codec->is_object() && codec->value("id", Json()).is_string() ? *std::move(codec) : Json();
}

}  // namespace

void add_hdf5_half(Filter& filter, const Plugin& plugin) {
  filter.hdf5_library = plugin.description.path;
  filter.decodes = plugin.description.hdf5->decodes;
  filter.encodes = plugin.description.hdf5->encodes;
  filter.make_coder = [plugin](const StageContext& context) { return make_foreign_coder(plugin, context); };
}

void add_codec_half(Filter& filter, const Plugin& plugin, size_t codec) {
  const std::shared_ptr<PluginCalls> calls = plugin.calls;
  const PluginDescription::Codec& declared = plugin.description.codecs[codec];
  filter.codec = declared.id;
  filter.codec_library = plugin.description.path;
  filter.parameters_of = [=](const Json& json, uint64_t) {
    return calls->parameters_of(codec, print_json(with_defaults(json)));
  };
  filter.codec_of = [=](std::span<const uint32_t> parameters) {
    return parsed_codec(calls->codec_of(codec, parameters));
  };
  const bool is_shuffle = declared.hdf5_id == kShuffleId;
  if ((!declared.has_modify_parameters && !is_shuffle) || filter.working_parameters) return;
  const bool has_modify_parameters = declared.has_modify_parameters;
  const auto modified = [=](const StageContext& context) -> Result<ModifiedParameters> {
    ModifiedParameters parameters{context.stage.parameters, context.stage.parameters};
    if (has_modify_parameters) {
      CODECFS_ASSIGN(parameters, calls->modified_parameters(codec, context.stage.parameters, context.chunk));
    }
    if (is_shuffle)
      for (auto* const one : {&parameters.visible, &parameters.working}) set_element_size(*one, context.chunk.type);
    return parameters;
  };
  filter.working_parameters = [=](const StageContext& context) -> Result<std::vector<uint32_t>> {
    // The parameters of an HDF5 file are complete: libhdf5 called set_local when the dataset was created.
    if (!context.stage.codec->is_object()) return context.stage.parameters;
    CODECFS_ASSIGN(ModifiedParameters parameters, modified(context));
    return std::move(parameters.working);
  };
  filter.visible_parameters = [=](const StageContext& context) -> Result<std::vector<uint32_t>> {
    CODECFS_ASSIGN(ModifiedParameters parameters, modified(context));
    return std::move(parameters.visible);
  };
}

}  // namespace codecfs::filters
