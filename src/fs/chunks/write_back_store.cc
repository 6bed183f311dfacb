// Stores queued edits: the encoders, the committer, and functions that wait for them.

#include <algorithm>

#include "base/log.h"
#include "fs/chunks/write_back.h"

namespace codecfs::fs {

void WriteBack::drop_cached(ChunkKey key) {
  cache_.drop(key);
  conversions_.drop(key);
}

// --- the caller holds mutex_

void WriteBack::charge(Edit& edit, uint64_t bytes) {
  dirty_bytes_ += bytes - edit.charged;
  edit.charged = bytes;
  stats_.dirty_bytes = dirty_bytes_;
}

void WriteBack::enqueue(const EditPtr& edit) {
  if (edit->wanted || removing_.contains(edit->place.key)) return;
  edit->wanted = true;
  queue_.push_back(edit);
  work_.notify_one();
}

std::vector<WriteBack::EditPtr> WriteBack::want_all(Want which) {
  std::vector<EditPtr> edits;
  for (const auto& [key, edit] : edits_) {
    if (!edit->dirty || (which == Want::closed && !edit->queued)) continue;
    // Failed edits are tried again by explicit calls or at the interval, not at every write.
    if (which != Want::everything && edit->failure) continue;
    // A chunk of variable-length objects can only be encoded completely.
    if (!edit->place.variable->facts->chunk_bytes && !edit->queued && writers_.contains(key)) continue;
    enqueue(edit);
    edits.push_back(edit);
  }
  return edits;
}

Result<> WriteBack::wait_for_room(std::unique_lock<std::mutex>& lock, const Edit& edit) {
  while (!edit.dirty && dirty_bytes_ > options_.dirty_bytes) {
    want_all(Want::dirty);
    // Wait only while an encoder has or will take an edit. If all remaining edits have failed, return that error.
    const Error* failure = nullptr;
    bool hope = false;
    for (const auto& [key, other] : edits_) {
      hope = hope || other->wanted || other->storing;
      if (other->dirty && other->failure) failure = &*other->failure;
    }
    if (!hope) return failure != nullptr ? Result<>(std::unexpected(*failure)) : Result<>();
    progress_.wait(lock);
  }
  return {};
}

void WriteBack::forget_if_clean(const EditPtr& edit) {
  if (edit->dirty || edit->pins > 0 || edit->storing) return;
  // A file that is shown shorter than its chunk keeps its edit until the last writer closes it.
  if (writers_.contains(edit->place.key) && edit->bytes != nullptr && edit->size != edit->bytes->size()) return;
  const auto found = edits_.find(edit->place.key);
  if (found == edits_.end() || found->second != edit) return;
  drop_cached(edit->place.key);  // before the edit is erased, which readers use until then
  edits_.erase(found);
}

Result<> WriteBack::take_error(ObjectId variable) {
  const auto found = errors_.find(variable);
  if (found == errors_.end()) return {};
  Error error = std::move(found->second);
  errors_.erase(found);
  return std::unexpected(std::move(error));
}

void WriteBack::start_threads() {
  if (!threads_.empty()) return;
  const unsigned encoders =
      options_.encoders != 0 ? options_.encoders : std::max(1U, std::thread::hardware_concurrency());
  for (unsigned i = 0; i < encoders; ++i)
    threads_.emplace_back([this](const std::stop_token& stop) { encode_until_stopped(stop); });
  threads_.emplace_back([this](const std::stop_token& stop) { commit_at_intervals(stop); });
}

// --- the caller does not hold mutex_

void WriteBack::encode_until_stopped(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    // One thread at a time stores a chunk; otherwise an older version could be stored last.
    auto next = queue_.end();
    const bool found = work_.wait(lock, stop, [&] {
      next = std::ranges::find_if(queue_, [](const EditPtr& edit) { return !edit->storing; });
      return next != queue_.end();
    });
    if (!found || stop.stop_requested()) return;
    const EditPtr edit = *next;
    queue_.erase(next);
    edit->wanted = false;
    if (!edit->dirty) continue;
    edit->storing = true;
    lock.unlock();
    store(edit);
    lock.lock();
  }
}

void WriteBack::store(const EditPtr& edit) {
  uint64_t version = 0;
  {
    const std::lock_guard lock(mutex_);
    version = edit->version;
  }
  std::shared_ptr<const Buffer> bytes;
  std::shared_ptr<const Buffer> encoded;
  {
    const std::lock_guard content(edit->content_mutex);
    bytes = edit->bytes;
    encoded = edit->encoded;
  }
  Result<> stored;
  bool as_given = false;
  try {
    Source& source = dataset_.source();
    if (encoded != nullptr) {
      const Result<bool> taken = source.write_stored(edit->place.object, edit->place.number, encoded->bytes());
      if (!taken) stored = std::unexpected(taken.error());
      as_given = !taken || *taken;
    }
    if (!as_given) stored = source.write_chunk(edit->place.object, edit->place.number, bytes->bytes());
  } catch (const std::exception& exception) {
    stored = fail(EIO, "internal error: {}", exception.what());
  }
  bytes.reset();
  encoded.reset();

  const std::lock_guard lock(mutex_);
  edit->storing = false;
  edit->tried_version = version;
  if (stored) {
    ++(as_given ? stats_.chunks_stored_as_given : stats_.chunks_encoded);
    if (!as_given) stats_.bytes_encoded += edit->place.variable->facts->chunk_bytes.value_or(0);
    edit->stored_version = version;
    if (edit->failure) errors_.erase(edit->place.object);  // it was this chunk's error
    edit->failure.reset();
    uncommitted_ = true;
    if (edit->version == version) {
      edit->dirty = edit->queued = false;
      charge(*edit, 0);
      forget_if_clean(edit);
    }
  } else {
    ++stats_.errors;
    log::error("{}", stored.error().reason);
    edit->failure = stored.error();
    errors_[edit->place.object] = stored.error();
  }
  if (edit->wanted) work_.notify_one();  // it was queued again meanwhile
  progress_.notify_all();
}

Result<> WriteBack::wait_until_stored(const std::vector<EditPtr>& edits) {
  std::unique_lock lock(mutex_);
  std::vector<uint64_t> versions;
  versions.reserve(edits.size());
  for (const EditPtr& edit : edits) versions.push_back(edit->version);
  Result<> result;
  for (size_t i = 0; i < edits.size(); ++i) {
    const EditPtr& edit = edits[i];
    // The encoders take edits in order. A try that began before this call may have used an older version, so wait for
    // the next.
    progress_.wait(lock, [&] { return edit->stored_version >= versions[i] || (!edit->wanted && !edit->storing); });
    if (edit->stored_version < versions[i] && edit->failure && result) {
      errors_.erase(edit->place.object);  // reported here
      result = std::unexpected(*edit->failure);
    }
  }
  return result;
}

Result<> WriteBack::commit() {
  {
    const std::lock_guard lock(mutex_);
    // Data from before this mount may not be durable either.
    if (!std::exchange(is_committed_once_, true)) uncommitted_ = true;
  }
  return commit_with([](Source& source) -> Result<bool> {
    CODECFS_TRY(source.commit());
    return true;
  });
}

Result<> WriteBack::commit_at_interval() {
  return commit_with([](Source& source) { return source.commit_at_interval(); });
}

/// `commit_source` returns whether it committed.
Result<> WriteBack::commit_with(Result<bool> (*commit_source)(Source&)) {
  const std::lock_guard one(committing_);
  {
    const std::lock_guard lock(mutex_);
    if (!uncommitted_) return {};
    uncommitted_ = false;
  }
  const Result<bool> committed = commit_source(dataset_.source());
  if (committed && *committed) {
    ++stats_.commits;
    return {};
  }
  const std::lock_guard lock(mutex_);
  uncommitted_ = true;
  if (committed) return {};
  ++stats_.errors;
  return std::unexpected(committed.error());
}

void WriteBack::commit_at_intervals(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    interval_.wait_for(lock, stop, options_.commit, [] { return false; });
    if (stop.stop_requested()) return;
    for (const auto& [key, edit] : edits_)
      if (edit->queued) edit->failure.reset();  // try again
    const std::vector<EditPtr> edits = want_all(Want::closed);
    lock.unlock();
    (void)wait_until_stored(edits);  // errors are kept for the next close
    if (const Result<> committed = commit_at_interval(); !committed) log::error("{}", committed.error().reason);
    lock.lock();
  }
}

}  // namespace codecfs::fs
