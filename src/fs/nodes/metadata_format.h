#pragma once
// The formats of the metadata files beside chunks, Zarr v2 and v3: which files there are, and what follows from the
// format for chunks, codecs and names.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "filters/core/filter.h"
#include "filters/core/zarr_chain.h"
#include "fs/nodes/file_kind.h"
#include "model/chunk_directories.h"
#include "model/json.h"
#include "model/variable.h"

namespace codecfs::fs {

struct VariableView;

/// For which readers a chain of codecs is made.
struct ChainReaders {
  bool netcdf = false;    // codecs that netCDF-C has, too
  bool portable = false;  // codecs that every reader has
};

struct MetadataFormat {
  int version;
  std::string_view readers;                 // for messages
  std::span<const NamedFile> of_groups;     // in the order in which they are listed
  std::span<const NamedFile> of_variables;  // in that order, too; _Filter and _Codecs are not listed
  FileKind of_array;                        // what makes a directory an array, and has its codecs
  FileKind consolidated;                    // of a group: has the metadata of everything below it
  bool has_attributes_apart;                // attributes and names of dimensions are in .zattrs
  bool has_chunk_directories;               // chunks are usually c/0/1, not 0.1
  bool has_shards;
  bool shows_absent_chunks;     // where there is no fill value, files of chunks that are neither stored nor written
  bool lists_new_groups_empty;  // before something is made in them
  std::string_view advice;      // behind the refusal of a file of the other format

  /// How the files of chunks are named.
  ChunkKeys (*keys_of)(const Variable& variable);
  /// The codecs of a variable as text.
  std::shared_ptr<const std::string> (*codecs_of)(const VariableView& variable);
  Result<Json> (*print_chain)(std::span<const FilterStage> chain);

  /// What readers of the format find for a pipeline of this variable.
  filters::Zarr3Chain (*chain_of)(std::span<const FilterStage> stages, const Variable& variable, ChainReaders readers);
  /// Whether a chain that was written is the one that is shown.
  bool (*is_shown_as)(std::span<const FilterStage> shown, std::span<const FilterStage> written, size_t element_bytes);
  /// A chain that was written as views of this format show it.
  std::vector<FilterStage> (*as_shown)(std::vector<FilterStage> written, size_t element_bytes);
  /// A chain that was written, for a store of which numcodecs decodes the chunks.
  std::vector<FilterStage> (*for_numcodecs)(std::vector<FilterStage> written, size_t element_bytes);
  /// A chain that was written, as HDF5 can store it.
  std::vector<FilterStage> (*for_hdf5)(std::vector<FilterStage> written, size_t element_bytes);

  /// Whether it has a metadata file of this name, of a group or a variable.
  [[nodiscard]] bool has_file(std::string_view name) const;
};

extern const MetadataFormat kZarr2Format;
extern const MetadataFormat kZarr3Format;

}  // namespace codecfs::fs
