#pragma once
// The names of the chunks of an array in Zarr v3 ("chunk_key_encoding"). Source: Zarr v3 core specification, "Chunk key
// encoding".
//
//                       rank 2      rank 0
//   default, '/'        c/1/0       c
//   default, '.'        c.1.0       c
//   v2, '.'             1.0         0
//   v2, '/'             1/0         0

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/chunk_grid.h"
#include "model/json_value.h"

namespace codecfs {

struct ChunkKeys {
  bool has_prefix = true;  // "c": the encoding "default"
  char separator = '/';

  bool operator==(const ChunkKeys&) const = default;

  /// number < grid.count(). Slashes separate directories.
  [[nodiscard]] std::string name_of(const ChunkGrid& grid, uint64_t number) const;
  /// The number of the chunk with this name; none if the name is not canonical or outside the grid.
  [[nodiscard]] std::optional<uint64_t> number_of(const ChunkGrid& grid, std::string_view name) const;
};

/// "chunk_key_encoding" of a zarr.json. EINVAL.
Result<ChunkKeys> parse_chunk_keys(const Json& encoding);
Json print_chunk_keys(const ChunkKeys& keys);

}  // namespace codecfs
