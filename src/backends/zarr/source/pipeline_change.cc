#include "backends/zarr/source/pipeline_change.h"

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "backends/zarr/metadata/metadata_write.h"
#include "backends/zarr/metadata/zarr3_metadata.h"
#include "backends/zarr/metadata/zarr3_write.h"
#include "backends/zarr/source/chunk_listing.h"
#include "backends/zarr/source/recode.h"
#include "backends/zarr/source/reshard.h"
#include "backends/zarr/store/shared_store.h"
#include "filters/core/zarr3_chain.h"

namespace codecfs::zarr {
namespace {

class PipelineChange {
 public:
  PipelineChange(OpenStore& store, StoreEditor& editor, StoreWriter& writer, ShardWriter& shards, ObjectId id)
      : store_(store), editor_(editor), writer_(writer), shards_(shards), id_(id) {}

  /// False if the array has this pipeline already. Under using_keys().
  Result<bool> begin(std::span<const FilterStage> filters);
  /// False if the array has these shards and this pipeline already. Under using_keys().
  Result<bool> begin_sharding(const Variable& wanted);
  /// Needs no lock.
  Result<> recode(Progress& progress) {
    if (writer_.shared() != nullptr) return {};
    if (resharded_) return reshard_chunks(*source_, *array_, *resharded_, *target_, progress);
    return recode_chunks(*source_, *array_, chain_, *target_, progress);
  }
  /// Under changing_places() and changing_keys(). This object then owns the old directory, which its destructor
  /// deletes.
  Result<> exchange();

 private:
  Result<> reshard_as(Array changed);
  Result<> prepare(const Object& object);
  Result<> check_without_chunks(const Object& object);
  Result<> check_same(const Object& object) const;

  OpenStore& store_;
  StoreEditor& editor_;
  StoreWriter& writer_;
  ShardWriter& shards_;
  ObjectId id_;
  ArrayPtr array_;
  Chain chain_;
  std::optional<OpenArray> resharded_;  // the array as it will be, if it has shards or will have some
  std::string metadata_;                // of the array with the new pipeline
  std::unique_ptr<Store> source_;       // the array's directory
  std::unique_ptr<NewDirectory> target_;
};

Result<bool> PipelineChange::begin(std::span<const FilterStage> filters) {
  CODECFS_ASSIGN(const Object object, editor_.variable_to_change(id_));
  CODECFS_ASSIGN(array_, store_.unchanged_array(object, id_));
  auto chain = complete_chain(filters, array_->array.variable);
  if (!chain) return in_file(called(object.key), chain.error());
  const Variable& variable = array_->array.variable;
  const bool is_v3 = store_.hierarchy().format() == ZarrFormat::v3;
  const bool is_same = is_v3 ? filters::are_equal_in_zarr3(variable.filters, chain->stages, variable.type.size)
                             : are_equal(variable.filters, chain->stages);
  if (is_same) return false;
  if (array_->unchangeable) return std::unexpected(*array_->unchangeable);
  chain_ = std::move(*chain);
  auto metadata = is_v3 ? with_zarr3_chain(array_->metadata, array_->array, chain_.stages)
                        : with_chain(array_->metadata, array_->array.variable, chain_.stages);
  if (!metadata) return in_file(called(object.key), metadata.error());
  metadata_ = std::move(*metadata);
  if (array_->array.shards) {
    CODECFS_ASSIGN(Array changed, parse_zarr3_array(metadata_));
    CODECFS_TRY(reshard_as(std::move(changed)));
  }
  CODECFS_TRY(prepare(object));
  return true;
}

Result<> PipelineChange::reshard_as(Array changed) {
  resharded_ = *array_;
  resharded_->array = std::move(changed);
  const Variable& facts = resharded_->array.variable;
  CODECFS_ASSIGN(resharded_->pipeline, filters::Pipeline::make(facts.filters, filters::shape_of_stored_chunk(facts)));
  return {};
}

Result<bool> PipelineChange::begin_sharding(const Variable& wanted) {
  CODECFS_ASSIGN(const Object object, editor_.variable_to_change(id_));
  CODECFS_ASSIGN(array_, store_.unchanged_array(object, id_));
  const Variable& facts = array_->array.variable;
  if (store_.hierarchy().format() != ZarrFormat::v3)
    return fail(EINVAL, "{}: only a store of Zarr v3 can have shards", called(object.key));
  // Shards that are only read may be replaced by others.
  if (facts.unreadable) return std::unexpected(*facts.unreadable);
  if (facts.grid.chunks() != wanted.grid.chunks())
    return fail(EINVAL, "{}: the chunks in its shards cannot be changed", called(object.key));
  Variable described = facts;
  described.shards = wanted.shards;
  described.filters = wanted.filters;
  if (described.shards) {
    CODECFS_ASSIGN(described.shards->grid, ChunkGrid::make(facts.grid.shape(), wanted.shards->grid.chunks()));
  }
  auto metadata = with_zarr3_sharding(array_->metadata, described);
  if (!metadata) return in_file(called(object.key), metadata.error());
  metadata_ = std::move(*metadata);
  CODECFS_ASSIGN(Array array, parse_zarr3_array(metadata_));
  if (are_same_shards(array.shards, array_->array.shards) && array.variable.stored_order == facts.stored_order &&
      are_equal(array.variable.filters, facts.filters))
    return false;
  CODECFS_TRY(reshard_as(std::move(array)));
  CODECFS_TRY(prepare(object));
  return true;
}

Result<> PipelineChange::prepare(const Object& object) {
  CODECFS_TRY(shards_.write_shards());
  if (writer_.shared() != nullptr) return check_without_chunks(object);

  CODECFS_ASSIGN(source_, store_.files().below(object.key));
  const mode_t mode = source_->status().st_mode & 07777;
  CODECFS_ASSIGN(target_, object.key.empty() ? writer_.new_store(mode)
                                             : writer_.new_directory(holder_of(object.key), name_of(object.key), mode));
  return {};
}

/// Chunks and metadata cannot be exchanged at once, and between two steps readers would decode chunks wrongly.
Result<> PipelineChange::check_without_chunks(const Object& object) {
  writer_.shared()->forget_lists();
  const Array& facts = array_->array;
  const ChunkGrid& grid = facts.shards ? facts.shards->grid : facts.variable.grid;
  CODECFS_ASSIGN(const auto stored, list_chunks(store_.files(), object.key, grid, facts.keys));
  if (stored.empty()) return {};
  return fail(EOPNOTSUPP,
              "{}: its chunks cannot be re-encoded in place: an object store cannot exchange them with their metadata "
              "at once, so readers would decode them wrongly; make a copy with other filters: codecfs convert -F",
              called(object.key));
}

Result<> PipelineChange::exchange() {
  CODECFS_ASSIGN(const Object object, editor_.variable_to_change(id_));
  if (writer_.shared() != nullptr) {
    CODECFS_TRY(store_.unchanged_array(object, id_));
    CODECFS_TRY(check_without_chunks(object));
    return editor_.replace(object, store_.hierarchy().file_of(EntryKind::variable), metadata_);
  }
  CODECFS_TRY(check_same(object));
  CODECFS_TRY(
      copy_other_files(*source_, *array_, store_.hierarchy().file_of(EntryKind::variable), metadata_, *target_));
  if (object.key.empty()) {
    CODECFS_TRY(writer_.exchange_store(*target_));
  } else {
    CODECFS_TRY(target_->exchange(name_of(object.key)));
  }
  store_.changed(object);
  return {};
}

/// Checks that the array has not changed or moved since it was read.
Result<> PipelineChange::check_same(const Object& object) const {
  CODECFS_ASSIGN(const auto now, store_.files().stat(object.key));
  CODECFS_ASSIGN(const auto zarray,
                 store_.hierarchy().read_text(join_key(object.key, store_.hierarchy().file_of(EntryKind::variable))));
  const struct stat& before = source_->status();
  bool is_same = now && now->st_dev == before.st_dev && now->st_ino == before.st_ino && zarray == array_->metadata;
  if (is_same && !object.key.empty()) {
    CODECFS_ASSIGN(const auto holder, store_.files().stat(holder_of(object.key)));
    const auto built_in = target_->parent_status();
    is_same = holder && built_in && holder->st_dev == built_in->st_dev && holder->st_ino == built_in->st_ino;
  }
  if (is_same) return {};
  return fail(EBUSY, "{}: its filters were not changed: it was changed or moved meanwhile", called(object.key));
}

}  // namespace

namespace {

Result<> carry_out(OpenStore& store, PipelineChange& change, Progress& progress,
                   const std::function<Result<bool>()>& begin) {
  {
    const auto lock = store.using_keys();
    CODECFS_ASSIGN(const bool is_needed, begin());
    if (!is_needed) return {};
  }
  CODECFS_TRY(change.recode(progress));
  const auto places = store.changing_places();
  const auto lock = store.changing_keys();
  return change.exchange();
}

}  // namespace

Result<> change_pipeline(OpenStore& store, StoreEditor& editor, StoreWriter& writer, ShardWriter& shards, ObjectId id,
                         std::span<const FilterStage> filters, Progress& progress) {
  return repeat_change([&] {
    PipelineChange change(store, editor, writer, shards, id);  // its destructor needs no locks
    return carry_out(store, change, progress, [&] { return change.begin(filters); });
  });
}

Result<> change_sharding(OpenStore& store, StoreEditor& editor, StoreWriter& writer, ShardWriter& shards, ObjectId id,
                         const Variable& wanted, Progress& progress) {
  return repeat_change([&] {
    PipelineChange change(store, editor, writer, shards, id);
    return carry_out(store, change, progress, [&] { return change.begin_sharding(wanted); });
  });
}

}  // namespace codecfs::zarr
