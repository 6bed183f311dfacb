#pragma once
// Decodes the usual Blosc 1 buffers, LZ4 or Zstandard with or without byte shuffle, and large ones of all kinds.
//
// The library allocates and frees some hundred kilobytes for each buffer, which glibc before 2.38 does not use again,
// and makes a decompressor for each block. This uses the pool of buffers and the decompressors of the thread, and for
// large buffers the Helpers.

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::filters::codecs {

/// `in`: a buffer that blosc_cbuffer_validate() accepts. `out`: as large as its header says. False if it is of
/// another kind, or damaged: the library is to decode it, or to tell what is wrong. ENOMEM.
Result<bool> decode_blosc_blocks(Bytes in, MutableBytes out);

}  // namespace codecfs::filters::codecs
