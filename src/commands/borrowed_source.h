#pragma once
// A source for reading that another owner keeps.

#include <string>
#include <utility>
#include <vector>

#include "backends/api/source.h"

namespace codecfs::commands {

/// Forwards what reads. Nothing can be changed through it, and its end is not that of the source, which outlives it.
/// Thread-safe.
class BorrowedSource : public Source {
 public:
  explicit BorrowedSource(Source& source) : source_(source) {}

  [[nodiscard]] std::string format() const override { return source_.format(); }
  [[nodiscard]] bool is_zarr3() const override { return source_.is_zarr3(); }
  [[nodiscard]] const struct stat& status() const override { return source_.status(); }
  std::vector<VariableSummary> summaries(std::span<const ObjectId> variables) override {
    return source_.summaries(variables);
  }

  [[nodiscard]] Entry root() const override { return source_.root(); }
  [[nodiscard]] Result<struct stat> status_of(ObjectId object) const override { return source_.status_of(object); }
  Result<std::vector<Entry>> list(ObjectId group) override { return source_.list(group); }
  Result<std::vector<UnreadableMember>> unreadable_members(ObjectId group) override {
    return source_.unreadable_members(group);
  }
  Result<std::vector<LeftOutAttribute>> left_out_attributes(ObjectId id) override {
    return source_.left_out_attributes(id);
  }
  Result<std::vector<std::string>> missing_sources(ObjectId variable) override {
    return source_.missing_sources(variable);
  }
  Result<Entry> find(ObjectId group, std::string_view name) override { return source_.find(group, name); }
  Result<std::optional<NczarrMembers>> nczarr_members(ObjectId group) override { return source_.nczarr_members(group); }
  Result<std::vector<GroupDimension>> dimensions(ObjectId group) override { return source_.dimensions(group); }
  Result<std::vector<Attribute>> group_attributes(ObjectId group) override { return source_.group_attributes(group); }
  Result<std::vector<Attribute>> link_notes(ObjectId group) override { return source_.link_notes(group); }
  Result<VariablePtr> variable(ObjectId variable) override { return source_.variable(variable); }
  Result<VariablePtr> facts(ObjectId variable) override { return source_.facts(variable); }

  Result<ChunkInfo> locate(ObjectId variable, uint64_t number) override { return source_.locate(variable, number); }
  Result<std::vector<uint64_t>> stored_chunks(ObjectId variable, uint64_t from, size_t limit) override {
    return source_.stored_chunks(variable, from, limit);
  }
  Result<> expect(ObjectId variable, std::span<const uint64_t> numbers) override {
    return source_.expect(variable, numbers);
  }
  Result<DecodedChunk> fetch_chunk(ObjectId variable, uint64_t number) override {
    return source_.fetch_chunk(variable, number);
  }
  Result<std::optional<Buffer>> read_stored(ObjectId variable, uint64_t number) override {
    return source_.read_stored(variable, number);
  }
  Result<std::optional<uint64_t>> stored_bytes(ObjectId variable, uint64_t number) override {
    return source_.stored_bytes(variable, number);
  }
  Result<std::optional<uint64_t>> stored_offset(ObjectId variable, uint64_t number) override {
    return source_.stored_offset(variable, number);
  }
  Result<std::vector<uint64_t>> stored_shards(ObjectId variable, uint64_t from, size_t limit) override {
    return source_.stored_shards(variable, from, limit);
  }
  Result<std::shared_ptr<const ContentReader>> open_shard(ObjectId variable, uint64_t shard) override {
    return source_.open_shard(variable, shard);
  }

 private:
  Source& source_;
};

}  // namespace codecfs::commands
