#pragma once
// Which files the mount accepts that are neither chunk nor metadata. Such a file is staged: it lives in memory until it
// is renamed to a chunk or metadata file. A file that can never be stored is refused when it is made, so that no writer
// takes it for stored. docs/semantics/writing.md has the table.

#include <string_view>

#include "base/result.h"

namespace codecfs::fs {

/// A name that has the form of a chunk's: numbers with dots between them.
bool looks_like_chunk(std::string_view name);

/// Files of netCDF-C's own, which repeat what the Zarr metadata says: accepted and never stored.
bool is_nczarr_file(std::string_view name);

/// A name that programs give to a file which they rename later: see docs/semantics/writing.md.
bool is_temporary_name(std::string_view name);

/// Whether a name on this path ("/a/b", from the root of the dataset) is temporary: what such a directory holds is.
bool is_temporary_path(std::string_view path);

/// EINVAL for names that belong to a format that the mount does not store, at every place and by every call.
Result<> check_name(std::string_view directory, std::string_view name);

}  // namespace codecfs::fs
