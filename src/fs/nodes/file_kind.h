#pragma once
// The files beside the chunks.

#include <cstdint>
#include <string_view>

namespace codecfs::fs {

/// The value is the local part of the inode number.
enum class FileKind : uint8_t {
  itself = 1,
  zgroup = 2,
  zarray = 3,
  zattrs = 4,
  zmetadata = 5,
  filter = 6,
  codecs = 7,
  log = 8,
  stats = 9,
  filters = 10,
  array = 11,  // a variable as one file; a root that is an array is a directory with this file
  zarr_json = 12,
  references = 13,
  unknown = 14,          // all names of a variable's directory, while the variable cannot be read (Namespace::known())
  chunk_directory = 15,  // of Place only: a directory of chunks
  chunk = 16,            // and all values above
};

struct NamedFile {
  std::string_view name;
  FileKind kind;
};

/// The name of a metadata or control file.
std::string_view name_of(FileKind file);

}  // namespace codecfs::fs
