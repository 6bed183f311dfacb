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

/// "zstd 1.5.4"
std::string zstd_library();

}  // namespace codecfs::filters::codecs
