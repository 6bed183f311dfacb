#pragma once
// The metadata files of a Zarr v2 store, made anew or changed. Pure functions of their texts: no I/O. What is not meant
// to change stays as it is, in its order; the layout is zarr-python's (indented by four).

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

/// A chain that is good for an array, as .zarray tells it, and ready to encode.
struct Chain {
  std::vector<FilterStage> stages;
  filters::Pipeline pipeline;
};

/// A chain as a user wrote it, made complete for a variable of this type and grid: each stage has its codec's JSON, and
/// shuffle stands where numcodecs can undo it. ENOENT for a filter that nobody provides; EINVAL for one that the
/// variable cannot have, that can only be read here, or that has no codec.
Result<Chain> complete_chain(std::span<const FilterStage> chain, const Variable& variable);
/// Whether two chains, both complete, are the same for who reads them.
bool are_equal(std::span<const FilterStage> one, std::span<const FilterStage> other);

struct NewArray {
  std::string zarray;
  std::optional<std::string> zattrs;
  std::optional<std::string> nczvar = {};  // of NCZarr 4.8.0
};
/// The files of a new array. EINVAL for what .zarray cannot say, and the errors of complete_chain().
Result<NewArray> print_array(const Variable& variable);
/// The same as netCDF-C has it, whose dimensions are to be found under these paths. Only where can_be_nczarr().
Result<NewArray> as_nczarr(NewArray files, const Variable& variable, NczarrForm form,
                           std::span<const std::string> references);

/// A .zarray with another shape; with another chain.
Result<std::string> with_shape(std::string_view zarray, std::span<const uint64_t> shape);
Result<std::string> with_chain(std::string_view zarray, const Variable& variable, std::span<const FilterStage> chain);

struct AttributeChange {
  std::span<const Attribute> set;
  std::span<const std::string> remove;
  bool keeps_dimensions = false;  // _ARRAY_DIMENSIONS is not an attribute here but names dimensions
};
/// A .zattrs (none: there is no such file) with attributes made, replaced and removed; none where nothing changes.
/// ENODATA, EINVAL, EPERM for what is NCZarr's own.
Result<std::optional<std::string>> with_attributes(const std::optional<std::string>& zattrs,
                                                   const AttributeChange& change);
/// A .zattrs with these names of dimensions.
Result<std::string> with_dimensions(const std::optional<std::string>& zattrs, std::span<const std::string> names);
/// The file in which NCZarr keeps the dimensions of an array, or the lists of a group (none: there is no such file),
/// with others.
Result<std::string> with_references(const std::optional<std::string>& file, NczarrForm form,
                                    std::span<const std::string> references);
Result<std::string> with_lists(const std::optional<std::string>& file, const NczarrGroup& group);

/// A .zmetadata that holds `entries` (an object: the JSON of every metadata file by its key) in place of what it held.
/// None where it is of a form that is not known here.
Result<std::optional<std::string>> with_entries(std::string_view zmetadata, Json entries);

}  // namespace codecfs::zarr
