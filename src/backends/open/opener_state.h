#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "backends/open/source_opener.h"
#include "backends/worker/chunk_index.h"
#include "base/mutex.h"
#include "remote/disk_cache.h"
#include "remote/request_statistics.h"

namespace codecfs {

/// What the copies of a SourceOpener share. Thread-safe.
struct SourceOpener::State {
  explicit State(SourceOptions wanted) : options(std::move(wanted)) {}

  const SourceOptions options;
  const std::shared_ptr<worker::ChunkRanges> ranges = std::make_shared<worker::ChunkRanges>(options.hdf5.index_bytes);
  const std::shared_ptr<remote::RequestStatistics> statistics = std::make_shared<remote::RequestStatistics>();
  mutable std::atomic<bool> has_opened_url = false;
  mutable Mutex cache_mutex;
  mutable std::shared_ptr<remote::DiskCache> cache CODECFS_GUARDED_BY(cache_mutex);  // of the options; opened once
};

}  // namespace codecfs
