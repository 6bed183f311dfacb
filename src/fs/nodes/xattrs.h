#pragma once
// Extended attributes: netCDF's special attributes of a variable (user._Filter, user._Storage, ...) and every ordinary
// attribute as user.NAME, so that `getfattr -d` resembles `ncdump -hs`.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/api/source.h"
#include "fs/nodes/dataset.h"

namespace codecfs::fs {

struct Xattr {
  std::string name;  // including "user."
  std::string value;
};

/// The kernel's limits in bytes for one value and for the list of names (linux/limits.h). Larger values are omitted
/// (they are in .zattrs), because one would make all of `getfattr -d` fail.
inline constexpr size_t kMaxXattrValue = 65536;
inline constexpr size_t kMaxXattrList = 65536;
inline constexpr size_t kMaxXattrName = 255;

// Special attributes, without "user.".
inline constexpr std::string_view kFilterName = "_Filter";
/// Of HDF5 variables: the pipeline with flags and with the parameters that set_local completed, which setting it keeps.
inline constexpr std::string_view kFilterStoredName = "_FilterStored";
inline constexpr std::string_view kCodecsName = "_Codecs";

/// Special attributes first; an ordinary attribute of the same name is hidden. `filter_out`: user._FilterOut, the
/// filters that a mount rule assigns to the variable. `format`: of user._Codecs.
std::vector<Xattr> variable_xattrs(const VariableView& variable, const std::vector<Attribute>& attributes,
                                   const std::optional<std::string>& filter_out = {},
                                   const MetadataFormat& format = kZarr2Format);
/// `chain`: the filters of new variables below the group. user._Filter is omitted if a codec has no HDF5 id.
std::vector<Xattr> group_xattrs(const std::vector<Attribute>& attributes,
                                const std::optional<std::vector<FilterStage>>& chain = {},
                                const MetadataFormat& format = kZarr2Format);
std::vector<Xattr> chunk_xattrs(const ChunkInfo& chunk);

/// Whether a name with "user." is special, so that no ordinary attribute can be changed through it.
bool is_special_xattr(std::string_view name);

}  // namespace codecfs::fs
