#include "backends/folder/dataset_calls.h"

namespace codecfs::folder {

bool DatasetCalls::changed_outside(ObjectId id) {
  const Result<Object> object = ids_.get(id);
  if (!object || object->dataset == nullptr) return false;
  const auto use = datasets_.use_if_open(object->dataset);  // do not open the dataset for this
  if (!use) return false;
  return object->generation != use->generation || use->source->changed_outside(object->inner);
}

Result<> DatasetCalls::remove(ObjectId id, std::string_view name) {
  CODECFS_TRY(ForwardingSource::remove(id, name));
  ids_.removed(id, name);
  return {};
}

Result<> DatasetCalls::rename(ObjectId from, std::string_view name, ObjectId to, std::string_view to_name) {
  CODECFS_TRY(find(from, name));  // so that the object has an id, which follows it
  CODECFS_TRY(ForwardingSource::rename(from, name, to, to_name));
  ids_.removed(from, name);
  CODECFS_TRY(find(to, to_name));
  return {};
}

Result<> DatasetCalls::shown(ObjectId group, const Target& there, Entry& entry) {
  if (entry.kind == EntryKind::symlink) return {};
  CODECFS_ASSIGN(const Object object, ids_.get(group));
  entry.object = ids_.of(group, object.dataset, there.generation, entry);
  return {};
}

void DatasetCalls::explain(ObjectId id, Error& error) {
  if (error.code == ENOENT) return;
  const Result<Object> object = ids_.get(id);
  if (!object || object->dataset == nullptr) return;
  const std::string key = datasets_.key_of(*object->dataset);
  if (error.reason.find(key) == std::string::npos) error.reason = fmt::format("{}: {}", key, error.reason);
}

Result<DatasetCalls::Target> DatasetCalls::target(ObjectId id, Purpose purpose) {
  Result<Target> found = find_target(id, purpose == Purpose::writing ? Datasets::For::writing : Datasets::For::reading);
  if (!found && found.error().code == ENOENT && purpose == Purpose::reading_chunks) found.error().code = ESTALE;
  return found;
}

Result<DatasetCalls::Target> DatasetCalls::find_target(ObjectId id, Datasets::For purpose) {
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
  return Target{*use.source, inner, use.source, use.generation};
}

}  // namespace codecfs::folder
