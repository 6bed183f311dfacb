// What the source reads, in another form. Nothing can be written: the defaults of the interfaces refuse it.

#include "backends/api/adapted_source.h"

#include <utility>

#include "backends/adapted/adapted_variable.h"
#include "backends/adapted/string_chunks.h"
#include "base/lru_map.h"
#include "base/mutex.h"
#include "model/memory_estimate.h"

namespace codecfs {
namespace {

using adapted::Form;

/// Decoded bytes of a variable's strings. The longest of more is not looked for: it would take minutes.
constexpr uint64_t kMaxMeasured = uint64_t{4} << 30;
constexpr uint64_t kLeastCost = 4096;  // of a chunk, in the same unit
constexpr size_t kBatch = 1024;

class AdaptedSource final : public Source {
 public:
  AdaptedSource(std::unique_ptr<Source> source, const Adaptation& adaptation)
      : source_(std::move(source)), adaptation_(adaptation) {}

  [[nodiscard]] std::string format() const override { return source_->format(); }
  [[nodiscard]] bool is_zarr3() const override { return source_->is_zarr3(); }
  [[nodiscard]] const struct stat& status() const override { return source_->status(); }
  [[nodiscard]] struct statvfs filesystem() const override { return source_->filesystem(); }
  [[nodiscard]] bool shares_metadata() const override { return source_->shares_metadata(); }
  [[nodiscard]] size_t reads_at_once() const override { return source_->reads_at_once(); }
  bool chains_for_numcodecs_in(ObjectId object) override { return source_->chains_for_numcodecs_in(object); }

  [[nodiscard]] Entry root() const override { return source_->root(); }
  [[nodiscard]] Result<struct stat> status_of(ObjectId object) const override { return source_->status_of(object); }
  Result<std::vector<Entry>> list(ObjectId group) override { return source_->list(group); }
  Result<std::vector<LeftOutAttribute>> left_out_attributes(ObjectId id) override {
    return source_->left_out_attributes(id);
  }
  Result<std::vector<std::string>> missing_sources(ObjectId variable) override {
    return source_->missing_sources(variable);
  }
  Result<std::vector<UnreadableMember>> unreadable_members(ObjectId group) override {
    return source_->unreadable_members(group);
  }
  Result<Entry> find(ObjectId group, std::string_view name) override { return source_->find(group, name); }
  Result<std::vector<Attribute>> group_attributes(ObjectId group) override { return source_->group_attributes(group); }
  Result<std::vector<Attribute>> link_notes(ObjectId group) override { return source_->link_notes(group); }
  void show_links(bool shown) override { source_->show_links(shown); }
  Result<std::optional<NczarrMembers>> nczarr_members(ObjectId group) override {
    return source_->nczarr_members(group);
  }
  Result<std::vector<GroupDimension>> dimensions(ObjectId group) override { return source_->dimensions(group); }
  Result<UniqueFd> open_file(ObjectId file) override { return source_->open_file(file); }
  Result<std::shared_ptr<const ContentReader>> open_content(ObjectId file) override {
    return source_->open_content(file);
  }
  bool keep(ObjectId object) override { return source_->keep(object); }
  void release(ObjectId object) noexcept override { source_->release(object); }
  bool changed_outside(ObjectId object) override;
  Result<VariablePtr> variable(ObjectId variable) override;
  Result<VariablePtr> facts(ObjectId variable) override;

  Result<ChunkInfo> locate(ObjectId variable, uint64_t number) override;
  Result<std::vector<uint64_t>> stored_chunks(ObjectId variable, uint64_t from, size_t limit) override;
  Result<DecodedChunk> fetch_chunk(ObjectId variable, uint64_t number) override;
  Result<> expect(ObjectId variable, std::span<const uint64_t> numbers) override {
    return source_->expect(variable, numbers);
  }
  Result<std::optional<Buffer>> read_stored(ObjectId variable, uint64_t number) override;
  Result<std::optional<uint64_t>> stored_bytes(ObjectId variable, uint64_t number) override;
  // Only variables in the form of the source have shards.
  Result<std::vector<uint64_t>> stored_shards(ObjectId variable, uint64_t from, size_t limit) override {
    return source_->stored_shards(variable, from, limit);
  }
  Result<std::shared_ptr<const ContentReader>> open_shard(ObjectId variable, uint64_t shard) override {
    return source_->open_shard(variable, shard);
  }

  Result<> exclude_path(const std::string& path) override { return source_->exclude_path(path); }
  Result<> writable() override { return fail(EROFS, "with -o strings= or chunks= a source can only be read"); }
  void release_idle(std::chrono::seconds unused_for) override { source_->release_idle(unused_for); }
  [[nodiscard]] bool can_rest() const override { return source_->can_rest(); }
  bool rest() override {
    forms_.clear();
    return source_->rest();
  }
  Result<bool> wake() override {
    const Result<bool> same = source_->wake();
    if (!same || !*same) lengths_.clear();
    return same;
  }
  Result<> finish() override { return source_->finish(); }

 private:
  Result<std::shared_ptr<const Form>> form_of(ObjectId variable);
  Result<std::shared_ptr<const Form>> make(ObjectId variable);
  Result<uint64_t> length_of(ObjectId variable, const Variable& stored);
  Result<uint64_t> measure(ObjectId variable, const Variable& stored);

  const std::unique_ptr<Source> source_;
  const Adaptation adaptation_;
  LruMap<ObjectId, Form> forms_{512, kMaxHeld};
  LruMap<ObjectId, Result<uint64_t>> lengths_{size_t{1} << 16};
  Mutex measuring_{LockRank::measuring_strings};  // one variable at a time; held while its chunks are read
};

bool AdaptedSource::changed_outside(ObjectId object) {
  if (!source_->changed_outside(object)) return false;
  forms_.erase(object);
  lengths_.erase(object);
  return true;
}

Result<VariablePtr> AdaptedSource::facts(ObjectId variable) {
  CODECFS_ASSIGN(const std::shared_ptr<const Form> form, make(variable));
  return form->shown;
}

Result<VariablePtr> AdaptedSource::variable(ObjectId variable) {
  CODECFS_ASSIGN(const std::shared_ptr<const Form> form, make(variable));
  CODECFS_ASSIGN(VariablePtr stored, source_->variable(variable));
  return adapted::described(*form, std::move(stored));
}

Result<ChunkInfo> AdaptedSource::locate(ObjectId variable, uint64_t number) {
  CODECFS_ASSIGN(const std::shared_ptr<const Form> form, form_of(variable));
  CODECFS_ASSIGN(ChunkInfo info, source_->locate(variable, number));
  info.stored |= form->shows_fill;
  return info;
}

Result<std::vector<uint64_t>> AdaptedSource::stored_chunks(ObjectId variable, uint64_t from, size_t limit) {
  CODECFS_ASSIGN(const std::shared_ptr<const Form> form, form_of(variable));
  if (!form->shows_fill) return source_->stored_chunks(variable, from, limit);
  std::vector<uint64_t> numbers;
  for (const uint64_t count = form->shown->grid.count(); from < count && numbers.size() < limit; ++from)
    numbers.push_back(from);
  return numbers;
}

Result<DecodedChunk> AdaptedSource::fetch_chunk(ObjectId variable, uint64_t number) {
  CODECFS_ASSIGN(const std::shared_ptr<const Form> form, form_of(variable));
  if (form->shown->unreadable) return std::unexpected(*form->shown->unreadable);
  Result<DecodedChunk> chunk = source_->fetch_chunk(variable, number);
  if (form->is_stored_form()) return chunk;
  if (chunk) {
    CODECFS_ASSIGN(chunk->bytes, adapted::shown_chunk(*form, std::move(chunk->bytes)));
  } else if (chunk.error().code == ENOENT && form->shows_fill) {
    CODECFS_ASSIGN(Buffer fill, adapted::fill_chunk(*form));
    return DecodedChunk{.bytes = std::move(fill)};
  }
  return chunk;
}

Result<std::optional<Buffer>> AdaptedSource::read_stored(ObjectId variable, uint64_t number) {
  CODECFS_ASSIGN(const std::shared_ptr<const Form> form, form_of(variable));
  if (!form->is_stored_form()) return std::optional<Buffer>();
  return source_->read_stored(variable, number);
}

Result<std::optional<uint64_t>> AdaptedSource::stored_bytes(ObjectId variable, uint64_t number) {
  CODECFS_ASSIGN(const std::shared_ptr<const Form> form, form_of(variable));
  if (!form->is_stored_form()) return std::optional<uint64_t>();
  return source_->stored_bytes(variable, number);
}

Result<std::shared_ptr<const Form>> AdaptedSource::form_of(ObjectId variable) {
  if (std::shared_ptr<const Form> known = forms_.get(variable)) return known;
  return make(variable);
}

Result<std::shared_ptr<const Form>> AdaptedSource::make(ObjectId variable) {
  CODECFS_ASSIGN(VariablePtr stored, source_->facts(variable));
  Result<uint64_t> longest = 1;
  if (adapted::needs_length(*stored, adaptation_)) longest = length_of(variable, *stored);
  CODECFS_ASSIGN(Form made, adapted::make_form(std::move(stored), adaptation_, longest));
  auto form = std::make_shared<const Form>(std::move(made));
  forms_.put(variable, form, memory_estimate(*form->stored) + memory_estimate(*form->shown));
  return form;
}

Result<uint64_t> AdaptedSource::length_of(ObjectId variable, const Variable& stored) {
  if (stored.unreadable) return std::unexpected(*stored.unreadable);
  if (const auto known = lengths_.get(variable)) return *known;
  const LockGuard lock(measuring_);
  if (const auto known = lengths_.get(variable)) return *known;
  const auto length = std::make_shared<const Result<uint64_t>>(measure(variable, stored));
  if (*length || length->error().code == EFBIG) lengths_.put(variable, length);
  return *length;
}

/// The fill value counts too. Chunks that cannot be read do not: reading them is the same error later.
Result<uint64_t> AdaptedSource::measure(ObjectId variable, const Variable& stored) {
  uint64_t longest = 0;
  if (!stored.fill.empty()) {
    Variable one = stored;
    CODECFS_ASSIGN(one.grid, ChunkGrid::make({}, {}));
    CODECFS_ASSIGN(const Buffer fill, make_fill_chunk(one));
    CODECFS_ASSIGN(longest, adapted::longest_string(one, fill.bytes(), 1));
  }
  uint64_t measured = 0;
  for (uint64_t from = 0;;) {
    CODECFS_ASSIGN(const std::vector<uint64_t> numbers, source_->stored_chunks(variable, from, kBatch));
    if (numbers.empty()) return longest;
    from = numbers.back() + 1;
    for (const uint64_t number : numbers) {
      const Result<Buffer> chunk = source_->read_chunk(variable, number);
      if (!chunk && chunk.error().code == ENOMEM) return std::unexpected(chunk.error());
      if (!chunk) continue;
      const Result<uint64_t> here = adapted::longest_string(stored, chunk->bytes(), stored.grid.elements_per_chunk());
      if (here) longest = std::max(longest, *here);
      measured += std::max<uint64_t>(chunk->size(), kLeastCost);
      if (measured > kMaxMeasured)
        return fail(EFBIG, "there are too many strings to look for the longest; -o strings=vlen shows them");
    }
  }
}

}  // namespace

std::unique_ptr<Source> adapt_source(std::unique_ptr<Source> source, const Adaptation& adaptation) {
  if (!adaptation.is_any()) return source;
  return std::make_unique<AdaptedSource>(std::move(source), adaptation);
}

}  // namespace codecfs
