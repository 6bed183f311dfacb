#pragma once
// Changed chunks, from the first write until the source has stored them.
//
// A changed chunk is an edit: all of its decoded bytes, and the length that the file shows. Readers see the edit. Close
// queues it. The encoders (as many threads as cores) take queued edits at the end of the commit interval, at fsync, or
// when dirty bytes exceed an eighth of the limit; they encode and store them in parallel and drop them. A writer waits
// while the memory of dirty chunks exceeds the limit.
//
// A chunk that cannot be stored stays an edit and is tried again. The error is reported by the next close on its
// variable, by fsync, and at the end of the mount; and by every write while the limit is exceeded.
//
// While a variable is re-encoded, nothing of it is stored. Its changes do what the RecodingPolicy of their thread says:
// those that are kept in memory may take as much of it as the dirty chunks of all other variables.
//
// Lock order: Edit::loading_mutex, Edit::content_mutex, mutex_. Of these, only loading_mutex is held during calls of
// the source: only further writers of that chunk wait for them.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "fs/chunks/chunk_cache.h"
#include "fs/chunks/edit_table.h"
#include "fs/chunks/failure_log.h"
#include "fs/chunks/removed_chunks.h"
#include "fs/nodes/chunk_place.h"
#include "fs/nodes/dataset.h"
#include "fs/nodes/stats.h"

namespace codecfs::fs {

class WriteBack {
 public:
  struct Options {
    uint64_t dirty_bytes = uint64_t{128} << 20;  // -o dirty=SIZE
    std::chrono::seconds commit{5};              // -o commit=SECONDS
    unsigned encoders = 0;                       // 0: as many as cores
  };
  /// Reads a chunk from the source, or its fill if it is not stored.
  using ReadBase = Edit::ReadBase;
  /// ESTALE if the chunk was removed or its number now means another chunk: the caller must look it up again.
  using CheckPlace = std::function<Result<>(const ChunkPlace&)>;
  /// Another program was found to have changed the chunk.
  using ChangedOutside = std::function<void(const ChunkPlace&)>;

  /// `cache`, `conversions`: caches of decoded and converted chunks, by their keys.
  WriteBack(Dataset& dataset, ChunkCache& cache, ChunkCache& conversions, Stats& stats, const Options& options,
            ReadBase read_base, CheckPlace check_place, ChangedOutside changed_outside = {});
  /// Ends the threads. Edits are lost unless finish() was called.
  ~WriteBack();

  /// The content of a changed chunk's file. Never waits for the source.
  using Content = EditContent::State;
  std::optional<Content> content(ChunkKey key);
  /// The length of the file if the chunk has an edit.
  std::optional<uint64_t> size(ChunkKey key);
  /// Whether the chunk was removed in this mount, and not written since.
  bool removed(ChunkKey key);
  /// Must be called after the chunk was stored without this class.
  void forget_removed(const ChunkPlace& place);
  /// As forget_removed(), for all chunks, as everything is stored and other programs may store chunks from now on.
  void forget_all_removed();
  /// The chunks of a variable that exist only as edits, numbers from `from` on; and those that were removed.
  struct Changes {
    std::set<uint64_t> written;
    std::set<uint64_t> removed;
  };
  Changes changes(ObjectId variable);

  // Changes. While the variable is re-encoded, as RecodingPolicy says: EBUSY, and EINTR of a wait. ENOMEM, and EAGAIN
  // if threads cannot be created.

  /// Returns the bytes written: fewer at the end of the chunk. EFBIG beyond its end, EROFS, EOPNOTSUPP, EIO, ENOSPC,
  /// ENOMEM. `mask` selects the bytes to write (copy_masked()); empty: all.
  Result<size_t> write(const ChunkPlace& place, uint64_t offset, Bytes bytes, Bytes mask = {});
  /// Changes a chunk of known size: `change` gets all of its bytes, or fill if it is not stored. `whole`: it overwrites
  /// all bytes, so they are not read. `done`: no further change is expected soon, so the chunk may be stored as if it
  /// had been closed. Errors of write().
  Result<> change(const ChunkPlace& place, bool whole, bool done, const std::function<void(MutableBytes)>& change);
  /// Truncates the file, or extends it with zeros, up to the chunk's size. EFBIG. `gaps_are_fill`: a gap before a later
  /// write reads as fill instead of zeros.
  Result<> resize(const ChunkPlace& place, uint64_t size, bool gaps_are_fill = false);
  /// The file of a chunk that was truncated to be written anew. Unless keep() was called, because its open has failed,
  /// the chunk is what it was before.
  class [[nodiscard]] Replacement {
   public:
    /// `owner`: null if there is nothing to undo.
    Replacement(WriteBack* owner, ChunkPlace place) : owner_(owner), place_(std::move(place)) {}
    Replacement(Replacement&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), place_(std::move(other.place_)) {}
    Replacement& operator=(Replacement&&) = delete;
    ~Replacement() {
      if (owner_ != nullptr) owner_->abandon_replacement(place_.key);
    }
    void keep() { owner_ = nullptr; }

   private:
    WriteBack* owner_;
    ChunkPlace place_;
  };
  /// For an open with O_TRUNC: truncates the file of a chunk that a writer replaces. Until it has its length again,
  /// nothing of it is stored, and flush() and sync() are EINVAL if something was written.
  Result<Replacement> begin_replacement(const ChunkPlace& place);
  /// Creates an empty file if the chunk does not exist. Returns whether it did.
  Result<bool> create(const ChunkPlace& place, bool gaps_are_fill);
  /// Replaces the whole content (for a rename over the chunk), padded with fill. `encoded`: the same, encoded with the
  /// stored pipeline of `place.variable`, to be stored unchanged; or null.
  Result<> replace(const ChunkPlace& place, Bytes bytes, std::shared_ptr<const Buffer> encoded = nullptr);
  /// EBUSY while the variable is re-encoded.
  Result<> remove(const ChunkPlace& place);

  /// During its lifetime, writes of the variable wait.
  class Pause {
   public:
    Pause(WriteBack& owner, ObjectId variable) : owner_(&owner), variable_(variable) {}
    Pause(Pause&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), variable_(other.variable_) {}
    Pause& operator=(Pause&&) = delete;
    ~Pause() {
      if (owner_ != nullptr) owner_->resume(variable_);
    }

   private:
    WriteBack* owner_;
    ObjectId variable_;
  };
  /// Waits until no other pause of the variable exists, and stores its edits. Returns the error of one that could not
  /// be stored; EBUSY if a chunk that can only be stored completely is open, or the variable is being re-encoded.
  Result<Pause> pause(ObjectId variable);
  /// As pause(), without waiting: none if the variable is paused, re-encoded or has edits.
  std::optional<Pause> try_pause(ObjectId variable);
  /// As pause(), without storing edits, because the variable will be removed.
  Result<Pause> pause_without_storing(ObjectId variable);

  /// During its lifetime the variable is re-encoded: the chunks in the source do not change.
  class Recoding {
   public:
    Recoding(WriteBack& owner, ObjectId variable) : owner_(&owner), variable_(variable) {}
    Recoding(Recoding&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), variable_(other.variable_) {}
    Recoding& operator=(Recoding&&) = delete;
    ~Recoding() {
      if (owner_ != nullptr) owner_->end_recoding(variable_);
    }

   private:
    WriteBack* owner_;
    ObjectId variable_;
  };
  /// Stores the edits of the variable, with the errors of pause(). `holds`: what is written meanwhile may be kept in
  /// memory; otherwise there are no edits until the end.
  Result<Recoding> begin_recoding(ObjectId variable, bool holds);
  /// During a pause: drops the edits, because the chunks were removed or have other numbers.
  void forget(ObjectId variable);

  /// During a pause: drops the edits of `count` chunks with consecutive numbers and keys, which the source has changed
  /// without this class, and what is cached of them.
  void forget_range(const ChunkPlace& first, uint64_t count);

  /// Counts the changes of content through this class. A caller that caches something derived from chunks must not keep
  /// it if this has changed meanwhile.
  [[nodiscard]] uint64_t changes_made() const { return changes_made_; }
  /// Counts a change by another program as well.
  void note_changed_outside() { ++changes_made_; }

  /// The source was changed without this class and must be committed.
  void note_change();
  /// Whether there are changes that are not committed.
  [[nodiscard]] bool has_unstored();
  /// Commits everything that is stored.
  Result<> commit();

  /// A file that is open for writing.
  class [[nodiscard]] Writer {
   public:
    Writer() = default;
    Writer(Writer&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), place_(std::move(other.place_)) {}
    Writer& operator=(Writer&&) = delete;
    /// Does what close() does, whose error is not reported then.
    ~Writer();
    [[nodiscard]] bool is_open() const { return owner_ != nullptr; }
    /// For the last close of a descriptor. True if the file's length changes: a truncated chunk has its full size
    /// again. An incomplete replacement (begin_replacement()) is dropped, so that the chunk is what it was before:
    /// EINVAL.
    Result<bool> close();

   private:
    friend class WriteBack;
    Writer(WriteBack& owner, ChunkPlace place) : owner_(&owner), place_(std::move(place)) {}

    WriteBack* owner_ = nullptr;
    ChunkPlace place_;
  };
  Writer open_writer(const ChunkPlace& place);
  /// The chunks that are open for writing now.
  std::vector<ChunkKey> open_writers();
  /// For close(2): queues the edit, and returns errors of the variable since the last close.
  Result<> flush(const ChunkPlace& place);
  /// As flush(), for all chunks of a variable.
  Result<> flush_variable(ObjectId variable);
  /// Stores the chunks of a variable that can be stored now, without a commit. Returns the error of one that could not.
  Result<> store(ObjectId variable);
  /// Stores the chunk and commits.
  Result<> sync(const ChunkPlace& place);
  /// As sync(), for all chunks of a variable.
  Result<> sync_variable(ObjectId variable);
  /// Stores all and commits.
  Result<> sync_all();
  /// At the end of the mount: sync_all(), then Source::finish().
  Result<> finish();

 private:
  enum class After {
    store_if_full,  // if much must be stored, let encoders take closed chunks
    close_chunk,    // as store_if_full, and treat this chunk as closed
    nothing         // nothing: more changes will follow
  };
  /// Changes a chunk: `prepare` gets the Edit and may use the source, `change` gets its content under content_mutex.
  /// Counts it as changed on success.
  template <class Prepare, class Change>
  Result<> edit(const ChunkPlace& place, Prepare prepare, Change change, After after = After::store_if_full);
  Result<bool> close_writer(const ChunkPlace& place);
  class Pin;
  class Removal;
  EditPtr begin_removal(const ChunkPlace& place) CODECFS_REQUIRES(mutex_);
  void end_removal(ChunkKey key, const EditPtr& edit) CODECFS_EXCLUDES(mutex_);
  void note_removed(const ChunkPlace& place, const EditPtr& edit) CODECFS_REQUIRES(mutex_);
  Result<Pin> pin(const ChunkPlace& place);
  void unpin(const EditPtr& edit) CODECFS_EXCLUDES(mutex_);
  Result<> may_change(const ChunkPlace& place, UniqueLock<Mutex>& lock) CODECFS_REQUIRES(mutex_);
  Result<> load(Edit& edit);
  Result<Edit::Base> fetch_base(const ChunkPlace& place);
  void tell_changed_outside(const ChunkPlace& place) const {
    if (changed_outside_) changed_outside_(place);
  }
  Result<> wait_for_room(UniqueLock<Mutex>& lock, const Edit& edit) CODECFS_REQUIRES(mutex_);
  Result<> start_threads() CODECFS_REQUIRES(mutex_);
  void encode_until_stopped(const std::stop_token& stop);
  Result<> commit_with(Result<bool> (*commit_source)(Source&));
  void store_and_commit() CODECFS_EXCLUDES(mutex_);
  void commit_at_intervals(const std::stop_token& stop);
  [[nodiscard]] bool is_pressed() const CODECFS_REQUIRES(mutex_);
  [[nodiscard]] bool can_be_stored(const Edit& edit) const CODECFS_REQUIRES(mutex_);
  void wake(size_t enqueued);
  void note_dirty_bytes() CODECFS_REQUIRES(mutex_) { stats_.dirty_bytes = edits_.dirty().bytes + edits_.held().bytes; }
  void forget_if_clean(const EditPtr& edit) noexcept CODECFS_REQUIRES(mutex_);
  Result<> take_error(ObjectId variable) CODECFS_REQUIRES(mutex_);
  static std::unexpected<Error> incomplete(const Edit& edit, uint64_t size);
  void abandon_replacement(ChunkKey key) noexcept CODECFS_EXCLUDES(mutex_);
  void drop_replacement(Edit& edit) noexcept CODECFS_REQUIRES(mutex_, edit.content_mutex);
  std::unexpected<Error> end_replacement(Edit& edit) CODECFS_REQUIRES(mutex_, edit.content_mutex);
  Result<Pause> stop_writers(ObjectId variable) CODECFS_EXCLUDES(mutex_);
  void accept_replacements(ObjectId variable) CODECFS_EXCLUDES(mutex_);
  // No exception leaves these: an edit that an encoder has taken would count as being stored for ever.
  void store(const EditPtr& edit) noexcept CODECFS_EXCLUDES(mutex_);
  void store_single(const EditPtr& edit) noexcept CODECFS_EXCLUDES(mutex_);
  void note_stored(const EditPtr& edit, bool as_given) noexcept CODECFS_REQUIRES(mutex_);
  void take_together(const EditPtr& edit, std::vector<EditPtr>& edits) CODECFS_EXCLUDES(mutex_);
  void store_together(const std::vector<EditPtr>& edits, size_t& stored) CODECFS_EXCLUDES(mutex_);
  Result<> store_content(const EditPtr& edit, bool& as_given) CODECFS_EXCLUDES(mutex_);
  Result<> store_bytes(const EditPtr& edit, const Edit::Taken& taken) CODECFS_EXCLUDES(mutex_);
  Result<> store_all(ObjectId variable, bool holds) CODECFS_EXCLUDES(mutex_);
  Result<> wait_until_stored(const std::vector<EditPtr>& edits) CODECFS_EXCLUDES(mutex_);
  // resume() and end_recoding() need no memory, as they must not fail.
  void resume(ObjectId variable) noexcept CODECFS_EXCLUDES(mutex_);
  void end_recoding(ObjectId variable) noexcept CODECFS_EXCLUDES(mutex_);
  [[nodiscard]] bool is_removing_any(ObjectId variable) const CODECFS_REQUIRES(mutex_);
  void drop_cached(ChunkKey key) noexcept;

  Dataset& dataset_;
  ChunkCache& cache_;
  ChunkCache& conversions_;
  Stats& stats_;
  const Options options_;
  const ReadBase read_base_;
  const CheckPlace check_place_;
  const ChangedOutside changed_outside_;

  std::atomic<uint64_t> changes_made_ = 0;

  Mutex committing_{LockRank::committing};  // serializes commits
  Mutex mutex_{LockRank::write_back};
  std::condition_variable_any work_;      // wakes the encoders
  std::condition_variable_any interval_;  // of the committer; only a stop request wakes it
  std::condition_variable_any progress_;
  EditTable edits_ CODECFS_GUARDED_BY(mutex_);  // with the states of the edits
  std::unordered_map<ChunkKey, unsigned> writers_ CODECFS_GUARDED_BY(mutex_);
  RemovedChunks removed_ CODECFS_GUARDED_BY(mutex_);
  // Being removed by the source: must not be changed or stored.
  std::unordered_map<ChunkKey, ObjectId> removing_ CODECFS_GUARDED_BY(mutex_);
  std::set<ObjectId> paused_ CODECFS_GUARDED_BY(mutex_);  // variables
  struct RecodingState {
    bool holds = false;      // changes
    bool is_ending = false;  // writers wait
  };
  std::map<ObjectId, RecodingState> recoding_ CODECFS_GUARDED_BY(mutex_);  // variables
  std::map<ObjectId, Error> errors_ CODECFS_GUARDED_BY(mutex_);            // not yet reported
  FailureLog failures_ CODECFS_GUARDED_BY(mutex_);
  bool is_committed_once_ CODECFS_GUARDED_BY(mutex_) = false;
  bool uncommitted_ CODECFS_GUARDED_BY(mutex_) = false;
  bool is_committing_ CODECFS_GUARDED_BY(mutex_) = false;
  size_t encoder_count_ CODECFS_GUARDED_BY(mutex_) = 1;
  // Started under mutex_. Last members: joined before the others are destroyed, the committer first, because it waits
  // for the encoders.
  std::vector<std::jthread> encoders_;
  std::jthread committer_;
};

}  // namespace codecfs::fs
