#pragma once
// The chain of a stored chunk as a .zarray can tell it, and the other way round. Zarr knows codecs by numcodecs' JSON,
// HDF5 filters by their ids; most have a codec whose bytes are the same, some have one whose bytes differ, some none.
// Source: design, filters.md, "JSON codecs".

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "filters/core/filter.h"
#include "model/variable.h"

namespace codecfs::filters {

struct ZarrChain {
  std::vector<FilterStage> stages;  // each with its codec's JSON, for numcodecs to decode; none is optional
  bool same_bytes = true;           // chunks that the given chain has encoded are chunks of this one
};

/// `chain` with codecs in the place of HDF5's filters. lz4 becomes numcodecs' lz4, whose frame is another; where a
/// filter has no codec that numcodecs knows, there are no filters at all; a shuffle that numcodecs cannot undo is left
/// out. Codecs of a Zarr store stay as they are.
ZarrChain zarr_chain(std::span<const FilterStage> chain, const ChunkShape& chunk);

/// The first shuffle of a chain (by its place) that numcodecs cannot undo: it takes nothing but whole elements, and
/// text and what a compressor or a checksum has made are none. HDF5 leaves the rest of such data as it is.
std::optional<size_t> shuffle_of_parts(std::span<const FilterStage> chain, const ChunkShape& chunk);

/// The HDF5 filters for a chain of codecs, so that zarr_chain() of them decodes what these codecs encode. EINVAL with
/// the codec that HDF5 has no filter for, or that no filter of HDF5 decodes in this place.
Result<std::vector<FilterStage>> hdf5_chain(std::span<const FilterStage> codecs, const ChunkShape& chunk);

}  // namespace codecfs::filters
