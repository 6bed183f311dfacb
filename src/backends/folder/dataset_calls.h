#pragma once
// Calls of the sources of datasets, for a Source that shows objects of them (a folder of datasets, or one that rests):
// a template finds the source of an object and calls the same function of it, with the id that the object has there.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/api/source.h"
#include "backends/folder/datasets.h"
#include "backends/folder/folder_files.h"
#include "backends/folder/object_ids.h"

namespace codecfs::folder {

class DatasetCalls : public Source {
 public:
  bool chains_for_numcodecs_in(ObjectId id) override {
    const Result<Inner> inner = inner_of(id, kReading);
    return inner && inner->source->chains_for_numcodecs_in(inner->id);
  }

  Result<std::vector<Entry>> list(ObjectId group) override;
  Result<Entry> find(ObjectId group, std::string_view name) override;
  Result<std::vector<UnreadableMember>> unreadable_members(ObjectId id) override {
    return reading<&Source::unreadable_members>(id);
  }
  Result<std::vector<Attribute>> group_attributes(ObjectId id) override {
    return reading<&Source::group_attributes>(id);
  }
  Result<std::vector<GroupDimension>> dimensions(ObjectId id) override { return reading<&Source::dimensions>(id); }
  Result<std::optional<NczarrMembers>> nczarr_members(ObjectId id) override {
    return reading<&Source::nczarr_members>(id);
  }
  Result<VariablePtr> variable(ObjectId id) override { return reading<&Source::variable>(id); }
  Result<std::vector<LeftOutAttribute>> left_out_attributes(ObjectId id) override {
    return reading<&Source::left_out_attributes>(id);
  }
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
  Result<std::optional<Buffer>> read_part(ObjectId id, uint64_t number, uint64_t offset, uint64_t size) override {
    return reading_chunks<&Source::read_part>(id, number, offset, size);
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
  Result<std::vector<Attribute>> variable_attributes(ObjectId id) override {
    return reading<&Source::variable_attributes>(id);
  }
  Result<std::optional<uint64_t>> stored_offset(ObjectId id, uint64_t number) override {
    return reading_chunks<&Source::stored_offset>(id, number);
  }
  bool changed_outside(ObjectId id) override;

  Result<> variable_writable(ObjectId id) override { return reading<&Source::variable_writable>(id); }
  Result<> begin_writing_to(ObjectId id) override { return writing<&Source::begin_writing_to>(id); }
  Result<> write_chunk(ObjectId id, uint64_t number, Bytes bytes) override {
    return writing<&Source::write_chunk>(id, number, bytes);
  }
  bool writes_together(ObjectId id) override {
    const Result<Inner> inner = inner_of(id, kReading);
    return inner && inner->source->writes_together(inner->id);
  }
  Result<uint64_t> write_chunks(ObjectId id, std::span<const NumberedChunk> chunks) override {
    return writing<&Source::write_chunks>(id, chunks);
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
  Result<> remove(ObjectId id, std::string_view name) override;
  Result<> rename(ObjectId from, std::string_view name, ObjectId to, std::string_view to_name) override;
  Result<> set_attributes(ObjectId id, std::span<const Attribute> set, std::span<const std::string> remove) override {
    return writing<&Source::set_attributes>(id, set, remove);
  }
  Result<> define_dimensions(ObjectId id, std::span<const GroupDimension> dimensions) override {
    return writing<&Source::define_dimensions>(id, dimensions);
  }
  Result<> set_dimensions(ObjectId id, std::span<const std::string> names) override {
    return writing<&Source::set_dimensions>(id, names);
  }
  Result<> set_metadata(ObjectId id, std::span<const std::string> dimensions, std::span<const Attribute> set,
                        std::span<const std::string> remove) override {
    return writing<&Source::set_metadata>(id, dimensions, set, remove);
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
  Result<> commit() override { return datasets_.commit(); }
  [[nodiscard]] bool is_deleted() override { return datasets_.has_deleted(); }
  Result<> finish() override { return datasets_.finish(); }

 protected:
  static constexpr auto kReading = Datasets::For::reading;
  static constexpr auto kWriting = Datasets::For::writing;
  /// What a function of a Source returns for an object and these further arguments.
  template <auto kFunction, class... Args>
  using Answer = std::invoke_result_t<decltype(kFunction), Source&, ObjectId, Args...>;

  /// An object in the terms of its source, which stays open during the lifetime of this.
  struct Inner {
    std::shared_ptr<Source> source;
    uint64_t generation = 0;
    ObjectId id = 0;
  };

  DatasetCalls(std::unique_ptr<FolderFiles> files, bool may_write)
      : files_(std::move(files)), datasets_(*files_, may_write) {}

  void assign_id(ObjectId group, const DatasetPtr& dataset, const Inner& inner, Entry& entry) {
    if (entry.kind != EntryKind::symlink) entry.object = ids_.of(group, dataset, inner.generation, entry);
  }

  Result<Entry> find_in(ObjectId group, const DatasetPtr& dataset, const Inner& inner, std::string_view name);

  /// EPERM if it is not an object of a dataset.
  Result<Inner> inner_of(ObjectId id, Datasets::For purpose);

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
  Datasets datasets_;  // after files_, which it uses
  ObjectIds ids_;
};

}  // namespace codecfs::folder
