#pragma once
// What the metadata files of a Zarr v2 store say. Pure functions of their texts: no I/O. Sources: Zarr v2
// specification; for NCZarr's keys the netCDF-C sources of 4.8.0 to 4.10.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/zarr/metadata/nczarr.h"
#include "base/result.h"
#include "model/variable.h"

namespace codecfs::zarr {

struct ArrayTexts {
  std::string zarray;
  std::optional<std::string> zattrs;
  std::optional<std::string> nczvar = {};   // .nczvar or .nczarray, the object of NCZarr 4.8.0
  std::optional<std::string> nczattr = {};  // .nczattr, likewise
};

struct Array {
  Variable variable;                  // as presented: C order, dimensions named, NCZarr's keys gone
  char separator = '.';               // in the names of chunks as stored
  bool fortran_order = false;         // stored chunks are to be transposed (never set where that changes nothing)
  std::optional<NczarrArray> nczarr;  // netCDF-C keeps the array's dimensions elsewhere too
  /// The codecs are told so that other readers take them for something else; with_chain() of the same chain tells them
  /// right.
  bool has_wrong_codecs = false;
  bool has_items = false;  // a chunk is a list of items: LE32 count, then LE32 length and bytes of each
  /// dtype is "<U1" and chunks are raw: where they hold one byte an element, netCDF-C wrote characters, see
  /// narrow_text().
  bool may_be_narrow_text = false;
};

/// EIO with the name of the file and what is wrong in it. An array that is well described but whose chunks cannot be
/// read (unknown object codec, too large) has Variable::unreadable.
Result<Array> parse_array(const ArrayTexts& texts);

/// netCDF-C 4.8 to 4.9.0 labels characters "<U1" and stores one byte each: makes them "|S1", which is what they are.
void narrow_text(Array& array);

/// The attributes in a .zattrs, without NCZarr's own. `nczattr`: see ArrayTexts. EIO.
Result<std::vector<Attribute>> parse_attributes(std::string_view zattrs,
                                                const std::optional<std::string>& nczattr = {});

/// A .zgroup: EIO where it is no JSON object, EOPNOTSUPP where it tells another zarr_format.
Result<> check_group(std::string_view zgroup);

}  // namespace codecfs::zarr
