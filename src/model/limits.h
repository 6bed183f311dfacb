#pragma once
// Limits on what a source can make the daemon allocate. Process-wide; set before the first source is opened.

#include <cstdint>
#include <string>

namespace codecfs {

inline constexpr uint64_t kDefaultMaxChunk = uint64_t{1} << 30;
inline constexpr uint64_t kSmallestMaxChunk = uint64_t{1} << 20;
/// Codecs count the bytes of a chunk in an int.
inline constexpr uint64_t kLargestMaxChunk = uint64_t{2047} << 20;

/// Zarr arrays with larger elements are refused: one element is kept in memory as the fill value, whatever the size of
/// a chunk.
inline constexpr uint64_t kMaxElementBytes = uint64_t{8} << 20;

/// Types of elements: bytes of one, and how deeply structured types contain others.
inline constexpr uint64_t kMaxTypeBytes = uint64_t{1} << 30;
inline constexpr int kMaxTypeNesting = 32;

/// Limit for the memory of one parsed metadata text, and for the bytes of an HDF5 attribute.
inline constexpr uint64_t kMaxJsonBytes = uint64_t{16} << 20;

/// Limit for the consolidated metadata of a store (.zmetadata), which is parsed to be rewritten.
inline constexpr uint64_t kMaxConsolidatedBytes = uint64_t{256} << 20;

/// Decoded bytes (-o max_chunk=). Larger chunks are neither read nor created.
uint64_t max_chunk_bytes();
void set_max_chunk_bytes(uint64_t bytes);
/// For messages: "the limit of 1G (-o max_chunk=)".
std::string max_chunk_text();

}  // namespace codecfs
