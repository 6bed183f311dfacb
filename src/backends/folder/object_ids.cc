#include "backends/folder/object_ids.h"

#include <new>

#include "base/mutex.h"

namespace codecfs::folder {

ObjectId ObjectIds::add(Object object) {
  objects_.push_back(std::move(object));
  return objects_.size() - 1;
}

ObjectId ObjectIds::of(const std::string& key, EntryKind kind) {
  const LockGuard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) {
    Plain& known = plain_.at(found->second);
    known.asked = now_();
    if (known.object.kind == kind) return found->second;
    by_key_.erase(found);  // before its key, which is in `known`, may go
  }
  (void)drop_some();
  const ObjectId id = next_plain_++;
  Plain& plain = plain_[id];
  plain.object.kind = kind;
  plain.object.name = key;
  plain.asked = now_();
  by_key_.emplace(plain.object.name, id);
  // The folder itself is always in use.
  if (key.empty())
    ++plain.kept;
  else
    queue(id, plain);
  return id;
}

void ObjectIds::queue(ObjectId id, Plain& plain) {
  if (plain.is_queued) return;
  unkept_.push_back(id);
  plain.is_queued = true;
}

void ObjectIds::erase(std::unordered_map<ObjectId, Plain>::iterator plain) {
  const auto named = by_key_.find(plain->second.object.name);
  if (named != by_key_.end() && named->second == plain->first) by_key_.erase(named);
  plain_.erase(plain);
}

/// Gives some ids back; false if there are no more that may be. Few, as others wait for the lock.
bool ObjectIds::drop_some() {
  constexpr int kSome = 256;
  if (!gives_back_) return false;
  for (int i = 0; i < kSome; ++i) {
    if (unkept_.size() <= kMaxUnkept) return false;
    const auto plain = plain_.find(unkept_.front());
    if (plain != plain_.end() && plain->second.kept == 0) {
      if (now_() - plain->second.asked < kUnkept) {  // perhaps not those behind it, which are looked at later
        unkept_.push_back(plain->first);
        unkept_.pop_front();
        return false;
      }
      erase(plain);
    } else if (plain != plain_.end()) {
      plain->second.is_queued = false;
    }
    unkept_.pop_front();
  }
  return true;
}

void ObjectIds::drop_unkept() {
  for (bool is_more = true; is_more;) {
    const LockGuard lock(mutex_);
    is_more = drop_some();
  }
}

bool ObjectIds::keep(ObjectId id) {
  const LockGuard lock(mutex_);
  gives_back_ = true;
  if (id < kFirstPlain) return true;
  const auto plain = plain_.find(id);
  if (plain == plain_.end()) return false;
  ++plain->second.kept;
  return true;
}

void ObjectIds::release(ObjectId id) noexcept {
  const LockGuard lock(mutex_);
  const auto plain = plain_.find(id);
  if (plain == plain_.end() || --plain->second.kept > 0) return;
  try {
    queue(id, plain->second);
    (void)drop_some();
  } catch (const std::bad_alloc&) {
    if (!plain->second.is_queued) erase(plain);
  }
}

size_t ObjectIds::count() const {
  const SharedLock lock(mutex_);
  return objects_.size() + plain_.size();
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
  if (id >= kFirstPlain) {
    const auto plain = plain_.find(id);
    return plain != plain_.end() ? Result<Object>(plain->second.object)
                                 : fail(ESTALE, "this name must be looked up again");
  }
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
