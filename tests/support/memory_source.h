#pragma once
// A dataset in memory: groups, variables and links by path. Chunks are kept encoded with their variable's pipeline, so
// that the encoded view and re-encoding have real bytes. Thread-safe.
//
// Functions with a path are for tests: they change the dataset as another program would, past the mounted filesystem.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/api/source.h"
#include "filters/core/pipeline.h"
#include "model/json.h"

namespace codecfs {

inline std::string text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// A variable of single bytes whose fill is '.', so that chunks are readable text.
inline Variable text_variable(std::vector<uint64_t> shape, std::vector<uint64_t> chunks,
                              std::vector<FilterStage> filters = {}) {
  Variable variable;
  variable.type = {TypeKind::unsigned_int, ByteOrder::none, 1, {}, {}};
  variable.grid = *ChunkGrid::make(std::move(shape), std::move(chunks));
  variable.chunk_bytes = variable.grid.elements_per_chunk();
  variable.fill_value = Json(int{'.'});
  variable.fill = {std::byte{'.'}};
  variable.filters = std::move(filters);
  return variable;
}

inline FilterStage deflate(uint32_t level) { return {.id = 1, .parameters = {level}, .codec = {}, .name = {}}; }

class MemorySource : public Source {
 public:
  MemorySource() {
    objects_[kRoot].entry.object = kRoot;
    status_.st_mode = S_IFREG | 0644;
    status_.st_uid = getuid();
    status_.st_gid = getgid();
    status_.st_size = 4096;
    status_.st_mtim = {1'000'000, 0};
  }

  // --- for tests

  void add_group(const std::string& path) { EXPECT_TRUE(make_group(parent_of(path), last_of(path))); }
  void add_variable(const std::string& path, const Variable& variable) {
    EXPECT_TRUE(make_variable(parent_of(path), last_of(path), variable));
  }
  void add_link(const std::string& path, std::string_view target) {
    EXPECT_TRUE(make_link(parent_of(path), last_of(path), target));
  }
  void put(const std::string& path, uint64_t number, std::string_view text) {
    EXPECT_TRUE(write_chunk(object(path), number, bytes_of(text)));
  }
  /// The root becomes a variable.
  void become_variable(const Variable& variable) {
    Object& root = objects_[kRoot];
    root.entry.kind = EntryKind::variable;
    root.variable = variable;
  }
  /// 0: there is none.
  ObjectId object(const std::string& path) {
    ObjectId at = kRoot;
    for (size_t from = 1; from < path.size();) {
      const size_t end = std::min(path.find('/', from), path.size());
      const Result<Entry> found = find(at, path.substr(from, end - from));
      if (!found) return 0;
      at = found->object;
      from = end + 1;
    }
    return at;
  }
  /// The decoded chunk; "absent" if it is not stored.
  std::string chunk(const std::string& path, uint64_t number) {
    const Result<Buffer> bytes = read_chunk(object(path), number);
    return bytes ? text_of(bytes->bytes()) : "absent";
  }
  Variable described(const std::string& path) { return **variable(object(path)); }
  /// The next changed_outside() of the object is true.
  void note_changed_outside(const std::string& path) {
    const ObjectId id = object(path);
    const std::lock_guard lock(mutex_);
    changed_outside_.insert(id);
  }

  struct stat status_{};
  std::atomic<bool> is_writable = true;
  std::atomic<bool> is_full = false;             // chunks cannot be stored: ENOSPC
  std::atomic<bool> refuses_attributes = false;  // EOPNOTSUPP
  std::atomic<int> failure = 0;                  // errno of all that asks for an object; 0: none
  std::atomic<bool> has_shared_metadata = false;
  std::atomic<int> reads = 0;                 // of chunks
  std::atomic<uint64_t> part_bytes = 0;       // that read_part() has returned
  std::atomic<int> writes = 0;                // of chunks
  std::atomic<bool> stores_together = false;  // write_chunks() stores
  std::atomic<int> calls_together = 0;        // of write_chunks()
  std::optional<uint64_t> refused;            // a chunk that cannot be stored: ENOSPC
  std::atomic<int> commits = 0;
  std::function<void()> before_read;              // called by fetch_chunk(), without a lock
  std::function<void()> before_set_filters;       // called by set_filters(), without a lock
  std::function<void(ObjectId)> before_variable;  // called by variable(), without a lock

  // --- Source

  [[nodiscard]] const struct stat& status() const override { return status_; }
  [[nodiscard]] std::string format() const override { return "memory"; }
  [[nodiscard]] bool shares_metadata() const override { return has_shared_metadata; }
  [[nodiscard]] Entry root() const override { return objects_.at(kRoot).entry; }

  Result<std::vector<Entry>> list(ObjectId group) override {
    const std::lock_guard lock(mutex_);
    CODECFS_ASSIGN(const Object* at, get(group));
    return at->members;
  }
  Result<Entry> find(ObjectId group, std::string_view name) override {
    const std::lock_guard lock(mutex_);
    CODECFS_ASSIGN(const Object* at, get(group));
    const auto found = std::ranges::find(at->members, name, &Entry::name);
    if (found == at->members.end()) return std::unexpected(Error{ENOENT, {}});
    return *found;
  }
  Result<std::vector<Attribute>> group_attributes(ObjectId group) override {
    const std::lock_guard lock(mutex_);
    CODECFS_ASSIGN(const Object* at, get(group));
    return at->variable.attributes;
  }
  Result<VariablePtr> variable(ObjectId id) override {
    if (before_variable) before_variable(id);
    const std::lock_guard lock(mutex_);
    CODECFS_ASSIGN(const Object* at, get(id));
    return std::make_shared<const Variable>(at->variable);
  }
  bool changed_outside(ObjectId id) override {
    const std::lock_guard lock(mutex_);
    return changed_outside_.erase(id) > 0;
  }

  Result<ChunkInfo> locate(ObjectId variable, uint64_t number) override {
    const std::lock_guard lock(mutex_);
    CODECFS_ASSIGN(const Object* at, get(variable));
    const auto found = at->chunks.find(number);
    if (found == at->chunks.end()) return ChunkInfo{};
    return ChunkInfo{true, found->second.size(), {}, 0};
  }
  Result<std::vector<uint64_t>> stored_chunks(ObjectId variable, uint64_t from, size_t limit) override {
    const std::lock_guard lock(mutex_);
    CODECFS_ASSIGN(const Object* at, get(variable));
    std::vector<uint64_t> numbers;
    for (auto chunk = at->chunks.lower_bound(from); chunk != at->chunks.end() && numbers.size() < limit; ++chunk)
      numbers.push_back(chunk->first);
    return numbers;
  }
  Result<DecodedChunk> fetch_chunk(ObjectId variable, uint64_t number) override {
    if (before_read) before_read();
    ++reads;
    const std::lock_guard lock(mutex_);
    CODECFS_ASSIGN(const Object* at, get(variable));
    CODECFS_ASSIGN(Buffer bytes, decoded(*at, number));
    return DecodedChunk{std::move(bytes), at->chunks.at(number).size()};
  }
  Result<std::optional<Buffer>> read_part(ObjectId variable, uint64_t number, uint64_t offset, uint64_t size) override {
    const std::lock_guard lock(mutex_);
    CODECFS_ASSIGN(const Object* at, get(variable));
    const auto found = at->chunks.find(number);
    if (found == at->chunks.end() || !at->variable.filters.empty()) return std::nullopt;
    part_bytes += size;
    CODECFS_ASSIGN(Buffer bytes, Buffer::copy_of(bytes_of(std::string_view(found->second).substr(offset, size))));
    return bytes;
  }
  Result<std::optional<Buffer>> read_stored(ObjectId variable, uint64_t number) override {
    const std::lock_guard lock(mutex_);
    CODECFS_ASSIGN(const Object* at, get(variable));
    const auto found = at->chunks.find(number);
    if (found == at->chunks.end()) return fail(ENOENT, "chunk {} is not stored", number);
    CODECFS_ASSIGN(Buffer bytes, Buffer::copy_of(bytes_of(found->second)));
    return std::optional(std::move(bytes));
  }
  Result<std::optional<uint64_t>> stored_bytes(ObjectId variable, uint64_t number) override {
    const std::lock_guard lock(mutex_);
    CODECFS_ASSIGN(const Object* at, get(variable));
    const auto found = at->chunks.find(number);
    if (found == at->chunks.end()) return fail(ENOENT, "chunk {} is not stored", number);
    return std::optional<uint64_t>(found->second.size());
  }

  Result<> writable() override {
    if (!is_writable) return fail(EROFS, "this source can only be read");
    return {};
  }
  Result<> write_chunk(ObjectId variable, uint64_t number, Bytes bytes) override {
    const std::lock_guard lock(mutex_);
    CODECFS_TRY(may_store());
    if (number == refused) return fail(ENOSPC, "chunk {} is refused", number);
    CODECFS_ASSIGN(Object * at, get(variable));
    CODECFS_ASSIGN(std::string stored, encoded(at->variable, bytes));
    at->chunks[number] = std::move(stored);
    ++writes;
    return {};
  }
  bool writes_together(ObjectId) override { return stores_together; }
  Result<uint64_t> write_chunks(ObjectId variable, std::span<const NumberedChunk> chunks) override {
    ++calls_together;
    for (uint64_t i = 0; i < chunks.size(); ++i)
      if (!write_chunk(variable, chunks[i].number, chunks[i].bytes)) return i;
    return chunks.size();
  }
  Result<bool> write_stored(ObjectId variable, uint64_t number, Bytes bytes) override {
    const std::lock_guard lock(mutex_);
    CODECFS_TRY(may_store());
    CODECFS_ASSIGN(Object * at, get(variable));
    at->chunks[number] = text_of(bytes);
    ++writes;
    return true;
  }
  Result<> remove_chunk(ObjectId variable, uint64_t number) override {
    const std::lock_guard lock(mutex_);
    CODECFS_TRY(writable());
    CODECFS_ASSIGN(Object * at, get(variable));
    at->chunks.erase(number);
    return {};
  }

  Result<Entry> make_group(ObjectId group, std::string_view name) override {
    const std::lock_guard lock(mutex_);
    return add(group, {std::string(name), EntryKind::group, 0, {}}, {});
  }
  Result<Entry> make_variable(ObjectId group, std::string_view name, const Variable& variable) override {
    const std::lock_guard lock(mutex_);
    CODECFS_ASSIGN(Object * at, get(group));
    const auto found = std::ranges::find(at->members, name, &Entry::name);
    if (found != at->members.end() && found->kind == EntryKind::group) {
      if (!objects_[found->object].members.empty()) return fail(ENOTEMPTY, "{}: has members", name);
      objects_.erase(found->object);
      at->members.erase(found);
    }
    return add(group, {std::string(name), EntryKind::variable, 0, {}}, variable);
  }
  Result<Entry> make_link(ObjectId group, std::string_view name, std::string_view target) override {
    const std::lock_guard lock(mutex_);
    return add(group, {std::string(name), EntryKind::symlink, 0, std::string(target)}, {});
  }
  Result<> remove(ObjectId group, std::string_view name) override {
    const std::lock_guard lock(mutex_);
    CODECFS_TRY(writable());
    CODECFS_ASSIGN(Object * at, get(group));
    const auto found = std::ranges::find(at->members, name, &Entry::name);
    if (found == at->members.end()) return fail(ENOENT, "{}: does not exist", name);
    if (found->kind == EntryKind::group && !objects_[found->object].members.empty())
      return fail(ENOTEMPTY, "{}: has members", name);
    objects_.erase(found->object);
    at->members.erase(found);
    return {};
  }
  Result<> rename(ObjectId group, std::string_view name, ObjectId to_group, std::string_view to_name) override {
    const std::lock_guard lock(mutex_);
    CODECFS_TRY(writable());
    CODECFS_ASSIGN(Object * from, get(group));
    CODECFS_ASSIGN(Object * to, get(to_group));
    const auto found = std::ranges::find(from->members, name, &Entry::name);
    if (found == from->members.end()) return fail(ENOENT, "{}: does not exist", name);
    if (std::ranges::find(to->members, to_name, &Entry::name) != to->members.end())
      return fail(EEXIST, "{}: exists", to_name);
    if (is_within(to_group, found->object)) return fail(EINVAL, "{}: cannot be moved into itself", name);
    Entry moved = *found;
    from->members.erase(found);
    moved.name = to_name;
    to->members.push_back(std::move(moved));
    return {};
  }

  Result<> set_attributes(ObjectId id, std::span<const Attribute> set, std::span<const std::string> removed) override {
    const std::lock_guard lock(mutex_);
    if (refuses_attributes) return fail(EOPNOTSUPP, "attributes cannot be stored");
    CODECFS_TRY(writable());
    CODECFS_ASSIGN(Object * at, get(id));
    std::vector<Attribute> attributes = at->variable.attributes;
    for (const std::string& name : removed)
      if (std::erase_if(attributes, [&](const Attribute& attribute) { return attribute.name == name; }) == 0)
        return fail(ENODATA, "{}: does not exist", name);
    for (const Attribute& attribute : set) {
      const auto found = std::ranges::find(attributes, attribute.name, &Attribute::name);
      if (found == attributes.end())
        attributes.push_back(attribute);
      else
        found->value = attribute.value;
    }
    at->variable.attributes = std::move(attributes);
    return {};
  }
  Result<> set_dimensions(ObjectId id, std::span<const std::string> names) override {
    const std::lock_guard lock(mutex_);
    CODECFS_TRY(writable());
    CODECFS_ASSIGN(Object * at, get(id));
    if (names.size() != at->variable.grid.rank()) return fail(EINVAL, "one name for each dimension");
    at->variable.dimensions.emplace(names.begin(), names.end());
    return {};
  }
  Result<> resize(ObjectId id, std::span<const uint64_t> shape) override {
    const std::lock_guard lock(mutex_);
    CODECFS_TRY(writable());
    CODECFS_ASSIGN(Object * at, get(id));
    const ChunkGrid before = at->variable.grid;
    CODECFS_ASSIGN(ChunkGrid grid, ChunkGrid::make({shape.begin(), shape.end()}, before.chunks()));
    std::map<uint64_t, std::string> chunks;
    for (auto& [number, stored] : at->chunks)
      if (const auto now = grid.number_of(before.name_of(number))) chunks[*now] = std::move(stored);
    at->chunks = std::move(chunks);
    at->variable.grid = std::move(grid);
    return {};
  }
  Result<> set_filters(ObjectId id, std::span<const FilterStage> chain, Progress& progress) override {
    if (before_set_filters) before_set_filters();
    const std::lock_guard lock(mutex_);
    CODECFS_TRY(writable());
    CODECFS_ASSIGN(Object * at, get(id));
    Variable now = at->variable;
    now.filters.assign(chain.begin(), chain.end());
    progress.total = at->chunks.size();
    std::map<uint64_t, std::string> chunks;
    for (const auto& [number, stored] : at->chunks) {
      if (progress.cancelled && progress.cancelled()) return fail(ECANCELED, "cancelled");
      CODECFS_ASSIGN(const Buffer bytes, decoded(*at, number));
      CODECFS_ASSIGN(chunks[number], encoded(now, bytes.bytes()));
      ++progress.done;
    }
    at->chunks = std::move(chunks);
    at->variable = std::move(now);
    return {};
  }
  Result<> commit() override {
    ++commits;
    return {};
  }

 private:
  static constexpr ObjectId kRoot = 1;

  struct Object {
    Entry entry;
    std::vector<Entry> members;              // of a group
    Variable variable;                       // of a group: only its attributes
    std::map<uint64_t, std::string> chunks;  // encoded, by their numbers
  };

  ObjectId parent_of(const std::string& path) { return object(path.substr(0, path.rfind('/'))); }
  static std::string_view last_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

  // The caller must hold mutex_:

  Result<Object*> get(ObjectId id) {
    if (failure != 0) return fail(failure, "the source is away");
    const auto found = objects_.find(id);
    if (found == objects_.end()) return fail(ENOENT, "object {} does not exist", id);
    return &found->second;
  }
  Result<> may_store() {
    CODECFS_TRY(writable());
    if (is_full) return fail(ENOSPC, "the source is full");
    return {};
  }
  Result<Entry> add(ObjectId group, Entry entry, const Variable& variable) {
    CODECFS_TRY(writable());
    CODECFS_ASSIGN(Object * at, get(group));
    if (std::ranges::find(at->members, entry.name, &Entry::name) != at->members.end())
      return fail(EEXIST, "{}: exists", entry.name);
    entry.object = ++last_object_;
    at->members.push_back(entry);
    objects_[entry.object] = {entry, {}, variable, {}};
    return entry;
  }
  bool is_within(ObjectId object, ObjectId ancestor) {
    return object == ancestor || std::ranges::any_of(objects_[ancestor].members, [&](const Entry& member) {
             return member.kind == EntryKind::group && is_within(object, member.object);
           });
  }
  static Result<filters::Pipeline> pipeline_of(const Variable& variable) {
    return filters::Pipeline::make(variable.filters, filters::shape_of_chunk(variable));
  }
  static Result<std::string> encoded(const Variable& variable, Bytes bytes) {
    CODECFS_ASSIGN(const filters::Pipeline pipeline, pipeline_of(variable));
    CODECFS_ASSIGN(const filters::EncodedChunk chunk, pipeline.encode(bytes));
    return text_of(chunk.bytes.bytes());
  }
  static Result<Buffer> decoded(const Object& object, uint64_t number) {
    const auto found = object.chunks.find(number);
    if (found == object.chunks.end()) return fail(ENOENT, "chunk {} is not stored", number);
    CODECFS_ASSIGN(const filters::Pipeline pipeline, pipeline_of(object.variable));
    CODECFS_ASSIGN(Buffer stored, Buffer::copy_of(bytes_of(found->second)));
    return pipeline.decode(std::move(stored));
  }

  std::mutex mutex_;  // guards the following members
  std::map<ObjectId, Object> objects_;
  std::set<ObjectId> changed_outside_;
  ObjectId last_object_ = kRoot;
};

}  // namespace codecfs
