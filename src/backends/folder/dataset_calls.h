#pragma once
// A source that shows objects of datasets: a folder of datasets, or one dataset that rests.

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "backends/api/forwarding_source.h"
#include "backends/folder/datasets.h"
#include "backends/folder/folder_files.h"
#include "backends/folder/object_ids.h"

namespace codecfs::folder {

class DatasetCalls : public ForwardingSource {
 public:
  bool changed_outside(ObjectId id) override;
  Result<> remove(ObjectId id, std::string_view name) override;
  Result<> rename(ObjectId from, std::string_view name, ObjectId to, std::string_view to_name) override;
  uint64_t reclaimable_bytes() override { return datasets_.reclaimable_bytes(); }
  Result<> commit() override { return datasets_.commit(); }
  [[nodiscard]] bool is_deleted() override { return datasets_.has_deleted(); }
  Result<> finish() override { return datasets_.finish(); }

 protected:
  DatasetCalls(std::unique_ptr<FolderFiles> files, bool may_write)
      : files_(std::move(files)), datasets_(*files_, may_write) {}

  /// EPERM if it is not an object of a dataset. What readers of chunks ask is ESTALE if the dataset or the object is
  /// gone, as ENOENT would mean that the chunk is not stored.
  Result<Target> target(ObjectId id, Purpose purpose) override;

  const std::unique_ptr<FolderFiles> files_;
  Datasets datasets_;  // after files_, which it uses
  ObjectIds ids_;

 private:
  Result<Target> find_target(ObjectId id, Datasets::For purpose);
  Result<> shown(ObjectId group, const Target& there, Entry& entry) override;
  /// Names the dataset: sources name only their own objects.
  void explain(ObjectId id, Error& error) override;
};

}  // namespace codecfs::folder
