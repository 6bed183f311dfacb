#include "backends/folder/dataset_calls.h"

namespace codecfs::folder {

Result<std::vector<Entry>> DatasetCalls::list(ObjectId id) {
  CODECFS_ASSIGN(const Object object, ids_.get(id));
  CODECFS_ASSIGN(const Inner inner, inner_of(id, kReading));
  CODECFS_ASSIGN(std::vector<Entry> entries, named(id, inner.source->list(inner.id)));
  for (Entry& entry : entries) assign_id(id, object.dataset, inner, entry);
  return entries;
}

Result<Entry> DatasetCalls::find(ObjectId id, std::string_view name) {
  CODECFS_ASSIGN(const Object object, ids_.get(id));
  CODECFS_ASSIGN(const Inner inner, inner_of(id, kReading));
  return find_in(id, object.dataset, inner, name);
}

bool DatasetCalls::changed_outside(ObjectId id) {
  const Result<Object> object = ids_.get(id);
  if (!object || object->dataset == nullptr) return false;
  const auto use = datasets_.use_if_open(object->dataset);  // do not open the dataset for this
  if (!use) return false;
  return object->generation != use->generation || use->source->changed_outside(object->inner);
}

Result<> DatasetCalls::remove(ObjectId id, std::string_view name) {
  CODECFS_ASSIGN(const Inner inner, inner_of(id, kWriting));
  CODECFS_TRY(inner.source->remove(inner.id, name));
  ids_.removed(id, name);
  return {};
}

Result<> DatasetCalls::rename(ObjectId from, std::string_view name, ObjectId to, std::string_view to_name) {
  CODECFS_ASSIGN(const Inner source, inner_of(from, kWriting));
  CODECFS_ASSIGN(const Inner target, inner_of(to, kWriting));
  if (source.source != target.source)
    return fail(EXDEV, "{}: is moved to another dataset by copying it and removing it", name);
  // Names as they will be after the rename.
  CODECFS_ASSIGN(const Object group, ids_.get(from));
  CODECFS_TRY(find_in(from, group.dataset, source, name));
  CODECFS_TRY(source.source->rename(source.id, name, target.id, to_name));
  ids_.removed(from, name);
  CODECFS_TRY(find_in(to, group.dataset, target, to_name));
  return {};
}

Result<Entry> DatasetCalls::find_in(ObjectId group, const DatasetPtr& dataset, const Inner& inner,
                                    std::string_view name) {
  CODECFS_ASSIGN(Entry entry, inner.source->find(inner.id, name));
  assign_id(group, dataset, inner, entry);
  return entry;
}

Result<DatasetCalls::Inner> DatasetCalls::inner_of(ObjectId id, Datasets::For purpose) {
  CODECFS_ASSIGN(Object object, ids_.get(id));
  if (object.dataset == nullptr)
    return fail(EPERM, "{}: is a {} of the folder that is mounted, which itself is only read",
                files_->path_of(object.name), object.kind == EntryKind::folder ? "directory" : "file");
  CODECFS_ASSIGN(Datasets::Use use, datasets_.use(object.dataset, purpose));
  // If the dataset was reopened since, look the object up by name, from the nearest group whose id is current.
  std::vector<ObjectId> below;
  while (object.generation != use.generation && !object.is_root) {
    CODECFS_TRY(ids_.check_named(id));
    below.push_back(id);
    id = object.group;
    CODECFS_ASSIGN(object, ids_.get(id));
  }
  if (object.generation != use.generation) {
    object.inner = use.source->root().object;
    ids_.renew(id, object.inner, use.generation);
  }
  ObjectId inner = object.inner;
  for (; !below.empty(); below.pop_back()) {
    CODECFS_ASSIGN(const Object member, ids_.get(below.back()));
    const Result<Entry> entry = use.source->find(inner, member.name);
    // Not ENOENT, which readers of Zarr take for a chunk that is all fill value.
    if (entry ? entry->kind != member.kind : entry.error().code == ENOENT)
      return fail(ESTALE, "{}: was changed by another program", member.name);
    if (!entry) return std::unexpected(entry.error());
    inner = entry->object;
    ids_.renew(below.back(), inner, use.generation);
  }
  return Inner{std::move(use.source), use.generation, inner};
}

}  // namespace codecfs::folder
