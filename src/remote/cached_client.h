#pragma once
// A client that keeps parts of objects in a cache on disk. Thread-safe.

#include <memory>

#include "remote/disk_cache.h"
#include "remote/object_client.h"

namespace codecfs::remote {

/// What is read in parts (get() with a range) is kept. The next time, the server is asked whether the object still has
/// that state, which costs a request without a body; a part of a state that the caller names costs none. Only objects
/// with ETags that equal the same bytes (strong ones) are kept. All else is done by `client`.
std::shared_ptr<ObjectClient> with_disk_cache(std::shared_ptr<ObjectClient> client, std::shared_ptr<DiskCache> cache);

}  // namespace codecfs::remote
