#pragma once
// Extended attributes: a variable's special attributes as netCDF names them (user._Filter, user._Storage, ...) and
// every ordinary attribute as user.NAME, so that `getfattr -d` reads like `ncdump -hs`.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/api/source.h"
#include "fs/views/dataset.h"

namespace codecfs::fs {

struct Xattr {
  std::string name;  // with "user."
  std::string value;
};

/// The kernel's limits for one value and for the list of names (linux/limits.h), bytes. A larger value is left out here
/// (its place is .zattrs), as one that is too large would fail a whole `getfattr -d`.
inline constexpr size_t kMaxXattrValue = 65536;
inline constexpr size_t kMaxXattrList = 65536;
inline constexpr size_t kMaxXattrName = 255;

/// Special ones first. Where an ordinary attribute has the name of a special one, the special one wins.
/// `filter_out`: user._FilterOut, the chain that a mount rule gives the variable.
std::vector<Xattr> variable_xattrs(const VariableView& variable, const std::vector<Attribute>& attributes,
                                   const std::optional<std::string>& filter_out = {});
/// `filter`: user._Filter, the chain that new variables below the group get.
std::vector<Xattr> group_xattrs(const std::vector<Attribute>& attributes,
                                const std::optional<std::string>& filter = {});
std::vector<Xattr> chunk_xattrs(const ChunkInfo& chunk);

/// A name with "user." that is ours on a variable or group: no ordinary attribute can be changed by it.
bool is_special_xattr(std::string_view name);

}  // namespace codecfs::fs
