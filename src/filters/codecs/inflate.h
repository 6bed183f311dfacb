#pragma once
// Deflate decompression by libdeflate, for the zlib and the gzip wrapping.

#include <libdeflate.h>

#include "base/buffer.h"
#include "filters/core/filter.h"

namespace codecfs::filters::codecs {

enum class Wrapping { zlib, gzip };

/// One zlib stream (what follows it is ignored), or one gzip member after the other (only zeros may follow).
/// EIO, ENOMEM.
Result<Buffer> inflate(Bytes in, Wrapping wrapping, const SizeBound& out);

}  // namespace codecfs::filters::codecs
