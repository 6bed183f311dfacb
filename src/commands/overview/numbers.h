#pragma once
// Elements as numbers, and what the attributes of CF and netCDF say about them. Sources: CF conventions, 8.1 "Packed
// Data", 2.5.1 "Missing Data", 3.5 "Flags"; netCDF's attribute conventions (_Unsigned).

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "model/variable.h"

namespace codecfs::commands::overview {

/// Whether elements have a place on a scale: integers, floats (also those that only Zarr v3 has), booleans, times, and
/// complex numbers by their magnitude.
bool has_numbers(const Variable& variable);

/// Converts elements that are little-endian. NaN for "not a time". The variable must have numbers.
void to_numbers(const Variable& variable, Bytes elements, std::span<double> numbers);

/// A value of a variable in which values have names.
struct Flag {
  double value = 0;
  std::string meaning;
};

/// What the attributes of a variable say about its numbers.
struct Conventions {
  double scale = 1;   // scale_factor
  double offset = 0;  // add_offset
  bool is_packed = false;
  double unsigned_from = 0;     // _Unsigned: is added to negative numbers; 0: nothing is
  std::vector<double> missing;  // numbers as stored that mark missing data: _FillValue, missing_value
  std::optional<double> fill;   // of chunks that are not stored; none: it is undefined
  /// With which detectors mark pixels: the largest number of unsigned integers of 32 bits or more. It counts in
  /// statistics, but has no place in pictures.
  std::optional<double> mask;
  std::vector<Flag> flags;  // flag_values with flag_meanings
  std::string units;
  std::string long_name;
  std::string standard_name;

  /// As in _FillValue, missing_value, and a fill value that is not 0, of more than one byte. NaN is missing always.
  [[nodiscard]] bool is_missing(double stored) const;
  /// Whether an element was never written, or marks missing data.
  [[nodiscard]] bool is_fill(double stored) const;
  [[nodiscard]] double unpacked(double stored) const { return is_packed ? stored * scale + offset : stored; }
};

/// `attributes`: of the variable, as they are shown.
Conventions conventions_of(const Variable& facts, std::span<const Attribute> attributes);

/// For people, in at most six digits; integers up to 15 digits in full.
std::string number_text(double number);
/// "none", "0.3 %", "all".
std::string share_text(uint64_t part, uint64_t whole);

}  // namespace codecfs::commands::overview
