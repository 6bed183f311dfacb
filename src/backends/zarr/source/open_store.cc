#include "backends/zarr/source/open_store.h"

#include <utility>

#include "backends/api/names.h"
#include "backends/zarr/metadata/metadata.h"
#include "backends/zarr/metadata/zarr3_metadata.h"
#include "model/memory_estimate.h"

namespace codecfs::zarr {
namespace {

constexpr size_t kKeptArrays = 256;

/// A store with the files of both formats is one of v2.
Result<ZarrFormat> format_of(const Store& files) {
  for (const char* file : {kGroupFile, kArrayFile, ".nczgroup", ".nczarr"}) {
    CODECFS_ASSIGN(const bool is_v2, files.has_file(file));
    if (is_v2) return ZarrFormat::v2;
  }
  CODECFS_ASSIGN(const bool is_v3, files.has_file(kZarr3File));
  return is_v3 ? ZarrFormat::v3 : ZarrFormat::v2;
}

Result<> check_zarr3_group(std::string_view text) {
  CODECFS_TRY(parse_zarr3_group(text));
  return {};
}

}  // namespace

Result<std::unique_ptr<OpenStore>> OpenStore::open(const std::string& path, bool may_write,
                                                   std::unique_ptr<Store> files) {
  CODECFS_ASSIGN(const ZarrFormat format, format_of(*files));
  std::unique_ptr<OpenStore> store(new OpenStore(std::move(files), format));
  if (!may_write) {
    store->unwritable_ = Error{EROFS, fmt::format("{}: was opened only to be read", path)};
  } else if (const auto changeable = store->files_->may_change(""); !changeable) {
    store->unwritable_ = changeable.error();
  }
  const auto kind = store->hierarchy_.kind_of("");
  if (!kind) return in_file(path, kind.error());
  CODECFS_ASSIGN(const bool is_nczarr, store->files_->has_file(".nczarr"));
  if (!*kind && !is_nczarr)
    return fail(EINVAL, "{}: no Zarr store (there is neither .zgroup nor .zarray nor zarr.json in it)", path);
  store->root_.kind = kind->value_or(EntryKind::group);
  store->root_.object = store->objects_.id_of("", store->root_.kind);
  if (store->root_.kind == EntryKind::group) {
    CODECFS_ASSIGN(const auto text, store->hierarchy_.read_text(store->hierarchy_.file_of(EntryKind::group)));
    if (text) {
      const auto valid = format == ZarrFormat::v3 ? check_zarr3_group(*text) : check_group(*text);
      if (!valid) return in_file(path, valid.error());
    }
  } else if (const auto root = store->load("", store->root_.object); !root) {
    return in_file(path, root.error());
  }
  return store;
}

OpenStore::OpenStore(std::unique_ptr<Store> files, ZarrFormat format)
    : files_(std::move(files)), hierarchy_(*files_, format), arrays_(kKeptArrays, kMaxHeld), shards_(*files_) {}

Result<> OpenStore::writable() const {
  if (unwritable_) return std::unexpected(*unwritable_);
  return {};
}

Result<Object> OpenStore::group(ObjectId id) const {
  CODECFS_ASSIGN(Object object, objects_.get(id));
  if (object.kind != EntryKind::group) return fail(ENOTDIR, "{}: is not a group", object.key);
  return object;
}

Entry OpenStore::entry_of(const std::string& group, std::string_view name, EntryKind kind) {
  return {.name = escape_name(name), .kind = kind, .object = objects_.id_of(join_key(group, name), kind), .target = {}};
}

Result<Entry> OpenStore::find(const Object& group, std::string_view name) {
  CODECFS_ASSIGN(const auto member, hierarchy_.find(group.key, name));
  if (!member) return fail(ENOENT, "{}: no group or array of that name", join_key(group.key, name));
  return entry_of(group.key, member->name, member->kind);
}

Result<ArrayPtr> OpenStore::array(ObjectId id) {
  if (ArrayPtr array = arrays_.get(id)) return array;
  CODECFS_ASSIGN(const Object object, objects_.get(id));
  if (object.kind != EntryKind::variable) return fail(ENOENT, "{}: is not an array", object.key);
  return load(object.key, id);
}

Result<ArrayPtr> OpenStore::array_with_chunks(ObjectId id) {
  auto found = array(id);
  if (!found && found.error().code == ENOENT) found.error().code = ESTALE;
  return found;
}

Result<ArrayPtr> OpenStore::current_array(ObjectId id) {
  CODECFS_ASSIGN(const Object object, objects_.get(id));
  if (object.kind != EntryKind::variable) return fail(ENOENT, "{}: is not an array", object.key);
  CODECFS_ASSIGN(const ArrayPtr array, load_array(hierarchy_, object.key, !unwritable_));
  if (const ArrayPtr known = arrays_.get(id); !known || (known->metadata == array->metadata && !known->is_changed))
    keep(id, array);
  return array;
}

Result<ArrayPtr> OpenStore::load_array_at(const std::string& key) {
  return load(key, objects_.id_of(key, EntryKind::variable));
}

Result<ArrayPtr> OpenStore::load(const std::string& key, ObjectId id) {
  CODECFS_ASSIGN(ArrayPtr array, load_array(hierarchy_, key, !unwritable_));
  keep(id, array);
  return array;
}

Result<ArrayPtr> OpenStore::unchanged_array(const Object& object, ObjectId id) {
  CODECFS_ASSIGN(const ArrayPtr array, this->array(id));
  const char* const file = hierarchy_.file_of(EntryKind::variable);
  CODECFS_ASSIGN(const auto text, hierarchy_.read_text(join_key(object.key, file)));
  if (text == array->metadata) return array;
  // What else this mount knows of the array, such as the numbers of its chunks, is of the old state.
  if (is_shared_)
    return fail(ESTALE, "{}: another program has changed its {}: unmount and mount again to change it",
                called(object.key), file);
  arrays_.erase(id);
  return fail(ESTALE, "{}: another program has changed its {}: read it again, then retry", called(object.key), file);
}

Result<ArrayPtr> OpenStore::writable_array(ObjectId id) {
  CODECFS_TRY(writable());
  CODECFS_ASSIGN(auto array, this->array(id));
  if (array->unwritable) return std::unexpected(*array->unwritable);
  // A chunk with two names would have two independent states.
  if (files_->passes_link(array->key))
    return fail(EOPNOTSUPP, "{}: is reached through a symbolic link; write it under its own name", called(array->key));
  return array;
}

void OpenStore::keep(ObjectId id, const ArrayPtr& array) {
  const uint64_t grid = array->array.rectilinear ? array->array.rectilinear->memory() : 0;
  arrays_.put(id, array, array->metadata.size() + memory_estimate(array->array.variable) + grid);
}

void OpenStore::forget(ObjectId id, const std::string& key) {
  arrays_.erase(id);
  listings_.forget(key);
  shard_listings_.forget(key);
}

void OpenStore::changed(const Object& object) {
  forget(objects_.id_of(object.key, object.kind), object.key);
  changed_ = true;
}

void OpenStore::removed(const std::string& key) {
  drop_arrays(objects_.remove(key));
  listings_.forget(key);
  shard_listings_.forget(key);
  changed_ = true;
}

void OpenStore::moved(const std::string& from, const std::string& to) {
  drop_arrays(objects_.remove(to));  // of an object that another program has removed
  drop_arrays(objects_.move(from, to));
  listings_.forget(from);
  shard_listings_.forget(from);
  listings_.forget(to);
  shard_listings_.forget(to);
  changed_ = true;
}

void OpenStore::drop_arrays(const std::vector<ObjectId>& ids) {
  for (const ObjectId id : ids) arrays_.erase(id);
}

}  // namespace codecfs::zarr
