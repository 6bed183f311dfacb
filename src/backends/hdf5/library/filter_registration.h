#pragma once
// Chains of filters for datasets that libhdf5 makes: checked and completed by us, and put into its property lists.
//
// libhdf5 insists that a filter is there when it enters a property list. Those that it does not have are registered
// with it, ours and those of plugins that we have loaded (whose set_local only libhdf5 calls); they then also serve
// H5Dread and H5Dwrite. By itself it loads none.

#include <hdf5.h>

#include <span>
#include <vector>

#include "base/result.h"
#include "filters/core/filter.h"
#include "model/variable.h"

namespace codecfs::hdf5 {

/// A chain as a user wrote it, with all that its filters work with: ids, parameters, and which are optional (as netCDF
/// has it, all but fletcher32). Parameters of plugins' filters are left to libhdf5. Not under a LibraryRead: plugins
/// may be called. ENOENT: nobody provides a filter; EINVAL: it has no HDF5 id, is told nonsense or cannot take such
/// chunks; EOPNOTSUPP: only libhdf5's own code could encode.
Result<std::vector<FilterStage>> complete_chain(std::span<const FilterStage> chain, const filters::ChunkShape& chunk);

/// Sees to it that libhdf5 has the filter, under a LibraryLock. ENOENT.
Result<> make_available(const FilterStage& stage);

/// The same for all filters that H5Dread and H5Dwrite of this variable may need; those that nobody provides libhdf5
/// will name. Of virtual datasets that is every known one: what the sources have is not told. Not under a LibraryRead.
void register_temporarily(const Variable& variable);

/// Appends a completed chain to a dataset creation property list. Under a LibraryRead, as is the H5Dcreate that
/// follows. ENOENT, EINVAL.
Result<> add_filters(hid_t properties, std::span<const FilterStage> chain);

/// The chain of a dataset creation property list. EIO.
Result<std::vector<FilterStage>> stored_chain(hid_t properties);

}  // namespace codecfs::hdf5
