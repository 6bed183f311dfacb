#pragma once
// `codecfs convert`: copies a dataset into a new one of another format, or of the same one with other filters. The
// result is the same as that of `cp -r` from an encoded view of a mount into a directory (but only the root has
// consolidated metadata, and types that Zarr does not have are noted: kStoredTypes), or into the same view of a mount
// of the new dataset: stored bytes are passed through where the formats share the codecs, else each chunk is decoded
// and encoded. From HDF5 to HDF5 see convert_file.h.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/api/source.h"
#include "backends/open/source_opener.h"
#include "base/result.h"
#include "filters/core/filter_rules.h"

namespace codecfs::commands {

enum class DatasetFormat { hdf5, zarr, zarr3, zip, nczarr };
/// "hdf5", "zarr", "zarr3", "zip", "nczarr".
std::optional<DatasetFormat> format_named(std::string_view name);
std::string_view name_of(DatasetFormat format);
/// By the ending of the name: HDF5 where has_hdf5_name(), and for .hdf; .zip; else Zarr in the version of the source,
/// or v2. EINVAL for an ending of another format.
Result<DatasetFormat> format_for(const std::string& destination, const Source& source);

struct LeftOut {
  std::string path;
  std::string reason;       // begins with the path
  bool is_allowed = false;  // by `skip` or `skip_unsupported`
};

struct ConvertOptions {
  DatasetFormat format = DatasetFormat::zarr;
  filters::FilterRules rules;
  std::string rules_text;         // `rules` as text, to recognise an interrupted conversion
  std::vector<std::string> skip;  // paths of what is left out: of objects ("/g/v"), or attributes ("/g/v@name")
  /// Leaves out the variables and attributes that the format of the new dataset has no form for, but nothing that
  /// cannot be read.
  bool skip_unsupported = false;
  /// Called for each variable, group or attribute that is left out; before an error, for each that makes the conversion
  /// fail if there are several.
  std::function<void(const LeftOut&)> told;
  bool portable = false;  // Zarr v3: only codecs that every reader has
  std::string libver;     // as the user gave it; Hdf5Options::latest is what counts
  bool resume = false;    // go on with what an interrupted conversion has left
  SourceOpener opener;    // of the new dataset
};

struct Converted {
  uint64_t chunks = 0;   // chunk files that were copied
  uint64_t bytes = 0;    // of these
  uint64_t present = 0;  // chunk files that were there when it was resumed
  std::vector<std::string> warnings;
};

/// Creates `destination`; for a URL see convert_objects.h. It is made beside it, under the name
/// DESTINATION.codecfs-partial, and renamed when it is complete and durable. EINVAL if nothing has a path of `skip`,
/// if a rule cannot give a variable that it names its filters, or if something cannot be converted and may not be left
/// out; EEXIST if `destination` exists, or a partial one unless `resume` is set; ECANCELED and other errors: the
/// partial one stays, except after those (as EINVAL) that would come again. `name`: the source as the user named it.
Result<Converted> convert(std::unique_ptr<Source> source, const std::string& name, const std::string& destination,
                          ConvertOptions options);

}  // namespace codecfs::commands
