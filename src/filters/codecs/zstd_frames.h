#pragma once
// Zstandard frames, decoded in one call: this needs no window buffer, whatever window size the frames declare.

#include <cstdint>
#include <optional>
#include <string>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::filters::codecs {

/// The decoded size that `in` declares; none if a frame does not declare one. EIO if `in` is not a sequence of frames.
Result<std::optional<uint64_t>> zstd_content_size(Bytes in);

/// Decodes all frames to `room`; none if it is too small. EIO, ENOMEM.
Result<std::optional<size_t>> zstd_decode(Bytes in, MutableBytes room);

/// Encodes one frame with its content size. Levels out of the library's range are clamped; 0 is its default.
/// `checksum`: append one of the content. ENOMEM.
Result<Buffer> zstd_encode(Bytes in, int level, bool checksum);

/// As zstd_encode(), into `room` of at least zstd_bound(in.size()) bytes. Returns the bytes written.
Result<size_t> zstd_encode_to(Bytes in, int level, bool checksum, MutableBytes room);
size_t zstd_bound(size_t size);

/// "zstd 1.5.4"
std::string zstd_library();

}  // namespace codecfs::filters::codecs
