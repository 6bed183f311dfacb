#pragma once
// The header of an array in numpy's file format: byte for byte the one that numpy.save has written since 1.24. Source:
// NEP 1 and numpy/lib/format.py. The array follows the header in C order.
//
//   93 'N' 'U' 'M' 'P' 'Y'  major minor  length (LE16 in version 1.0, LE32 in 2.0 and 3.0)
//   {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }  spaces  '\n'
//
// The total length is a multiple of 64 bytes, so that the array can be mapped. The version is 2.0 if the length of the
// text exceeds 16 bits, and 3.0 (UTF-8) if a member name is not Latin-1.

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "model/data_type.h"

namespace codecfs {

/// The gaps of a compound type are raw members of DataType (`__pad0`, or without a name) and padding in numpy.
/// EOPNOTSUPP for types whose elements have no fixed size, or size 0.
Result<std::string> npy_header(const DataType& type, std::span<const uint64_t> shape);

}  // namespace codecfs
