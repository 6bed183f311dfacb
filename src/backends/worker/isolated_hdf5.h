#pragma once
// An HDF5 file as a Source; libhdf5 runs in another process. Chunks are read and decoded in this process, from the
// file itself, where that is possible.

#include <cstdint>
#include <memory>
#include <string>

#include "backends/api/source.h"
#include "base/result.h"
#include "remote/object_file.h"

namespace codecfs {

namespace worker {
class ChunkRanges;
}

/// As open_hdf5(). Starts a worker. `ranges`: for its index of chunks. `latest`: Hdf5Options::latest.
Result<std::unique_ptr<Source>> open_hdf5_in_worker(const std::string& path, bool may_write,
                                                    std::shared_ptr<worker::ChunkRanges> ranges, bool latest = false);

/// As open_hdf5_in_worker(), for a file in an object store, to read.
Result<std::unique_ptr<Source>> open_remote_hdf5(std::shared_ptr<remote::ObjectFile> object,
                                                 std::shared_ptr<worker::ChunkRanges> ranges);

}  // namespace codecfs
