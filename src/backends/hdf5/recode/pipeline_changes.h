#pragma once
// Changes of filter pipelines: re-encodes all chunks of a variable (recode.h), one variable at a time. Thread-safe.

#include <span>

#include "backends/hdf5/source/mounted_file.h"
#include "backends/hdf5/source/open_datasets.h"
#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::hdf5 {

class Recoding;

class PipelineChanges {
 public:
  /// Both must outlive this object.
  PipelineChanges(MountedFile& mounted, OpenDatasets& datasets) : mounted_(mounted), datasets_(datasets) {}

  /// See Source::set_filters() of backends/api.
  Result<> set_filters(ObjectId id, std::span<const FilterStage> chain, Progress& progress);
  /// See Source::encode_masked_chunks().
  Result<> encode_masked_chunks(ObjectId id, Progress& progress);

 private:
  Result<> exchange(ObjectId id, Recoding& recoding, bool& leaves_hole);
  void pack(ObjectId id, const Progress& wanted);
  Result<> try_to_pack(ObjectId id, const Progress& wanted);

  MountedFile& mounted_;
  OpenDatasets& datasets_;
  Mutex mutex_{LockRank::pipeline_change};  // held during a change, locked before all other locks of the backend
};

}  // namespace codecfs::hdf5
