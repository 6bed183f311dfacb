#include "fs/chunks/write_back.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace codecfs::fs {
WriteBack::WriteBack(Dataset& dataset, ChunkCache& cache, ChunkCache& conversions, Stats& stats, const Options& options,
                     ReadBase read_base, CheckPlace check_place, ChangedOutside changed_outside)
    : dataset_(dataset),
      cache_(cache),
      conversions_(conversions),
      stats_(stats),
      options_(options),
      read_base_(std::move(read_base)),
      check_place_(std::move(check_place)),
      changed_outside_(std::move(changed_outside)) {}

WriteBack::~WriteBack() = default;

std::optional<WriteBack::Content> WriteBack::content(ChunkKey key) {
  EditPtr edit;
  {
    const LockGuard lock(mutex_);
    edit = edits_.find(key);
  }
  return edit == nullptr ? std::nullopt : edit->look();
}

std::optional<uint64_t> WriteBack::size(ChunkKey key) {
  const std::optional<Content> now = content(key);
  return now ? std::optional(now->size) : std::nullopt;
}

bool WriteBack::removed(ChunkKey key) {
  const LockGuard lock(mutex_);
  return removed_.contains(key);
}

void WriteBack::forget_removed(const ChunkPlace& place) {
  const LockGuard lock(mutex_);
  removed_.erase(place.object, place.key, place.number);
}

WriteBack::Changes WriteBack::changes(ObjectId variable) {
  const LockGuard lock(mutex_);
  Changes changes;
  for (const EditPtr& edit : edits_.of(variable, [](const Edit& edit) { return edit.version() > 0; }))
    changes.written.insert(edit->place.number);
  changes.removed = removed_.of(variable);
  return changes;
}

EditPtr WriteBack::pin(const ChunkPlace& place) {
  UniqueLock lock(mutex_);
  progress_.wait(lock, [&]() CODECFS_REQUIRES(mutex_) {
    return !removing_.contains(place.key) && !paused_.contains(place.object);
  });
  return edits_.pin(place);
}

template <class Prepare, class Change>
Result<> WriteBack::edit(const ChunkPlace& place, Prepare prepare, Change change, After after) {
  CODECFS_TRY(dataset_.source().variable_writable(place.object));
  CODECFS_TRY(dataset_.source().begin_writing_to(place.object));
  const EditPtr edit = pin(place);
  Result<> result;
  {
    UniqueLock lock(mutex_);
    start_threads();
    result = wait_for_room(lock, *edit);
  }
  // The pin prevents a new pause, but a pause may have happened before it.
  if (result) result = check_place_(place);
  if (result) result = prepare(*edit);
  // Content and state must agree: content_mutex is held until the change is counted.
  const LockGuard content(edit->content_mutex);
  if (dataset_.source().is_shared()) edit->content.note_written_bytes();
  if (result) result = change(edit->content);
  const LockGuard lock(mutex_);
  EditTable::unpin(*edit);
  progress_.notify_all();  // remove() waits for the pins
  if (!result) {
    forget_if_clean(edit);
    return result;
  }
  ++changes_made_;
  edits_.note_changed(*edit, edit->content.size(), edit->content.is_short(), edit->content.is_replacing());
  note_dirty_bytes();
  removed_.erase(place.object, place.key, place.number);
  if (after == After::close_chunk) {
    edits_.close(*edit);
    if (is_pressed()) wake(edits_.enqueue(*edit));
  } else if (after == After::store_if_full && is_pressed()) {
    wake(edits_.enqueue_closed());
  }
  return {};
}

/// What a change of a part of a chunk needs.
Result<> WriteBack::load(Edit& edit) {
  if (!dataset_.source().is_shared()) return edit.load(read_base_);
  bool is_own = false;
  {
    const LockGuard lock(edit.content_mutex);
    is_own = edit.content.is_own();
  }
  if (is_own) return {};
  CODECFS_TRY(dataset_.source().begin_updates(edit.place.object));
  return edit.load_version([this](const ChunkPlace& place) { return fetch_base(place); });
}

/// The chunk as it is now, as other programs may have changed it since it was cached.
Result<Edit::Base> WriteBack::fetch_base(const ChunkPlace& place) {
  CODECFS_ASSIGN(ChunkWriter::Base base, dataset_.source().fetch_base(place.object, place.number));
  if (base.is_changed) tell_changed_outside(place);
  Edit::Base fetched{.chunk = {}, .version = std::move(base.version)};
  if (base.chunk) {
    fetched.chunk = *std::move(base.chunk);
  } else {
    CODECFS_ASSIGN(fetched.chunk, make_fill_chunk(*place.variable->facts));
  }
  return fetched;
}

Result<size_t> WriteBack::write(const ChunkPlace& place, uint64_t offset, Bytes bytes, Bytes mask) {
  const Variable& variable = *place.variable->facts;
  const uint64_t capacity = EditContent::capacity_of(variable);
  if (bytes.empty()) return size_t{0};
  if (offset >= capacity) return fail(EFBIG, "a chunk has {} bytes; byte {} cannot be written", capacity, offset);
  bytes = bytes.first(std::min<uint64_t>(bytes.size(), capacity - offset));
  const bool whole = EditContent::is_whole(variable, offset, bytes, mask);
  CODECFS_TRY(edit(
      place, [&](Edit& edit) { return whole ? Result<>() : load(edit); },
      [&](EditContent& content) { return content.write(variable, offset, bytes, mask); }));
  return bytes.size();
}

Result<> WriteBack::change(const ChunkPlace& place, bool whole, bool done,
                           const std::function<void(MutableBytes)>& change) {
  const Variable& variable = *place.variable->facts;
  const bool known = whole && variable.chunk_bytes;
  return edit(
      place, [&](Edit& edit) { return known ? Result<>() : load(edit); },
      [&](EditContent& content) { return content.change(variable, whole, change); },
      done ? After::close_chunk : After::nothing);
}

Result<> WriteBack::resize(const ChunkPlace& place, uint64_t size, bool gaps_are_fill) {
  const Variable& variable = *place.variable->facts;
  const uint64_t capacity = EditContent::capacity_of(variable);
  if (size > capacity) return fail(EFBIG, "a chunk has {} bytes; it cannot have {}", capacity, size);
  const bool known = size == 0 && variable.chunk_bytes;
  return edit(
      place, [&](Edit& edit) { return known ? Result<>() : load(edit); },
      [&](EditContent& content) { return content.resize(variable, size, gaps_are_fill); });
}

Result<> WriteBack::begin_replacement(const ChunkPlace& place) {
  const Variable& variable = *place.variable->facts;
  if (!variable.chunk_bytes) return resize(place, 0);
  return edit(
      place, [](Edit&) -> Result<> { return {}; },
      [&](EditContent& content) { return content.begin_replacement(variable); });
}

std::unexpected<Error> WriteBack::incomplete(const Edit& edit, uint64_t size) {
  return fail(EINVAL,
              "{} bytes replace a chunk of {}: in this view chunks are decoded and complete. If the bytes are encoded, "
              "write them in .codecfs/view/encoded; to change a part, open the chunk without O_TRUNC",
              size, edit.place.variable->facts->chunk_bytes.value_or(0));
}

/// Drops an incomplete replacement. The caller holds content_mutex and mutex_.
Result<> WriteBack::end_replacement(Edit& edit) {
  const uint64_t written = edit.content.state()->size;
  if (edit.content.abandon_replacement()) {
    edits_.note_changed(edit, edit.content.size(), edit.content.is_short());
    edits_.close(edit);
  } else {
    edits_.drop(edit);
    drop_cached(edit.place.key);
  }
  ++changes_made_;
  note_dirty_bytes();
  progress_.notify_all();
  return incomplete(edit, written);
}

Result<bool> WriteBack::create(const ChunkPlace& place, bool gaps_are_fill) {
  const Variable& variable = *place.variable->facts;
  bool is_absent = false;
  bool is_new = false;
  const auto prepare = [&](Edit& edit) -> Result<> {
    if (edit.look()) return {};
    // The pin prevents a removal, and only this edit can be stored for the chunk.
    CODECFS_ASSIGN(const ChunkInfo info, dataset_.source().locate(place.object, place.number));
    is_absent = !info.stored || removed(place.key);
    return is_absent && variable.chunk_bytes ? Result<>() : load(edit);
  };
  CODECFS_TRY(edit(place, prepare, [&](EditContent& content) -> Result<> {
    CODECFS_ASSIGN(is_new, content.create(variable, is_absent, gaps_are_fill));
    return {};
  }));
  return is_new;
}

Result<> WriteBack::replace(const ChunkPlace& place, Bytes bytes, std::shared_ptr<const Buffer> encoded) {
  const Variable& variable = *place.variable->facts;
  const uint64_t capacity = EditContent::capacity_of(variable);
  if (bytes.size() > capacity) return fail(EFBIG, "a chunk has {} bytes, not {}", capacity, bytes.size());
  Buffer chunk;
  const auto prepare = [&](Edit&) -> Result<> {
    CODECFS_ASSIGN(chunk, EditContent::pad(variable, bytes));
    // The pin keeps the filter pipeline, but it may have changed before.
    CODECFS_ASSIGN(const VariableViewPtr now, dataset_.variable(place.object));
    if (*now->codecs != *place.variable->codecs) encoded.reset();
    return {};
  };
  CODECFS_TRY(edit(place, prepare, [&](EditContent& content) -> Result<> {
    content.replace(std::move(chunk), std::move(encoded));
    return {};
  }));
  return flush(place);
}

Result<> WriteBack::remove(const ChunkPlace& place) {
  CODECFS_TRY(dataset_.source().variable_writable(place.object));
  CODECFS_TRY(dataset_.source().begin_writing_to(place.object));
  UniqueLock lock(mutex_);
  start_threads();
  progress_.wait(lock, [&]() CODECFS_REQUIRES(mutex_) {
    const EditPtr edit = edits_.find(place.key);
    return !removing_.contains(place.key) && !paused_.contains(place.object) &&
           (edit == nullptr || (!edit->is_storing() && !edit->is_pinned()));
  });
  // From here on no thread changes or stores the chunk.
  removing_.emplace(place.key, place.object);
  const EditPtr edit = edits_.find(place.key);
  if (edit != nullptr) edits_.set_removing(*edit, true);
  lock.unlock();
  Result<> removed = check_place_(place);
  if (removed) removed = dataset_.source().remove_chunk(place.object, place.number);
  lock.lock();
  removing_.erase(place.key);
  if (edit != nullptr) edits_.set_removing(*edit, false);  // after an error it must still be stored
  if (removed) {
    if (edit != nullptr) edits_.drop(*edit);
    note_dirty_bytes();
    drop_cached(place.key);
    ++changes_made_;
    uncommitted_ = true;
    removed_.insert(place.object, place.key, place.number);
  }
  progress_.notify_all();
  return removed;
}

/// Pauses the variable: afterwards no call is using an edit of it, and none can start.
void WriteBack::stop_writers(UniqueLock<Mutex>& lock, ObjectId variable) {
  start_threads();
  progress_.wait(lock, [&]() CODECFS_REQUIRES(mutex_) { return !paused_.contains(variable); });
  paused_.insert(variable);
  progress_.wait(lock, [&]() CODECFS_REQUIRES(mutex_) {
    const auto is_removed = [&](const auto& item) { return item.second == variable; };
    return !edits_.any_of(variable, &Edit::is_pinned) && std::ranges::none_of(removing_, is_removed);
  });
}

void WriteBack::resume(ObjectId variable) {
  const LockGuard lock(mutex_);
  paused_.erase(variable);
  progress_.notify_all();
}

/// The same when no chunk of it is being replaced: a program needs microseconds from its open to its last write, which
/// a pause would stop. After kReplacing a chunk that still is being replaced is left to the caller.
void WriteBack::stop_writers_between_replacements(UniqueLock<Mutex>& lock, ObjectId variable) {
  constexpr std::chrono::seconds kReplacing{1};
  const auto deadline = std::chrono::steady_clock::now() + kReplacing;
  const auto is_replaced = [&]() CODECFS_REQUIRES(mutex_) { return edits_.any_of(variable, &Edit::is_replacing); };
  while (true) {
    const bool is_over =
        !progress_.wait_until(lock, deadline, [&]() CODECFS_REQUIRES(mutex_) { return !is_replaced(); });
    stop_writers(lock, variable);
    if (is_over || !is_replaced()) return;
    paused_.erase(variable);
    progress_.notify_all();
  }
}

Result<WriteBack::Pause> WriteBack::pause(ObjectId variable) {
  UniqueLock lock(mutex_);
  stop_writers_between_replacements(lock, variable);
  const std::vector<EditPtr> edits = edits_.of(variable, &Edit::is_dirty);
  const bool open_in_part =
      !std::ranges::all_of(edits, [&](const EditPtr& edit) CODECFS_REQUIRES(mutex_) { return can_be_stored(*edit); });
  if (!open_in_part)
    for (const EditPtr& edit : edits) wake(edits_.enqueue(*edit));
  lock.unlock();
  Pause pause(*this, variable);  // resumes on return
  if (open_in_part) return fail(EBUSY, "a chunk of it is being written; close it first");
  CODECFS_TRY(wait_until_stored(edits));
  return pause;
}

std::optional<WriteBack::Pause> WriteBack::try_pause(ObjectId variable) {
  const LockGuard lock(mutex_);
  const auto is_removed = [&](const auto& item) { return item.second == variable; };
  if (paused_.contains(variable) || edits_.any_of(variable, [](const Edit&) { return true; }) ||
      std::ranges::any_of(removing_, is_removed))
    return std::nullopt;
  paused_.insert(variable);
  return std::optional<Pause>(std::in_place, *this, variable);
}

WriteBack::Pause WriteBack::pause_without_storing(ObjectId variable) {
  UniqueLock lock(mutex_);
  stop_writers(lock, variable);
  progress_.wait(lock, [&]() CODECFS_REQUIRES(mutex_) { return !edits_.any_of(variable, &Edit::is_storing); });
  return {*this, variable};
}

void WriteBack::forget(ObjectId variable) {
  const LockGuard lock(mutex_);
  ++changes_made_;
  for (const EditPtr& edit : edits_.of(variable, [](const Edit&) { return true; })) {
    edits_.drop(*edit);
    drop_cached(edit->place.key);
  }
  note_dirty_bytes();
  removed_.erase(variable);
  errors_.erase(variable);
  progress_.notify_all();
}

void WriteBack::forget_range(const ChunkPlace& first, uint64_t count) {
  const LockGuard lock(mutex_);
  ++changes_made_;
  for (const EditPtr& edit :
       edits_.of(first.object, [&](const Edit& edit) { return edit.place.key - first.key < count; }))
    edits_.drop(*edit);
  for (const uint64_t number : removed_.of(first.object))
    if (number - first.number < count) removed_.erase(first.object, first.key + (number - first.number), number);
  cache_.drop(first.key, count);
  conversions_.drop_forms(first.key, count);
  note_dirty_bytes();
  progress_.notify_all();
}

void WriteBack::note_change() {
  const LockGuard lock(mutex_);
  start_threads();
  uncommitted_ = true;
}

bool WriteBack::has_unstored() {
  const LockGuard lock(mutex_);
  return edits_.dirty().memory > 0 || uncommitted_ || is_committing_ || !removing_.empty();
}

void WriteBack::open_writer(ChunkKey key) {
  const LockGuard lock(mutex_);
  ++writers_[key];
}

std::vector<ChunkKey> WriteBack::open_writers() {
  const LockGuard lock(mutex_);
  std::vector<ChunkKey> keys;
  for (const auto& [key, count] : writers_) keys.push_back(key);
  return keys;
}

Result<> WriteBack::flush(const ChunkPlace& place) {
  EditPtr edit;
  {
    const LockGuard lock(mutex_);
    edit = edits_.find(place.key);
    if (edit == nullptr) return take_error(place.object);
  }
  const LockGuard content(edit->content_mutex);
  // A shell closes its first descriptor before the command writes.
  if (edit->content.is_incomplete()) return incomplete(*edit, edit->content.state()->size);
  const LockGuard lock(mutex_);
  if (!edit->content.is_replacing()) edits_.close(*edit);
  return take_error(place.object);
}

Result<> WriteBack::flush_variable(ObjectId variable) {
  const LockGuard lock(mutex_);
  for (const EditPtr& edit :
       edits_.of(variable, [](const Edit& edit) { return edit.is_dirty() && !edit.is_replacing(); }))
    edits_.close(*edit);
  if (is_pressed()) wake(edits_.enqueue_closed());
  return take_error(variable);
}

Result<bool> WriteBack::close_writer(const ChunkPlace& place) {
  EditPtr edit;
  {
    const LockGuard lock(mutex_);
    if (--writers_[place.key] > 0) return false;
    writers_.erase(place.key);
    edit = edits_.find(place.key);
    if (edit == nullptr) return false;
  }
  const LockGuard content(edit->content_mutex);
  const LockGuard lock(mutex_);
  if (writers_.contains(place.key)) return false;  // opened again meanwhile
  if (edit->content.is_incomplete()) return std::unexpected(end_replacement(*edit).error());
  const bool longer = edit->content.is_short();
  edit->content.show_whole();
  EditTable::note_whole(*edit);
  forget_if_clean(edit);
  progress_.notify_all();
  return longer;
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
    if (edits.front()->content.is_replacing()) return incomplete(*edits.front(), edits.front()->content.state()->size);
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
    if (edit->content.is_incomplete()) log::error("{}", end_replacement(*edit).error().reason);
  }
  const Result<> stored = sync_all();
  // Join the threads: only this thread uses the source from here on.
  committer_ = {};
  encoders_.clear();
  const Result<> finished = dataset_.source().finish();
  return stored ? finished : stored;
}

}  // namespace codecfs::fs
