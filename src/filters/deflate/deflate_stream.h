#pragma once
// Deflate compression for the zlib and the gzip wrapping, by libdeflate, except for incompressible byte planes.

#include <cstdint>

#include "base/buffer.h"
#include "base/result.h"
#include "filters/codecs/inflate.h"

namespace codecfs::filters::codecs {

/// Encodes one zlib stream or one gzip member (without a time or a name). `level` is zlib's: 0 (stored) to 9, or -1 for
/// the default; the output is about as large as zlib's at this level. EINVAL for other levels, ENOMEM.
Result<Buffer> deflate_whole(Bytes in, Wrapping wrapping, int64_t level);

}  // namespace codecfs::filters::codecs
