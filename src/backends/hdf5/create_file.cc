// An empty HDF5 file to write into.

#include "backends/hdf5/hdf5_source.h"

namespace codecfs {

Result<> create_hdf5(const std::string& path) { return fail(EOPNOTSUPP, "{}", path); }

}  // namespace codecfs
