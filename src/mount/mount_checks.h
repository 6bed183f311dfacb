#pragma once
// What is checked before a mount, so that it does not hide files, other mounts or a mistake.

#include <string>
#include <string_view>

#include "backends/api/source.h"
#include "base/result.h"

namespace codecfs::mount {

/// Returns the absolute path of the mount point, without symbolic links. ENOTDIR; unless `nonempty`: EBUSY if a codecfs
/// mount is there, ENOTEMPTY if the directory has entries and is not `source` itself.
Result<std::string> check_mountpoint(const std::string& path, const std::string& source, bool nonempty);

/// Whether an existing source of this format (Source::format()) is what `-o create=` would have made. EEXIST.
Result<> check_created_format(const std::string& source, std::string_view create, std::string_view format);
/// As check_created_format(), for a store of Zarr v2 and create=nczarr. EEXIST.
Result<> check_is_nczarr(const std::string& source, Source& store);

/// After a mount has failed: what is missing on this machine, and what to do, as "; ...". Empty if nothing is known.
/// `allow_other`: the mount was to have this option.
std::string hint_for_failed_mount(bool allow_other);

}  // namespace codecfs::mount
