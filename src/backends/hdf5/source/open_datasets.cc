#include "backends/hdf5/source/open_datasets.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "backends/hdf5/library/library_lock.h"
#include "base/log.h"
#include "model/memory_estimate.h"

namespace codecfs::hdf5 {
namespace {

constexpr size_t kOpenDatasets = 128;

}  // namespace

Result<DatasetPtr> OpenDatasets::get(ObjectId id) {
  std::vector<DatasetPtr> dropped;  // declared first: closed after the mutex is released
  const LockGuard guard(mutex_);
  if (by_id_.contains(id)) return get_locked(id);
  while (!recent_.empty() && (recent_.size() >= kOpenDatasets || held_ > kMaxHeld)) {
    dropped.push_back(recent_.back().dataset);
    drop(std::prev(recent_.end()));
  }
  return get_locked(id);
}

void OpenDatasets::drop(std::list<Opened>::iterator opened) {
  held_ -= opened->bytes;
  by_id_.erase(opened->id);
  recent_.erase(opened);
}

Result<DatasetPtr> OpenDatasets::get_locked(ObjectId id) {
  if (const auto known = by_id_.find(id); known != by_id_.end()) {
    recent_.splice(recent_.begin(), recent_, known->second);
    return recent_.front().dataset;
  }
  const LibraryLock lock;
  const ObjectTree& tree = *mounted_.tree;
  CODECFS_ASSIGN(Handle handle, mounted_.tree->open(id));
  if (H5Iget_type(handle.get()) != H5I_DATASET) return fail(EISDIR, "{} is a group", tree.path(id));
  CODECFS_ASSIGN(DatasetPtr dataset, Dataset::open(mounted_.file, std::move(handle), tree.address(id), tree.path(id)));
  show_record_shape(*dataset);
  recent_.push_front({id, dataset, memory_estimate(dataset->facts())});
  held_ += recent_.front().bytes;
  by_id_[id] = recent_.begin();
  return dataset;
}

Result<DatasetPtr> OpenDatasets::current(ObjectId id) {
  for (;;) {
    CODECFS_ASSIGN(DatasetPtr dataset, get(id));
    {
      const LibraryLock lock;
      if (dataset->id() >= 0) return dataset;
      if (!dataset->outdated()) return fail_library(EIO, "{} cannot be opened", dataset->name());
    }
    forget(id);
  }
}

void OpenDatasets::forget(ObjectId id) {
  DatasetPtr dropped;  // declared first: closed after the mutex is released
  const LockGuard guard(mutex_);
  const auto known = by_id_.find(id);
  if (known == by_id_.end()) return;
  dropped = known->second->dataset;
  drop(known->second);
}

void OpenDatasets::close_all_locked() {
  recent_.clear();
  by_id_.clear();
  held_ = 0;
}

void OpenDatasets::show_record_shape(Dataset& dataset) {
  const Variable& facts = dataset.facts();
  const auto limits = std::span(facts.max_shape).first(std::min(dataset.rank(), facts.max_shape.size()));
  const auto is_unlimited = [](const auto& limit) { return !limit; };
  if (!mounted_.is_netcdf || facts.storage != Storage::chunked || std::ranges::none_of(limits, is_unlimited)) return;
  const std::vector<uint64_t>* shape = mounted_.dimensions->record_shape(dataset.address());
  if (shape == nullptr || shape->size() != dataset.rank()) return;
  if (const Result<> shown = dataset.show_shape(*shape); !shown)
    log::warning("{} is shown as it is stored: the lengths of its dimensions: {}", dataset.name(),
                 shown.error().reason);
}

}  // namespace codecfs::hdf5
