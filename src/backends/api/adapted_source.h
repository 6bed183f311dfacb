#pragma once
// A source as it is shown to programs that cannot read all of Zarr, as netCDF-C: -o view=netcdf, -o strings=,
// -o chunks=, and strings of UTF-32 in new netCDF files.

#include <cstdint>
#include <memory>

#include "backends/api/source.h"

namespace codecfs {

/// How strings are shown, those of variable length (vlen-utf8) and numpy's of UTF-32 (<U) alike.
enum class StringForm : uint8_t {
  vlen,   // as the source has them
  utf8,   // all of variable length
  fixed,  // |Sn, in UTF-8, with the length of the longest string of the variable
  bytes,  // as fixed, but as arrays of |u1, with one dimension more; so are the strings that the source stores as |S
};

struct Adaptation {
  StringForm strings = StringForm::vlen;
  bool clamps_chunks = false;  // no chunk is longer than the array
  /// Only what netCDF-C 4.9 reads of Zarr: variables of types that it lacks, or with a dimension of length 0, are left
  /// out, scalars are arrays of one element, and attributes that are neither a text nor numbers are their JSON text.
  bool suits_netcdf = false;

  [[nodiscard]] bool is_any() const { return strings != StringForm::vlen || clamps_chunks || suits_netcdf; }
};

/// The source with its variables in another form. It can only be read. A variable whose form differs from that of the
/// source has neither filters nor shards, as no chunk is shown as it is stored.
///
/// The length of strings is found when the variable is first asked for, which reads all of its chunks. A string that
/// has become longer since then is not cut: its chunk is EIO.
std::unique_ptr<Source> adapt_source(std::unique_ptr<Source> source, const Adaptation& adaptation);

}  // namespace codecfs
