#pragma once
// The text form of a filter pipeline, as in netCDF's `_Filter` attribute and nccopy -F:
//
//   list      =  [ "[0]" ] ( filter ( "|" filter )* [ "|" ] | "none" | nothing )      the last two: no filters
//   filter    =  ( id | name ) ( "," constant )*
//             |  "UD=" id "," flag "," count ( "," constant )*    as in h5repack; flag 1: optional, 0: mandatory
//   constant  =  [-]digits            one 32-bit word; without a sign two words where it takes 64 bits
//                [-]digits[u]b  s     cut to 8 or 16 bits, then extended with zeros (-17b is 239)
//                [-]digits u          one word
//                [-]digits[u]l        64 bits: two words, the low one first
//                [-]float f           the bits of a 32-bit float: one word
//                [-]float d           the bits of a 64-bit float: two words, the low one first
//
// Letters are case-insensitive, and white space may surround every token. The names are those of the table in netCDF's
// filter document (deflate, shuffle, fletcher32 and szip with their real HDF5 ids) and those of the registered filters.
// Source: netCDF-C documentation, "Filter Specification Syntax"; as in its tests, signed bytes and shorts are not
// sign-extended. print_filter_spec() in codec_json.h is the inverse.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/variable.h"

namespace codecfs::filters {

inline constexpr size_t kMaxChain = 32;  // filters; the number of bits in HDF5's filter mask

/// Parses `text` from byte `start` to its end and returns the filters in the order of encoding, as written
/// (arrange_chain() in filter_rules.h reorders them). EINVAL with the position in `text` and, for common mistakes, a
/// hint:
///   character 6 of "307,3.5": a number with a fraction or an exponent needs its type: add f or d
Result<std::vector<FilterStage>> parse_filter_spec(std::string_view text, size_t start = 0);

/// Whether this is the word "none", case-insensitive, with or without white space around it.
bool is_none(std::string_view text);

/// The error for an invalid text; `at` is the byte (its size: at the end). Shows only the part of a long text around
/// it.
[[nodiscard]] std::unexpected<Error> fail_at(std::string_view text, size_t at, std::string_view what);

}  // namespace codecfs::filters
