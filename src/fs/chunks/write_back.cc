#include "fs/chunks/write_back.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/exceptions.h"
#include "base/fail_points.h"
#include "base/log.h"
#include "fs/chunks/recoding_policy.h"

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

void WriteBack::forget_all_removed() {
  const LockGuard lock(mutex_);
  removed_ = {};
}

WriteBack::Changes WriteBack::changes(ObjectId variable) {
  const LockGuard lock(mutex_);
  Changes changes;
  for (const EditPtr& edit : edits_.of(variable, [](const Edit& edit) { return edit.version() > 0; }))
    changes.written.insert(edit->place.number);
  changes.removed = removed_.of(variable);
  return changes;
}

/// Keeps an edit in the table during its lifetime.
class WriteBack::Pin {
 public:
  Pin(WriteBack& owner, EditPtr edit) : owner_(owner), edit_(std::move(edit)) {}
  Pin(Pin&&) = default;
  Pin& operator=(Pin&&) = delete;
  ~Pin() {
    if (edit_ != nullptr) owner_.unpin(edit_);
  }
  [[nodiscard]] Edit& operator*() const { return *edit_; }
  Edit* operator->() const { return edit_.get(); }
  /// The caller unpins it.
  EditPtr release() { return std::exchange(edit_, nullptr); }

 private:
  WriteBack& owner_;
  EditPtr edit_;
};

void WriteBack::unpin(const EditPtr& edit) {
  const LockGuard lock(mutex_);
  EditTable::unpin(*edit);
  forget_if_clean(edit);
  progress_.notify_all();  // remove() waits for the pins
}

/// Waits until the chunk may be changed.
Result<> WriteBack::may_change(const ChunkPlace& place, UniqueLock<Mutex>& lock) {
  for (;;) {
    const auto recoding = recoding_.find(place.object);
    if (removing_.contains(place.key) || paused_.contains(place.object)) {
      progress_.wait(lock);
    } else if (recoding == recoding_.end()) {
      return {};
    } else if (recoding->second.is_ending) {
      progress_.wait(lock);
    } else if (RecodingPolicy::current() == DuringRecoding::hold && recoding->second.holds) {
      if (edits_.held().memory < options_.dirty_bytes) return {};
      return RecodingPolicy::refuse(
          "the variable is being re-encoded, and more was written to it meanwhile than is kept in memory");
    } else if (RecodingPolicy::current() != DuringRecoding::wait) {
      return RecodingPolicy::refuse_change();
    } else if (RecodingPolicy::is_cancelled()) {
      return fail(EINTR, "cancelled; nothing was written");
    } else {
      (void)progress_.wait_for(lock, RecodingPolicy::kInterval);
    }
  }
}

Result<WriteBack::Pin> WriteBack::pin(const ChunkPlace& place) {
  UniqueLock lock(mutex_);
  CODECFS_TRY(start_threads());  // first, as a pin that no thread stores would remain
  CODECFS_TRY(may_change(place, lock));
  return Pin(*this, edits_.pin(place));
}

template <class Prepare, class Change>
Result<> WriteBack::edit(const ChunkPlace& place, Prepare prepare, Change change, After after) {
  CODECFS_TRY(dataset_.source().variable_writable(place.object));
  CODECFS_TRY(dataset_.source().begin_writing_to(place.object));
  CODECFS_ASSIGN(Pin edit, pin(place));
  {
    UniqueLock lock(mutex_);
    CODECFS_TRY(wait_for_room(lock, *edit));
  }
  // The pin prevents a new pause, but a pause may have happened before it.
  CODECFS_TRY(check_place_(place));
  CODECFS_TRY(prepare(*edit));
  EditPtr unpinned;  // outlives the guard of its mutex: without a pin, remove() may drop the edit at any time
  // Content and state must agree: content_mutex is held until the change is counted.
  const LockGuard content(edit->content_mutex);
  if (dataset_.source().is_shared()) edit->content.note_written_bytes();
  CODECFS_TRY(change(edit->content));
  const LockGuard lock(mutex_);
  removed_.erase(place.object, place.key, place.number);  // first, as it alone may need memory
  ++changes_made_;
  edits_.note_changed(*edit, edit->content.size(), edit->content.is_short(), edit->content.is_replacing());
  note_dirty_bytes();
  if (after == After::close_chunk) {
    edits_.close(*edit);
    if (is_pressed()) wake(edits_.enqueue(*edit));
  } else if (after == After::store_if_full && is_pressed()) {
    wake(edits_.enqueue_closed());
  }
  unpinned = edit.release();
  EditTable::unpin(*unpinned);
  progress_.notify_all();
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
  CODECFS_ASSIGN(ChunkBase base, dataset_.source().fetch_base(place.object, place.number));
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

Result<WriteBack::Replacement> WriteBack::begin_replacement(const ChunkPlace& place) {
  const Variable& variable = *place.variable->facts;
  Replacement replacement(nullptr, place);
  if (!variable.chunk_bytes) {
    CODECFS_TRY(resize(place, 0));
    return replacement;
  }
  bool is_first = false;
  CODECFS_TRY(edit(
      place, [](Edit&) -> Result<> { return {}; },
      [&](EditContent& content) {
        is_first = !content.is_replacing();
        return content.begin_replacement(variable);
      }));
  return is_first ? Replacement(this, place) : std::move(replacement);
}

std::unexpected<Error> WriteBack::incomplete(const Edit& edit, uint64_t size) {
  return fail(EINVAL,
              "{} bytes replace a chunk of {}: in this view chunks are decoded and complete. If the bytes are encoded, "
              "write them in .codecfs/view/encoded; to change a part, open the chunk without O_TRUNC",
              size, edit.place.variable->facts->chunk_bytes.value_or(0));
}

/// Drops an incomplete replacement. The caller holds content_mutex and mutex_.
std::unexpected<Error> WriteBack::end_replacement(Edit& edit) {
  const uint64_t written = edit.content.state()->size;
  drop_replacement(edit);
  return incomplete(edit, written);
}

void WriteBack::drop_replacement(Edit& edit) noexcept {
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
}

void WriteBack::abandon_replacement(ChunkKey key) noexcept {
  EditPtr edit;
  {
    const LockGuard lock(mutex_);
    edit = edits_.find(key);
  }
  if (edit == nullptr) return;
  const LockGuard content(edit->content_mutex);
  const LockGuard lock(mutex_);
  if (edit->content.is_replacing()) drop_replacement(*edit);
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

/// During its lifetime the source removes the chunk: no thread changes or stores it.
class WriteBack::Removal {
 public:
  Removal(WriteBack& owner, ChunkKey key, EditPtr edit) : owner_(owner), key_(key), edit_(std::move(edit)) {}
  Removal(const Removal&) = delete;
  Removal& operator=(const Removal&) = delete;
  ~Removal() { owner_.end_removal(key_, edit_); }
  /// Null if there is none.
  [[nodiscard]] const EditPtr& edit() const { return edit_; }

 private:
  WriteBack& owner_;
  const ChunkKey key_;
  const EditPtr edit_;
};

EditPtr WriteBack::begin_removal(const ChunkPlace& place) {
  removing_.emplace(place.key, place.object);
  EditPtr edit = edits_.find(place.key);
  if (edit != nullptr) edits_.set_removing(*edit, true);
  return edit;
}

void WriteBack::end_removal(ChunkKey key, const EditPtr& edit) {
  const LockGuard lock(mutex_);
  removing_.erase(key);
  progress_.notify_all();
  if (edit != nullptr) edits_.set_removing(*edit, false);  // after an error it must still be stored
}

Result<> WriteBack::remove(const ChunkPlace& place) {
  CODECFS_TRY(dataset_.source().variable_writable(place.object));
  CODECFS_TRY(dataset_.source().begin_writing_to(place.object));
  std::optional<Removal> removal;  // outlives the lock
  UniqueLock lock(mutex_);
  CODECFS_TRY(start_threads());
  progress_.wait(lock, [&]() CODECFS_REQUIRES(mutex_) {
    const EditPtr edit = edits_.find(place.key);
    return recoding_.contains(place.object) || (!removing_.contains(place.key) && !paused_.contains(place.object) &&
                                                (edit == nullptr || (!edit->is_storing() && !edit->is_pinned())));
  });
  if (recoding_.contains(place.object)) return RecodingPolicy::refuse_change();
  removal.emplace(*this, place.key, begin_removal(place));
  lock.unlock();
  FailPoints::allocate();
  CODECFS_TRY(check_place_(place));
  CODECFS_TRY(dataset_.source().remove_chunk(place.object, place.number));
  lock.lock();
  note_removed(place, removal->edit());
  return {};
}

void WriteBack::note_removed(const ChunkPlace& place, const EditPtr& edit) {
  if (edit != nullptr) edits_.drop(*edit);
  note_dirty_bytes();
  drop_cached(place.key);
  ++changes_made_;
  uncommitted_ = true;
  try {
    removed_.insert(place.object, place.key, place.number);
  } catch (const std::bad_alloc&) {  // the source no longer has it, which is all that most sources need
  }
}

void WriteBack::forget(ObjectId variable) {
  const LockGuard lock(mutex_);
  ++changes_made_;
  edits_.drop_all(variable, [this](const Edit& edit) {
    drop_cached(edit.place.key);
    return true;
  });
  note_dirty_bytes();
  removed_.erase(variable);
  errors_.erase(variable);
  progress_.notify_all();
}

void WriteBack::forget_range(const ChunkPlace& first, uint64_t count) {
  const LockGuard lock(mutex_);
  for (const uint64_t number : removed_.of(first.object))
    if (number - first.number < count) removed_.erase(first.object, first.key + (number - first.number), number);
  ++changes_made_;
  edits_.drop_all(first.object, [&](const Edit& edit) { return edit.place.key - first.key < count; });
  cache_.drop(first.key, count);
  conversions_.drop_forms(first.key, count);
  note_dirty_bytes();
  progress_.notify_all();
}

void WriteBack::note_change() {
  const LockGuard lock(mutex_);
  uncommitted_ = true;
  // The change has been made. Without threads, fsync and the unmount commit it.
  if (const Result<> started = start_threads(); !started) log::error("{}", started.error().reason);
}

bool WriteBack::has_unstored() {
  const LockGuard lock(mutex_);
  return edits_.dirty().memory + edits_.held().memory > 0 || uncommitted_ || is_committing_ || !removing_.empty();
}

WriteBack::Writer::~Writer() {
  if (owner_ != nullptr) (void)without_exceptions([this] { return close(); });
}

Result<bool> WriteBack::Writer::close() { return std::exchange(owner_, nullptr)->close_writer(place_); }

WriteBack::Writer WriteBack::open_writer(const ChunkPlace& place) {
  Writer writer(*this, place);
  writer.owner_ = nullptr;  // until it is counted
  {
    const LockGuard lock(mutex_);
    ++writers_[place.key];
  }
  writer.owner_ = this;
  return writer;
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
    const auto found = writers_.find(place.key);
    if (found == writers_.end() || --found->second > 0) return false;
    writers_.erase(found);
    edit = edits_.find(place.key);
    if (edit == nullptr) return false;
  }
  const LockGuard content(edit->content_mutex);
  const LockGuard lock(mutex_);
  if (writers_.contains(place.key)) return false;  // opened again meanwhile
  if (edit->content.is_incomplete()) return end_replacement(*edit);
  const bool longer = edit->content.is_short();
  edit->content.show_whole();
  EditTable::note_whole(*edit);
  forget_if_clean(edit);
  progress_.notify_all();
  return longer;
}

}  // namespace codecfs::fs
