#pragma once
// Deflate data in another wrapping: HDF5 stores zlib streams, Zarr v3 has gzip members. The compressed data stays as it
// is; it is decoded for its checksum alone. Sources: RFC 1950, RFC 1952.
//
//   zlib   78 9c | deflate blocks | Adler-32 BE
//   gzip   1f 8b 08 00 0[4] 00 ff | the same blocks | CRC-32 LE | decoded size LE

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::filters {

/// Bytes that a member is longer than a stream of the same data.
inline constexpr uint64_t kGzipExtra = 12;

/// `size`: bytes that the data decodes to, at most 4 GiB - 1. EIO if the stream does not, or if bytes follow it.
Result<Buffer> gzip_of_zlib(Bytes stream, uint64_t size);
/// EIO also for several members.
Result<Buffer> zlib_of_gzip(Bytes member, uint64_t size);

}  // namespace codecfs::filters
