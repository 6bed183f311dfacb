#pragma once
// HDF5's can_apply and set_local of a filter, for a dataset that another process creates.

#include <H5PLextern.h>

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "filters/plugins/codec_calls.h"

namespace codecfs::filters {

/// In the process that creates the dataset, for libhdf5's arguments of can_apply and set_local. EIO.
Result<DatasetToPrepare> describe_dataset(uint32_t filter, hid_t properties, hid_t type, hid_t space);
/// Calls can_apply or set_local with equal objects of this process, and returns the filter's parameters afterwards.
/// EINVAL if the function fails, ENOTSUP if can_apply refuses the dataset.
Result<std::vector<uint32_t>> prepare_dataset(const H5Z_class2_t& filter, const DatasetToPrepare& dataset);

}  // namespace codecfs::filters
