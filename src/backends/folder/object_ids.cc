#include "backends/folder/object_ids.h"

#include "base/mutex.h"

namespace codecfs::folder {

ObjectId ObjectIds::add(Object object) {
  objects_.push_back(std::move(object));
  return objects_.size() - 1;
}

ObjectId ObjectIds::of(const std::string& key, EntryKind kind) {
  const LockGuard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found != by_key_.end() && objects_[found->second].kind == kind) return found->second;
  Object object;
  object.kind = kind;
  object.name = key;
  return by_key_[key] = add(std::move(object));
}

ObjectId ObjectIds::of_root(const DatasetPtr& dataset) {
  const LockGuard lock(mutex_);
  const auto found = roots_.find(dataset.get());
  if (found != roots_.end()) return found->second;
  Object object;
  object.kind = dataset->kind;
  object.dataset = dataset;
  object.is_root = true;
  return roots_[dataset.get()] = add(std::move(object));
}

ObjectId ObjectIds::of(ObjectId group, const DatasetPtr& dataset, uint64_t generation, const Entry& entry) {
  const LockGuard lock(mutex_);
  Inner& inner = by_inner_[dataset.get()];
  if (inner.generation < generation) inner = {generation, {}};
  const Name name(group, entry.name);
  std::optional<ObjectId> id;
  if (const auto known = inner.ids.find(entry.object); known != inner.ids.end()) id = known->second;
  if (!id) {
    const auto named = by_name_.find(name);
    if (named != by_name_.end() && objects_[named->second].generation < generation &&
        objects_[named->second].kind == entry.kind)
      id = named->second;
  }
  if (!id) id = add({});
  Object& object = objects_[*id];
  if (object.dataset != nullptr && (object.group != group || object.name != entry.name)) {
    const auto before = by_name_.find(Name(object.group, object.name));
    if (before != by_name_.end() && before->second == *id) by_name_.erase(before);
  }
  object = {entry.kind, entry.name, dataset, false, group, entry.object, generation};
  inner.ids[entry.object] = *id;
  by_name_[name] = *id;
  return *id;
}

void ObjectIds::replace_root(ObjectId root, const DatasetPtr& dataset) {
  const LockGuard lock(mutex_);
  outdated_ = objects_.size();
  by_name_.clear();
  by_inner_.clear();
  roots_ = {{dataset.get(), root}};
  Object object;
  object.kind = dataset->kind;
  object.dataset = dataset;
  object.is_root = true;
  objects_.at(root) = std::move(object);
}

std::optional<std::vector<std::string>> ObjectIds::paths(size_t most) const {
  const SharedLock lock(mutex_);
  if (objects_.size() - outdated_ > most) return std::nullopt;
  std::vector<std::string> paths = {""};
  for (ObjectId id = outdated_; id < objects_.size(); ++id) {
    if (objects_[id].dataset == nullptr || objects_[id].is_root) continue;
    std::string path;
    for (ObjectId at = id; !objects_[at].is_root; at = objects_[at].group)
      path = path.empty() ? objects_[at].name : objects_[at].name + "/" + path;
    paths.push_back(std::move(path));
  }
  return paths;
}

Result<Object> ObjectIds::get(ObjectId id) const {
  const SharedLock lock(mutex_);
  if (id >= objects_.size()) return fail(ENOENT, "no object has the number {}", id);
  if (id < outdated_ && !objects_[id].is_root) return fail(ESTALE, "the source was changed by another program");
  return objects_[id];
}

Result<> ObjectIds::check_named(ObjectId id) const {
  const SharedLock lock(mutex_);
  const Object& object = objects_.at(id);
  const auto named = by_name_.find(Name(object.group, object.name));
  if (named == by_name_.end() || named->second != id) return fail(ENOENT, "{}: was removed", object.name);
  return {};
}

void ObjectIds::renew(ObjectId id, ObjectId inner, uint64_t generation) {
  const LockGuard lock(mutex_);
  Object& object = objects_.at(id);
  Inner& known = by_inner_[object.dataset.get()];
  if (known.generation < generation) known = {generation, {}};
  object.inner = inner;
  object.generation = generation;
  known.ids[inner] = id;
}

void ObjectIds::removed(ObjectId group, std::string_view name) {
  const LockGuard lock(mutex_);
  by_name_.erase(Name(group, name));
}

}  // namespace codecfs::folder
