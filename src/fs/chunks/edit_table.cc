#include "fs/chunks/edit_table.h"

#include <algorithm>
#include <utility>

namespace codecfs::fs {

Result<> Edit::load(const ReadBase& read_base) {
  return load_version([&](const ChunkPlace& chunk) -> Result<Base> {
    CODECFS_ASSIGN(const ChunkPtr base, read_base(chunk));
    CODECFS_ASSIGN(Buffer copy, Buffer::copy_of(base->bytes()));
    return Base{.chunk = std::move(copy), .version = std::nullopt};
  });
}

Result<> Edit::load_version(const FetchBase& fetch_base) {
  const LockGuard loading(loading_mutex);
  {
    const LockGuard lock(content_mutex);
    if (content.has_base()) return {};
  }
  CODECFS_ASSIGN(Base base, fetch_base(place));
  const LockGuard lock(content_mutex);
  content.set_base(std::make_shared<Buffer>(std::move(base.chunk)), std::move(base.version));
  return {};
}

std::optional<EditContent::State> Edit::look() {
  const LockGuard lock(content_mutex);
  return content.state();
}

Edit::Taken Edit::take() {
  const LockGuard lock(content_mutex);
  Taken taken(*this);
  taken.version = content.version();
  // If it is being replaced, the encoder was given the chunk before a program began that.
  const bool is_replacing = content.is_replacing();
  taken.content = content.storable().value_or(EditContent::State{});
  taken.is_own = is_replacing || content.is_own();
  if (!is_replacing) taken.written = content.take_written();  // last, as the memory that it needs is the last, too
  return taken;
}

Edit::Taken::Taken(Taken&& other) noexcept
    : content(std::move(other.content)),
      written(std::exchange(other.written, {})),
      is_own(other.is_own),
      version(std::move(other.version)),
      owner_(other.owner_) {}

Edit::Taken::~Taken() {
  content = {};  // first, so that the next change need not copy the bytes
  if (written.is_empty()) return;
  const LockGuard lock(owner_->content_mutex);
  owner_->content.give_back_written(std::move(written));
}

EditPtr EditTable::find(ChunkKey key) const {
  const auto found = edits_.find(key);
  return found == edits_.end() ? nullptr : found->second;
}

std::vector<EditPtr> EditTable::of(ObjectId variable, const Filter& filter) const {
  std::vector<EditPtr> found;
  for (const auto& [key, edit] : edits_)
    if (edit->place.object == variable && filter(*edit)) found.push_back(edit);
  return found;
}

bool EditTable::any_of(ObjectId variable, const Filter& filter) const {
  return std::ranges::any_of(
      edits_, [&](const auto& item) { return item.second->place.object == variable && filter(*item.second); });
}

EditPtr EditTable::chain_of(ObjectId variable, const Filter& filter) const {
  EditPtr first;
  for (const auto& [key, edit] : edits_) {
    if (edit->place.object != variable || !filter(*edit)) continue;
    edit->next_ = std::move(first);
    first = edit;
  }
  return first;
}

// --- changes

EditPtr EditTable::pin(const ChunkPlace& place) {
  EditPtr edit = find(place.key);
  if (edit == nullptr) {
    edit = std::make_shared<Edit>(place);
    edit->held_ = held_.contains(place.object);
    std::list<EditPtr> made{edit};  // so that the table is unchanged if there is no memory for its entry
    edits_.emplace(place.key, edit);
    edit->position_ = made.begin();
    list(Stage::idle).splice(list(Stage::idle).end(), made);
  }
  ++edit->pins_;
  return edit;
}

void EditTable::note_changed(Edit& edit, const EditContent::Size& size, bool is_short, bool is_replacing) {
  if (is_replacing && !edit.replacing_) {
    edit.replaced_version_ = edit.version_;
    edit.closed_ = false;
  }
  ++edit.version_;
  edit.dirty_ = true;
  edit.short_ = is_short;
  edit.replacing_ = is_replacing;
  charge(edit, size);
  update(edit);
}

void EditTable::close(Edit& edit) {
  edit.closed_ = edit.dirty_;
  update(edit);
}

void EditTable::set_removing(Edit& edit, bool removing) {
  edit.removing_ = removing;
  edit.wanted_ = false;
  update(edit);
}

void EditTable::hold(ObjectId variable) {
  held_.insert(variable);
  for (const auto& [key, edit] : edits_) {
    if (edit->place.object != variable) continue;
    const EditContent::Size size = edit->charged_;
    charge(*edit, {});
    edit->held_ = true;
    edit->wanted_ = false;
    charge(*edit, size);
    update(*edit);
  }
}

void EditTable::release(ObjectId variable) {
  held_.erase(variable);
  for (const auto& [key, edit] : edits_) {
    if (edit->place.object != variable) continue;
    const EditContent::Size size = edit->charged_;
    charge(*edit, {});
    edit->held_ = false;
    charge(*edit, size);
    update(*edit);
  }
}

void EditTable::drop(Edit& edit) {
  if (std::exchange(edit.dropped_, true)) return;
  charge(edit, {});
  edit.dirty_ = edit.closed_ = edit.wanted_ = false;
  edit.stored_version_ = edit.version_;
  list(edit.stage_).erase(edit.position_);
  edits_.erase(edit.place.key);  // the caller holds a reference
}

void EditTable::drop_all(ObjectId variable, const Filter& filter) {
  for (auto at = edits_.begin(); at != edits_.end();) {
    const EditPtr edit = (at++)->second;  // before it is erased
    if (edit->place.object == variable && filter(*edit)) drop(*edit);
  }
}

bool EditTable::drop_if_clean(Edit& edit, bool has_writers) {
  if (edit.dirty_ || edit.pins_ > 0 || edit.storing_ || edit.dropped_ || (has_writers && edit.short_)) return false;
  drop(edit);
  return true;
}

void EditTable::charge(Edit& edit, const EditContent::Size& size) {
  EditContent::Size& sum = edit.held_ ? held_size_ : dirty_;
  sum.bytes += size.bytes - edit.charged_.bytes;
  sum.memory += size.memory - edit.charged_.memory;
  edit.charged_ = size;
}

// --- the choice of edits to be stored

EditTable::Stage EditTable::stage_of(const Edit& edit) {
  if (edit.wanted_) return Stage::waiting;
  if (edit.storing_ && edit.storing_version_ == edit.version_) return Stage::storing;
  if (!edit.dirty_ || edit.removing_ || edit.held_) return Stage::idle;
  if (edit.failure_) return Stage::failed;
  return edit.closed_ ? Stage::closed : Stage::open;
}

/// Moves the edit to the list where it belongs now.
void EditTable::update(Edit& edit) {
  const Stage stage = stage_of(edit);
  if (edit.dropped_ || stage == edit.stage_) return;
  list(stage).splice(list(stage).end(), list(edit.stage_), edit.position_);
  edit.stage_ = stage;
}

size_t EditTable::enqueue(Edit& edit) {
  if (!edit.dirty_ || edit.wanted_ || edit.removing_ || edit.held_) return 0;
  edit.wanted_ = true;
  update(edit);
  return 1;
}

size_t EditTable::enqueue_stage(Stage stage, const Filter& can_be_stored) {
  size_t count = 0;
  for (auto at = list(stage).begin(); at != list(stage).end();) {
    Edit& edit = **at++;  // before it moves to another list
    if (edit.closed_ || can_be_stored(edit)) count += enqueue(edit);
  }
  return count;
}

size_t EditTable::enqueue_closed() { return enqueue_stage(Stage::closed, {}); }

size_t EditTable::enqueue_dirty(const Filter& can_be_stored) {
  return enqueue_closed() + enqueue_stage(Stage::open, can_be_stored);
}

size_t EditTable::enqueue_all(const Filter& can_be_stored) {
  // An encoder may have failed already on what it is storing, so that is tried again.
  return enqueue_dirty(can_be_stored) + enqueue_stage(Stage::failed, can_be_stored) +
         enqueue_stage(Stage::storing, can_be_stored);
}

void EditTable::forget_failures() {
  for (auto at = list(Stage::failed).begin(); at != list(Stage::failed).end();) {
    Edit& edit = **at++;
    if (!edit.closed_) continue;
    edit.failure_.reset();
    update(edit);
  }
}

std::vector<EditPtr> EditTable::underway() const {
  std::vector<EditPtr> edits(list(Stage::waiting).begin(), list(Stage::waiting).end());
  edits.insert(edits.end(), list(Stage::storing).begin(), list(Stage::storing).end());
  return edits;
}

const Error* EditTable::failure() const {
  const std::list<EditPtr>& failed = list(Stage::failed);
  return failed.empty() ? nullptr : &*failed.front()->failure_;
}

// --- storing

bool EditTable::begin_storing(Edit& edit) {
  edit.wanted_ = false;
  if (edit.dirty_) {
    edit.storing_ = true;
    edit.storing_version_ = edit.replacing_ ? edit.replaced_version_ : edit.version_;
    ++storing_;
  }
  update(edit);
  return edit.storing_;
}

EditPtr EditTable::take() {
  for (auto at = list(Stage::waiting).begin(); at != list(Stage::waiting).end();) {
    const EditPtr edit = *at++;
    // One encoder at a time stores a chunk; otherwise an older version could be stored last.
    if (!edit->storing_ && begin_storing(*edit)) return edit;
  }
  return nullptr;
}

void EditTable::take_more(std::vector<EditPtr>& edits) {
  const ObjectId variable = edits.front()->place.object;
  for (auto at = list(Stage::waiting).begin(); at != list(Stage::waiting).end() && edits.size() < edits.capacity();) {
    const EditPtr edit = *at++;
    if (edit->place.object != variable) return;
    if (!edit->storing_ && begin_storing(*edit)) edits.push_back(edit);
  }
}

void EditTable::note_stored(Edit& edit) {
  edit.storing_ = false;
  --storing_;
  edit.stored_version_ = edit.storing_version_;
  edit.failure_.reset();
  if (edit.version_ == edit.stored_version_) {
    edit.dirty_ = edit.closed_ = false;
    charge(edit, {});
  }
  update(edit);
}

void EditTable::note_failed(Edit& edit, Error error) {
  edit.storing_ = false;
  --storing_;
  edit.failure_ = std::move(error);
  update(edit);
}

}  // namespace codecfs::fs
