#include "backends/api/zarr_texts.h"
#include "backends/zarr/metadata/metadata.h"
#include "backends/zarr/metadata/nczarr.h"
#include "model/json.h"

namespace codecfs::zarr_texts {

Result<Variable> parse_zarray(std::string_view text) {
  CODECFS_ASSIGN(zarr::Array array, zarr::parse_array({std::string(text), {}, {}}));
  return std::move(array.variable);
}

std::optional<std::vector<std::string>> nczarr_dimensions(const Json& zattrs) {
  const auto nczarr = zarr::parse_nczarr(Json(), zattrs, Json());
  return nczarr ? nczarr->dimensions : std::nullopt;
}

std::vector<GroupDimension> group_dimensions(const Json& zattrs) {
  auto group = zarr::parse_nczarr_group(Json(), zattrs, Json());
  return group ? std::move(group->dimensions) : std::vector<GroupDimension>();
}

std::string attribute_type(const Json& zattrs, std::string_view name) {
  return zarr::known_attribute_type(zarr::attribute_type(zarr::attribute_types(zattrs, {}), name));
}

bool is_nczarr_key(std::string_view name) { return zarr::is_nczarr_key(name); }

Result<> check_zgroup(std::string_view text) { return zarr::check_group(text); }

Result<ChunkCodecs> parse_chunk_codecs(const Json& codecs, const DataType& type, const std::vector<uint64_t>& shape,
                                       const std::vector<uint64_t>& chunks) {
  CODECFS_ASSIGN(zarr::ShardedCodecs parsed, zarr::parse_sharded_codecs(codecs, type, shape, chunks));
  return ChunkCodecs{parsed.layout.has_value(), std::move(parsed.chunks), std::move(parsed.codecs)};
}

}  // namespace codecfs::zarr_texts
