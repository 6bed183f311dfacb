#include "backends/api/nczarr_texts.h"

#include "backends/api/names.h"
#include "backends/zarr/metadata/metadata_write.h"
#include "backends/zarr/metadata/nczarr.h"
#include "model/json.h"

namespace codecfs::nczarr_texts {

Result<> check_variable(const Variable& variable) { return zarr::check_nczarr(variable, zarr::NczarrForm::attributes); }

Result<> check_name(std::string_view name) {
  if (!is_netcdf_name(name)) return fail(EINVAL, "netCDF has no name like \"{}\"", name);
  return {};
}

std::string anonymous_dimension(uint64_t length) { return fmt::format("{}{}", zarr::kAnonymousDimension, length); }

Result<ArrayFiles> array_files(std::string_view zarray, const Variable& variable,
                               std::span<const std::string> references) {
  CODECFS_TRY(check_variable(variable));
  CODECFS_ASSIGN(const Json zattrs, zarr::print_attributes(variable));
  zarr::NewArray files{.zarray = std::string(zarray), .zattrs = print_json(zattrs)};
  CODECFS_ASSIGN(files, zarr::as_nczarr(std::move(files), variable, zarr::NczarrForm::attributes, references));
  return ArrayFiles{std::move(files.zarray), std::move(*files.zattrs)};
}

Result<std::string> group_zattrs(const Group& group, bool is_root) {
  Json zattrs = Json::object();
  for (const Attribute& attribute : group.attributes) {
    CODECFS_TRY(zarr::check_attribute_texts(attribute));
    zarr::put_typed_attribute(zattrs, attribute);
  }
  zarr::NczarrGroup lists;
  lists.dimensions = group.dimensions;
  lists.arrays = group.arrays;
  lists.groups = group.groups;
  zarr::put_nczarr_group(zattrs, lists);
  if (is_root) zarr::put_superblock(zattrs);
  return zarr::print_file(zattrs, 4) + "\n";
}

}  // namespace codecfs::nczarr_texts
