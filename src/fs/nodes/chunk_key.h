#pragma once

#include <cstdint>
#include <memory>

#include "base/buffer.h"

namespace codecfs::fs {

/// Inode number of the chunk's file.
using ChunkKey = uint64_t;

/// In the key of a chunk that is converted for a view of Zarr v3, as another form of it may be cached for another view.
/// Inode numbers do not reach this bit.
inline constexpr ChunkKey kZarr3Form = ChunkKey{1} << 63;

/// The bytes of a chunk.
using ChunkPtr = std::shared_ptr<const Buffer>;

}  // namespace codecfs::fs
