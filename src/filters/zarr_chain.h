#pragma once
// The chain of a stored chunk as a .zarray can tell it, and the other way round. Zarr knows codecs by numcodecs' JSON,
// HDF5 filters by their ids; most have a codec whose bytes are the same, some have one whose bytes differ, some none.
// Source: design, filters.md, "JSON codecs".

#include <span>
#include <vector>

#include "base/result.h"
#include "model/variable.h"

namespace codecfs::filters {

struct ZarrChain {
  std::vector<FilterStage> stages;  // each with its codec's JSON, for numcodecs to decode; none is optional
  bool same_bytes = true;           // chunks that the given chain has encoded are chunks of this one
};

/// `chain` with codecs in the place of HDF5's filters. lz4 becomes numcodecs' lz4, whose frame is another; where a
/// filter has no codec, there are no filters at all. `item_size`: bytes of an element, 0 if not fixed.
ZarrChain zarr_chain(std::span<const FilterStage> chain, uint64_t item_size);

/// The HDF5 filters for a chain of codecs, so that zarr_chain() of them decodes what these codecs encode. EINVAL with
/// the codec that HDF5 has no filter for, or that no filter of HDF5 decodes in this place.
Result<std::vector<FilterStage>> hdf5_chain(std::span<const FilterStage> codecs, uint64_t item_size);

}  // namespace codecfs::filters
