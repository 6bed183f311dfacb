// Keeps the chunks of a variable from being changed or stored: pauses, for changes of its shape, and re-encodings.

#include <algorithm>

#include "base/fail_points.h"
#include "fs/chunks/recoding_policy.h"
#include "fs/chunks/write_back.h"

namespace codecfs::fs {

bool WriteBack::is_removing_any(ObjectId variable) const {
  return std::ranges::any_of(removing_, [&](const auto& item) { return item.second == variable; });
}

/// Pauses the variable: afterwards no call is using an edit of it, and none can start. EBUSY if it is re-encoded.
Result<WriteBack::Pause> WriteBack::stop_writers(ObjectId variable) {
  std::optional<Pause> pause;  // outlives the lock
  UniqueLock lock(mutex_);
  CODECFS_TRY(start_threads());
  progress_.wait(
      lock, [&]() CODECFS_REQUIRES(mutex_) { return recoding_.contains(variable) || !paused_.contains(variable); });
  if (recoding_.contains(variable)) return RecodingPolicy::refuse_change();
  paused_.insert(variable);
  pause.emplace(*this, variable);
  progress_.wait(lock, [&]() CODECFS_REQUIRES(mutex_) {
    return !edits_.any_of(variable, &Edit::is_pinned) && !is_removing_any(variable);
  });
  return *std::move(pause);
}

void WriteBack::resume(ObjectId variable) noexcept {
  const LockGuard lock(mutex_);
  paused_.erase(variable);
  progress_.notify_all();
}

/// Chunks that are being replaced count as edited in place from now on, because they are stored as they are.
void WriteBack::accept_replacements(ObjectId variable) {
  std::vector<EditPtr> edits;
  {
    const LockGuard lock(mutex_);
    edits = edits_.of(variable, &Edit::is_replacing);
  }
  for (const EditPtr& edit : edits) {
    const LockGuard content(edit->content_mutex);
    const LockGuard lock(mutex_);
    edit->content.accept_replacement();
    EditTable::note_accepted(*edit);
  }
}

Result<WriteBack::Pause> WriteBack::pause(ObjectId variable) {
  CODECFS_ASSIGN(Pause pause, stop_writers(variable));
  FailPoints::allocate();
  accept_replacements(variable);
  CODECFS_TRY(store_all(variable, false));
  return pause;
}

/// EBUSY if a chunk that can only be stored completely is open. `holds`: chunks that are being replaced may stay edits.
Result<> WriteBack::store_all(ObjectId variable, bool holds) {
  std::vector<EditPtr> edits;
  {
    const LockGuard lock(mutex_);
    edits =
        edits_.of(variable, [holds](const Edit& edit) { return edit.is_dirty() && !(holds && edit.is_replacing()); });
    if (!std::ranges::all_of(edits, [&](const EditPtr& edit) CODECFS_REQUIRES(mutex_) { return can_be_stored(*edit); }))
      return fail(EBUSY, "a chunk of it is being written; close it first");
    for (const EditPtr& edit : edits) wake(edits_.enqueue(*edit));
  }
  return wait_until_stored(edits);
}

std::optional<WriteBack::Pause> WriteBack::try_pause(ObjectId variable) {
  const LockGuard lock(mutex_);
  if (paused_.contains(variable) || recoding_.contains(variable) ||
      edits_.any_of(variable, [](const Edit&) { return true; }) || is_removing_any(variable))
    return std::nullopt;
  paused_.insert(variable);
  return std::optional<Pause>(std::in_place, *this, variable);
}

Result<WriteBack::Pause> WriteBack::pause_without_storing(ObjectId variable) {
  CODECFS_ASSIGN(Pause pause, stop_writers(variable));
  UniqueLock lock(mutex_);
  progress_.wait(lock, [&]() CODECFS_REQUIRES(mutex_) { return !edits_.any_of(variable, &Edit::is_storing); });
  return pause;
}

Result<WriteBack::Recoding> WriteBack::begin_recoding(ObjectId variable, bool holds) {
  std::optional<Recoding> recoding;  // outlives the locks
  {
    UniqueLock lock(mutex_);
    CODECFS_TRY(start_threads());
    progress_.wait(lock, [&]() CODECFS_REQUIRES(mutex_) {
      return !paused_.contains(variable) && !recoding_.contains(variable) && !is_removing_any(variable);
    });
    recoding_.emplace(variable, RecodingState{.holds = holds});
    recoding.emplace(*this, variable);
    if (!holds)  // new ones are refused
      progress_.wait(lock, [&]() CODECFS_REQUIRES(mutex_) { return !edits_.any_of(variable, &Edit::is_pinned); });
  }
  FailPoints::allocate();
  if (!holds) accept_replacements(variable);
  CODECFS_TRY(store_all(variable, holds));
  UniqueLock lock(mutex_);
  progress_.wait(lock, [&]() CODECFS_REQUIRES(mutex_) { return !edits_.any_of(variable, &Edit::is_storing); });
  edits_.hold(variable);
  return *std::move(recoding);
}

void WriteBack::end_recoding(ObjectId variable) noexcept {
  EditPtr edit;
  {
    UniqueLock lock(mutex_);
    // What was encoded before must not be stored with the new pipeline. Writers wait, and so the calls end that may
    // have compared the pipelines before the change.
    recoding_.find(variable)->second.is_ending = true;
    progress_.wait(lock, [&]() CODECFS_REQUIRES(mutex_) { return !edits_.any_of(variable, &Edit::is_pinned); });
    edit = edits_.chain_of(variable, &Edit::is_dirty);
  }
  while (edit != nullptr) {
    {
      const LockGuard content(edit->content_mutex);
      edit->content.drop_encoded();
    }
    edit = EditTable::next_of(*edit);
  }
  const LockGuard lock(mutex_);
  edits_.release(variable);
  recoding_.erase(variable);
  if (is_pressed()) wake(edits_.enqueue_closed());
  progress_.notify_all();
}

}  // namespace codecfs::fs
