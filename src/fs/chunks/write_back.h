#pragma once
// Chunks that are being changed, from the first write to the moment when the source has them.
//
// A changed chunk lives here as an edit: all of its decoded bytes, and the length that the file shows. Readers see the
// edit. At close it is queued; the encoders (threads, as many as cores) take queued edits when the commit interval is
// over, at fsync, or when dirty bytes pass an eighth of the limit, encode and store them in parallel, and forget them.
// A writer waits while dirty bytes are over the limit.
//
// A chunk that cannot be stored stays an edit, and is tried again. Why is told by the next close on its variable, by
// fsync, and at the end of the mount; and while the limit is passed, by every write.
//
// Locks: Edit::content_mutex before mutex_. Neither is held while the source works.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fs/chunks/chunk_cache.h"
#include "fs/chunks/stats.h"
#include "fs/views/dataset.h"

namespace codecfs::fs {

/// A chunk, with all that is needed to work on it.
struct ChunkPlace {
  ChunkKey key = 0;  // its inode number
  ObjectId object = 0;
  uint64_t number = 0;
  VariableViewPtr variable;
};

class WriteBack {
 public:
  struct Options {
    uint64_t dirty_bytes = uint64_t{128} << 20;  // -o dirty=SIZE
    std::chrono::seconds commit{5};              // -o commit=SECONDS
    unsigned encoders = 0;                       // 0: as many as cores
  };
  /// Reads a chunk as the source has it, or its fill where it is not stored.
  using ReadBase = std::function<Result<ChunkPtr>(const ChunkPlace&)>;
  /// ESTALE where the chunk has gone, or its number means another one: whoever waited is to ask again.
  using CheckPlace = std::function<Result<>(const ChunkPlace&)>;

  /// `cache`, `conversions`: what is made of stored chunks, by their keys.
  WriteBack(Dataset& dataset, ChunkCache& cache, ChunkCache& conversions, Stats& stats, const Options& options,
            ReadBase read_base, CheckPlace check_place);
  /// Ends the threads. What was not stored is lost: finish() comes first.
  ~WriteBack();

  /// What a chunk's file holds, where it is being changed. The bytes never change; those past `size` are not part of
  /// the file.
  struct Content {
    std::shared_ptr<const Buffer> bytes;
    uint64_t size = 0;
    std::shared_ptr<const Buffer> encoded = nullptr;  // with the stored chain, where somebody gave it so
  };
  std::optional<Content> content(ChunkKey key);
  /// The length of the file, where the chunk is being changed.
  std::optional<uint64_t> size(ChunkKey key);
  /// Whether it was removed in this mount, and not written since.
  bool removed(ChunkKey key);
  /// It was written again, past this.
  void forget_removed(const ChunkPlace& place);
  /// The numbers of a variable's chunks from `from` on that exist because of an edit; and those that were removed.
  struct Changes {
    std::set<uint64_t> written;
    std::set<uint64_t> removed;
  };
  Changes changes(ObjectId variable);

  /// Bytes taken: less than given where the chunk ends. EFBIG at its end, EROFS, EOPNOTSUPP, EIO, ENOSPC, ENOMEM.
  /// `mask`: of the bytes, those that are written (copy_masked()); empty: all.
  Result<size_t> write(const ChunkPlace& place, uint64_t offset, Bytes bytes, Bytes mask = {});
  /// Changes a chunk of known size: `change` gets all of its bytes, fill where it is not stored. `whole`: it writes
  /// them all, so what they were is not asked for. `done`: nobody will go on with it soon, so it may be stored as if it
  /// had been closed. Errors as of write().
  Result<> change(const ChunkPlace& place, bool whole, bool done, const std::function<void(MutableBytes)>& change);
  /// Cuts the file, or lets it grow with zeros, up to the chunk's size. EFBIG. `gaps_are_fill`: what is left out then
  /// before what is written is fill; else zeros.
  Result<> resize(const ChunkPlace& place, uint64_t size, bool gaps_are_fill = false);
  /// Makes an empty file where there is none. Whether it did: what is there stays as it is.
  Result<bool> create(const ChunkPlace& place, bool gaps_are_fill);
  /// Takes whole new content (what a rename over the chunk brings), padded with fill. `encoded`: the same as the
  /// stored chain of `place.variable` encodes it, to be stored as it is; or null.
  Result<> replace(const ChunkPlace& place, Bytes bytes, std::shared_ptr<const Buffer> encoded = nullptr);
  Result<> remove(const ChunkPlace& place);

  /// While it lives nobody writes the variable: who tries waits.
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
  /// Waits for another pause of the variable to be over, and stores what was written to it. What could not be stored;
  /// EBUSY where a chunk is open of which a part makes no sense.
  Result<Pause> pause(ObjectId variable);
  /// The same at once, or not at all: none where it is paused, or a chunk of it is edited.
  std::optional<Pause> try_pause(ObjectId variable);
  /// The same where nothing of it is to be stored any more, as it is to be removed.
  Pause pause_without_storing(ObjectId variable);
  /// In a pause: its chunks are gone or have other numbers. What was written is dropped.
  void forget(ObjectId variable);

  /// How often what chunks hold has changed by this: what was made of them is not to be kept where it has moved.
  [[nodiscard]] uint64_t changes_made() const { return changes_made_; }

  /// The source was changed past this: there is something to commit.
  void note_change();
  /// Makes durable what is stored.
  Result<> commit();
  /// The same where nobody waits for it: a source to which that would be too much leaves it for the next commit().
  Result<> commit_at_interval();

  /// A file was opened for writing.
  void open_writer(ChunkKey key);
  /// The chunks that are open for writing now.
  std::vector<ChunkKey> open_writers();
  /// close(2): queues what was written, and tells what went wrong with the variable since the last close.
  Result<> flush(const ChunkPlace& place);
  /// The same for all chunks of a variable.
  Result<> flush_variable(ObjectId variable);
  /// The last close of one opening. True where the file's length changes with it: a short chunk is whole again.
  bool close_writer(const ChunkPlace& place);

  /// Stores the chunk and commits.
  Result<> sync(const ChunkPlace& place);
  /// The same for all chunks of a variable.
  Result<> sync_variable(ObjectId variable);
  /// Stores all and commits.
  Result<> sync_all();
  /// The end: sync_all(), then Source::finish().
  Result<> finish();

 private:
  struct Edit {
    ChunkPlace place;
    std::mutex content_mutex;               // guards what follows to `gaps_are_fill`
    std::shared_ptr<Buffer> bytes;          // all of the chunk, fill past `size`; null until loaded
    std::shared_ptr<const Buffer> encoded;  // the same, to be stored as it is; or null
    uint64_t size = 0;                      // of the file
    bool gaps_are_fill = false;             // see resize()
    uint64_t version = 0;                   // counts changes; guarded by mutex_, as all below
    uint64_t stored_version = 0;
    uint64_t tried_version = 0;    // the latest that an encoder has done with, well or not
    std::optional<Error> failure;  // of the latest try
    uint64_t charged = 0;          // its share of dirty_bytes_
    unsigned pins = 0;             // calls that are at work on it
    bool dirty = false;
    bool queued = false;  // closed since it became dirty
    bool wanted = false;  // in queue_
    bool storing = false;
  };
  using EditPtr = std::shared_ptr<Edit>;

  enum class After {
    relieve,  // where there is much to store, encoders may take what was closed
    be_done,  // and this chunk with it
    carry_on  // nothing: there are many changes to come
  };
  /// Runs `change` on the edit of a chunk, under its content_mutex, and counts it as changed where it succeeds.
  template <class Change>
  Result<> edit(const ChunkPlace& place, Change change, After after = After::relieve);
  EditPtr pin(const ChunkPlace& place);
  Result<> load(Edit& edit, bool whole);
  Result<> make_private(Edit& edit, uint64_t bytes);
  static void put_zeros(Edit& edit, uint64_t end);
  Result<> wait_for_room(std::unique_lock<std::mutex>& lock, const Edit& edit);
  void start_threads();
  void encode_until_stopped(const std::stop_token& stop);
  Result<> commit_with(Result<bool> (*commit_source)(Source&));
  void commit_at_intervals(const std::stop_token& stop);
  // Under mutex_:
  void charge(Edit& edit, uint64_t bytes);
  void enqueue(const EditPtr& edit);
  enum class Want {
    closed,     // what was closed, but for what failed
    dirty,      // the same, and what is open
    everything  // what failed too
  };
  std::vector<EditPtr> want_all(Want which);
  void forget_if_clean(const EditPtr& edit);
  Result<> take_error(ObjectId variable);
  // Without it:
  void store(const EditPtr& edit);
  Result<> wait_until_stored(const std::vector<EditPtr>& edits);
  void stop_writers(std::unique_lock<std::mutex>& lock, ObjectId variable);
  void resume(ObjectId variable);
  void drop_cached(ChunkKey key);

  Dataset& dataset_;
  ChunkCache& cache_;
  ChunkCache& conversions_;
  Stats& stats_;
  const Options options_;
  const ReadBase read_base_;
  const CheckPlace check_place_;

  std::atomic<uint64_t> changes_made_ = 0;

  std::mutex mutex_;                      // guards all below
  std::condition_variable_any work_;      // of the encoders
  std::condition_variable_any interval_;  // of the committer, which nobody wakes
  std::condition_variable_any progress_;
  std::unordered_map<ChunkKey, EditPtr> edits_;
  std::unordered_map<ChunkKey, unsigned> writers_;
  std::list<EditPtr> queue_;  // wanted edits
  std::map<ObjectId, std::set<uint64_t>> removed_;
  std::unordered_map<ChunkKey, ObjectId> removed_keys_;
  std::unordered_map<ChunkKey, ObjectId> removing_;  // the source is removing them: not to be changed or stored
  std::set<ObjectId> paused_;                        // variables
  std::map<ObjectId, Error> errors_;                 // not yet told
  uint64_t dirty_bytes_ = 0;
  bool is_committed_once_ = false;
  bool uncommitted_ = false;
  std::mutex committing_;              // one commit at a time; taken before mutex_
  std::vector<std::jthread> threads_;  // last: they end before the rest goes
};

}  // namespace codecfs::fs
