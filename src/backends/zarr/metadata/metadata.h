#pragma once
// Parses the metadata files of a Zarr v2 store (zarr3_metadata.h: of v3). Pure functions of their texts: no I/O.
// Sources: Zarr v2 specification; for NCZarr's keys the netCDF-C sources of 4.8.0 to 4.10.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/zarr/metadata/nczarr.h"
#include "backends/zarr/metadata/rectilinear_grid.h"
#include "backends/zarr/metadata/shard_layout.h"
#include "base/result.h"
#include "model/chunk_keys.h"
#include "model/variable.h"

namespace codecfs::zarr {

struct ArrayTexts {
  std::string zarray;
  std::optional<std::string> zattrs;
  std::optional<std::string> nczvar = {};   // .nczvar or .nczarray, the object of NCZarr 4.8.0
  std::optional<std::string> nczattr = {};  // .nczattr, of NCZarr 4.8.0
};

struct Array {
  Variable variable;  // as presented: C order, dimensions named, without NCZarr's keys
  ChunkKeys keys = {.has_prefix = false, .separator = '.'};  // stored names of chunks, or of shards
  std::optional<ShardLayout> shards;                         // none: each chunk is a file
  /// The stored chunks, where the presented ones are put together of them.
  std::optional<RectilinearGrid> rectilinear;
  std::optional<NczarrArray> nczarr;  // set if netCDF-C also stores the array's dimensions
  /// Other readers would misinterpret the stored codecs; with_chain() with the same pipeline corrects them.
  bool has_wrong_codecs = false;
  bool has_items = false;  // a chunk is a list of items: LE32 count, then LE32 length and bytes of each
  /// dtype is "<U1" and chunks are raw: if they have one byte per element, netCDF-C wrote characters, see
  /// narrow_text().
  bool may_be_narrow_text = false;
};

/// EIO with the name of the file and the error in it. If the metadata is valid but chunks cannot be read (unknown
/// object codec, too large), Variable::unreadable is set.
Result<Array> parse_array(const ArrayTexts& texts);

/// Whether "zarr_format" is this version: a number, or as some writers have it, a text.
bool is_format(const Json& given, int version);

/// Sets Variable::chunk_bytes, and Variable::unreadable if they exceed the limit. EIO, blaming `file`.
Result<> measure_chunks(Variable& variable, const char* file);

/// netCDF-C 4.8 to 4.9.0 stores characters as one byte each with dtype "<U1": corrects the type to "|S1".
void narrow_text(Array& array);

/// The attributes in a .zattrs, without NCZarr's own. `nczattr`: see ArrayTexts. EIO.
Result<std::vector<Attribute>> parse_attributes(std::string_view zattrs,
                                                const std::optional<std::string>& nczattr = {});

/// Checks a .zgroup: EIO if it is not a JSON object, EOPNOTSUPP for another zarr_format.
Result<> check_group(std::string_view zgroup);

}  // namespace codecfs::zarr
