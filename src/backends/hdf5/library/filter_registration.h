#pragma once
// Checks and completes filter pipelines of datasets that libhdf5 creates, and adds them to its property lists.
//
// libhdf5 requires that a filter is registered when it is added to a property list. This code registers filters that
// libhdf5 lacks: our own, and those of loaded plugins (whose set_local only libhdf5 can call). H5Dread and H5Dwrite
// then use them too. libhdf5 does not load plugins itself.

#include <hdf5.h>

#include <span>
#include <vector>

#include "base/result.h"
#include "filters/core/filter.h"
#include "model/variable.h"

namespace codecfs::hdf5 {

/// Completes a pipeline from a user: ids, parameters, and which filters are optional where the stage does not say (all
/// but fletcher32). libhdf5 completes the parameters of plugins' filters. Must not be called under a
/// LibraryRead, as it may call plugins. ENOENT for an unknown filter; EINVAL if it has no HDF5 id, its parameters are
/// invalid or it cannot encode such chunks; EOPNOTSUPP if only libhdf5 could encode.
Result<std::vector<FilterStage>> complete_chain(std::span<const FilterStage> chain, const filters::ChunkShape& chunk);

/// Registers the filter with libhdf5 if it is not. Under a LibraryLock. ENOENT.
Result<> make_available(const FilterStage& stage);

/// As make_available(), for all filters that H5Dread and H5Dwrite of this variable may need; libhdf5's error names a
/// filter that is missing. For virtual datasets registers all known filters, because the filters of their sources are
/// not known. Must not be called under a LibraryRead.
void register_temporarily(const Variable& variable);

/// Appends a completed pipeline to a dataset creation property list. Call it and the following H5Dcreate under a
/// LibraryRead. ENOENT, EINVAL.
Result<> add_filters(hid_t properties, std::span<const FilterStage> chain);

/// While it lives, H5Dcreate leaves the parameters of complete filters as they are: libhdf5 does not call the set_local
/// of their plugins. Used after add_filters(), under the same LibraryRead, and ends under it.
class KeptParameters {
 public:
  KeptParameters() = default;
  /// Must be called once. EIO.
  Result<> keep(std::span<const FilterStage> chain);
  ~KeptParameters();
  KeptParameters(const KeptParameters&) = delete;
  KeptParameters& operator=(const KeptParameters&) = delete;

 private:
  std::vector<H5Z_class2_t> originals_;
};

/// The pipeline of a dataset creation property list. EIO.
Result<std::vector<FilterStage>> stored_chain(hid_t properties);
/// Whether both have the same filters, parameters and flags, and so encode alike.
bool is_same_chain(std::span<const FilterStage> one, std::span<const FilterStage> other);

}  // namespace codecfs::hdf5
