#pragma once
// The files of a store that hold metadata.

#include <cstdint>

namespace codecfs::zarr {

inline constexpr const char* kArrayFile = ".zarray";
inline constexpr const char* kGroupFile = ".zgroup";
inline constexpr const char* kAttributesFile = ".zattrs";
inline constexpr const char* kConsolidatedFile = ".zmetadata";
inline constexpr const char* kZarr3File = "zarr.json";  // of groups and arrays

enum class ZarrFormat { v2, v3 };

/// A larger file (in bytes) is refused.
inline constexpr uint64_t kMaxMetadataBytes = uint64_t{64} << 20;

}  // namespace codecfs::zarr
