#pragma once
// Zstandard frames, decoded in one go: that needs no window of its own, whatever the frames ask for.

#include <cstdint>
#include <optional>
#include <string>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::filters::codecs {

/// Bytes that `in` tells to decode to; none where a frame does not tell. EIO where `in` is not one frame after another.
Result<std::optional<uint64_t>> zstd_content_size(Bytes in);

/// Decodes all frames to `room`; none where it does not do. EIO, ENOMEM.
Result<std::optional<size_t>> zstd_decode(Bytes in, MutableBytes room);

/// One frame with its content size. Levels beyond those of the library mean the nearest; 0 is its default.
/// `checksum`: of the content, at the end. ENOMEM.
Result<Buffer> zstd_encode(Bytes in, int level, bool checksum);

/// The same, into `room` of at least zstd_bound(in.size()) bytes. Gives the bytes written.
Result<size_t> zstd_encode_to(Bytes in, int level, bool checksum, MutableBytes room);
size_t zstd_bound(size_t size);

/// "zstd 1.5.4"
std::string zstd_library();

}  // namespace codecfs::filters::codecs
