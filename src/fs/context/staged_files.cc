#include "fs/context/staged_files.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace codecfs::fs {

std::shared_ptr<const std::string> StagedFile::text() {
  const LockGuard lock(mutex_);
  return text_;
}

std::shared_ptr<const std::string> StagedFile::text_if_written_whole() {
  const LockGuard lock(mutex_);
  return written_ == text_->size() ? text_ : nullptr;
}

/// The text, which no reader holds.
std::string& StagedFile::private_text() {
  // use_count() alone gives no memory ordering. Releasing a reference does: it happens after the accesses of threads
  // that released theirs before.
  std::shared_ptr<std::string> probe = text_;
  const bool alone = probe.use_count() == 2;
  probe.reset();
  if (!alone) text_ = std::make_shared<std::string>(*text_);
  return *text_;
}

std::optional<uint64_t> StagedFile::shown_size() {
  const LockGuard lock(mutex_);
  return shown_ ? std::optional(text_->size()) : std::nullopt;
}

Result<> StagedFile::write(uint64_t offset, Bytes bytes, Descriptor* descriptor) {
  if (offset > max_bytes_ || bytes.size() > max_bytes_ - offset)
    return fail(EFBIG, "this file can have {} bytes at most", max_bytes_);
  const LockGuard lock(mutex_);
  std::string& text = private_text();
  if (offset + bytes.size() > text.size()) text.resize(offset + bytes.size());
  std::memcpy(text.data() + offset, bytes.data(), bytes.size());
  if (offset == 0 && !changed_) written_ = 0;
  // A part that was refused may be written again.
  if (written_ && offset <= *written_ && *written_ <= offset + bytes.size())
    written_ = offset + bytes.size();
  else
    written_.reset();
  changed_ = shown_ = true;
  (descriptor == nullptr ? mapped_ : descriptor->has_written_) = true;
  return {};
}

Result<> StagedFile::resize(uint64_t size) {
  if (size > max_bytes_) return fail(EFBIG, "this file can have {} bytes at most", max_bytes_);
  const LockGuard lock(mutex_);
  private_text().resize(size);
  if (size == 0) written_ = 0;
  if (written_) written_ = std::min(*written_, size);
  shown_ = true;
  return {};
}

std::optional<StagedFile::Change> StagedFile::take_change(Descriptor& descriptor) {
  const LockGuard lock(mutex_);
  if (changed_ ? !descriptor.has_written_ && !mapped_ : is_new_) return std::nullopt;
  std::optional<std::string> without_rest;
  if (changed_ && written_ && *written_ < text_->size()) without_rest = text_->substr(0, *written_);
  // From here on no memory is needed: the change is taken, or still to be taken.
  shown_ = is_new_ = mapped_ = false;
  descriptor.has_written_ = false;
  if (!std::exchange(changed_, false)) return std::nullopt;
  ++applying_;
  return Change(*this, text_, std::move(without_rest));
}

void StagedFile::applied() {
  const LockGuard lock(mutex_);
  --applying_;
}

void StagedFile::begin(const std::string& text, bool is_new) {
  const LockGuard lock(mutex_);
  ++open_;
  if (changed_ || shown_ || applying_ > 0) return;
  text_ = std::make_shared<std::string>(text);
  written_ = 0;
  is_new_ = shown_ = is_new;
}

void StagedFile::end() {
  const LockGuard lock(mutex_);
  if (--open_ == 0 && !changed_) shown_ = is_new_ = false;
}

std::shared_ptr<StagedFile> StagedFiles::open(Ino ino, const std::string& text, bool is_new, uint64_t max_bytes) {
  const LockGuard lock(mutex_);
  if (staged_files_.size() >= full_) {
    std::erase_if(staged_files_, [](const auto& item) { return item.second.expired(); });
    full_ = std::max(full_, 2 * staged_files_.size());
  }
  std::weak_ptr<StagedFile>& known = staged_files_[ino];
  std::shared_ptr<StagedFile> staged = known.lock();
  if (staged == nullptr)
    known = staged = std::make_shared<StagedFile>(ino, text, is_new, max_bytes);
  else
    staged->begin(text, is_new);
  return staged;
}

std::shared_ptr<StagedFile> StagedFiles::find(Ino ino) {
  const LockGuard lock(mutex_);
  const auto found = staged_files_.find(ino);
  return found == staged_files_.end() ? nullptr : found->second.lock();
}

}  // namespace codecfs::fs
