#pragma once
// Chunks of strings, of variable length (vlen-utf8) and of UTF-32 (numpy's <U), as strings of fixed length in UTF-8, or
// all of variable length.

#include <cstdint>

#include "base/buffer.h"
#include "base/result.h"
#include "model/variable.h"

namespace codecfs::adapted {

/// Whether the elements of the variable are such strings.
bool has_strings(const Variable& variable);

/// Bytes of the longest string of a chunk, in UTF-8. `elements`: how many the chunk must have. EIO if it has not.
Result<uint64_t> longest_string(const Variable& variable, Bytes chunk, uint64_t elements);

/// The strings padded with NUL to `length` bytes, which is not 0. EIO for a longer string, and for one that this
/// cannot represent: with a NUL at its end, which readers take for padding, or with a code point that Unicode lacks.
Result<Buffer> fixed_strings(const Variable& variable, Bytes chunk, uint64_t elements, uint64_t length);

/// The strings as vlen-utf8. EIO for a code point that Unicode lacks.
Result<Buffer> vlen_strings(const Variable& variable, Bytes chunk, uint64_t elements);

}  // namespace codecfs::adapted
