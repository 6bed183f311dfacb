#pragma once
// Chains of filters for datasets that libhdf5 makes: checked and completed by us, and put into its property lists.
//
// libhdf5 insists that a filter is there when it enters a property list. Those of ours that it does not have are
// registered with it; they then also serve H5Dread and H5Dwrite. Filters of plugins it loads by itself, as only it
// calls their set_local.

#include <hdf5.h>

#include <span>
#include <vector>

#include "base/result.h"
#include "filters/filter.h"
#include "model/variable.h"

namespace codecfs::hdf5 {

/// A chain as a user wrote it, with all that its filters work with: ids, parameters, and which are optional (as netCDF
/// has it, all but fletcher32). Parameters of plugins' filters are left to libhdf5. Not under a LibraryRead: plugins
/// may be called. ENOENT: nobody provides a filter; EINVAL: it has no HDF5 id, is told nonsense or cannot take such
/// chunks; EOPNOTSUPP: only libhdf5's own code could encode.
Result<std::vector<FilterStage>> complete_chain(std::span<const FilterStage> chain, const filters::ChunkShape& chunk);

/// Sees to it that libhdf5 has the filter, under a LibraryLock. ENOENT.
Result<> make_available(const FilterStage& stage);

/// Appends a completed chain to a dataset creation property list. Under a LibraryRead, as is the H5Dcreate that
/// follows. ENOENT, EINVAL.
Result<> add_filters(hid_t properties, std::span<const FilterStage> chain);

/// The chain of a dataset creation property list. EIO.
Result<std::vector<FilterStage>> stored_chain(hid_t properties);

}  // namespace codecfs::hdf5
