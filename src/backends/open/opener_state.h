#pragma once

#include <atomic>
#include <memory>

#include "backends/open/source_opener.h"
#include "backends/worker/chunk_index.h"
#include "remote/request_statistics.h"

namespace codecfs {

/// What the copies of a SourceOpener share. Thread-safe.
struct SourceOpener::State {
  SourceOptions options;
  std::shared_ptr<worker::ChunkRanges> ranges = std::make_shared<worker::ChunkRanges>(options.hdf5.index_bytes);
  std::shared_ptr<remote::RequestStatistics> statistics = std::make_shared<remote::RequestStatistics>();
  mutable std::atomic<bool> has_opened_url = false;
};

}  // namespace codecfs
