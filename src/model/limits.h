#pragma once
// What a source may ask for, whatever it claims. One setting of the process, made before the first source is opened.

#include <cstdint>
#include <string>

namespace codecfs {

inline constexpr uint64_t kDefaultMaxChunk = uint64_t{1} << 30;
inline constexpr uint64_t kSmallestMaxChunk = uint64_t{1} << 20;
/// Codecs count the bytes of a chunk in an int.
inline constexpr uint64_t kLargestMaxChunk = uint64_t{2047} << 20;

/// Elements of Zarr arrays that are larger than this are refused: one of them is held as the fill, whatever the size of
/// a chunk.
inline constexpr uint64_t kMaxElementBytes = uint64_t{8} << 20;

/// Metadata in one text that takes more memory than this is refused, as are attributes of HDF5 with more bytes.
inline constexpr uint64_t kMaxJsonBytes = uint64_t{16} << 20;

/// The metadata of all of a store in one text (.zmetadata), which is read to be made anew.
inline constexpr uint64_t kMaxConsolidatedBytes = uint64_t{256} << 20;

/// Decoded bytes (-o max_chunk=): chunks that are larger are neither read nor made.
uint64_t max_chunk_bytes();
void set_max_chunk_bytes(uint64_t bytes);
/// For messages: "the limit of 1G (-o max_chunk=)".
std::string max_chunk_text();

}  // namespace codecfs
