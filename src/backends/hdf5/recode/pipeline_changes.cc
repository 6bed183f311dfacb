#include "backends/hdf5/recode/pipeline_changes.h"

#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/recode/recode.h"
#include "base/log.h"

namespace codecfs::hdf5 {

Result<> PipelineChanges::set_filters(ObjectId id, std::span<const FilterStage> chain, Progress& progress) {
  const LockGuard one(mutex_);
  bool leaves_hole = false;
  {
    CODECFS_ASSIGN(const DatasetPtr dataset, datasets_.current(id));
    Recoding recoding(mounted_.file, *dataset);
    {
      const LibraryLock lock;
      mounted_.file.check_left_space();
    }
    CODECFS_ASSIGN(const bool needed, recoding.prepare(chain));
    if (!needed) return {};
    CODECFS_TRY(recoding.copy(progress));
    CODECFS_TRY(exchange(id, recoding, leaves_hole));
  }
  if (leaves_hole) pack(id, progress);
  return {};
}

Result<> PipelineChanges::encode_masked_chunks(ObjectId id, Progress& progress) {
  const LockGuard one(mutex_);
  CODECFS_ASSIGN(const DatasetPtr dataset, datasets_.current(id));
  Recoding recoding(mounted_.file, *dataset);
  CODECFS_ASSIGN(const bool needed, recoding.prepare_masked());
  return needed ? recoding.copy(progress) : Result<>();
}

Result<> PipelineChanges::exchange(ObjectId id, Recoding& recoding, bool& leaves_hole) {
  Result<> done;
  {
    const ChangeTurn turn(mounted_.file);
    const LibraryLock lock;
    CODECFS_TRY(mounted_.tree->open(id));  // fails if it was removed meanwhile
    done = recoding.exchange();
    leaves_hole = done && recoding.fits_into_hole();
    mounted_.use_reopened();
  }
  datasets_.forget(id);
  return done;
}

// Moves the chunks to close the gaps after a re-encoding. The pipeline has been replaced already, so a failure only
// costs space.
void PipelineChanges::pack(ObjectId id, const Progress& wanted) {
  if (const Result<> packed = try_to_pack(id, wanted); !packed)
    log::info("{}: the space of the old chunks stays unused: {}", mounted_.file.path, packed.error().reason);
}

Result<> PipelineChanges::try_to_pack(ObjectId id, const Progress& wanted) {
  CODECFS_ASSIGN(const DatasetPtr dataset, datasets_.current(id));
  Progress progress;
  progress.cancelled = wanted.cancelled;
  Recoding packing(mounted_.file, *dataset);
  CODECFS_TRY(packing.prepare_packing());
  CODECFS_TRY(packing.copy(progress));
  bool leaves_hole = false;
  return exchange(id, packing, leaves_hole);
}

}  // namespace codecfs::hdf5
