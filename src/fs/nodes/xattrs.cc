#include "fs/nodes/xattrs.h"

#include <algorithm>
#include <string_view>

#include "filters/core/codec_json.h"
#include "filters/core/zarr3_chain.h"
#include "model/json.h"

namespace codecfs::fs {
namespace {

// HDF5 ids of the filters for which netCDF has special attributes.

std::string_view storage_name(Storage storage) {
  switch (storage) {
    case Storage::chunked: return "chunked";
    case Storage::contiguous: return "contiguous";
    case Storage::compact: return "compact";
    case Storage::external: return "external";
    case Storage::virtual_sources: return "virtual";
  }
  return "unknown";
}

std::string without_newline(const std::string& text) {
  return text.ends_with('\n') ? text.substr(0, text.size() - 1) : text;
}

void add_attributes(const std::vector<Attribute>& attributes, std::vector<Xattr>& list) {
  const size_t specials = list.size();
  for (const Attribute& attribute : attributes) {
    Xattr xattr{"user." + attribute.name,
                attribute.value->is_string() ? attribute.value->get<std::string>() : print_json(attribute.value)};
    const bool special = std::any_of(list.begin(), list.begin() + static_cast<ptrdiff_t>(specials),
                                     [&](const Xattr& other) { return other.name == xattr.name; });
    if (special || xattr.name.size() > kMaxXattrName || xattr.value.size() > kMaxXattrValue ||
        xattr.name.find('\0') != std::string::npos)
      continue;
    list.push_back(std::move(xattr));
  }
}

}  // namespace

std::vector<Xattr> variable_xattrs(const VariableView& view, const std::vector<Attribute>& attributes,
                                   const std::optional<std::string>& filter_out, const MetadataFormat& format) {
  const Variable& variable = *view.facts;
  std::vector<Xattr> list;
  const auto add = [&](std::string name, std::string value) {
    if (value.size() <= kMaxXattrValue) list.push_back({"user." + std::move(name), std::move(value)});
  };
  // First, as programs that copy attributes set them in this order, and those after it then change nothing.
  if (std::string stored = filters::print_stored_spec(variable.filters); !stored.empty())
    add(std::string(kFilterStoredName), std::move(stored));
  add("_Storage", std::string(storage_name(variable.storage)));
  if (variable.storage == Storage::chunked) add("_ChunkSizes", print_json(variable.grid.chunks()));
  for (const FilterStage& stage : variable.filters) {
    if (stage.id == kDeflateId && !stage.parameters.empty()) add("_DeflateLevel", std::to_string(stage.parameters[0]));
    if (stage.id == kShuffleId) add("_Shuffle", "true");
    if (stage.id == kFletcher32Id) add("_Fletcher32", "true");
  }
  if (variable.type.order != ByteOrder::none)
    add("_Endianness", variable.type.order == ByteOrder::big ? "big" : "little");
  if (view.filter) add("_Filter", without_newline(*view.filter));
  add("_Codecs", without_newline(*format.codecs_of(view)));
  if (filter_out) add("_FilterOut", *filter_out);
  if (!variable.type_text.empty()) add("_Type", variable.type_text);
  if (!variable.max_shape.empty()) {
    Json limits = Json::array();
    for (const auto& limit : variable.max_shape) limits.push_back(limit ? Json(*limit) : Json());
    add("_MaxShape", print_json(limits));
  }
  add_attributes(attributes, list);
  return list;
}

std::vector<Xattr> group_xattrs(const std::vector<Attribute>& attributes,
                                const std::optional<std::vector<FilterStage>>& chain, const MetadataFormat& format) {
  std::vector<Xattr> list;
  if (chain) {
    if (const Result<std::string> spec = filters::print_filter_spec(*chain))
      list.push_back({"user._Filter", spec->empty() ? "none" : *spec});
    const Result<Json> codecs = format.print_chain(*chain);
    list.push_back({"user._Codecs", print_json(codecs ? *codecs : filters::print_codecs(*chain))});
  }
  add_attributes(attributes, list);
  return list;
}

bool is_special_xattr(std::string_view name) {
  static constexpr std::string_view kSpecial[] = {
      "_Filter",     "_FilterStored", "_Codecs", "_Storage",  "_ChunkSizes", "_Endianness", "_DeflateLevel", "_Shuffle",
      "_Fletcher32", "_FilterOut",    "_Type",   "_MaxShape", "_Error",      "_Progress",   "_NotStored"};
  constexpr std::string_view kPrefix = "user.";
  return name.starts_with(kPrefix) && std::ranges::find(kSpecial, name.substr(kPrefix.size())) != std::end(kSpecial);
}

std::vector<Xattr> chunk_xattrs(const ChunkInfo& chunk) {
  std::vector<Xattr> list;
  list.push_back({"user._StoredSize", std::to_string(chunk.stored ? chunk.stored_size : 0)});
  if (chunk.stored && chunk.offset) list.push_back({"user._Offset", std::to_string(*chunk.offset)});
  list.push_back({"user._FilterMask", std::to_string(chunk.filter_mask)});
  return list;
}

}  // namespace codecfs::fs
