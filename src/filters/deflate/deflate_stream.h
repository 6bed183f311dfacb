#pragma once
// Deflate compression for the zlib and the gzip wrapping, by libdeflate, except for incompressible byte planes.

#include <cstdint>

#include "base/buffer.h"
#include "base/result.h"
#include "filters/codecs/inflate.h"

namespace codecfs::filters::codecs {

/// Encodes one zlib stream or one gzip member (without a time or a name). `level` is zlib's: 0 (stored) to 9, or -1 for
/// the default; the output is about as large as zlib's at this level. EINVAL for other levels, ENOMEM. Debug builds
/// decode the output and abort if it is not `in`.
Result<Buffer> deflate_whole(Bytes in, Wrapping wrapping, int64_t level);

/// Whether libdeflate, which also compares the checksums, decodes `encoded` to `original`.
bool inflates_to(Bytes encoded, Wrapping wrapping, Bytes original);

}  // namespace codecfs::filters::codecs
