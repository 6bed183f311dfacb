#include "fs/chunks/write_back.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "fs/chunks/page_copies.h"
#include "model/fill.h"
#include "model/limits.h"

namespace codecfs::fs {
namespace {

// From this fraction of the limit on, closed chunks are encoded at once, in parallel with the writer. Fewer dirty bytes
// wait for the interval, as they may be written again.
constexpr uint64_t kPressure = 8;

uint64_t capacity_of(const Variable& variable) { return variable.chunk_bytes.value_or(max_chunk_bytes()); }

void put_fill(const Variable& variable, MutableBytes chunk, uint64_t from) {
  if (!variable.chunk_bytes || from >= chunk.size()) return;
  // Fill from the first whole element on; the element that `from` divides is completed from a copy.
  const uint64_t element = std::max<uint64_t>(variable.fill.size(), 1);
  const uint64_t whole = std::min<uint64_t>((from + element - 1) / element * element, chunk.size());
  for (uint64_t at = from; at < whole; ++at) chunk[at] = variable.fill[at % element];
  repeat_element(variable.fill, chunk.subspan(whole));
}

}  // namespace

WriteBack::WriteBack(Dataset& dataset, ChunkCache& cache, ChunkCache& conversions, Stats& stats, const Options& options,
                     ReadBase read_base, CheckPlace check_place)
    : dataset_(dataset),
      cache_(cache),
      conversions_(conversions),
      stats_(stats),
      options_(options),
      read_base_(std::move(read_base)),
      check_place_(std::move(check_place)) {}

WriteBack::~WriteBack() {
  // Request all stops before joining the first.
  for (std::jthread& thread : threads_) thread.request_stop();
}

std::optional<WriteBack::Content> WriteBack::content(ChunkKey key) {
  EditPtr edit;
  {
    const std::lock_guard lock(mutex_);
    const auto found = edits_.find(key);
    if (found == edits_.end()) return std::nullopt;
    edit = found->second;
  }
  const std::lock_guard content(edit->content_mutex);
  if (edit->bytes == nullptr) return std::nullopt;  // not loaded: no changes yet
  return Content{edit->bytes, edit->size, edit->encoded};
}

std::optional<uint64_t> WriteBack::size(ChunkKey key) {
  const std::optional<Content> now = content(key);
  return now ? std::optional(now->size) : std::nullopt;
}

bool WriteBack::removed(ChunkKey key) {
  const std::lock_guard lock(mutex_);
  return removed_keys_.contains(key);
}

void WriteBack::forget_removed(const ChunkPlace& place) {
  const std::lock_guard lock(mutex_);
  removed_keys_.erase(place.key);
  if (const auto found = removed_.find(place.object); found != removed_.end()) found->second.erase(place.number);
}

WriteBack::Changes WriteBack::changes(ObjectId variable) {
  const std::lock_guard lock(mutex_);
  Changes changes;
  for (const auto& [key, edit] : edits_)
    if (edit->place.object == variable && edit->version > 0) changes.written.insert(edit->place.number);
  if (const auto found = removed_.find(variable); found != removed_.end()) changes.removed = found->second;
  return changes;
}

WriteBack::EditPtr WriteBack::pin(const ChunkPlace& place) {
  std::unique_lock lock(mutex_);
  progress_.wait(lock, [&] { return !removing_.contains(place.key) && !paused_.contains(place.object); });
  EditPtr& edit = edits_[place.key];
  if (edit == nullptr) {
    edit = std::make_shared<Edit>();
    edit->place = place;
  }
  ++edit->pins;
  return edit;
}

/// Loads the edit's bytes. Their content is arbitrary if `whole`, because the caller overwrites them all.
Result<> WriteBack::load(Edit& edit, bool whole) {
  if (edit.bytes != nullptr) return {};
  const Variable& variable = *edit.place.variable->facts;
  if (whole && variable.chunk_bytes) {
    CODECFS_ASSIGN(Buffer fresh, Buffer::allocate(*variable.chunk_bytes));
    edit.bytes = std::make_shared<Buffer>(std::move(fresh));
  } else {
    CODECFS_ASSIGN(const ChunkPtr base, read_base_(edit.place));
    CODECFS_ASSIGN(Buffer copy, Buffer::copy_of(base->bytes()));
    edit.bytes = std::make_shared<Buffer>(std::move(copy));
  }
  edit.size = edit.bytes->size();
  return {};
}

/// Ensures that no other thread holds the bytes, and that there are at least `bytes` of them.
Result<> WriteBack::make_private(Edit& edit, uint64_t bytes) {
  // use_count() alone gives no memory ordering. Releasing a reference does: it happens after the accesses of threads
  // that released theirs before.
  std::shared_ptr<Buffer> probe = edit.bytes;
  const bool alone = probe.use_count() == 2;
  probe.reset();
  if (alone && edit.bytes->size() >= bytes) return {};
  CODECFS_ASSIGN(Buffer copy, Buffer::allocate(std::max<uint64_t>(bytes, edit.bytes->size())));
  std::memcpy(copy.data(), edit.bytes->data(), edit.bytes->size());
  if (copy.size() > edit.bytes->size())
    std::memset(copy.data() + edit.bytes->size(), 0, copy.size() - edit.bytes->size());
  edit.bytes = std::make_shared<Buffer>(std::move(copy));
  return {};
}

template <class Change>
Result<> WriteBack::edit(const ChunkPlace& place, Change change, After after) {
  CODECFS_TRY(dataset_.source().variable_writable(place.object));
  CODECFS_TRY(dataset_.source().begin_writing_to(place.object));
  const EditPtr edit = pin(place);
  Result<> result;
  {
    std::unique_lock lock(mutex_);
    start_threads();
    result = wait_for_room(lock, *edit);
  }
  // The pin prevents a new pause, but a pause may have happened before it.
  if (result) result = check_place_(place);
  uint64_t bytes = 0;
  if (result) {
    const std::lock_guard content(edit->content_mutex);
    const auto encoded = std::exchange(edit->encoded, nullptr);
    result = change(*edit);
    if (!result) edit->encoded = encoded;  // unchanged
    if (edit->bytes != nullptr) bytes = edit->bytes->size();
    if (edit->encoded != nullptr) bytes += edit->encoded->size();
  }
  const std::lock_guard lock(mutex_);
  --edit->pins;
  progress_.notify_all();  // remove() waits for the pins
  if (result) {
    ++changes_made_;
    ++edit->version;
    charge(*edit, bytes);
    edit->dirty = true;
    removed_keys_.erase(place.key);
    if (const auto found = removed_.find(place.object); found != removed_.end()) found->second.erase(place.number);
    const bool pressed = dirty_bytes_ > options_.dirty_bytes / kPressure;
    if (after == After::close_chunk) {
      edit->queued = true;
      if (pressed) enqueue(edit);
    } else if (pressed && after == After::store_if_full) {
      want_all(Want::closed);
    }
  } else {
    forget_if_clean(edit);
  }
  return result;
}

/// A gap between the end of a short file and a write after it is zeros, as in any file: programs omit the zeros of
/// sparse files, and the kernel's pages have zeros there.
void WriteBack::put_zeros(Edit& edit, uint64_t end) {
  if (end > edit.size && !edit.gaps_are_fill) std::memset(edit.bytes->data() + edit.size, 0, end - edit.size);
}

Result<size_t> WriteBack::write(const ChunkPlace& place, uint64_t offset, Bytes bytes, Bytes mask) {
  const Variable& variable = *place.variable->facts;
  const uint64_t capacity = capacity_of(variable);
  if (bytes.empty()) return size_t{0};
  if (offset >= capacity) return fail(EFBIG, "a chunk has {} bytes; byte {} cannot be written", capacity, offset);
  bytes = bytes.first(std::min<uint64_t>(bytes.size(), capacity - offset));
  const uint64_t end = offset + bytes.size();
  const Result<> written = edit(place, [&](Edit& edit) -> Result<> {
    CODECFS_TRY(load(edit, mask.empty() && offset == 0 && end == capacity));
    CODECFS_TRY(make_private(edit, variable.chunk_bytes ? 0 : end));
    put_zeros(edit, offset);
    if (mask.empty())
      std::memcpy(edit.bytes->data() + offset, bytes.data(), bytes.size());
    else
      copy_masked(edit.bytes->data() + offset, bytes.data(), mask.data(), bytes.size());
    edit.size = std::max(edit.size, end);
    return {};
  });
  if (!written) return std::unexpected(written.error());
  return bytes.size();
}

Result<> WriteBack::change(const ChunkPlace& place, bool whole, bool done,
                           const std::function<void(MutableBytes)>& change) {
  const auto change_all = [&](Edit& edit) -> Result<> {
    CODECFS_TRY(load(edit, whole));
    CODECFS_TRY(make_private(edit, 0));
    change(edit.bytes->mutable_bytes());
    edit.size = edit.bytes->size();
    return {};
  };
  return edit(place, change_all, done ? After::close_chunk : After::nothing);
}

Result<> WriteBack::resize(const ChunkPlace& place, uint64_t size, bool gaps_are_fill) {
  const Variable& variable = *place.variable->facts;
  if (size > capacity_of(variable))
    return fail(EFBIG, "a chunk has {} bytes; it cannot have {}", capacity_of(variable), size);
  return edit(place, [&](Edit& edit) -> Result<> {
    CODECFS_TRY(load(edit, size == 0));
    CODECFS_TRY(make_private(edit, variable.chunk_bytes ? 0 : size));
    edit.gaps_are_fill = false;
    put_zeros(edit, size);
    edit.gaps_are_fill = gaps_are_fill && variable.chunk_bytes;
    if (variable.chunk_bytes)
      put_fill(variable, edit.bytes->mutable_bytes(), size);
    else
      edit.bytes->truncate(size);
    edit.size = size;
    return {};
  });
}

Result<bool> WriteBack::create(const ChunkPlace& place, bool gaps_are_fill) {
  bool is_new = false;
  const Result<> created = edit(place, [&](Edit& edit) -> Result<> {
    if (edit.bytes != nullptr) return {};
    // The pin prevents a removal, and only this edit can be stored for the chunk.
    CODECFS_ASSIGN(const ChunkInfo info, dataset_.source().locate(place.object, place.number));
    is_new = !info.stored || removed(place.key);
    CODECFS_TRY(load(edit, is_new));
    if (!is_new) return {};
    const Variable& variable = *place.variable->facts;
    if (variable.chunk_bytes)
      put_fill(variable, edit.bytes->mutable_bytes(), 0);
    else
      edit.bytes->truncate(0);
    edit.size = 0;
    edit.gaps_are_fill = gaps_are_fill && variable.chunk_bytes;
    return {};
  });
  CODECFS_TRY(created);
  return is_new;
}

Result<> WriteBack::replace(const ChunkPlace& place, Bytes bytes, std::shared_ptr<const Buffer> encoded) {
  const Variable& variable = *place.variable->facts;
  if (bytes.size() > capacity_of(variable))
    return fail(EFBIG, "a chunk has {} bytes, not {}", capacity_of(variable), bytes.size());
  const Result<> replaced = edit(place, [&](Edit& edit) -> Result<> {
    CODECFS_ASSIGN(Buffer fresh, Buffer::allocate(variable.chunk_bytes.value_or(bytes.size())));
    std::memcpy(fresh.data(), bytes.data(), bytes.size());
    put_fill(variable, fresh.mutable_bytes(), bytes.size());
    edit.bytes = std::make_shared<Buffer>(std::move(fresh));
    edit.size = edit.bytes->size();
    // The pin keeps the filter pipeline, but it may have changed before.
    CODECFS_ASSIGN(const VariableViewPtr now, dataset_.variable(place.object));
    if (*now->codecs == *place.variable->codecs) edit.encoded = encoded;
    return {};
  });
  if (!replaced) return replaced;
  return flush(place);
}

Result<> WriteBack::remove(const ChunkPlace& place) {
  CODECFS_TRY(dataset_.source().variable_writable(place.object));
  CODECFS_TRY(dataset_.source().begin_writing_to(place.object));
  const auto edit_now = [&]() -> EditPtr {
    const auto found = edits_.find(place.key);
    return found == edits_.end() ? nullptr : found->second;
  };
  std::unique_lock lock(mutex_);
  start_threads();
  progress_.wait(lock, [&] {
    const EditPtr edit = edit_now();
    return !removing_.contains(place.key) && !paused_.contains(place.object) &&
           (edit == nullptr || (!edit->storing && edit->pins == 0));
  });
  // From here on no thread changes or stores the chunk.
  removing_.emplace(place.key, place.object);
  const EditPtr edit = edit_now();
  if (edit != nullptr && std::exchange(edit->wanted, false)) queue_.remove(edit);
  lock.unlock();
  Result<> removed = check_place_(place);
  if (removed) removed = dataset_.source().remove_chunk(place.object, place.number);
  lock.lock();
  removing_.erase(place.key);
  if (removed) {
    if (edit != nullptr) {
      charge(*edit, 0);
      edit->dirty = edit->queued = false;
      edit->tried_version = edit->stored_version = ++edit->version;
      edits_.erase(place.key);
    }
    drop_cached(place.key);
    ++changes_made_;
    uncommitted_ = true;
    removed_[place.object].insert(place.number);
    removed_keys_.emplace(place.key, place.object);
  }
  progress_.notify_all();
  return removed;  // after an error the edit must still be stored
}

/// Pauses the variable: afterwards no call is using an edit of it, and none can start.
void WriteBack::stop_writers(std::unique_lock<std::mutex>& lock, ObjectId variable) {
  start_threads();
  progress_.wait(lock, [&] { return !paused_.contains(variable); });
  paused_.insert(variable);
  progress_.wait(lock, [&] {
    const auto is_pinned = [&](const auto& item) {
      return item.second->place.object == variable && item.second->pins > 0;
    };
    const auto is_removed = [&](const auto& item) { return item.second == variable; };
    return std::ranges::none_of(edits_, is_pinned) && std::ranges::none_of(removing_, is_removed);
  });
}

void WriteBack::resume(ObjectId variable) {
  const std::lock_guard lock(mutex_);
  paused_.erase(variable);
  progress_.notify_all();
}

Result<WriteBack::Pause> WriteBack::pause(ObjectId variable) {
  std::unique_lock lock(mutex_);
  stop_writers(lock, variable);
  std::vector<EditPtr> edits;
  bool open_in_part = false;
  for (const auto& [key, edit] : edits_) {
    if (edit->place.object != variable || !edit->dirty) continue;
    open_in_part |= !edit->place.variable->facts->chunk_bytes && !edit->queued && writers_.contains(key);
    edits.push_back(edit);
  }
  if (!open_in_part) std::ranges::for_each(edits, [&](const EditPtr& edit) { enqueue(edit); });
  lock.unlock();
  Pause pause(*this, variable);  // resumes on return
  if (open_in_part) return fail(EBUSY, "a chunk of it is being written; close it first");
  CODECFS_TRY(wait_until_stored(edits));
  return pause;
}

std::optional<WriteBack::Pause> WriteBack::try_pause(ObjectId variable) {
  const std::lock_guard lock(mutex_);
  const auto is_edited = [&](const auto& item) { return item.second->place.object == variable; };
  const auto is_removed = [&](const auto& item) { return item.second == variable; };
  if (paused_.contains(variable) || std::ranges::any_of(edits_, is_edited) ||
      std::ranges::any_of(removing_, is_removed))
    return std::nullopt;
  paused_.insert(variable);
  return std::optional<Pause>(std::in_place, *this, variable);
}

WriteBack::Pause WriteBack::pause_without_storing(ObjectId variable) {
  std::unique_lock lock(mutex_);
  stop_writers(lock, variable);
  progress_.wait(lock, [&] {
    return std::ranges::none_of(
        edits_, [&](const auto& item) { return item.second->place.object == variable && item.second->storing; });
  });
  return {*this, variable};
}

void WriteBack::forget(ObjectId variable) {
  const std::lock_guard lock(mutex_);
  ++changes_made_;
  for (auto at = edits_.begin(); at != edits_.end();) {
    const EditPtr edit = at->second;
    if (edit->place.object != variable) {
      ++at;
      continue;
    }
    if (std::exchange(edit->wanted, false)) queue_.remove(edit);
    charge(*edit, 0);
    edit->dirty = edit->queued = false;
    edit->tried_version = edit->stored_version = edit->version;
    drop_cached(at->first);
    at = edits_.erase(at);
  }
  if (const auto found = removed_.find(variable); found != removed_.end()) {
    removed_.erase(found);
    std::erase_if(removed_keys_, [&](const auto& item) { return item.second == variable; });
  }
  errors_.erase(variable);
  progress_.notify_all();
}

void WriteBack::note_change() {
  const std::lock_guard lock(mutex_);
  start_threads();
  uncommitted_ = true;
}

void WriteBack::open_writer(ChunkKey key) {
  const std::lock_guard lock(mutex_);
  ++writers_[key];
}

std::vector<ChunkKey> WriteBack::open_writers() {
  const std::lock_guard lock(mutex_);
  std::vector<ChunkKey> keys;
  for (const auto& [key, count] : writers_) keys.push_back(key);
  return keys;
}

Result<> WriteBack::flush(const ChunkPlace& place) {
  const std::lock_guard lock(mutex_);
  if (const auto found = edits_.find(place.key); found != edits_.end() && found->second->dirty)
    found->second->queued = true;
  return take_error(place.object);
}

Result<> WriteBack::flush_variable(ObjectId variable) {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, edit] : edits_)
    if (edit->place.object == variable && edit->dirty) edit->queued = true;
  if (dirty_bytes_ > options_.dirty_bytes / kPressure) want_all(Want::closed);
  return take_error(variable);
}

bool WriteBack::close_writer(const ChunkPlace& place) {
  EditPtr edit;
  {
    const std::lock_guard lock(mutex_);
    if (--writers_[place.key] > 0) return false;
    writers_.erase(place.key);
    const auto found = edits_.find(place.key);
    if (found == edits_.end()) return false;
    edit = found->second;
  }
  bool whole = false;
  {
    const std::lock_guard content(edit->content_mutex);
    if (edit->bytes != nullptr && edit->size != edit->bytes->size()) {
      edit->size = edit->bytes->size();
      whole = true;
    }
  }
  const std::lock_guard lock(mutex_);
  forget_if_clean(edit);
  return whole;
}

Result<> WriteBack::sync(const ChunkPlace& place) {
  std::vector<EditPtr> edits;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = edits_.find(place.key); found != edits_.end() && found->second->dirty) {
      enqueue(found->second);
      edits.push_back(found->second);
    }
  }
  CODECFS_TRY(wait_until_stored(edits));
  CODECFS_TRY(commit());
  const std::lock_guard lock(mutex_);
  return take_error(place.object);
}

Result<> WriteBack::sync_variable(ObjectId variable) {
  std::vector<EditPtr> edits;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, edit] : edits_) {
      if (edit->place.object != variable || !edit->dirty) continue;
      enqueue(edit);
      edits.push_back(edit);
    }
  }
  CODECFS_TRY(wait_until_stored(edits));
  CODECFS_TRY(commit());
  const std::lock_guard lock(mutex_);
  return take_error(variable);
}

Result<> WriteBack::sync_all() {
  std::vector<EditPtr> edits;
  {
    const std::lock_guard lock(mutex_);
    edits = want_all(Want::everything);
  }
  const Result<> stored = wait_until_stored(edits);
  CODECFS_TRY(commit());  // commit what could be stored
  if (!stored) return stored;
  const std::lock_guard lock(mutex_);
  if (errors_.empty()) return {};
  const Error error = errors_.begin()->second;
  errors_.clear();
  return std::unexpected(error);
}

Result<> WriteBack::finish() {
  {
    const std::lock_guard lock(mutex_);
    writers_.clear();           // of files that are still open, whose writes no longer arrive
    is_committed_once_ = true;  // no commit is needed for what this mount has not changed
  }
  const Result<> stored = sync_all();
  threads_.clear();  // joins the threads: only this thread uses the source from here on
  const Result<> finished = dataset_.source().finish();
  return stored ? finished : stored;
}

}  // namespace codecfs::fs
