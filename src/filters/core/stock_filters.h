#pragma once
// Filters that each program with HDF5 has: files with others need a plugin, which stock h5py and ncdump do not have.
// Source: HDF5's H5Zpublic.h (its own filters have numbers below 256), and the filters that netCDF-C always has.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/variable.h"

namespace codecfs::filters {

/// Whether all are deflate, shuffle, fletcher32, n-bit and scale-offset.
bool are_stock(std::span<const FilterStage> chain);
/// A pipeline of these alone in place of one with others: shuffle, for elements of more than one byte, and deflate;
/// fletcher32 if it had that. `item_size`: bytes; 0 if it varies. A pipeline that has no others stays as it is.
std::vector<FilterStage> stock_chain(std::span<const FilterStage> chain, uint64_t item_size);
/// The filters of a pipeline that a plugin has, for messages: "zstd and bitgroom"; empty if there are none.
std::string plugins_needed(std::span<const FilterStage> chain);

}  // namespace codecfs::filters
