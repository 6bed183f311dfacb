#pragma once
// Creates and changes the metadata files of a Zarr v2 store. Pure functions of their texts: no I/O. Members that are
// not changed keep their value and order; the layout is zarr-python's (indented by four).

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/zarr/metadata/nczarr.h"
#include "base/result.h"
#include "filters/core/pipeline.h"
#include "model/variable.h"

namespace codecfs::zarr {

/// The .zgroup of every group.
std::string print_group();

/// A complete filter pipeline for an array, in the form of .zarray, and ready to encode.
struct Chain {
  std::vector<FilterStage> stages;
  filters::Pipeline pipeline;
};

/// Completes a pipeline from a user for a variable of this type and grid: each stage gets its codec's JSON, and shuffle
/// is placed where numcodecs can decode it. ENOENT for an unknown filter; EINVAL for one that does not apply to the
/// variable, that can only decode, or that has no codec.
Result<Chain> complete_chain(std::span<const FilterStage> chain, const Variable& variable);
/// Whether two complete pipelines are equivalent for readers.
bool are_equal(std::span<const FilterStage> one, std::span<const FilterStage> other);

struct NewArray {
  std::string zarray;
  std::optional<std::string> zattrs;
  std::optional<std::string> nczvar = {};  // of NCZarr 4.8.0
};
/// The files of a new array. EINVAL if .zarray cannot represent it, and the errors of complete_chain().
Result<NewArray> print_array(const Variable& variable);
/// The .zattrs of a new array. EINVAL, EPERM.
Result<Json> print_attributes(const Variable& variable);
/// The files of a new array in netCDF-C's form, made of those of print_array(); its dimensions must be defined at these
/// paths. Requires check_nczarr().
Result<NewArray> as_nczarr(NewArray files, const Variable& variable, NczarrForm form,
                           std::span<const std::string> references);

/// Changes the shape, or the pipeline, in a .zarray.
Result<std::string> with_shape(std::string_view zarray, std::span<const uint64_t> shape);
Result<std::string> with_chain(std::string_view zarray, const Variable& variable, std::span<const FilterStage> chain);

/// EINVAL if a text of the attribute is not UTF-8, which JSON requires.
Result<> check_attribute_texts(const Attribute& attribute);

struct AttributeChange {
  std::span<const Attribute> set;
  std::span<const std::string> remove;
  bool keeps_dimensions = false;  // _ARRAY_DIMENSIONS names dimensions and is not an ordinary attribute
};
/// Creates, replaces and removes attributes in a .zattrs (none: the file does not exist). Returns none if nothing
/// changes. ENODATA, EINVAL, EPERM for NCZarr's own attributes.
Result<std::optional<std::string>> with_attributes(const std::optional<std::string>& zattrs,
                                                   const AttributeChange& change);
/// Sets the dimension names in a .zattrs.
Result<std::string> with_dimensions(const std::optional<std::string>& zattrs, std::span<const std::string> names);
/// Replaces the dimension references of an array, or the lists of a group, in the file where NCZarr stores them (none:
/// the file does not exist).
Result<std::string> with_references(const std::optional<std::string>& file, NczarrForm form,
                                    std::span<const std::string> references);
Result<std::string> with_lists(const std::optional<std::string>& file, const NczarrGroup& group);

/// Replaces the content of a .zmetadata by `entries` (an object: the JSON of every metadata file by its key). None if
/// its form is unknown.
Result<std::optional<std::string>> with_entries(std::string_view zmetadata, Json entries);

}  // namespace codecfs::zarr
