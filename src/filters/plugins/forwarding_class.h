#pragma once
// Filter classes for libhdf5 in a process that does not load plugins: their functions call codec workers. libhdf5's
// callbacks receive neither a context nor the filter's id, so there is one set of functions for each of a fixed number
// of slots, and a slot belongs to one library permanently.

#include <H5PLextern.h>

#include <memory>

#include "base/result.h"
#include "filters/plugins/codec_workers.h"

namespace codecfs::filters {

/// The class for the HDF5 filter of this library. EOPNOTSUPP if there are no slots left. Thread-safe.
Result<H5Z_class2_t> forwarding_class(const std::shared_ptr<CodecWorkers>& workers);

}  // namespace codecfs::filters
