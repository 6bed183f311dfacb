#pragma once
// Sources that show the objects of other sources. Each function of Source is forwarded in one place; what a class shows
// in another way it overrides.

#include <chrono>
#include <cstdint>
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

namespace codecfs {

/// Forwards what concerns one object to the source that has it, with the id that the object has there. Thread-safe if
/// target() is.
class ForwardingSource : public Source {
 public:
  bool chains_for_numcodecs_in(ObjectId id) override {
    const Result<Target> there = target(id, Purpose::describing);
    return there && there->source.chains_for_numcodecs_in(there->id);
  }

  Result<std::vector<Entry>> list(ObjectId group) override {
    CODECFS_ASSIGN(const Target there, target(group, Purpose::describing));
    CODECFS_ASSIGN(std::vector<Entry> entries, explained(group, there.source.list(there.id)));
    for (Entry& entry : entries) CODECFS_TRY(shown(group, there, entry));
    return entries;
  }
  Result<> expect_tree(ObjectId group) override { return call<&Source::expect_tree>(Purpose::describing, group); }
  Result<Entry> find(ObjectId group, std::string_view name) override {
    return member<&Source::find>(Purpose::describing, group, name);
  }
  Result<std::vector<UnreadableMember>> unreadable_members(ObjectId group) override {
    return call<&Source::unreadable_members>(Purpose::describing, group);
  }
  Result<std::vector<Attribute>> group_attributes(ObjectId group) override {
    return call<&Source::group_attributes>(Purpose::describing, group);
  }
  Result<std::vector<LeftOutAttribute>> left_out_attributes(ObjectId id) override {
    return call<&Source::left_out_attributes>(Purpose::describing, id);
  }
  Result<std::vector<Attribute>> link_notes(ObjectId group) override {
    return call<&Source::link_notes>(Purpose::describing, group);
  }
  Result<std::vector<GroupDimension>> dimensions(ObjectId group) override {
    return call<&Source::dimensions>(Purpose::describing, group);
  }
  Result<std::optional<NczarrMembers>> nczarr_members(ObjectId group) override {
    return call<&Source::nczarr_members>(Purpose::describing, group);
  }
  Result<VariablePtr> variable(ObjectId variable) override {
    return call<&Source::variable>(Purpose::describing, variable);
  }
  Result<VariablePtr> facts(ObjectId variable) override {
    return call<&Source::facts>(Purpose::reading_chunks, variable);
  }
  Result<std::vector<Attribute>> variable_attributes(ObjectId variable) override {
    return call<&Source::variable_attributes>(Purpose::describing, variable);
  }
  Result<std::vector<std::string>> missing_sources(ObjectId variable) override {
    return call<&Source::missing_sources>(Purpose::describing, variable);
  }
  Result<UniqueFd> open_file(ObjectId file) override { return call<&Source::open_file>(Purpose::describing, file); }
  Result<std::shared_ptr<const ContentReader>> open_content(ObjectId file) override {
    return call<&Source::open_content>(Purpose::describing, file);
  }

  Result<ChunkInfo> locate(ObjectId variable, uint64_t number) override {
    return call<&Source::locate>(Purpose::reading_chunks, variable, number);
  }
  Result<std::vector<uint64_t>> stored_chunks(ObjectId variable, uint64_t from, size_t limit) override {
    return call<&Source::stored_chunks>(Purpose::reading_chunks, variable, from, limit);
  }
  Result<DecodedChunk> fetch_chunk(ObjectId variable, uint64_t number) override {
    return call<&Source::fetch_chunk>(Purpose::reading_chunks, variable, number);
  }
  Result<std::optional<Buffer>> read_part(ObjectId variable, uint64_t number, uint64_t offset, uint64_t size) override {
    return call<&Source::read_part>(Purpose::reading_chunks, variable, number, offset, size);
  }
  Result<> expect(ObjectId variable, std::span<const uint64_t> numbers) override {
    return call<&Source::expect>(Purpose::reading_chunks, variable, numbers);
  }
  Result<> expect_places(ObjectId variable, std::span<const uint64_t> numbers) override {
    return call<&Source::expect_places>(Purpose::reading_chunks, variable, numbers);
  }
  Result<std::optional<Buffer>> read_stored(ObjectId variable, uint64_t number) override {
    return call<&Source::read_stored>(Purpose::reading_chunks, variable, number);
  }
  Result<std::optional<uint64_t>> stored_bytes(ObjectId variable, uint64_t number) override {
    return call<&Source::stored_bytes>(Purpose::reading_chunks, variable, number);
  }
  Result<std::optional<UniqueFd>> open_stored(ObjectId variable, uint64_t number) override {
    return call<&Source::open_stored>(Purpose::reading_chunks, variable, number);
  }
  Result<std::optional<uint64_t>> stored_offset(ObjectId variable, uint64_t number) override {
    return call<&Source::stored_offset>(Purpose::reading_chunks, variable, number);
  }
  Result<std::vector<uint64_t>> stored_shards(ObjectId variable, uint64_t from, size_t limit) override {
    return call<&Source::stored_shards>(Purpose::reading_chunks, variable, from, limit);
  }
  Result<std::shared_ptr<const ContentReader>> open_shard(ObjectId variable, uint64_t shard) override {
    return call<&Source::open_shard>(Purpose::reading_chunks, variable, shard);
  }

  Result<> variable_writable(ObjectId variable) override {
    return call<&Source::variable_writable>(Purpose::describing, variable);
  }
  Result<> begin_writing_to(ObjectId id) override { return call<&Source::begin_writing_to>(Purpose::writing, id); }
  Result<> write_chunk(ObjectId variable, uint64_t number, Bytes bytes) override {
    return call<&Source::write_chunk>(Purpose::writing, variable, number, bytes);
  }
  bool writes_together(ObjectId variable) override {
    const Result<Target> there = target(variable, Purpose::describing);
    return there && there->source.writes_together(there->id);
  }
  Result<uint64_t> write_chunks(ObjectId variable, std::span<const NumberedChunk> chunks) override {
    return call<&Source::write_chunks>(Purpose::writing, variable, chunks);
  }
  Result<bool> write_stored(ObjectId variable, uint64_t number, Bytes bytes) override {
    return call<&Source::write_stored>(Purpose::writing, variable, number, bytes);
  }
  Result<> begin_updates(ObjectId variable) override {
    return call<&Source::begin_updates>(Purpose::writing, variable);
  }
  Result<ChunkBase> fetch_base(ObjectId variable, uint64_t number) override {
    return call<&Source::fetch_base>(Purpose::writing, variable, number);
  }
  Result<UpdatedChunk> update_chunk(ObjectId variable, uint64_t number, Bytes chunk, const ByteSet& written,
                                    const std::optional<std::string>& version) override {
    return call<&Source::update_chunk>(Purpose::writing, variable, number, chunk, written, version);
  }
  Result<> remove_chunk(ObjectId variable, uint64_t number) override {
    return call<&Source::remove_chunk>(Purpose::writing, variable, number);
  }
  Result<> check_shard(ObjectId variable, uint64_t shard, Bytes bytes) override {
    return call<&Source::check_shard>(Purpose::describing, variable, shard, bytes);
  }
  Result<> write_shard(ObjectId variable, uint64_t shard, Bytes bytes) override {
    return call<&Source::write_shard>(Purpose::writing, variable, shard, bytes);
  }
  Result<> remove_shard(ObjectId variable, uint64_t shard) override {
    return call<&Source::remove_shard>(Purpose::writing, variable, shard);
  }

  Result<Entry> make_group(ObjectId group, std::string_view name) override {
    return member<&Source::make_group>(Purpose::writing, group, name);
  }
  Result<> define_dimensions(ObjectId group, std::span<const GroupDimension> dimensions) override {
    return call<&Source::define_dimensions>(Purpose::writing, group, dimensions);
  }
  Result<Entry> make_variable(ObjectId group, std::string_view name, const Variable& variable) override {
    return member<&Source::make_variable>(Purpose::writing, group, name, variable);
  }
  Result<Entry> make_link(ObjectId group, std::string_view name, std::string_view target) override {
    return member<&Source::make_link>(Purpose::writing, group, name, target);
  }
  Result<> restore_link(ObjectId group, std::string_view name, std::string_view note) override {
    return call<&Source::restore_link>(Purpose::writing, group, name, note);
  }
  Result<> remove(ObjectId group, std::string_view name) override {
    return call<&Source::remove>(Purpose::writing, group, name);
  }
  /// EXDEV if the groups are in different sources.
  Result<> rename(ObjectId from, std::string_view name, ObjectId to, std::string_view to_name) override {
    CODECFS_ASSIGN(const Target source, target(from, Purpose::writing));
    CODECFS_ASSIGN(const Target place, target(to, Purpose::writing));
    if (&source.source != &place.source)
      return fail(EXDEV, "{}: is moved to another dataset by copying it and removing it", name);
    return explained(from, source.source.rename(source.id, name, place.id, to_name));
  }
  Result<> set_attributes(ObjectId id, std::span<const Attribute> set, std::span<const std::string> remove) override {
    return call<&Source::set_attributes>(Purpose::writing, id, set, remove);
  }
  Result<> set_dimensions(ObjectId variable, std::span<const std::string> names) override {
    return call<&Source::set_dimensions>(Purpose::writing, variable, names);
  }
  Result<> set_metadata(ObjectId variable, std::span<const std::string> dimensions, std::span<const Attribute> set,
                        std::span<const std::string> remove) override {
    return call<&Source::set_metadata>(Purpose::writing, variable, dimensions, set, remove);
  }
  Result<> set_dimension_names(ObjectId variable, const std::optional<OptionalNames>& names) override {
    return call<&Source::set_dimension_names>(Purpose::writing, variable, names);
  }
  Result<> resize(ObjectId variable, std::span<const uint64_t> shape) override {
    return call<&Source::resize>(Purpose::writing, variable, shape);
  }
  Result<> set_filters(ObjectId variable, std::span<const FilterStage> chain, Progress& progress) override {
    return call<&Source::set_filters>(Purpose::writing, variable, chain, progress);
  }
  Result<> encode_masked_chunks(ObjectId variable, Progress& progress) override {
    return call<&Source::encode_masked_chunks>(Purpose::writing, variable, progress);
  }
  Result<> set_sharding(ObjectId variable, const Variable& wanted, Progress& progress) override {
    return call<&Source::set_sharding>(Purpose::writing, variable, wanted, progress);
  }

 protected:
  /// An object in its own source.
  struct Target {
    Source& source;
    ObjectId id = 0;
    std::shared_ptr<Source> holds = nullptr;  // the same source, where it may be closed otherwise
    uint64_t generation = 0;                  // for shown()
  };
  enum class Purpose : uint8_t { describing, reading_chunks, writing };

  /// The source that shows an object, and its id there. The forwarded function returns the errors of this one.
  virtual Result<Target> target(ObjectId id, Purpose purpose) = 0;
  /// Gives an entry that was found or made in this group the id that the object has here.
  virtual Result<> shown(ObjectId /*group*/, const Target&, Entry&) { return {}; }
  /// May change the reason of an error of the object's own source.
  virtual void explain(ObjectId, Error&) {}

 private:
  template <auto kFunction, class... Args>
  std::invoke_result_t<decltype(kFunction), Source&, ObjectId, Args&...> call(Purpose purpose, ObjectId id,
                                                                              Args&... args) {
    CODECFS_ASSIGN(const Target there, target(id, purpose));
    return explained(id, std::invoke(kFunction, there.source, there.id, args...));
  }
  template <auto kFunction, class... Args>
  Result<Entry> member(Purpose purpose, ObjectId group, Args&... args) {
    CODECFS_ASSIGN(const Target there, target(group, purpose));
    CODECFS_ASSIGN(Entry entry, explained(group, std::invoke(kFunction, there.source, there.id, args...)));
    CODECFS_TRY(shown(group, there, entry));
    return entry;
  }
  template <class T>
  Result<T> explained(ObjectId id, Result<T> result) {
    if (!result) explain(id, result.error());
    return result;
  }
};

/// All objects of one source, for reading: what writes is refused. Thread-safe.
class WrappedSource : public ForwardingSource {
 public:
  /// Ends with the source.
  explicit WrappedSource(std::unique_ptr<Source> source) : owned_(std::move(source)), source_(*owned_) {}
  /// The source, which outlives it, is used by others, too.
  explicit WrappedSource(Source& source) : source_(source) {}

  [[nodiscard]] std::string format() const override { return source_.format(); }
  [[nodiscard]] bool is_zarr3() const override { return source_.is_zarr3(); }
  [[nodiscard]] const struct stat& status() const override { return source_.status(); }
  [[nodiscard]] struct statvfs filesystem() const override { return source_.filesystem(); }
  [[nodiscard]] size_t reads_at_once() const override { return source_.reads_at_once(); }
  [[nodiscard]] bool shares_metadata() const override { return source_.shares_metadata(); }
  [[nodiscard]] Entry root() const override { return source_.root(); }
  [[nodiscard]] Result<struct stat> status_of(ObjectId id) const override { return source_.status_of(id); }
  bool keep(ObjectId id) override { return source_.keep(id); }
  void release(ObjectId id) noexcept override { source_.release(id); }
  Result<> variable_writable(ObjectId) override { return writable(); }

  // The rest only of a source that it owns: of others their owner decides, and learns what was changed, which is told
  // once.
  bool changed_outside(ObjectId id) override { return owned_ && source_.changed_outside(id); }
  void show_links(bool are_shown) override {
    if (owned_) source_.show_links(are_shown);
  }
  Result<> exclude_path(const std::string& path) override { return owned_ ? source_.exclude_path(path) : Result<>(); }
  void release_idle(std::chrono::seconds unused_for) override {
    if (owned_) source_.release_idle(unused_for);
  }
  [[nodiscard]] bool can_rest() const override { return owned_ && source_.can_rest(); }
  bool close_idle() override { return owned_ && source_.close_idle(); }
  Result<bool> wake() override { return owned_ ? source_.wake() : Result<bool>(true); }
  Result<> finish() override { return owned_ ? source_.finish() : Result<>(); }

 protected:
  [[nodiscard]] Source& source() { return source_; }

 private:
  Result<Target> target(ObjectId id, Purpose purpose) override {
    if (purpose == Purpose::writing) CODECFS_TRY(writable());
    return Target{source_, id};
  }

  const std::unique_ptr<Source> owned_;
  Source& source_;
};

}  // namespace codecfs
