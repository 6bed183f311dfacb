// Stores queued edits: the encoders, the committer, and functions that wait for them.

#include <algorithm>

#include "base/exceptions.h"
#include "base/fail_points.h"
#include "base/log.h"
#include "base/threads.h"
#include "fs/chunks/recoding_policy.h"
#include "fs/chunks/write_back.h"

namespace codecfs::fs {

void WriteBack::drop_cached(ChunkKey key) noexcept {
  cache_.drop(key);
  conversions_.drop_forms(key);
}

/// Whether closed chunks are encoded at once, in parallel with the writer. Fewer dirty bytes wait for the interval, as
/// they may be written again. A source behind a network takes longer than its writer, so that less is to wait for it,
/// but some chunks: a program may open and close a few again and again.
bool WriteBack::is_pressed() const {
  constexpr uint64_t kPressure = 8;
  constexpr uint64_t kMemoryPressure = 2;  // of chunks smaller than a page
  constexpr uint64_t kRemotePressure = uint64_t{4} << 20;
  constexpr size_t kRemoteChunks = 4;
  const bool is_remote = dataset_.source().reads_at_once() != 0;
  return edits_.dirty().bytes > options_.dirty_bytes / kPressure ||
         (is_remote && edits_.dirty().bytes > kRemotePressure && edits_.count_closed() > kRemoteChunks) ||
         edits_.dirty().memory > options_.dirty_bytes / kMemoryPressure;
}

/// A chunk of variable-length objects can only be encoded completely, and a chunk that is being replaced may be
/// refused.
bool WriteBack::can_be_stored(const Edit& edit) const {
  if (edit.is_replacing()) return false;  // until close_writer()
  return edit.place.variable->facts->chunk_bytes || edit.is_closed() || !writers_.contains(edit.place.key);
}

void WriteBack::wake(size_t enqueued) {
  if (enqueued == 1) work_.notify_one();
  if (enqueued > 1) work_.notify_all();
}

Result<> WriteBack::wait_for_room(UniqueLock<Mutex>& lock, const Edit& edit) {
  while (!edit.is_dirty() && !edit.is_held() && edits_.dirty().memory > options_.dirty_bytes) {
    wake(edits_.enqueue_dirty([this](const Edit& other) CODECFS_REQUIRES(mutex_) { return can_be_stored(other); }));
    // Wait only while an encoder has or will take an edit. If all remaining edits have failed, return that error.
    if (!edits_.any_underway()) {
      const Error* const failure = edits_.failure();
      return failure != nullptr ? Result<>(std::unexpected(*failure)) : Result<>();
    }
    progress_.wait(lock);
  }
  return {};
}

void WriteBack::forget_if_clean(const EditPtr& edit) noexcept {
  if (edits_.drop_if_clean(*edit, writers_.contains(edit->place.key))) drop_cached(edit->place.key);
}

Result<> WriteBack::take_error(ObjectId variable) {
  const auto found = errors_.find(variable);
  if (found == errors_.end()) return {};
  Error error = std::move(found->second);
  errors_.erase(found);
  return std::unexpected(std::move(error));
}

/// EAGAIN if there is no committer, or no encoder. Fewer encoders than cores will do.
Result<> WriteBack::start_threads() {
  if (committer_.joinable()) return {};
  const size_t encoders =
      options_.encoders != 0 ? options_.encoders : std::max(core_count(), dataset_.source().reads_at_once());
  encoders_.reserve(encoders);
  while (encoders_.size() < encoders) {
    Result<std::jthread> started = start_thread([this](const std::stop_token& stop) { encode_until_stopped(stop); });
    if (!started && encoders_.empty()) return pass_on(started);
    if (!started) break;
    encoders_.push_back(*std::move(started));
    encoder_count_ = encoders_.size();
  }
  CODECFS_ASSIGN(committer_, start_thread([this](const std::stop_token& stop) { commit_at_intervals(stop); }));
  return {};
}

void WriteBack::encode_until_stopped(const std::stop_token& stop) {
  UniqueLock lock(mutex_);
  EditPtr edit;
  const auto take = [&]() CODECFS_REQUIRES(mutex_) {
    if (!stop.stop_requested()) edit = edits_.take();
    return edit != nullptr;
  };
  while (work_.wait(lock, stop, take)) {
    lock.unlock();
    store(edit);
    edit.reset();
    lock.lock();
  }
}

void WriteBack::store(const EditPtr& edit) noexcept {
  std::vector<EditPtr> edits;
  size_t stored = 0;
  try {
    take_together(edit, edits);
    if (edits.size() > 1) store_together(edits, stored);
  } catch (const std::exception&) {  // those that were taken are stored one by one
  }
  if (edits.empty()) return store_single(edit);
  for (size_t i = stored; i < edits.size(); ++i) store_single(edits[i]);
}

/// The edit, with others that can be stored together with it.
void WriteBack::take_together(const EditPtr& edit, std::vector<EditPtr>& edits) {
  constexpr size_t kMaxTogether = 64;
  constexpr uint64_t kMaxTogetherBytes = uint64_t{256} << 10;
  const uint64_t bytes = std::max<uint64_t>(edit->place.variable->facts->chunk_bytes.value_or(kMaxTogetherBytes), 1);
  if (bytes > kMaxTogetherBytes / 2 || !dataset_.source().writes_together(edit->place.object)) return;
  const LockGuard lock(mutex_);
  // All encoders get a share.
  const size_t share = edits_.count_enqueued() / encoder_count_;
  edits.reserve(std::min({kMaxTogether, static_cast<size_t>(kMaxTogetherBytes / bytes), share + 1}));
  edits.push_back(edit);
  edits_.take_more(edits);
}

/// `stored` gets how many were stored, from the first on.
void WriteBack::store_together(const std::vector<EditPtr>& edits, size_t& stored) {
  FailPoints::allocate();
  std::vector<Edit::Taken> taken;  // those that are not stored are given back
  std::vector<NumberedChunk> chunks;
  taken.reserve(edits.size());
  chunks.reserve(edits.size());
  for (const EditPtr& edit : edits) {
    const Edit::Taken& latest = taken.emplace_back(edit->take());
    const Bytes bytes = latest.content.bytes == nullptr ? Bytes() : latest.content.bytes->bytes();
    const bool is_like_first = chunks.empty() || chunks.front().bytes.size() == bytes.size();
    if (bytes.empty() || latest.content.encoded != nullptr || !is_like_first) break;
    chunks.push_back({edit->place.number, bytes});
  }
  uint64_t count = 0;
  if (chunks.size() > 1) {
    ++stats_.store_calls;
    count = dataset_.source().write_chunks(edits.front()->place.object, chunks).value_or(uint64_t{0});
  }
  for (size_t i = 0; i < count; ++i) {
    taken[i].stored();
    const LockGuard lock(edits[i]->content_mutex);
    edits[i]->content.set_version(std::nullopt);
  }
  taken.clear();
  const LockGuard lock(mutex_);
  for (; stored < count; ++stored) note_stored(edits[stored], false);
  progress_.notify_all();
}

void WriteBack::store_single(const EditPtr& edit) noexcept {
  bool as_given = false;
  Result<> stored = without_exceptions([&] {
    FailPoints::allocate();
    ++stats_.store_calls;
    return store_content(edit, as_given);
  });
  const LockGuard lock(mutex_);
  if (stored) {
    note_stored(edit, as_given);
  } else {
    ++stats_.errors;
    edits_.note_failed(*edit, std::move(stored.error()));
    try {
      failures_.add(*edit->failure());
      errors_[edit->place.object] = *edit->failure();
    } catch (const std::bad_alloc&) {  // the edit keeps the error for fsync
    }
  }
  progress_.notify_all();
}

void WriteBack::note_stored(const EditPtr& edit, bool as_given) noexcept {
  ++(as_given ? stats_.chunks_stored_as_given : stats_.chunks_encoded);
  if (!as_given) stats_.bytes_encoded += edit->place.variable->facts->chunk_bytes.value_or(0);
  if (edit->failure()) errors_.erase(edit->place.object);  // it was this chunk's error
  edits_.note_stored(*edit);
  note_dirty_bytes();
  uncommitted_ = true;
  forget_if_clean(edit);
}

Result<> WriteBack::store_content(const EditPtr& edit, bool& as_given) {
  Edit::Taken taken = edit->take();
  FailPoints::allocate();
  if (taken.content.bytes == nullptr) return fail(EBUSY, "a program is replacing the chunk");
  if (taken.content.encoded != nullptr) {
    CODECFS_ASSIGN(as_given, dataset_.source().write_stored(edit->place.object, edit->place.number,
                                                            taken.content.encoded->bytes()));
  }
  if (!as_given) CODECFS_TRY(store_bytes(edit, taken));
  taken.stored();
  return {};
}

Result<> WriteBack::store_bytes(const EditPtr& edit, const Edit::Taken& taken) {
  Source& source = dataset_.source();
  const ChunkPlace& place = edit->place;
  const Bytes bytes = taken.content.bytes->bytes();
  std::optional<std::string> version;
  bool is_whole = !source.is_shared() || !place.variable->facts->chunk_bytes || taken.written.has_first(bytes.size());
  if (!is_whole && taken.is_own) {
    // It has been replaced as a whole, which is safe in its own way where parts cannot be stored.
    const Result<> possible = source.begin_updates(place.object);
    is_whole = !possible && possible.error().code == EOPNOTSUPP;
  }
  if (is_whole) {
    CODECFS_TRY(source.write_chunk(place.object, place.number, bytes));
  } else {
    // Bytes that were not written are what was read before, or fill, so they must not replace those of others.
    CODECFS_ASSIGN(UpdatedChunk updated,
                   source.update_chunk(place.object, place.number, bytes, taken.written, taken.version));
    if (updated.has_others) tell_changed_outside(place);
    version = std::move(updated.version);
  }
  const LockGuard lock(edit->content_mutex);
  edit->content.set_version(std::move(version));
  return {};
}

Result<> WriteBack::wait_until_stored(const std::vector<EditPtr>& edits) {
  UniqueLock lock(mutex_);
  std::vector<uint64_t> versions;
  versions.reserve(edits.size());
  for (const EditPtr& edit : edits) versions.push_back(edit->version());
  Result<> result;
  for (size_t i = 0; i < edits.size(); ++i) {
    const EditPtr& edit = edits[i];
    // The encoders take edits in order. A try that began before this call may have used an older version, so wait for
    // the next.
    progress_.wait(lock, [&] { return edit->stored_version() >= versions[i] || !edit->is_underway(); });
    if (edit->stored_version() < versions[i] && edit->is_held() && result)
      result = RecodingPolicy::refuse("what was written while the variable is re-encoded is stored when that is done");
    if (edit->stored_version() < versions[i] && edit->failure() && result) {
      result = std::unexpected(*edit->failure());
      errors_.erase(edit->place.object);  // reported here
    }
  }
  return result;
}

Result<> WriteBack::commit() {
  const bool is_deleted = dataset_.source().is_deleted();
  {
    const LockGuard lock(mutex_);
    // Data from before this mount may not be durable either.
    if (!std::exchange(is_committed_once_, true) || is_deleted) uncommitted_ = true;
  }
  return commit_with([](Source& source) -> Result<bool> {
    CODECFS_TRY(source.commit());
    return true;
  });
}

/// `commit_source` returns whether it committed.
Result<> WriteBack::commit_with(Result<bool> (*commit_source)(Source&)) {
  const LockGuard one(committing_);
  {
    const LockGuard lock(mutex_);
    if (!uncommitted_) return {};
    uncommitted_ = false;
    is_committing_ = true;
  }
  const Result<bool> committed = without_exceptions([&] {
    FailPoints::allocate();
    return commit_source(dataset_.source());
  });
  const LockGuard lock(mutex_);
  is_committing_ = false;
  if (committed && *committed) {
    ++stats_.commits;
    return {};
  }
  uncommitted_ = true;
  if (committed) return {};
  ++stats_.errors;
  return std::unexpected(committed.error());
}

void WriteBack::store_and_commit() {
  std::vector<EditPtr> edits;
  {
    const LockGuard lock(mutex_);
    edits = edits_.underway();
  }
  (void)wait_until_stored(edits);  // errors are kept for the next close
  // A source for which this is too expensive leaves it to the next commit().
  const Result<> committed = commit_with([](Source& source) { return source.commit_at_interval(); });
  if (!committed) log::error("{}", committed.error().reason);
}

void WriteBack::commit_at_intervals(const std::stop_token& stop) {
  UniqueLock lock(mutex_);
  while (!stop.stop_requested()) {
    interval_.wait_for(lock, stop, options_.commit, [] { return false; });
    if (stop.stop_requested()) return;
    edits_.forget_failures();
    wake(edits_.enqueue_closed());
    lock.unlock();
    try {
      FailPoints::allocate();
      store_and_commit();
    } catch (const std::exception& exception) {  // tried again after the next interval
      log::error("cannot commit: {}", exception.what());
    }
    lock.lock();
  }
}

Result<> WriteBack::store(ObjectId variable) {
  std::vector<EditPtr> edits;
  {
    const LockGuard lock(mutex_);
    edits = edits_.of(
        variable, [this](const Edit& edit) CODECFS_REQUIRES(mutex_) { return edit.is_dirty() && can_be_stored(edit); });
    for (const EditPtr& edit : edits) wake(edits_.enqueue(*edit));
  }
  return wait_until_stored(edits);
}

Result<> WriteBack::sync(const ChunkPlace& place) {
  std::vector<EditPtr> edits;
  bool is_replacing = false;
  {
    const LockGuard lock(mutex_);
    if (const EditPtr edit = edits_.find(place.key); edit != nullptr && edit->is_dirty()) {
      is_replacing = edit->is_replacing();
      if (!is_replacing) wake(edits_.enqueue(*edit));
      edits.push_back(edit);
    }
  }
  if (is_replacing) {
    const LockGuard content(edits.front()->content_mutex);
    if (edits.front()->content.is_incomplete()) return incomplete(*edits.front(), edits.front()->content.state()->size);
  }
  CODECFS_TRY(wait_until_stored(edits));
  CODECFS_TRY(commit());
  const LockGuard lock(mutex_);
  return take_error(place.object);
}

Result<> WriteBack::sync_variable(ObjectId variable) {
  std::vector<EditPtr> edits;
  {
    const LockGuard lock(mutex_);
    edits = edits_.of(variable, [](const Edit& edit) { return edit.is_dirty() && !edit.is_replacing(); });
    for (const EditPtr& edit : edits) wake(edits_.enqueue(*edit));
  }
  CODECFS_TRY(wait_until_stored(edits));
  CODECFS_TRY(commit());
  const LockGuard lock(mutex_);
  return take_error(variable);
}

Result<> WriteBack::sync_all() {
  std::vector<EditPtr> edits;
  {
    const LockGuard lock(mutex_);
    wake(edits_.enqueue_all([this](const Edit& edit) CODECFS_REQUIRES(mutex_) { return can_be_stored(edit); }));
    edits = edits_.underway();
  }
  const Result<> stored = wait_until_stored(edits);
  CODECFS_TRY(commit());  // commit what could be stored
  if (!stored) return stored;
  const LockGuard lock(mutex_);
  if (edits_.held().memory > 0) return RecodingPolicy::refuse_change();
  if (errors_.empty()) return {};
  const Error error = errors_.begin()->second;
  errors_.clear();
  return std::unexpected(error);
}

Result<> WriteBack::finish() {
  std::vector<EditPtr> replacing;
  {
    const LockGuard lock(mutex_);
    for (const auto& [key, count] : writers_)
      if (const EditPtr edit = edits_.find(key); edit != nullptr && edit->is_replacing()) replacing.push_back(edit);
    writers_.clear();           // of files that are still open, whose writes no longer arrive
    is_committed_once_ = true;  // no commit is needed for what this mount has not changed
  }
  for (const EditPtr& edit : replacing) {
    const LockGuard content(edit->content_mutex);
    const LockGuard lock(mutex_);
    if (edit->content.is_incomplete()) {
      log::error("{}", end_replacement(*edit).error().reason);
    } else {
      edit->content.show_whole();
      EditTable::note_whole(*edit);
    }
  }
  Result<> stored = sync_all();
  if (!stored && stored.error().code == ENOMEM) stored = sync_all();  // the last try, and memory may be there again
  // Join the threads: only this thread uses the source from here on.
  committer_ = {};
  encoders_.clear();
  const Result<> finished = dataset_.source().finish();
  return stored ? finished : stored;
}

}  // namespace codecfs::fs
