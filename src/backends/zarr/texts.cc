#include "backends/zarr/metadata.h"
#include "backends/zarr/nczarr.h"
#include "backends/zarr_texts.h"

namespace codecfs::zarr_texts {

Result<Variable> parse_zarray(std::string_view text) {
  CODECFS_ASSIGN(zarr::Array array, zarr::parse_array({std::string(text), {}, {}}));
  return std::move(array.variable);
}

std::optional<std::vector<std::string>> nczarr_dimensions(const Json& zattrs) {
  const auto nczarr = zarr::parse_nczarr(Json(), zattrs, Json());
  return nczarr ? nczarr->dimensions : std::nullopt;
}

bool is_nczarr_key(std::string_view name) { return zarr::is_nczarr_key(name); }

Result<> check_zgroup(std::string_view text) { return zarr::check_group(text); }

}  // namespace codecfs::zarr_texts
