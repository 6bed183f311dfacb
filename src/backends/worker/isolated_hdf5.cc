#include "backends/worker/isolated_hdf5.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include "backends/api/processes.h"
#include "backends/hdf5/source/chunk_layout.h"
#include "backends/hdf5/wal/write_log_rescue.h"
#include "backends/worker/checked_chunks.h"
#include "backends/worker/chunk_batch.h"
#include "backends/worker/chunk_index.h"
#include "backends/worker/held_writes.h"
#include "backends/worker/known_layouts.h"
#include "backends/worker/started_ahead.h"
#include "backends/worker/stored_bytes.h"
#include "backends/worker/worker_client.h"
#include "backends/worker/worker_session.h"
#include "base/lru_map.h"
#include "filters/core/common_form.h"
#include "model/fill.h"

namespace codecfs {
namespace worker {
namespace {

using hdf5::IsolatedSource;

constexpr size_t kKnownVariables = 4096;
constexpr int kTries = 4;

class IsolatedHdf5 final : public Source {
 public:
  IsolatedHdf5(std::string path, bool may_write, bool latest)
      : client_(std::move(path), may_write, latest, held_), bytes_(client_.fd()) {}
  explicit IsolatedHdf5(const std::shared_ptr<remote::ObjectFile>& object)
      : client_(object, held_), bytes_(client_.fd(), object) {}
  Result<> open(std::shared_ptr<ChunkRanges> ranges, const WorkerClient* twin = nullptr) {
    ranges_ = ranges;
    CODECFS_TRY(client_.open(twin));
    const auto fetch = [this](ObjectId variable, uint64_t first, uint64_t count) {
      return call<&IsolatedSource::places>(variable, first, count);
    };
    index_ = std::make_unique<ChunkIndex>(client_.shared(), fetch, std::move(ranges));
    return {};
  }

  [[nodiscard]] const struct stat& status() const override { return client_.opened().status; }
  [[nodiscard]] struct statvfs filesystem() const override {
    struct statvfs numbers{};
    if (::fstatvfs(client_.fd().get(), &numbers) != 0) numbers = {};
    return numbers;
  }
  [[nodiscard]] std::string format() const override { return client_.opened().format; }
  [[nodiscard]] bool shares_metadata() const override { return true; }
  [[nodiscard]] size_t reads_at_once() const override { return bytes_.reads_at_once(); }
  [[nodiscard]] Entry root() const override { return client_.opened().root; }

  Result<std::unique_ptr<Source>> open_twin() override {
    if (begun_ || bytes_.reads_at_once() != 0) return Source::open_twin();  // written, or in an object store
    auto twin = std::make_unique<IsolatedHdf5>(client_.path(), false, false);
    CODECFS_TRY(twin->open(ranges_, &client_));
    return std::unique_ptr<Source>(std::move(twin));
  }

  // --- reading the tree

  Result<std::vector<Entry>> list(ObjectId group) override { return call<&Source::list>(group); }
  Result<std::vector<UnreadableMember>> unreadable_members(ObjectId group) override {
    return call<&Source::unreadable_members>(group);
  }
  Result<Members> overview(ObjectId group) override { return call<&Source::overview>(group); }
  Result<Entry> find(ObjectId group, std::string_view name) override { return call<&Source::find>(group, name); }
  Result<std::vector<Attribute>> group_attributes(ObjectId group) override {
    return call<&Source::group_attributes>(group);
  }
  Result<std::vector<Attribute>> link_notes(ObjectId group) override { return call<&Source::link_notes>(group); }
  Result<std::vector<GroupDimension>> dimensions(ObjectId group) override { return call<&Source::dimensions>(group); }
  Result<VariablePtr> variable(ObjectId id) override { return call<&Source::variable>(id); }
  Result<std::vector<Attribute>> variable_attributes(ObjectId id) override {
    return call<&Source::variable_attributes>(id);
  }
  Result<std::vector<LeftOutAttribute>> left_out_attributes(ObjectId id) override {
    return call<&Source::left_out_attributes>(id);
  }
  Result<std::vector<std::string>> missing_sources(ObjectId id) override { return call<&Source::missing_sources>(id); }
  Result<VariablePtr> facts(ObjectId id) override { return call<&Source::facts>(id); }

  std::vector<VariableSummary> summaries(std::span<const ObjectId> variables) override {
    bytes_.expect_indexes();
    auto all = call<&WorkerService::summaries>(variables);
    if (all && all->size() == variables.size()) return *std::move(all);
    return Source::summaries(variables);  // one of them makes the call fail: find out which one
  }

  // --- reading chunks

  Result<ChunkInfo> locate(ObjectId id, uint64_t number) override {
    CODECFS_ASSIGN(const ChunkIndex::Found found, index_->find(id, number));
    const hdf5::StoredPlace& place = found.place;
    ChunkInfo info;
    info.stored = place.kind != hdf5::StoredPlace::Kind::absent;
    info.stored_size = place.size;
    if (place.has_offset) info.offset = place.offset;
    info.filter_mask = place.shown_mask;
    return info;
  }
  Result<std::vector<uint64_t>> stored_chunks(ObjectId id, uint64_t from, size_t limit) override {
    bytes_.expect_indexes();
    return call<&Source::stored_chunks>(id, from, limit);
  }
  Result<DecodedChunk> fetch_chunk(ObjectId id, uint64_t number) override;
  Result<std::optional<Buffer>> read_part(ObjectId id, uint64_t number, uint64_t offset, uint64_t size) override;
  Result<> expect(ObjectId id, std::span<const uint64_t> numbers) override;
  Result<std::optional<Buffer>> read_stored(ObjectId id, uint64_t number) override;
  Result<std::optional<uint64_t>> stored_bytes(ObjectId id, uint64_t number) override {
    CODECFS_ASSIGN(const ChunkIndex::Found found, index_->find(id, number));
    if (!found.place.is_exact) return std::nullopt;
    CODECFS_ASSIGN(const bool is_passed, has_common_form(id, found));
    if (!is_passed) return std::nullopt;
    // Of a file in an object store, read_stored() finds out.
    if (!found.place.must_check || bytes_.reads_at_once() != 0) return found.place.size;
    if (const auto known = checked_.find(id, number, found))
      return *known ? std::optional(found.place.size) : std::nullopt;
    CODECFS_ASSIGN(const auto stored, read_stored(id, number));
    if (!stored) return std::nullopt;
    return stored->size();
  }

  // --- writing

  Result<> writable() override { return client_.opened().writable; }
  // Asked before each write to a chunk.
  Result<> variable_writable(ObjectId id) override {
    const uint64_t present = changes_;
    if (const auto known = writable_.get(id); known && *known == present) return {};
    CODECFS_TRY(call<&Source::variable_writable>(id));
    writable_.put(id, std::make_shared<const uint64_t>(present));
    return {};
  }
  Result<> begin_writing_to(ObjectId id) override {
    if (begun_.load(std::memory_order_relaxed)) return {};
    CODECFS_TRY(call<&Source::begin_writing_to>(id));
    client_.set_writing();
    begun_ = true;
    return {};
  }
  Result<> write_chunk(ObjectId id, uint64_t number, Bytes chunk) override {
    CODECFS_ASSIGN(const KnownLayouts::Pointer known, layouts_.for_writing(id, changes_));
    if (!known || known->second.facts().chunk_bytes != chunk.size())
      return write<void>({.call = call_of<&Source::write_chunk>, .variable = id, .chunk = number, .bytes = chunk});
    const auto& [name, layout] = *known;
    auto encoded = layout.encode(chunk);
    if (!encoded)
      return fail(encoded.error().code, "{}: chunk {}: {}", name, layout.facts().grid.name_of(number),
                  encoded.error().reason);
    const auto bytes = std::make_shared<const Buffer>(std::move(encoded->bytes));
    CODECFS_ASSIGN(const bool is_made, write<bool>({.call = call_of<&IsolatedSource::write_encoded>,
                                                    .variable = id,
                                                    .chunk = number,
                                                    .bytes = bytes->bytes(),
                                                    .owner = bytes,
                                                    .chain = layout.facts().filters,
                                                    .filter_mask = encoded->filter_mask}));
    if (is_made) return {};
    return write<void>({.call = call_of<&Source::write_chunk>, .variable = id, .chunk = number, .bytes = chunk});
  }
  bool writes_together(ObjectId) override { return true; }
  Result<uint64_t> write_chunks(ObjectId id, std::span<const NumberedChunk> chunks) override;
  Result<bool> write_stored(ObjectId id, uint64_t number, Bytes stored) override {
    return write<bool>({.call = call_of<&Source::write_stored>, .variable = id, .chunk = number, .bytes = stored});
  }
  Result<> remove_chunk(ObjectId id, uint64_t number) override {
    return write<void>({.call = call_of<&Source::remove_chunk>, .variable = id, .chunk = number, .bytes = {}});
  }

  // --- changes of the tree and of metadata

  Result<> change_in_bulk() override {
    CODECFS_TRY(begin_writing_to(0));
    client_.forbid_restart();
    is_bulk_ = true;
    return call<&Source::change_in_bulk>();
  }
  Result<Entry> make_group(ObjectId group, std::string_view name) override {
    return edit<&Source::make_group>(group, name);
  }
  Result<> define_dimensions(ObjectId group, std::span<const GroupDimension> dimensions) override {
    return edit<&Source::define_dimensions>(group, dimensions);
  }
  Result<Entry> make_variable(ObjectId group, std::string_view name, const Variable& variable) override {
    return edit<&Source::make_variable>(group, name, variable);
  }
  Result<Entry> make_link(ObjectId group, std::string_view name, std::string_view target) override {
    return edit<&Source::make_link>(group, name, target);
  }
  Result<> restore_link(ObjectId group, std::string_view name, std::string_view note) override {
    return edit<&Source::restore_link>(group, name, note);
  }
  Result<> remove(ObjectId group, std::string_view name) override { return edit<&Source::remove>(group, name); }
  Result<> rename(ObjectId from, std::string_view name, ObjectId to, std::string_view new_name) override {
    return edit<&Source::rename>(from, name, to, new_name);
  }
  Result<> set_attributes(ObjectId id, std::span<const Attribute> set, std::span<const std::string> remove) override {
    return edit<&Source::set_attributes>(id, set, remove);
  }
  Result<> set_dimensions(ObjectId id, std::span<const std::string> names) override {
    return edit<&Source::set_dimensions>(id, names);
  }
  Result<> set_metadata(ObjectId id, std::span<const std::string> dimensions, std::span<const Attribute> set,
                        std::span<const std::string> remove) override {
    return edit<&Source::set_metadata>(id, dimensions, set, remove);
  }
  Result<> resize(ObjectId id, std::span<const uint64_t> shape) override { return edit<&Source::resize>(id, shape); }
  Result<> set_filters(ObjectId id, std::span<const FilterStage> chain, Progress& progress) override {
    CODECFS_TRY(begin_writing_to(id));
    CODECFS_TRY(seal());
    const Change change(*this);
    return call<&Source::set_filters>(id, chain, progress);
  }
  Result<> encode_masked_chunks(ObjectId id, Progress& progress) override {
    CODECFS_TRY(begin_writing_to(id));
    CODECFS_TRY(seal());
    const Change change(*this);
    return call<&Source::encode_masked_chunks>(id, progress);
  }

  // --- commits and the log

  uint64_t reclaimable_bytes() override { return call<&Source::reclaimable_bytes>().value_or(uint64_t{0}); }
  Result<> commit() override {
    if (!begun_) return {};
    CODECFS_TRY(call<&Source::begin_writing_to>(ObjectId{0}));  // of a new process: recovers the log
    return seal_with<&Source::commit>();
  }
  Result<bool> commit_at_interval() override {
    if (!begun_) return true;
    return seal_with<&Source::commit_at_interval>();
  }
  Result<> relocate_log() override { return begun_ ? call<&Source::relocate_log>() : Result<>(); }
  void release_idle(std::chrono::seconds unused_for) override {
    (void)relocate_log();  // the next commit reports an error
    worker::StartedAhead::instance().end_unused(unused_for);
    if (!begun_) client_.end_unused(unused_for);
  }
  [[nodiscard]] bool is_deleted() override { return begun_ && hdf5::has_no_name(client_.fd().get()); }
  Result<> finish() override { return begun_ ? seal_with<&Source::finish>() : Result<>(); }

 private:
  using Kind = hdf5::StoredPlace::Kind;

  template <auto function, class... Arguments>
  Result<rpc::ValueOf<function>> call(Arguments&&... arguments) {
    return client_.call<function>(arguments...);
  }

  /// During its lifetime, what is known of chunks and variables is not valid.
  class Change {
   public:
    explicit Change(IsolatedHdf5& source) : source_(source) { forget(); }
    ~Change() {
      forget();
      source_.client_.forget_refusals();
    }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

   private:
    void forget() const {
      source_.index_->invalidate();
      ++source_.changes_;
    }
    IsolatedHdf5& source_;
  };

  template <class R>
  Result<R> make(const HeldWrites::Write& write) {
    rpc::Encoder request;
    write.put_in(request);
    return client_.call_encoded<R>(write.call, request);
  }
  template <class R>
  Result<R> write(const HeldWrites::Write& write) {
    CODECFS_TRY(begin_writing_to(write.variable));
    const std::atomic<uint64_t>& losses = client_.shared().losses;
    for (int round = 1;; ++round) {
      const uint64_t before = losses;
      CODECFS_ASSIGN(const uint64_t held, held_.add(write, before));
      Result<R> made = make<R>(write);
      if (!made) {
        held_.drop(held);
        (void)seal();  // it may have undone others
        return made;
      }
      if constexpr (std::is_same_v<R, bool>) {
        if (!*made) {  // nothing was changed
          held_.drop(held);
          return made;
        }
      }
      const bool is_large = write.bytes.size() > HeldWrites::kSmall;
      const Result<> sealed = held_.confirm(held) ? seal() : Result<>();
      if (!is_large) return sealed ? std::move(made) : std::unexpected(sealed.error());
      const bool is_current = held_.drop_if_current(held, losses);
      held_.drop(held);
      if (!sealed) return std::unexpected(sealed.error());
      if (is_current) return made;
      if (round == kTries) return fail(EIO, "{}: other changes fail again and again", client_.path());
    }
  }
  Result<> seal() { return seal_with<&IsolatedSource::seal>(); }

  /// By a call that seals. If its process is killed, the next one has made the changes again before it repeats the
  /// call.
  template <auto function>
  Result<rpc::ValueOf<function>> seal_with() {
    const std::atomic<uint64_t>& losses = client_.shared().losses;
    for (int round = 1;; ++round) {
      const std::vector<HeldWrites::Held> confirmed = held_.confirmed();
      if (call_of<function> == call_of<&IsolatedSource::seal> && confirmed.empty()) return {};
      auto done = call<function>();
      if (!done) return done;
      const uint64_t present = losses;
      bool is_complete = true;
      for (const HeldWrites::Held& held : confirmed) {
        if (held.is_large()) continue;  // its caller drops it, or makes it again
        if (held_.drop_if_current(held.number, present)) continue;
        is_complete = false;
        const HeldWrites::Write& write = held.write;
        // False from a process with another chain: then this one was sealed before the chain was changed.
        const auto made = make<void>(write);
        if (made) {
          held_.confirm_again(held.number, present);
        } else {
          held_.drop(held.number);
          if (made.error().code != ENOENT && made.error().code != ESTALE) return std::unexpected(made.error());
        }
      }
      if (is_complete) return done;
      if (round == kTries) return fail(EIO, "{}: changes fail again and again", client_.path());
    }
  }

  template <auto function, class... Arguments>
  Result<rpc::ValueOf<function>> edit(const Arguments&... arguments) {
    CODECFS_TRY(begin_writing_to(0));
    if (!is_bulk_) CODECFS_TRY(seal());
    const LockGuard one(edit_mutex_);
    const Change change(*this);
    auto done = client_.edit<function>(++edits_, arguments...);
    if (!done) (void)seal();  // it may have undone changes of chunks
    return done;
  }

  /// Whether readers of Zarr decode the stored bytes, too.
  Result<bool> has_common_form(ObjectId id, const ChunkIndex::Found& found);
  Result<bool> is_as_shown(ObjectId id, uint64_t number, const ChunkIndex::Found& found, Bytes stored);
  Result<std::optional<Buffer>> read_place(const ChunkIndex::Found& found) const;
  Result<std::optional<Buffer>> read_directly(const ChunkIndex::Found& found, const hdf5::ChunkLayout& layout,
                                              uint64_t number) const;

  HeldWrites held_;
  WorkerClient client_;  // uses `held_`
  const StoredBytes bytes_;
  std::shared_ptr<ChunkRanges> ranges_;
  std::unique_ptr<ChunkIndex> index_;
  KnownLayouts layouts_{client_};
  CheckedChunks checked_;
  std::atomic<uint64_t> changes_ = 0;                     // of the tree and of pipelines, begun and ended
  LruMap<ObjectId, uint64_t> writable_{kKnownVariables};  // variables that were writable, and `changes_` then
  std::atomic<bool> begun_ = false;
  std::atomic<bool> is_bulk_ = false;          // change_in_bulk()
  Mutex batch_mutex_{LockRank::worker_batch};  // two would wait for libhdf5's lock with each of their chunks
  Mutex edit_mutex_{LockRank::worker_edit};
  uint64_t edits_ CODECFS_GUARDED_BY(edit_mutex_) = 0;
};

// As write(), by one call: they are held, and made again if need be, as single changes.
Result<uint64_t> IsolatedHdf5::write_chunks(ObjectId id, std::span<const NumberedChunk> chunks) {
  CODECFS_TRY(begin_writing_to(id));
  CODECFS_ASSIGN(const KnownLayouts::Pointer known, layouts_.for_writing(id, changes_));
  const bool encodes = known && known->second.facts().chunk_bytes == chunks.front().bytes.size();
  CODECFS_ASSIGN(const ChunkBatch batch, ChunkBatch::make(encodes ? &known->second : nullptr, chunks));
  if (batch.size() == 0) return uint64_t{0};
  const uint64_t losses = client_.shared().losses;
  std::vector<uint64_t> held;
  for (HeldWrites::Write& write : batch.writes(id)) {
    CODECFS_ASSIGN(held.emplace_back(), held_.add(std::move(write), losses));  // fails only where it copies
  }
  const Result<uint64_t> made = [&] {
    const LockGuard one(batch_mutex_);
    return call<&IsolatedSource::write_many>(id, batch.chunks(), batch.bytes());
  }();
  bool must_seal = false;
  for (size_t i = 0; i < held.size(); ++i) {
    if (made && i < *made)
      must_seal |= held_.confirm(held[i]);
    else
      held_.drop(held[i]);
  }
  if (must_seal) CODECFS_TRY(seal());
  return made ? Result<uint64_t>(std::min<uint64_t>(*made, held.size())) : made;
}

// Of a file in an object store it is not known before its bytes are requested, which a lookup must not do. Where the
// bytes cannot be looked at here, the answer is no: the size of a chunk's file and its content must be of one kind.
Result<bool> IsolatedHdf5::has_common_form(ObjectId id, const ChunkIndex::Found& found) {
  if (bytes_.reads_at_once() != 0) return true;
  CODECFS_ASSIGN(const KnownLayouts::Pointer known, layouts_.numbered(id, found.layout));
  if (!known) return false;
  const Variable& facts = known->second.facts();
  if (!filters::may_lack_common_form(facts.filters)) return true;
  if (found.place.kind != Kind::encoded) return false;
  std::array<std::byte, filters::kCommonFormHead> buffer{};
  const MutableBytes head = MutableBytes(buffer).first(std::min<uint64_t>(buffer.size(), found.place.size));
  CODECFS_ASSIGN(const bool is_read, bytes_.read_into(found.place.offset, head));
  return is_read && filters::has_common_form(facts.filters, filters::shape_of_chunk(facts), head, found.place.size);
}

Result<std::optional<Buffer>> IsolatedHdf5::read_stored(ObjectId id, uint64_t number) {
  CODECFS_ASSIGN(const ChunkIndex::Found found, index_->find(id, number));
  if (found.place.is_exact && (found.place.kind == Kind::encoded || found.place.kind == Kind::piece)) {
    CODECFS_ASSIGN(const bool is_passed, has_common_form(id, found));
    if (!is_passed) return std::nullopt;
    CODECFS_ASSIGN(auto bytes, read_place(found));
    if (bytes) {
      CODECFS_ASSIGN(const bool is_complete, is_as_shown(id, number, found, bytes->bytes()));
      if (is_complete) return bytes;
      if (bytes_.reads_at_once() == 0) return std::nullopt;
      return fail(EIO,
                  "readers of Zarr do not find in the stored bytes what readers of HDF5 find (a part of a chunk, or "
                  "bytes behind the end of a string): read it in the decoded view, or from a copy of the file on this "
                  "machine");
    }
  }
  return call<&Source::read_stored>(id, number);
}

/// Whether the bytes decode to the chunk as it is shown: at the edge, only the part in the array may be stored.
Result<bool> IsolatedHdf5::is_as_shown(ObjectId id, uint64_t number, const ChunkIndex::Found& found, Bytes stored) {
  if (!found.place.must_check) return true;
  if (const auto known = checked_.find(id, number, found)) return *known;
  CODECFS_ASSIGN(const KnownLayouts::Pointer known, layouts_.numbered(id, found.layout));
  if (!known) return false;
  const bool is_same = known->second.is_as_shown(stored, found.place.filter_mask, number);
  checked_.put(id, number, found, is_same);
  return is_same;
}

// None if the bytes are no longer there.
Result<std::optional<Buffer>> IsolatedHdf5::read_place(const ChunkIndex::Found& found) const {
  CODECFS_ASSIGN(auto bytes, bytes_.read(found.place.offset, found.place.size));
  if (!bytes || !index_->is_current(found)) return std::nullopt;
  return bytes;
}

// The places may take requests, too: this is called by a thread that reads ahead.
Result<> IsolatedHdf5::expect(ObjectId id, std::span<const uint64_t> numbers) {
  if (bytes_.reads_at_once() == 0) return {};
  std::vector<remote::ByteRange> ranges;
  for (const uint64_t number : numbers) {
    CODECFS_ASSIGN(const ChunkIndex::Found found, index_->find(id, number));
    if (found.place.kind == Kind::encoded || found.place.kind == Kind::piece)
      ranges.push_back({found.place.offset, found.place.size});
  }
  bytes_.expect(ranges);
  return {};
}

Result<std::optional<Buffer>> IsolatedHdf5::read_directly(const ChunkIndex::Found& found,
                                                          const hdf5::ChunkLayout& layout, uint64_t number) const {
  const Variable& facts = layout.facts();
  if (found.place.kind == Kind::encoded) {
    CODECFS_ASSIGN(auto stored, read_place(found));
    if (!stored) return std::nullopt;
    CODECFS_ASSIGN(Buffer decoded, layout.decode(*std::move(stored), found.place.filter_mask, number));
    return decoded;
  }
  if (!facts.chunk_bytes || found.place.size > *facts.chunk_bytes) return std::nullopt;
  CODECFS_ASSIGN(Buffer piece, Buffer::allocate(*facts.chunk_bytes));
  const MutableBytes inside = piece.mutable_bytes().first(found.place.size);
  CODECFS_ASSIGN(const bool is_read, bytes_.read_into(found.place.offset, inside));
  if (!is_read || !index_->is_current(found)) return std::nullopt;
  clear_behind_ends(facts.ended_strings, facts.type.size, inside);
  repeat_element(facts.fill, piece.mutable_bytes().subspan(inside.size()));
  return piece;
}

Result<std::optional<Buffer>> IsolatedHdf5::read_part(ObjectId id, uint64_t number, uint64_t offset, uint64_t size) {
  CODECFS_ASSIGN(const ChunkIndex::Found found, index_->find(id, number));
  const hdf5::StoredPlace& place = found.place;
  if (offset > place.size || size > place.size - offset) return std::nullopt;
  if (place.kind != Kind::piece && (place.kind != Kind::encoded || !place.is_exact)) return std::nullopt;
  CODECFS_ASSIGN(const KnownLayouts::Pointer known, layouts_.numbered(id, found.layout));
  if (!known || !known->second.facts().ended_strings.empty()) return std::nullopt;
  const Variable& facts = known->second.facts();
  if (place.kind == Kind::encoded && (!facts.filters.empty() || facts.chunk_bytes != place.size)) return std::nullopt;
  CODECFS_ASSIGN(auto bytes, bytes_.read(place.offset + offset, size));
  if (!bytes || !index_->is_current(found)) return std::nullopt;
  return bytes;
}

Result<DecodedChunk> IsolatedHdf5::fetch_chunk(ObjectId id, uint64_t number) {
  for (int round = 0; round < kTries; ++round) {
    CODECFS_ASSIGN(const ChunkIndex::Found found, index_->find(id, number));
    const Kind kind = found.place.kind;
    if (kind == Kind::absent) {
      CODECFS_ASSIGN(const KnownLayouts::Pointer known, layouts_.numbered(id, found.layout));
      if (!known || known->second.facts().unreadable) break;  // the call below says why it cannot be read
      return fail(ENOENT, "{}: chunk {} is not stored", known->first, known->second.facts().grid.name_of(number));
    }
    // One that is read by the process may be of a later layout than its place.
    std::optional<hdf5::FetchedChunk> fetched;
    if (kind == Kind::elsewhere) {
      CODECFS_ASSIGN(fetched, call<&IsolatedSource::fetch_encoded>(id, number));
      if (!fetched) break;
    }
    CODECFS_ASSIGN(const KnownLayouts::Pointer known, layouts_.numbered(id, fetched ? fetched->layout : found.layout));
    if (!known) {
      index_->invalidate();
      continue;
    }
    const auto& [name, decoder] = *known;
    const auto say_where = [&](const Error& error) {
      return fail(error.code, "{}: chunk {}: {}", name, decoder.facts().grid.name_of(number), error.reason);
    };
    if (!fetched) {
      auto read = read_directly(found, decoder, number);
      if (!read) return say_where(read.error());
      if (*read) return DecodedChunk{**std::move(read), found.place.size};
      continue;  // changed meanwhile
    }
    filters::EncodedChunk& stored = fetched->encoded;
    const uint64_t size = stored.bytes.size();
    auto decoded = decoder.decode(std::move(stored.bytes), stored.filter_mask, number);
    if (!decoded) return say_where(decoded.error());
    return DecodedChunk{*std::move(decoded), size};
  }
  return call<&Source::fetch_chunk>(id, number);
}

}  // namespace
}  // namespace worker

SourceProtections protections_of_sources() { return worker::describe_protections(); }

Result<std::unique_ptr<Source>> open_hdf5_in_worker(const std::string& path, bool may_write,
                                                    std::shared_ptr<worker::ChunkRanges> ranges, bool latest) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::canonical(path, error);
  if (error) return fail_errno(error.value(), "{}", path);
  auto source = std::make_unique<worker::IsolatedHdf5>(absolute, may_write, latest);
  CODECFS_TRY(source->open(std::move(ranges)));
  return source;
}

Result<std::unique_ptr<Source>> open_remote_hdf5(std::shared_ptr<remote::ObjectFile> object,
                                                 std::shared_ptr<worker::ChunkRanges> ranges) {
  auto source = std::make_unique<worker::IsolatedHdf5>(object);
  CODECFS_TRY(source->open(std::move(ranges)));
  return source;
}

}  // namespace codecfs
