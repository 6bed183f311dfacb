#include "backends/folder/folder_source.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <type_traits>
#include <utility>

#include "backends/folder/datasets.h"
#include "backends/folder/folder_files.h"
#include "backends/folder/local_files.h"
#include "backends/folder/object_ids.h"

namespace codecfs {
namespace {

using folder::Dataset;
using folder::DatasetPtr;
using folder::Datasets;
using folder::FolderFiles;
using folder::Found;
using folder::Object;

constexpr auto kReading = Datasets::For::reading;
constexpr auto kWriting = Datasets::For::writing;

/// What a function of a Source returns for an object and these further arguments.
template <auto kFunction, class... Args>
using Answer = std::invoke_result_t<decltype(kFunction), Source&, ObjectId, Args...>;

/// Many datasets are open at a time, with a few descriptors each.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

class FolderSource final : public Source {
 public:
  FolderSource(std::unique_ptr<FolderFiles> files, bool may_write)
      : files_(std::move(files)), may_write_(may_write), datasets_(*files_, may_write) {
    root_.kind = EntryKind::folder;
    root_.object = ids_.of("", EntryKind::folder);
  }

  [[nodiscard]] const struct stat& status() const override { return files_->status(); }
  [[nodiscard]] struct statvfs filesystem() const override { return files_->filesystem(); }
  [[nodiscard]] std::string format() const override { return "folder"; }
  [[nodiscard]] bool shares_metadata() const override { return true; }
  [[nodiscard]] size_t reads_at_once() const override { return files_->reads_at_once(); }
  [[nodiscard]] Entry root() const override { return root_; }

  Result<> exclude_path(const std::string& path) override {
    const auto key = files_->key_of(path);
    if (key == "" || path == "/" || files_->path_of("").starts_with(path + "/"))
      return fail(EINVAL, "{}: the folder cannot be mounted over itself, nor over one that holds it", path);
    excluded_ = key;
    return {};
  }

  [[nodiscard]] Result<struct stat> status_of(ObjectId id) const override {
    CODECFS_ASSIGN(const Object object, ids_.get(id));
    if (object.dataset != nullptr) return datasets_.status_of(*object.dataset);
    CODECFS_ASSIGN(const auto status, files_->stat(object.name));
    if (!status) return fail(ENOENT, "{}: no longer exists", files_->path_of(object.name));
    return *status;
  }

  bool chains_for_numcodecs_in(ObjectId id) override {
    const Result<Inner> inner = inner_of(id, kReading);
    return inner && inner->source->chains_for_numcodecs_in(inner->id);
  }

  // --- reading

  Result<std::vector<Entry>> list(ObjectId id) override {
    CODECFS_ASSIGN(const Object object, ids_.get(id));
    if (object.dataset != nullptr) {
      CODECFS_ASSIGN(const Inner inner, inner_of(id, kReading));
      CODECFS_ASSIGN(std::vector<Entry> entries, named(id, inner.source->list(inner.id)));
      for (Entry& entry : entries) assign_id(id, object.dataset, inner, entry);
      return entries;
    }
    if (object.kind != EntryKind::folder) return fail(ENOTDIR, "{}: is not a folder", object.name);
    CODECFS_ASSIGN(const auto found, files_->list(object.name, excluded_));
    std::vector<Entry> entries;
    entries.reserve(found.size());
    for (const auto& [name, what] : found) entries.push_back(entry_of(object.name, name, what));
    std::ranges::sort(entries, {}, &Entry::name);
    return entries;
  }

  Result<Entry> find(ObjectId id, std::string_view name) override {
    CODECFS_ASSIGN(const Object object, ids_.get(id));
    if (object.dataset != nullptr) {
      CODECFS_ASSIGN(const Inner inner, inner_of(id, kReading));
      return find_in(id, object.dataset, inner, name);
    }
    if (object.kind != EntryKind::folder) return fail(ENOTDIR, "{}: is not a folder", object.name);
    const std::string key = folder::join(object.name, name);
    const bool is_name = !name.empty() && name != "." && name != ".." && name.find('/') == name.npos;
    if (!is_name || key == excluded_) return not_there(key);
    CODECFS_ASSIGN(const auto found, files_->look(key));
    if (!found) return not_there(key);
    return entry_of(object.name, std::string(name), *found);
  }

  Result<std::vector<UnreadableMember>> unreadable_members(ObjectId id) override {
    CODECFS_ASSIGN(const Object object, ids_.get(id));
    if (object.dataset == nullptr) return std::vector<UnreadableMember>();
    return reading<&Source::unreadable_members>(id);
  }

  Result<UniqueFd> open_file(ObjectId id) override {
    CODECFS_ASSIGN(const Object object, ids_.get(id));
    if (object.kind != EntryKind::file) return fail(EISDIR, "{}: is not a file", object.name);
    return files_->open_file(object.name);
  }
  Result<std::shared_ptr<const ContentReader>> open_content(ObjectId id) override {
    CODECFS_ASSIGN(const Object object, ids_.get(id));
    if (object.kind != EntryKind::file) return fail(EISDIR, "{}: is not a file", object.name);
    return files_->open_content(object.name);
  }

  Result<std::vector<Attribute>> group_attributes(ObjectId id) override {
    CODECFS_ASSIGN(const Object object, ids_.get(id));
    if (object.dataset == nullptr) return std::vector<Attribute>();
    return reading<&Source::group_attributes>(id);
  }
  Result<VariablePtr> variable(ObjectId id) override { return reading<&Source::variable>(id); }
  Result<std::vector<std::string>> missing_sources(ObjectId id) override {
    return reading<&Source::missing_sources>(id);
  }
  Result<VariablePtr> facts(ObjectId id) override { return reading_chunks<&Source::facts>(id); }
  Result<ChunkInfo> locate(ObjectId id, uint64_t number) override {
    return reading_chunks<&Source::locate>(id, number);
  }
  Result<std::vector<uint64_t>> stored_chunks(ObjectId id, uint64_t from, size_t limit) override {
    return reading_chunks<&Source::stored_chunks>(id, from, limit);
  }
  Result<DecodedChunk> fetch_chunk(ObjectId id, uint64_t number) override {
    return reading_chunks<&Source::fetch_chunk>(id, number);
  }
  Result<> expect(ObjectId id, std::span<const uint64_t> numbers) override {
    return reading_chunks<&Source::expect>(id, numbers);
  }
  Result<std::optional<UniqueFd>> open_stored(ObjectId id, uint64_t number) override {
    return reading_chunks<&Source::open_stored>(id, number);
  }
  Result<std::optional<Buffer>> read_stored(ObjectId id, uint64_t number) override {
    return reading_chunks<&Source::read_stored>(id, number);
  }
  Result<std::optional<uint64_t>> stored_bytes(ObjectId id, uint64_t number) override {
    return reading_chunks<&Source::stored_bytes>(id, number);
  }
  Result<std::vector<uint64_t>> stored_shards(ObjectId id, uint64_t from, size_t limit) override {
    return reading_chunks<&Source::stored_shards>(id, from, limit);
  }
  Result<std::shared_ptr<const ContentReader>> open_shard(ObjectId id, uint64_t shard) override {
    return reading_chunks<&Source::open_shard>(id, shard);
  }
  bool changed_outside(ObjectId id) override {
    const Result<Object> object = ids_.get(id);
    if (!object || object->dataset == nullptr) return false;
    const auto use = datasets_.use_if_open(object->dataset);  // do not open the dataset for this
    if (!use) return false;
    return object->generation != use->generation || use->source->changed_outside(object->inner);
  }

  // --- changes

  Result<> writable() override {
    if (!may_write_) return fail(EROFS, "{}: was opened only to be read", files_->path_of(""));
    return {};
  }
  Result<> variable_writable(ObjectId id) override { return reading<&Source::variable_writable>(id); }
  Result<> begin_writing_to(ObjectId id) override { return writing<&Source::begin_writing_to>(id); }
  Result<> write_chunk(ObjectId id, uint64_t number, Bytes bytes) override {
    return writing<&Source::write_chunk>(id, number, bytes);
  }
  Result<bool> write_stored(ObjectId id, uint64_t number, Bytes bytes) override {
    return writing<&Source::write_stored>(id, number, bytes);
  }
  Result<> remove_chunk(ObjectId id, uint64_t number) override { return writing<&Source::remove_chunk>(id, number); }
  Result<> check_shard(ObjectId id, uint64_t shard, Bytes bytes) override {
    return reading<&Source::check_shard>(id, shard, bytes);
  }
  Result<> write_shard(ObjectId id, uint64_t shard, Bytes bytes) override {
    return writing<&Source::write_shard>(id, shard, bytes);
  }
  Result<> remove_shard(ObjectId id, uint64_t shard) override { return writing<&Source::remove_shard>(id, shard); }
  Result<Entry> make_group(ObjectId id, std::string_view name) override {
    return making<&Source::make_group>(id, name);
  }
  Result<Entry> make_variable(ObjectId id, std::string_view name, const Variable& variable) override {
    return making<&Source::make_variable>(id, name, variable);
  }
  Result<Entry> make_link(ObjectId id, std::string_view name, std::string_view target) override {
    return making<&Source::make_link>(id, name, target);
  }
  Result<> remove(ObjectId id, std::string_view name) override {
    CODECFS_ASSIGN(const Inner inner, inner_of(id, kWriting));
    CODECFS_TRY(inner.source->remove(inner.id, name));
    ids_.removed(id, name);
    return {};
  }
  Result<> rename(ObjectId from, std::string_view name, ObjectId to, std::string_view to_name) override {
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
  Result<> set_attributes(ObjectId id, std::span<const Attribute> set, std::span<const std::string> remove) override {
    return writing<&Source::set_attributes>(id, set, remove);
  }
  Result<> set_dimensions(ObjectId id, std::span<const std::string> names) override {
    return writing<&Source::set_dimensions>(id, names);
  }
  Result<> set_dimension_names(ObjectId id, const std::optional<OptionalNames>& names) override {
    return writing<&Source::set_dimension_names>(id, names);
  }
  Result<> resize(ObjectId id, std::span<const uint64_t> shape) override { return writing<&Source::resize>(id, shape); }
  Result<> set_filters(ObjectId id, std::span<const FilterStage> chain, Progress& progress) override {
    return writing<&Source::set_filters>(id, chain, progress);
  }
  Result<> encode_masked_chunks(ObjectId id, Progress& progress) override {
    return writing<&Source::encode_masked_chunks>(id, progress);
  }
  Result<> set_sharding(ObjectId id, const Variable& wanted, Progress& progress) override {
    return writing<&Source::set_sharding>(id, wanted, progress);
  }
  uint64_t reclaimable_bytes() override { return datasets_.reclaimable_bytes(); }
  void release_idle(std::chrono::seconds unused_for) override { datasets_.close_unused(unused_for); }
  Result<> commit() override { return datasets_.commit(); }
  Result<bool> commit_at_interval() override {
    CODECFS_TRY(datasets_.commit_at_interval());
    return true;
  }
  [[nodiscard]] bool is_deleted() override { return datasets_.has_deleted(); }
  Result<> finish() override { return datasets_.finish(); }

 private:
  /// An object in the terms of its source, which stays open during the lifetime of this.
  struct Inner {
    std::shared_ptr<Source> source;
    uint64_t generation = 0;
    ObjectId id = 0;
  };

  static std::unexpected<Error> not_there(const std::string& key) {
    return fail(ENOENT, "{}: no such file or object", key);
  }

  Entry entry_of(const std::string& directory, const std::string& name, const Found& found) {
    if (found.kind == EntryKind::symlink) return {name, found.kind, 0, found.target};
    const std::string key = folder::join(directory, name);
    if (found.kind == EntryKind::folder || found.kind == EntryKind::file)
      return {name, found.kind, ids_.of(key, found.kind), {}};
    const DatasetPtr dataset = datasets_.at(key, found);
    const std::string shown = datasets_.key_of(*dataset);
    if (shown == key) return {name, found.kind, ids_.of_root(dataset), {}};
    const auto target = std::filesystem::path("/" + shown).lexically_relative("/" + directory);
    return {name, EntryKind::symlink, 0, target.string()};
  }

  void assign_id(ObjectId group, const DatasetPtr& dataset, const Inner& inner, Entry& entry) {
    if (entry.kind != EntryKind::symlink) entry.object = ids_.of(group, dataset, inner.generation, entry);
  }

  Result<Entry> find_in(ObjectId group, const DatasetPtr& dataset, const Inner& inner, std::string_view name) {
    CODECFS_ASSIGN(Entry entry, inner.source->find(inner.id, name));
    assign_id(group, dataset, inner, entry);
    return entry;
  }

  /// EPERM if it is not an object of a dataset.
  Result<Inner> inner_of(ObjectId id, Datasets::For purpose) {
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
      CODECFS_ASSIGN(const Entry entry, use.source->find(inner, member.name));
      if (entry.kind != member.kind) return fail(ESTALE, "{}: was changed by another program", member.name);
      inner = entry.object;
      ids_.renew(below.back(), inner, use.generation);
    }
    return Inner{std::move(use.source), use.generation, inner};
  }

  /// Calls a function of the object's own source, with the object's id there.
  template <auto kFunction, class... Args>
  Answer<kFunction, Args&...> call(Datasets::For purpose, ObjectId id, Args&... args) {
    CODECFS_ASSIGN(const Inner inner, inner_of(id, purpose));
    return named(id, std::invoke(kFunction, *inner.source, inner.id, args...));
  }
  template <auto kFunction, class... Args>
  Answer<kFunction, Args&...> reading(ObjectId id, Args&... args) {
    return call<kFunction>(kReading, id, args...);
  }
  /// The same for what readers of chunks ask: ESTALE if the dataset or the object is gone, as ENOENT would mean that
  /// the chunk is not stored.
  template <auto kFunction, class... Args>
  Answer<kFunction, Args&...> reading_chunks(ObjectId id, Args&... args) {
    auto inner = inner_of(id, kReading);
    if (!inner && inner.error().code == ENOENT) inner.error().code = ESTALE;
    if (!inner) return pass_on(inner);
    return named(id, std::invoke(kFunction, *inner->source, inner->id, args...));
  }
  template <auto kFunction, class... Args>
  Answer<kFunction, Args&...> writing(ObjectId id, Args&... args) {
    return call<kFunction>(kWriting, id, args...);
  }
  /// The same for a function that creates a member of a group.
  template <auto kFunction, class... Args>
  Result<Entry> making(ObjectId group, const Args&... args) {
    CODECFS_ASSIGN(const Object object, ids_.get(group));
    CODECFS_ASSIGN(const Inner inner, inner_of(group, kWriting));
    CODECFS_ASSIGN(Entry entry, named(group, std::invoke(kFunction, *inner.source, inner.id, args...)));
    assign_id(group, object.dataset, inner, entry);
    return entry;
  }

  /// Prefixes the dataset's key to errors: sources name only their own objects.
  template <class T>
  T named(ObjectId id, T result) {
    if (result || result.error().code == ENOENT) return result;
    const Result<Object> object = ids_.get(id);
    if (!object || object->dataset == nullptr) return result;
    const std::string key = datasets_.key_of(*object->dataset);
    std::string& reason = result.error().reason;
    if (reason.find(key) == std::string::npos) reason = fmt::format("{}: {}", key, reason);
    return result;
  }

  const std::unique_ptr<FolderFiles> files_;
  const bool may_write_;
  Datasets datasets_;  // after files_, which it uses
  folder::ObjectIds ids_;
  Entry root_;
  std::optional<std::string> excluded_;  // excluded key; set before the first request
};

}  // namespace

Result<std::unique_ptr<Source>> open_folder(const std::string& path, bool may_write) {
  CODECFS_ASSIGN(auto files, folder::LocalFiles::open(path));
  return open_folder(std::move(files), may_write);
}

Result<std::unique_ptr<Source>> open_folder(std::unique_ptr<folder::FolderFiles> files, bool may_write) {
  allow_many_files();
  return std::make_unique<FolderSource>(std::move(files), may_write);
}

}  // namespace codecfs
