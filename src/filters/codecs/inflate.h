#pragma once
// Deflate decompression by libdeflate, for the zlib and the gzip wrapping.

#include <libdeflate.h>

#include "base/buffer.h"
#include "filters/core/filter.h"

namespace codecfs::filters::codecs {

enum class Wrapping { zlib, gzip };

/// Decodes one zlib stream (following bytes are ignored), or consecutive gzip members (followed only by zeros). EIO,
/// ENOMEM.
Result<Buffer> inflate(Bytes in, Wrapping wrapping, const SizeBound& out);

}  // namespace codecfs::filters::codecs
