// A Source over a Zarr v2 store: a directory, or the files in a zip archive (store.h). Everything is read on demand: a
// group is its directory, an array its .zarray and .zattrs, a chunk one file, each found by its path. Parsed metadata
// and pipelines of the most recently used arrays are cached.
//
// The calling thread encodes a chunk and writes its file; see store_writer.h. All changes replace a file or a directory
// atomically. Every use of a key requires tree_mutex_ shared, so that the objects at this key are not moved, removed or
// exchanged meanwhile; decoding and encoding need no lock. A commit, which may take long, only prevents changes of
// directory names (places_mutex_).

#include "backends/zarr/source/zarr_source.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "backends/api/names.h"
#include "backends/zarr/metadata/consolidated.h"
#include "backends/zarr/metadata/metadata.h"
#include "backends/zarr/metadata/metadata_write.h"
#include "backends/zarr/metadata/nczarr_changes.h"
#include "backends/zarr/source/access.h"
#include "backends/zarr/source/chunk_listing.h"
#include "backends/zarr/source/hierarchy.h"
#include "backends/zarr/source/object_table.h"
#include "backends/zarr/source/open_array.h"
#include "backends/zarr/source/recode.h"
#include "backends/zarr/store/directory_store.h"
#include "backends/zarr/store/directory_writer.h"
#include "backends/zarr/store/outside_changes.h"
#include "backends/zarr/store/store.h"
#include "backends/zarr/store/store_writer.h"
#include "backends/zarr/store/zip_store.h"
#include "backends/zarr/store/zip_writer.h"
#include "base/log.h"
#include "base/lru_map.h"
#include "model/memory_estimate.h"

namespace codecfs {
namespace {

using zarr::ArrayPtr;
using zarr::called;
using zarr::holder_of;
using zarr::join_key;
using zarr::NewDirectory;
using zarr::Object;
using zarr::OpenArray;
using zarr::Store;
using zarr::StoreWriter;

constexpr size_t kKeptArrays = 256;

std::unexpected<Error> in_file(const std::string& key, const Error& error) {
  return fail(error.code, "{}: {}", key, error.reason);
}

/// The last component of a key.
std::string name_of(const std::string& key) { return key.substr(key.rfind('/') + 1); }

Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// The name of a group in messages.
const char* group_called(const std::string& key) { return key.empty() ? "the root" : key.c_str(); }

class ZarrSource final : public Source {
 public:
  /// `path` is for messages.
  static Result<std::unique_ptr<Source>> open(const std::string& path, const char* format, bool may_write,
                                              std::unique_ptr<Store> store, std::unique_ptr<StoreWriter> writer) {
    auto source = std::unique_ptr<ZarrSource>(new ZarrSource(format, std::move(store), std::move(writer)));
    if (!may_write) {
      source->unwritable_ = Error{EROFS, fmt::format("{}: was opened only to be read", path)};
    } else if (const auto changeable = source->store_.may_change(""); !changeable) {
      source->unwritable_ = changeable.error();
    }
    CODECFS_ASSIGN(const std::optional<EntryKind> kind, source->hierarchy_.kind_of(""));
    CODECFS_ASSIGN(const bool is_nczarr, source->store_.has_file(".nczarr"));
    if (!kind && !is_nczarr)
      return fail(EINVAL, "{}: no Zarr v2 store (there is neither .zgroup nor .zarray in it)", path);
    source->root_.kind = kind.value_or(EntryKind::group);
    source->root_.object = source->objects_.id_of("", source->root_.kind);
    if (source->root_.kind == EntryKind::group) {
      CODECFS_ASSIGN(const auto text, source->hierarchy_.read_text(".zgroup"));
      if (text) {
        if (const auto valid = zarr::check_group(*text); !valid) return in_file(path, valid.error());
      }
    } else if (const auto root = source->load("", source->root_.object); !root) {
      return in_file(path, root.error());
    }
    return source;
  }

  [[nodiscard]] const struct stat& status() const override { return store_.status(); }
  /// The status at the first query.
  [[nodiscard]] Result<struct stat> status_of(ObjectId id) const override {
    struct stat status = store_.status();
    CODECFS_ASSIGN(const zarr::Access access, accesses_.get(id, [&]() -> Result<zarr::Access> {
      const auto lock = reading();
      CODECFS_ASSIGN(const Object object, objects_.get(id));
      return zarr::access_of(store_, object);
    }));
    status.st_uid = access.user;
    status.st_gid = access.group;
    status.st_mode = (status.st_mode & S_IFMT) | access.mode;
    return status;
  }
  [[nodiscard]] struct statvfs filesystem() const override {
    const auto lock = reading();
    return store_.filesystem();
  }
  [[nodiscard]] std::string format() const override { return format_; }
  [[nodiscard]] bool chains_for_numcodecs() const override { return true; }
  [[nodiscard]] Entry root() const override { return root_; }

  Result<std::vector<Entry>> list(ObjectId group) override {
    const auto lock = reading();
    CODECFS_ASSIGN(const Object object, group_of(group));
    std::vector<Entry> entries;
    CODECFS_TRY(hierarchy_.for_each(object.key, [&](std::string_view name, EntryKind kind) {
      entries.push_back(entry_of(object.key, name, kind));
      return true;
    }));
    std::ranges::sort(entries, {}, &Entry::name);
    return entries;
  }

  Result<Entry> find(ObjectId group, std::string_view name) override {
    const auto lock = reading();
    CODECFS_ASSIGN(const Object object, group_of(group));
    return find_in(object, name);
  }

  Result<std::vector<Attribute>> group_attributes(ObjectId group) override {
    const auto lock = reading();
    CODECFS_ASSIGN(const Object object, group_of(group));
    CODECFS_ASSIGN(const auto text, hierarchy_.read_text(join_key(object.key, ".zattrs")));
    if (!text) return std::vector<Attribute>();
    CODECFS_ASSIGN(const auto nczattr, hierarchy_.read_text(join_key(object.key, ".nczattr")));
    auto attributes = zarr::parse_attributes(*text, nczattr);
    if (!attributes) return in_file(object.key, attributes.error());
    return attributes;
  }

  Result<VariablePtr> variable(ObjectId variable) override {
    const auto lock = reading();
    CODECFS_ASSIGN(const Object object, objects_.get(variable));
    if (object.kind != EntryKind::variable) return fail(ENOENT, "{}: is not an array", object.key);
    CODECFS_ASSIGN(const ArrayPtr array, zarr::load_array(store_, object.key, !unwritable_));
    // Chunk numbers refer to the grid that facts() returned, until the array is dropped from the cache.
    if (const ArrayPtr known = arrays_.get(variable); !known || (known->zarray == array->zarray && !known->is_changed))
      keep(variable, array);
    return VariablePtr(array, &array->array.variable);
  }

  Result<VariablePtr> facts(ObjectId variable) override {
    const auto lock = reading();
    CODECFS_ASSIGN(const ArrayPtr array, open_array(variable));
    return VariablePtr(array, &array->array.variable);
  }

  bool changed_outside(ObjectId id) override {
    const auto lock = reading();
    const auto object = objects_.get(id);
    if (!object || !outside_.any(store_, object->key, object->kind)) return false;
    if (object->kind != EntryKind::variable) return true;
    arrays_.erase(id);
    listings_.forget(object->key);
    return true;
  }

  Result<ChunkInfo> locate(ObjectId variable, uint64_t number) override {
    const auto lock = reading();
    CODECFS_ASSIGN(const auto array, open_array(variable));
    CODECFS_ASSIGN(const std::string key, chunk_key(*array, number));
    CODECFS_ASSIGN(const auto stored, store_.locate(key));
    if (!stored) return ChunkInfo{};
    return ChunkInfo{.stored = true, .stored_size = stored->bytes, .offset = stored->offset, .filter_mask = 0};
  }

  Result<std::vector<uint64_t>> stored_chunks(ObjectId variable, uint64_t from, size_t limit) override {
    const auto lock = reading();
    CODECFS_ASSIGN(const auto array, open_array(variable));
    return listings_.next(store_, array->key, array->array.variable.grid, array->array.separator, from, limit);
  }

  Result<Buffer> read_chunk(ObjectId variable, uint64_t number) override {
    ArrayPtr array;
    std::string key;
    std::optional<Buffer> stored;
    {
      const auto lock = reading();
      CODECFS_ASSIGN(array, open_array(variable));
      if (const auto& why = array->array.variable.unreadable) return std::unexpected(*why);
      CODECFS_ASSIGN(key, chunk_key(*array, number));
      CODECFS_ASSIGN(stored, store_.read(key, array->max_stored));
    }
    if (!stored) return fail(ENOENT, "{}: is not stored", key);
    return zarr::decode_chunk(*array, key, std::move(*stored));
  }

  Result<std::optional<uint64_t>> stored_bytes(ObjectId variable, uint64_t number) override {
    const auto lock = reading();
    CODECFS_ASSIGN(const auto array, open_array(variable));
    if (!array->has_exact_encoding()) return std::nullopt;
    CODECFS_ASSIGN(const std::string key, chunk_key(*array, number));
    CODECFS_ASSIGN(const auto status, store_.stat(key));
    if (!status || !S_ISREG(status->st_mode)) return std::nullopt;
    return static_cast<uint64_t>(status->st_size);
  }

  Result<std::optional<Buffer>> read_stored(ObjectId variable, uint64_t number) override {
    const auto lock = reading();
    CODECFS_ASSIGN(const auto array, open_array(variable));
    if (!array->has_exact_encoding()) return std::nullopt;
    CODECFS_ASSIGN(const std::string key, chunk_key(*array, number));
    CODECFS_ASSIGN(std::optional<Buffer> stored, store_.read(key, array->max_stored));
    if (!stored) return fail(ENOENT, "{}: is not stored", key);
    return stored;
  }

  Result<> writable() override {
    if (unwritable_) return std::unexpected(*unwritable_);
    return {};
  }

  Result<> variable_writable(ObjectId variable) override {
    const auto lock = reading();
    CODECFS_ASSIGN(const auto array, writable_array(variable));
    return {};
  }

  Result<> begin_writing() override {
    const auto lock = reading();
    return begin();
  }

  Result<> write_chunk(ObjectId variable, uint64_t number, Bytes chunk) override {
    while (true) {
      CODECFS_TRY(correct_codecs(variable));
      CODECFS_ASSIGN(const ToStore target, place_to_store_locked(variable, number));
      const auto& [array, name] = target;
      CODECFS_ASSIGN(const zarr::StoredChunk stored, zarr::encode_chunk(*array, join_key(array->key, name), chunk));
      const auto lock = reading();
      CODECFS_ASSIGN(const ToStore now, place_to_store(variable, number));
      if (now.array != array && now.array->zarray != array->zarray) continue;  // the pipeline changed: encode again
      CODECFS_TRY(writer_.write(now.array->key, now.name, stored.bytes, now.array->mode));
      listings_.refresh(store_, now.array->key, join_key(now.array->key, now.name), number);
      return {};
    }
  }

  Result<bool> write_stored(ObjectId variable, uint64_t number, Bytes stored) override {
    CODECFS_TRY(correct_codecs(variable));
    const auto lock = reading();
    CODECFS_ASSIGN(const ToStore target, place_to_store(variable, number));
    const auto& [array, name] = target;
    if (!array->has_exact_encoding() || stored.size() > array->max_stored) return false;
    CODECFS_TRY(writer_.write(array->key, name, stored, array->mode));
    listings_.refresh(store_, array->key, join_key(array->key, name), number);
    return true;
  }

  Result<> remove_chunk(ObjectId variable, uint64_t number) override {
    CODECFS_TRY(correct_codecs(variable));
    const auto lock = reading();
    CODECFS_ASSIGN(const ToStore target, place_to_store(variable, number));
    const auto& [array, name] = target;
    CODECFS_TRY(writer_.remove(array->key, name));
    listings_.refresh(store_, array->key, join_key(array->key, name), number);
    return {};
  }

  Result<Entry> make_group(ObjectId parent, std::string_view name) override {
    const auto lock = changing();
    CODECFS_ASSIGN(const Object group, group_to_change(parent));
    CODECFS_ASSIGN(const std::string file_name, hierarchy_.free_name(group.key, name));
    CODECFS_ASSIGN(const zarr::Modes modes, zarr::modes_for_members(store_, group.key));
    CODECFS_ASSIGN(auto fresh, writer_.new_directory(group.key, file_name, modes.directory));
    CODECFS_ASSIGN(const auto nczarr, zarr::nczarr_new_group(hierarchy_, group.key, file_name));
    for (const auto& [file, text] : nczarr.files) CODECFS_TRY(fresh->write(file, bytes_of(text), modes.file));
    CODECFS_TRY(with_lists(
        nczarr.plan, {group.key}, [&] { return fresh->place(file_name); }, [&] { discard(group.key, file_name); }));
    return made(group.key, file_name, EntryKind::group);
  }

  Result<Entry> make_variable(ObjectId parent, std::string_view name, const Variable& variable) override {
    std::unique_ptr<NewDirectory> fresh;  // declared first: deletes the replaced group after the locks are released
    const std::lock_guard places(places_mutex_);
    const auto lock = changing();
    CODECFS_ASSIGN(const Object group, group_to_change(parent));
    CODECFS_ASSIGN(const bool takes_place, is_empty_group(group, name));
    CODECFS_ASSIGN(const std::string file_name,
                   takes_place ? zarr::Hierarchy::new_name(group.key, name) : hierarchy_.free_name(group.key, name));
    const std::string key = join_key(group.key, file_name);
    auto plain = zarr::print_array(variable);
    if (!plain) return in_file(key, plain.error());
    const auto nczarr = zarr::nczarr_new_array(hierarchy_, group.key, file_name, variable, std::move(*plain));
    if (!nczarr) return in_file(key, nczarr.error());
    const zarr::NewArray& files = nczarr->files;
    CODECFS_ASSIGN(const zarr::Modes modes, zarr::modes_for_members(store_, group.key));
    CODECFS_ASSIGN(fresh, writer_.new_directory(group.key, file_name, modes.directory));
    CODECFS_TRY(fresh->write(zarr::kArrayFile, bytes_of(files.zarray), modes.file));
    if (files.zattrs) CODECFS_TRY(fresh->write(zarr::kAttributesFile, bytes_of(*files.zattrs), modes.file));
    if (files.nczvar) CODECFS_TRY(fresh->write(".nczvar", bytes_of(*files.nczvar), modes.file));
    const auto put = [&] { return takes_place ? fresh->exchange(file_name) : fresh->place(file_name); };
    const auto undo_put = [&] { takes_place ? (void)fresh->exchange(file_name) : discard(group.key, file_name); };
    CODECFS_TRY(with_lists(nczarr->plan, {group.key}, put, undo_put));
    return made(group.key, file_name, EntryKind::variable);
  }

  Result<Entry> make_link(ObjectId, std::string_view, std::string_view) override {
    CODECFS_TRY(writable());
    return fail(EPERM, "Zarr has no links");
  }

  Result<> remove(ObjectId parent, std::string_view name) override {
    std::unique_ptr<NewDirectory> removed;  // declared first: deletes the directory after the locks are released
    const std::lock_guard places(places_mutex_);
    const auto lock = changing();
    CODECFS_ASSIGN(const Object group, group_to_change(parent));
    CODECFS_ASSIGN(const Object member, member_to_change(group, name));
    if (member.kind == EntryKind::group) CODECFS_TRY(hierarchy_.check_empty(member.key));
    CODECFS_ASSIGN(const auto lists, zarr::nczarr_removal(hierarchy_, group.key, name_of(member.key)));
    const auto take = [&]() -> Result<> {
      CODECFS_ASSIGN(removed, writer_.remove_directory(group.key, name_of(member.key)));
      return {};
    };
    CODECFS_TRY(with_lists(lists, {}, take, [] {}));
    forget_ids(objects_.remove(member.key));
    changed_at(member.key);
    return {};
  }

  Result<> rename(ObjectId from, std::string_view name, ObjectId to, std::string_view to_name) override {
    const std::lock_guard places(places_mutex_);
    const auto lock = changing();
    CODECFS_ASSIGN(const Object source, group_to_change(from));
    CODECFS_ASSIGN(const Object target, group_to_change(to));
    CODECFS_ASSIGN(const Object member, member_to_change(source, name));
    if (source.key == target.key && name == to_name) return {};
    if (zarr::is_at_or_below(target.key, member.key))
      return fail(EINVAL, "{}: cannot be moved into itself", member.key);
    CODECFS_ASSIGN(const std::string file_name, hierarchy_.free_name(target.key, to_name));
    if (source.key != target.key) CODECFS_TRY(hierarchy_.check_no_links(member.key));
    const std::string key = join_key(target.key, file_name);
    CODECFS_ASSIGN(const auto lists, zarr::nczarr_move(hierarchy_, member.key, member.kind, key));
    CODECFS_TRY(with_lists(
        lists, {source.key, target.key},
        [&] { return writer_.move(source.key, name_of(member.key), target.key, file_name); },
        [&] { (void)writer_.move(target.key, file_name, source.key, name_of(member.key)); }));
    forget_ids(objects_.remove(key));  // of an object that another program has removed
    forget_ids(objects_.move(member.key, key));
    changed_at(member.key);
    changed_at(key);
    return {};
  }

  Result<> set_attributes(ObjectId id, std::span<const Attribute> set, std::span<const std::string> remove) override {
    const auto lock = changing();
    CODECFS_ASSIGN(const Object object, object_to_change(id));
    zarr::AttributeChange change{.set = set, .remove = remove, .keeps_dimensions = false};
    if (object.kind == EntryKind::variable) {
      CODECFS_ASSIGN(const ArrayPtr array, open_array(id));
      // If it does not fit the shape, it is an ordinary attribute and may be removed.
      const auto& shown = array->array.variable.attributes;
      change.keeps_dimensions =
          std::ranges::none_of(shown, [](const Attribute& one) { return one.name == "_ARRAY_DIMENSIONS"; });
    }
    const std::string key = join_key(object.key, zarr::kAttributesFile);
    CODECFS_ASSIGN(const auto text, hierarchy_.read_text(key));
    const auto changed = zarr::with_attributes(text, change);
    if (!changed) return in_file(group_called(object.key), changed.error());
    if (!*changed) return {};
    return replace_metadata(object, zarr::kAttributesFile, **changed);
  }

  Result<> set_dimensions(ObjectId id, std::span<const std::string> names) override {
    const auto lock = changing();
    CODECFS_ASSIGN(const Object object, variable_to_change(id));
    CODECFS_ASSIGN(const ArrayPtr array, open_array(id));
    const Variable& facts = array->array.variable;
    if (names.size() != facts.grid.rank())
      return fail(EINVAL, "{}: {} names for {} dimensions", called(object.key), names.size(), facts.grid.rank());
    if (facts.dimensions && std::ranges::equal(names, *facts.dimensions)) return {};
    if (array->array.nczarr) {
      const auto lists = zarr::nczarr_dimensions(hierarchy_, object.key, array->array, names);
      if (!lists) return in_file(called(object.key), lists.error());
      return with_lists(*lists, {}, [] { return Result<>(); }, [] {});
    }
    CODECFS_ASSIGN(const auto text, hierarchy_.read_text(join_key(object.key, zarr::kAttributesFile)));
    const auto changed = zarr::with_dimensions(text, names);
    if (!changed) return in_file(called(object.key), changed.error());
    return replace_metadata(object, zarr::kAttributesFile, *changed);
  }

  Result<> resize(ObjectId id, std::span<const uint64_t> shape) override {
    const auto lock = changing();
    CODECFS_ASSIGN(const Object object, variable_to_change(id));
    CODECFS_ASSIGN(const ArrayPtr array, unchanged_array(object, id));
    const ChunkGrid& old_grid = array->array.variable.grid;
    if (shape.size() != old_grid.rank())
      return fail(EINVAL, "{}: has {} dimensions, not {}", called(object.key), old_grid.rank(), shape.size());
    if (std::ranges::equal(shape, old_grid.shape())) return {};
    zarr::NczarrPlan lists;
    if (array->array.nczarr) {
      auto planned = zarr::nczarr_resize(hierarchy_, object.key, array->array, shape);
      if (!planned) return in_file(called(object.key), planned.error());
      lists = std::move(*planned);
    }
    return with_lists(lists, {}, [&] { return resize_array(object, *array, shape); }, [] {});
  }

  Result<> set_filters(ObjectId id, std::span<const FilterStage> filters, Progress& progress) override {
    Recoding recoding;  // declared first: deletes the old directory after the locks are released
    {
      const auto lock = reading();
      CODECFS_ASSIGN(const bool has_them, begin_recoding(id, filters, recoding));
      if (has_them) return {};
    }
    CODECFS_TRY(zarr::recode_chunks(*recoding.source, *recoding.array, recoding.chain, *recoding.target, progress));
    const std::lock_guard places(places_mutex_);
    const auto lock = changing();
    return finish_recoding(id, recoding);
  }

  Result<> commit() override {
    if (writable()) CODECFS_TRY(writer_.sync_inherited());
    return commit_changes();
  }

  Result<> commit_changes() {
    const auto done = commit_with([&]() -> Result<bool> {
      CODECFS_TRY(writer_.commit());
      return true;
    });
    if (!done) return std::unexpected(done.error());
    return {};
  }

  Result<bool> commit_at_interval() override {
    return commit_with([&] { return writer_.commit_at_interval(); });
  }

  Result<> finish() override {
    if (lists_changed_.exchange(false)) {
      if (const auto settled = extend_arrays(); !settled)
        log::warning("netCDF-C may not open this store: some arrays are shorter than their dimensions: {}",
                     settled.error().reason);
    }
    Result<> committed = commit_changes();
    writer_.end();
    return committed;
  }

 private:
  /// A running change of an array's pipeline. No lock is held while the source is read.
  struct Recoding {
    ArrayPtr array;
    zarr::Chain chain;
    std::unique_ptr<Store> source;  // the array's directory
    std::unique_ptr<NewDirectory> target;
  };

  ZarrSource(const char* format, std::unique_ptr<Store> store, std::unique_ptr<StoreWriter> writer)
      : format_(format),
        own_store_(std::move(store)),
        store_(*own_store_),
        hierarchy_(store_),
        own_writer_(std::move(writer)),
        writer_(*own_writer_) {}

  // Acquires turnstile_ first, so that a waiting writer blocks new readers.
  std::shared_lock<std::shared_mutex> reading() const {
    const std::lock_guard turn(turnstile_);
    return std::shared_lock(tree_mutex_);
  }
  std::unique_lock<std::shared_mutex> changing() {
    const std::lock_guard turn(turnstile_);
    return std::unique_lock(tree_mutex_);
  }

  Result<Object> group_of(ObjectId id) const {
    CODECFS_ASSIGN(Object object, objects_.get(id));
    if (object.kind != EntryKind::group) return fail(ENOTDIR, "{}: is not a group", object.key);
    return object;
  }

  Result<Entry> find_in(const Object& object, std::string_view name) {
    CODECFS_ASSIGN(const auto member, hierarchy_.find(object.key, name));
    if (!member) return fail(ENOENT, "{}: no group or array of that name", join_key(object.key, name));
    return entry_of(object.key, member->name, member->kind);
  }

  Result<> begin() {
    CODECFS_TRY(writable());
    CODECFS_TRY(writer_.begin());
    if (root_.kind != EntryKind::variable || searched_beside_.exchange(true)) return {};
    writer_.remove_leftovers_beside();
    return {};
  }

  /// Acquires the right to write. Changes through a symbolic link are refused: its target would be two objects with
  /// separate state.
  Result<> check_change(const std::string& key) {
    CODECFS_TRY(begin());
    if (store_.passes_link(key))
      return fail(EOPNOTSUPP, "{}: is reached through a symbolic link; change it under its own name",
                  group_called(key));
    return {};
  }

  Result<Object> object_to_change(ObjectId id) {
    CODECFS_ASSIGN(Object object, objects_.get(id));
    CODECFS_TRY(check_change(object.key));
    return object;
  }

  Result<Object> variable_to_change(ObjectId id) {
    CODECFS_ASSIGN(Object object, object_to_change(id));
    if (object.kind != EntryKind::variable) return fail(ENOENT, "{}: is not an array", group_called(object.key));
    return object;
  }

  /// Returns an array that has not changed since it was opened: chunks that another program has added since must not be
  /// taken for leftovers. ESTALE.
  Result<ArrayPtr> unchanged_array(const Object& object, ObjectId id) {
    CODECFS_ASSIGN(const ArrayPtr array, open_array(id));
    CODECFS_ASSIGN(const auto zarray, hierarchy_.read_text(join_key(object.key, zarr::kArrayFile)));
    if (zarray == array->zarray) return array;
    arrays_.erase(id);
    return fail(ESTALE, "{}: another program has changed its .zarray: read it again, then retry", called(object.key));
  }

  /// A group whose members will change.
  Result<Object> group_to_change(ObjectId id) {
    CODECFS_ASSIGN(Object group, group_of(id));
    CODECFS_TRY(check_change(group.key));
    return group;
  }

  Result<Object> member_to_change(const Object& group, std::string_view name) {
    CODECFS_ASSIGN(const Entry entry, find_in(group, name));
    return object_to_change(entry.object);
  }

  /// Resizes an array without a change of netCDF-C's lists.
  Result<> resize_array(const Object& object, const OpenArray& array, std::span<const uint64_t> shape) {
    const ChunkGrid& old_grid = array.array.variable.grid;
    const auto new_grid = ChunkGrid::make({shape.begin(), shape.end()}, old_grid.chunks());
    if (!new_grid) return in_file(called(object.key), new_grid.error());
    CODECFS_ASSIGN(const std::string corrected, corrected_zarray(array));
    const auto zarray = zarr::with_shape(corrected, shape);
    if (!zarray) return in_file(called(object.key), zarray.error());

    // Chunks outside of the old shape, left by an interrupted resize, must not become part of the new shape.
    CODECFS_ASSIGN(const bool were_left, remove_chunks_outside(array, *new_grid, old_grid));
    if (were_left) CODECFS_TRY(writer_.order());
    CODECFS_TRY(replace_metadata(object, zarr::kArrayFile, *zarray));
    // Make the new shape durable before removing chunks: otherwise the old shape could return without them.
    Result<> removed = writer_.order(object.key);
    if (removed) {
      if (const auto outside = remove_chunks_outside(array, old_grid, *new_grid); !outside)
        removed = std::unexpected(outside.error());
    }
    if (!removed) log::warning("{}: chunks outside of its shape stay: {}", called(object.key), removed.error().reason);
    return {};
  }

  /// Changes names in some groups together with netCDF-C's lists: completely or, as far as the disk permits, not at
  /// all. `undo` reverts the change.
  Result<> with_lists(const zarr::NczarrPlan& plan, std::initializer_list<std::string> groups,
                      const std::function<Result<>()>& change, const std::function<void()>& undo) {
    CODECFS_TRY(write_edits(plan.before, true));
    Result<> done = change();
    if (done && !plan.after.empty()) {
      for (const std::string& group : groups)
        if (done) done = writer_.order(group);
      if (done) done = write_edits(plan.after, false);
      if (!done) undo();
    }
    if (!done) undo_edits(plan.before);
    if (!plan.before.empty() || !plan.after.empty()) lists_changed_ = true;
    return done;
  }

  Result<> write_edits(std::span<const zarr::NczarrEdit> edits, bool are_durable) {
    for (size_t i = 0; i < edits.size(); ++i) {
      Result<> written = replace_metadata({edits[i].key, edits[i].kind}, edits[i].file, edits[i].text);
      if (written && are_durable) written = writer_.order(edits[i].key);
      if (written) continue;
      undo_edits(edits.first(i + 1));
      return written;
    }
    return {};
  }

  void undo_edits(std::span<const zarr::NczarrEdit> edits) {
    for (size_t i = edits.size(); i-- > 0;)
      if (edits[i].old_text) (void)replace_metadata({edits[i].key, edits[i].kind}, edits[i].file, *edits[i].old_text);
  }

  void discard(const std::string& group, const std::string& name) { (void)writer_.remove_directory(group, name); }

  /// Extends arrays to the length of their dimensions, as netCDF-C does when it closes a file.
  Result<> extend_arrays() {
    const auto lock = changing();
    CODECFS_ASSIGN(const auto settlement, zarr::nczarr_settle(hierarchy_));
    CODECFS_TRY(write_edits(settlement.lists, false));
    for (const auto& [key, shape] : settlement.shapes) {
      if (store_.passes_link(key)) continue;
      const Object object{key, EntryKind::variable};
      CODECFS_ASSIGN(const ArrayPtr array, load(key, objects_.id_of(key, EntryKind::variable)));
      CODECFS_TRY(resize_array(object, *array, shape));
    }
    return {};
  }

  /// The .zarray of an array, with its codecs in the form that all readers understand.
  static Result<std::string> corrected_zarray(const OpenArray& array) {
    if (!array.array.has_wrong_codecs) return array.zarray;
    return zarr::with_chain(array.zarray, array.array.variable, array.array.variable.filters);
  }

  /// Corrects an array's codecs in .zarray before a chunk is stored with them.
  Result<> correct_codecs(ObjectId id) {
    CODECFS_ASSIGN(const ArrayPtr known, writable_array_locked(id));
    if (!known->array.has_wrong_codecs) return {};
    const auto lock = changing();
    CODECFS_ASSIGN(const Object object, variable_to_change(id));
    CODECFS_ASSIGN(const ArrayPtr array, unchanged_array(object, id));
    if (!array->array.has_wrong_codecs) return {};
    CODECFS_ASSIGN(const std::string zarray, corrected_zarray(*array));
    CODECFS_TRY(replace_metadata(object, zarr::kArrayFile, zarray));
    log::info("{}: corrected codecs in its .zarray that other readers would misinterpret", called(object.key));
    return writer_.order(object.key);
  }

  /// Whether the name is that of an empty group, which a variable may replace. ENOTEMPTY.
  Result<bool> is_empty_group(const Object& parent, std::string_view name) {
    const auto entry = find_in(parent, name);
    if (!entry && entry.error().code == ENOENT) return false;
    if (!entry) return std::unexpected(entry.error());
    if (entry->kind != EntryKind::group) return false;
    CODECFS_ASSIGN(const Object group, object_to_change(entry->object));
    CODECFS_TRY(hierarchy_.check_empty(group.key));
    return true;
  }

  Entry made(const std::string& group, const std::string& name, EntryKind kind) {
    writer_.note_change(group);
    changed_at(join_key(group, name));
    forget_ids(objects_.remove(join_key(group, name)));  // of an object that another program has removed
    return entry_of(group, name, kind);
  }

  void forget_ids(const std::vector<ObjectId>& ids) {
    for (const ObjectId id : ids) arrays_.erase(id);
  }

  /// The object at a key has changed.
  void changed_at(const std::string& key) {
    listings_.forget(key);
    metadata_changed_ = true;
  }

  /// Replaces a metadata file of an object.
  Result<> replace_metadata(const Object& object, const char* file, const std::string& text) {
    CODECFS_ASSIGN(auto status, store_.stat(join_key(object.key, file)));
    if (!status) {
      const bool is_variable = object.kind == EntryKind::variable;
      CODECFS_ASSIGN(status, store_.stat(join_key(object.key, is_variable ? zarr::kArrayFile : zarr::kGroupFile)));
    }
    CODECFS_TRY(writer_.write(object.key, file, bytes_of(text), status ? status->st_mode & 0666 : 0644));
    arrays_.erase(objects_.id_of(object.key, object.kind));
    changed_at(object.key);
    return {};
  }

  /// Removes the chunks that are in the grid `listed` but not in `kept`, which has the same chunk shape. Returns
  /// whether there were any.
  Result<bool> remove_chunks_outside(const OpenArray& array, const ChunkGrid& listed, const ChunkGrid& kept) {
    if (listed.count() == 0) return false;
    const char separator = array.array.separator;
    CODECFS_ASSIGN(const auto numbers, zarr::list_chunks(store_, array.key, listed, separator));
    std::vector<uint64_t> place(listed.rank());
    bool were_any = false;
    for (const uint64_t number : numbers) {
      listed.coordinates_of(number, place);
      if (std::ranges::equal(place, kept.cells(), std::less())) continue;
      CODECFS_TRY(writer_.remove(array.key, listed.name_of(number, separator)));
      were_any = true;
    }
    return were_any;
  }

  /// True if the array has this pipeline already; otherwise prepares the change.
  Result<bool> begin_recoding(ObjectId id, std::span<const FilterStage> filters, Recoding& recoding) {
    CODECFS_ASSIGN(const Object object, variable_to_change(id));
    CODECFS_ASSIGN(recoding.array, unchanged_array(object, id));
    const OpenArray& array = *recoding.array;
    auto chain = zarr::complete_chain(filters, array.array.variable);
    if (!chain) return in_file(called(object.key), chain.error());
    if (zarr::are_equal(array.array.variable.filters, chain->stages)) return true;
    if (array.unchangeable) return std::unexpected(*array.unchangeable);
    recoding.chain = std::move(*chain);

    CODECFS_ASSIGN(recoding.source, store_.below(object.key));
    const mode_t mode = recoding.source->status().st_mode & 07777;
    CODECFS_ASSIGN(recoding.target, object.key.empty()
                                        ? writer_.new_store(mode)
                                        : writer_.new_directory(holder_of(object.key), name_of(object.key), mode));
    return false;
  }

  Result<> finish_recoding(ObjectId id, Recoding& recoding) {
    CODECFS_ASSIGN(const Object object, variable_to_change(id));
    CODECFS_TRY(check_same(object, recoding));
    CODECFS_TRY(zarr::copy_other_files(*recoding.source, *recoding.array, recoding.chain, *recoding.target));
    if (object.key.empty()) {
      CODECFS_TRY(writer_.exchange_store(*recoding.target));
    } else {
      CODECFS_TRY(recoding.target->exchange(name_of(object.key)));
    }
    arrays_.erase(id);
    changed_at(object.key);
    return {};
  }

  /// Checks that the array has not changed or moved since it was read for the re-encoding.
  Result<> check_same(const Object& object, const Recoding& recoding) {
    CODECFS_ASSIGN(const auto now, store_.stat(object.key));
    CODECFS_ASSIGN(const auto zarray, hierarchy_.read_text(join_key(object.key, zarr::kArrayFile)));
    const struct stat& before = recoding.source->status();
    bool is_same =
        now && now->st_dev == before.st_dev && now->st_ino == before.st_ino && zarray == recoding.array->zarray;
    if (is_same && !object.key.empty()) {
      CODECFS_ASSIGN(const auto holder, store_.stat(holder_of(object.key)));
      const auto built_in = recoding.target->parent_status();
      is_same = holder && built_in && holder->st_dev == built_in->st_dev && holder->st_ino == built_in->st_ino;
    }
    if (is_same) return {};
    return fail(EBUSY, "{}: its filters were not changed: it was changed or moved meanwhile", called(object.key));
  }

  /// Updates .zmetadata after the metadata that it copies is durable, or together with it.
  Result<bool> commit_with(const std::function<Result<bool>()>& commit) {
    const std::lock_guard places(places_mutex_);
    CODECFS_TRY(writer_.order());
    Result<> renewed;
    if (metadata_changed_.exchange(false)) {
      const auto lock = reading();
      renewed = renew_consolidated();
      if (!renewed) metadata_changed_ = true;
    }
    auto committed = commit();
    if (committed && !renewed) return pass_on(renewed);
    return committed;
  }

  /// Updates .zmetadata if it exists.
  Result<> renew_consolidated() {
    CODECFS_ASSIGN(const auto status, store_.stat(zarr::kConsolidatedFile));
    CODECFS_ASSIGN(const auto text, hierarchy_.read_text(zarr::kConsolidatedFile));
    if (!status || !text || root_.kind != EntryKind::group) return {};
    CODECFS_ASSIGN(const auto renewed, zarr::renewed_consolidated(hierarchy_, *text));
    if (!renewed || *renewed == *text) return {};
    return writer_.write("", zarr::kConsolidatedFile, bytes_of(*renewed), status->st_mode & 0666);
  }

  Entry entry_of(const std::string& group, std::string_view name, EntryKind kind) {
    return {
        .name = escape_name(name), .kind = kind, .object = objects_.id_of(join_key(group, name), kind), .target = {}};
  }

  Result<ArrayPtr> open_array(ObjectId id) {
    if (ArrayPtr array = arrays_.get(id)) return array;
    CODECFS_ASSIGN(const Object object, objects_.get(id));
    if (object.kind != EntryKind::variable) return fail(ENOENT, "{}: is not an array", object.key);
    return load(object.key, id);
  }

  Result<ArrayPtr> load(const std::string& key, ObjectId id) {
    CODECFS_ASSIGN(ArrayPtr array, zarr::load_array(store_, key, !unwritable_));
    keep(id, array);
    return array;
  }

  void keep(ObjectId id, const ArrayPtr& array) {
    arrays_.put(id, array, array->zarray.size() + memory_estimate(array->array.variable));
  }

  Result<ArrayPtr> writable_array(ObjectId variable) {
    CODECFS_TRY(writable());
    CODECFS_ASSIGN(auto array, open_array(variable));
    if (array->unwritable) return std::unexpected(*array->unwritable);
    // A chunk with two names would have two independent states.
    if (store_.passes_link(array->key))
      return fail(EOPNOTSUPP, "{}: is reached through a symbolic link; write it under its own name",
                  called(array->key));
    return array;
  }

  Result<ArrayPtr> writable_array_locked(ObjectId variable) {
    const auto lock = reading();
    return writable_array(variable);
  }

  /// The target of a chunk write.
  struct ToStore {
    ArrayPtr array;
    std::string name;
  };

  /// Uses the current .zarray, as a chunk encoded with another pipeline could not be read. Chunk numbers refer to the
  /// shape that facts() returned. ESTALE if the current grid differs.
  Result<ToStore> place_to_store(ObjectId variable, uint64_t number) {
    CODECFS_ASSIGN(const ArrayPtr told, writable_array(variable));
    const ChunkGrid& grid = told->array.variable.grid;
    if (number >= grid.count()) return fail(EINVAL, "{}: has no chunk of number {}", called(told->key), number);
    CODECFS_ASSIGN(const auto zarray, hierarchy_.read_text(join_key(told->key, zarr::kArrayFile)));
    if (zarray == told->zarray) return ToStore{told, grid.name_of(number, told->array.separator)};
    if (!zarray) return fail(ESTALE, "{}: another program has removed it", called(told->key));
    CODECFS_ASSIGN(const auto now, zarr::load_array(store_, told->key, !unwritable_));
    if (now->unwritable) return std::unexpected(*now->unwritable);
    const Variable& facts = now->array.variable;
    std::vector<uint64_t> place(grid.rank());
    grid.coordinates_of(number, place);
    const bool has_chunk = facts.type == told->array.variable.type && facts.grid.rank() == grid.rank() &&
                           std::ranges::equal(facts.grid.chunks(), grid.chunks()) &&
                           facts.object_codec == told->array.variable.object_codec &&
                           std::ranges::equal(place, facts.grid.cells(), std::less());
    if (!has_chunk)
      return fail(ESTALE, "{}: another program has changed its type or shape, so chunk {} is not stored",
                  called(told->key), grid.name_of(number, told->array.separator));
    now->is_changed = true;
    if (std::ranges::equal(facts.grid.shape(), grid.shape())) keep(variable, now);
    return ToStore{now, grid.name_of(number, now->array.separator)};
  }

  Result<ToStore> place_to_store_locked(ObjectId variable, uint64_t number) {
    const auto lock = reading();
    return place_to_store(variable, number);
  }

  Result<std::string> chunk_key(const OpenArray& array, uint64_t number) const {
    const ChunkGrid& grid = array.array.variable.grid;
    if (number >= grid.count()) return fail(ENOENT, "{}: has no chunk of number {}", array.key, number);
    return join_key(array.key, grid.name_of(number, array.array.separator));
  }

  const char* format_;
  std::unique_ptr<Store> own_store_;
  Store& store_;
  zarr::Hierarchy hierarchy_;                // after store_, which it uses
  std::unique_ptr<StoreWriter> own_writer_;  // likewise
  StoreWriter& writer_;
  std::optional<Error> unwritable_;  // why nothing can be written; set at open
  Entry root_;
  // held by a commit and while directories are moved or removed; locked before turnstile_
  std::mutex places_mutex_;
  mutable std::mutex turnstile_;          // locked before tree_mutex_
  mutable std::shared_mutex tree_mutex_;  // shared: using a key; exclusive: changing the objects there
  zarr::ObjectTable objects_;
  mutable zarr::AccessCache accesses_;
  LruMap<ObjectId, OpenArray> arrays_{kKeptArrays, kMaxHeld};
  zarr::ChunkListings listings_;
  zarr::OutsideChanges outside_;
  std::atomic<bool> metadata_changed_ = false;
  std::atomic<bool> lists_changed_ = false;    // arrays may be shorter than their dimensions
  std::atomic<bool> searched_beside_ = false;  // leftovers beside a store that is a single array were removed
};

}  // namespace

Result<std::unique_ptr<Source>> open_zarr(const std::string& path, bool may_write, FileIo& io) {
  CODECFS_ASSIGN(auto opened, zarr::DirectoryStore::open(path));
  auto store = std::make_unique<zarr::DirectoryStore>(std::move(opened));
  auto writer = std::make_unique<zarr::DirectoryWriter>(*store, path, io);
  return ZarrSource::open(path, "Zarr v2", may_write, std::move(store), std::move(writer));
}

Result<std::unique_ptr<Source>> open_zarr_zip(const std::string& path, bool may_write, FileIo& io) {
  CODECFS_ASSIGN(auto store, zarr::ZipStore::open(path));
  auto writer = std::make_unique<zarr::ZipWriter>(*store, path, io);
  return ZarrSource::open(path, "Zarr v2 in a zip archive", may_write, std::move(store), std::move(writer));
}

bool looks_like_zarr(int directory_fd) {
  for (const char* file : {".zgroup", ".zarray", ".nczgroup", ".nczarr"})
    if (::faccessat(directory_fd, file, F_OK, 0) == 0) return true;
  return false;
}

}  // namespace codecfs
