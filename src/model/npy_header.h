#pragma once
// The header of an array as a file of numpy's format: byte for byte the one that numpy.save writes since 1.24.
// Source: NEP 1 and numpy/lib/format.py. What follows the header is the array in C order.
//
//   93 'N' 'U' 'M' 'P' 'Y'  major minor  length (LE16 in version 1.0, LE32 in 2.0 and 3.0)
//   {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }  spaces  '\n'
//
// The whole is a multiple of 64 bytes, so that the array can be mapped. Version 2.0 where the text is longer than a
// LE16 says; 3.0, which is UTF-8, where the name of a member is not Latin-1.

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "model/data_type.h"

namespace codecfs {

/// The gaps of a compound type, which DataType has as raw members (`__pad0`, or no name), are padding to numpy too.
/// EOPNOTSUPP for types whose elements have no fixed size, or none at all.
Result<std::string> npy_header(const DataType& type, std::span<const uint64_t> shape);

}  // namespace codecfs
