#include "backends/hdf5/source/tree_changes.h"

#include <algorithm>

#include "backends/hdf5/library/library_read.h"
#include "backends/hdf5/source/tree_write.h"

namespace codecfs::hdf5 {

// Runs one change of the tree. Closes all cached datasets before and after: their metadata may be outdated, and libhdf5
// does not free removed objects while they are open. Not analysed, because `step` uses what the lock guards.
template <class Lock, class Step>
CODECFS_NO_THREAD_SAFETY_ANALYSIS auto TreeChanges::change(Step step) -> decltype(step(std::declval<TreeWriter&>())) {
  const ChangeTurn turn(mounted_.file);
  const LockGuard guard(datasets_.mutex());
  const Lock lock;
  CODECFS_TRY(mounted_.writable());
  mounted_.file.check_left_space();
  if (mounted_.is_netcdf) (void)mounted_.dimensions->record_shape(0);  // record the shapes before the first change
  datasets_.close_all_locked();
  struct AtTheEnd {
    OpenDatasets& datasets;
    ~AtTheEnd() { datasets.close_all_locked(); }
  } const at_the_end{datasets_};
  TreeWriter writer(mounted_.file, *mounted_.tree, *mounted_.dimensions, mounted_.is_netcdf);
  auto result = step(writer);
  if (result) CODECFS_TRY(seal());
  return result;
}

bool TreeChanges::begin_edit(uint64_t edit) {
  const LibraryLock lock;
  SharedState& shared = *mounted_.file.shared;
  if (shared.edit == edit && shared.edit_done == edit) return true;
  mounted_.tree->write_journal();
  shared.edit_done = 0;
  shared.edit_log = 0;
  shared.edit_journal = mounted_.tree->journal_end();
  shared.edit = edit;
  return false;
}

// The numbers of objects first: the next process drops them if the change is not in the log (MountedFile::resume()).
Result<> TreeChanges::seal() {
  SourceFile& file = mounted_.file;
  if (!file.is_isolated || file.is_bulk) return {};
  SharedState& shared = *file.shared;
  mounted_.tree->write_journal();
  const LoggedFile::LastCommit last = file.bytes->last_commit();
  shared.edit_sequence = last.sequence;
  shared.edit_log = last.log;
  CODECFS_TRY(file.seal_change());
  shared.edit_done = shared.edit.load();
  return {};
}

Result<Entry> TreeChanges::make_group(ObjectId group, std::string_view name) {
  return change<LibraryLock>([&](TreeWriter& writer) { return writer.make_group(group, name); });
}

Result<> TreeChanges::define_dimensions(ObjectId group, std::span<const GroupDimension> dimensions) {
  return change<LibraryLock>([&](TreeWriter& writer) { return writer.define_dimensions(group, dimensions); });
}

Result<Entry> TreeChanges::make_variable(ObjectId group, std::string_view name, const Variable& variable) {
  return change<LibraryRead>([&](TreeWriter& writer) { return writer.make_variable(group, name, variable); });
}

Result<Entry> TreeChanges::make_link(ObjectId group, std::string_view name, std::string_view target) {
  return change<LibraryLock>([&](TreeWriter& writer) { return writer.make_link(group, name, target); });
}

Result<> TreeChanges::restore_link(ObjectId group, std::string_view name, std::string_view note) {
  return change<LibraryLock>([&](TreeWriter& writer) { return writer.restore_link(group, name, note); });
}

Result<> TreeChanges::remove(ObjectId group, std::string_view name) {
  return change<LibraryLock>([&](TreeWriter& writer) { return writer.remove(group, name); });
}

Result<> TreeChanges::rename(ObjectId from, std::string_view name, ObjectId to, std::string_view new_name) {
  // The dimensions of the new group may be shorter than the shown shape.
  if (from != to) CODECFS_TRY(store_shape_of_member(from, name));
  return change<LibraryLock>([&](TreeWriter& writer) CODECFS_REQUIRES(datasets_.mutex()) -> Result<> {
    CODECFS_ASSIGN(const Entry entry, mounted_.tree->find(from, name));
    if (entry.kind != EntryKind::variable) return writer.rename(from, name, to, new_name, nullptr);
    CODECFS_ASSIGN(const DatasetPtr dataset, datasets_.get_locked(entry.object));
    return writer.rename(from, name, to, new_name, dataset.get());
  });
}

Result<> TreeChanges::set_attributes(ObjectId id, std::span<const Attribute> set, std::span<const std::string> remove) {
  return change<LibraryLock>([&](TreeWriter& writer) CODECFS_REQUIRES(datasets_.mutex()) -> Result<> {
    auto dataset = datasets_.get_locked(id);
    if (!dataset && dataset.error().code != EISDIR) return pass_on(dataset);
    return writer.set_attributes(id, dataset ? dataset->get() : nullptr, set, remove);
  });
}

Result<> TreeChanges::set_dimensions(ObjectId id, std::span<const std::string> names) {
  CODECFS_TRY(store_shape_for(id, names));
  return change<LibraryLock>([&](TreeWriter& writer) CODECFS_REQUIRES(datasets_.mutex()) -> Result<> {
    CODECFS_ASSIGN(const DatasetPtr dataset, datasets_.get_locked(id));
    return writer.set_dimensions(id, *dataset, names);
  });
}

Result<> TreeChanges::set_metadata(ObjectId id, std::span<const std::string> dimensions, std::span<const Attribute> set,
                                   std::span<const std::string> remove) {
  CODECFS_TRY(store_shape_for(id, dimensions));
  return change<LibraryLock>([&](TreeWriter& writer) CODECFS_REQUIRES(datasets_.mutex()) -> Result<> {
    CODECFS_ASSIGN(const DatasetPtr dataset, datasets_.get_locked(id));
    return writer.set_metadata(id, *dataset, dimensions, set, remove);
  });
}

Result<> TreeChanges::store_shape_for(ObjectId id, std::span<const std::string> names) {
  // The new dimensions may be shorter than the shown shape. Where that is the stored one, the names before need not be
  // known: finding them may take a walk through the whole file.
  CODECFS_ASSIGN(const bool is_longer,
                 datasets_.with(id, [](const Dataset& dataset) -> Result<bool> { return dataset.is_longer(); }));
  if (!is_longer) return {};
  CODECFS_ASSIGN(const std::vector<std::string> before, dimension_names(id));
  return std::ranges::equal(before, names) ? Result<>() : store_shape(id);
}

Result<> TreeChanges::resize(ObjectId id, std::span<const uint64_t> shape) {
  // The shown shape may be larger than the stored one, even if it is the requested one.
  CODECFS_TRY(store_shape(id));
  return change<LibraryRead>([&](TreeWriter& writer) CODECFS_REQUIRES(datasets_.mutex()) -> Result<> {
    CODECFS_ASSIGN(const DatasetPtr dataset, datasets_.get_locked(id));
    return writer.resize(*dataset, shape);
  });
}

Result<std::vector<std::string>> TreeChanges::dimension_names(ObjectId id) {
  return datasets_.with(id, [&](const Dataset& dataset) -> Result<std::vector<std::string>> {
    const LibraryLock lock;
    CODECFS_ASSIGN(auto names, mounted_.dimensions->names(id, dataset.named()));
    return std::move(names.shown);
  });
}

Result<> TreeChanges::store_shape(ObjectId id) {
  CODECFS_TRY(mounted_.writable());
  return datasets_.with(id, [](Dataset& dataset) { return dataset.store_shape(); });
}

Result<> TreeChanges::store_shape_of_member(ObjectId group, std::string_view name) {
  Result<Entry> entry = [&] {
    const LibraryLock lock;
    return mounted_.tree->find(group, name);
  }();
  if (!entry) return pass_on(entry);
  return entry->kind == EntryKind::variable ? store_shape(entry->object) : Result<>();
}

}  // namespace codecfs::hdf5
