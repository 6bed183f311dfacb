#pragma once
// Decides which files that are neither chunk nor metadata the mount accepts. Such a file is staged: it exists in memory
// until it is renamed to a chunk or metadata file. A file that can never be stored is refused at creation, so that no
// writer assumes that it is stored. docs/semantics/writing.md has the table.

#include <string_view>

#include "base/result.h"
#include "fs/nodes/nodes.h"

namespace codecfs::fs {

/// Whether a name has the form of a chunk's: numbers with dots between them.
bool looks_like_chunk(std::string_view name);

/// Whether the file is one of netCDF-C's own, which repeat the Zarr metadata: accepted and never stored.
bool is_nczarr_file(std::string_view name);

/// Whether a program may use this name for a file that it renames later: see docs/semantics/writing.md.
bool is_temporary_name(std::string_view name);

/// Whether a component of this path ("/a/b", from the root of the dataset) is temporary, and so everything below it.
bool is_temporary_path(std::string_view path);

/// EINVAL for the names of metadata files that belong to the other format of Zarr, in every directory of a view and for
/// every call.
Result<> check_name(View view, std::string_view directory, std::string_view name);

}  // namespace codecfs::fs
