#include "fs/chunks/page_copies.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/threads.h"

namespace codecfs::fs {
namespace {

constexpr unsigned kDroppedPart = 8;  // the fraction of the limit that is dropped at once

/// Calls visit(page, offset in it, the part of the bytes) for each page of a request. Not analysed, because `visit`
/// uses what the lock of the caller guards.
template <class Visit>
void for_each_page(uint64_t offset, Bytes bytes, Visit visit) CODECFS_NO_THREAD_SAFETY_ANALYSIS {
  while (!bytes.empty()) {
    const uint64_t at = offset % PageCopies::kPage;
    const Bytes part = bytes.first(std::min<uint64_t>(bytes.size(), PageCopies::kPage - at));
    visit(offset / PageCopies::kPage, at, part);
    offset += part.size();
    bytes = bytes.subspan(part.size());
  }
}

}  // namespace

void copy_masked(std::byte* to, const std::byte* from, const std::byte* mask, size_t size) {
  for (size_t i = 0; i < size; ++i) to[i] ^= (to[i] ^ from[i]) & mask[i];
}

bool PageCopies::add_writer(Ino ino) {
  const LockGuard lock(mutex_);
  const bool is_first = files_[ino].writers++ == 0;
  any_ = true;
  return is_first;
}

void PageCopies::remove_writer(Ino ino) {
  const LockGuard lock(mutex_);
  const auto found = files_.find(ino);
  if (--found->second.writers > 0) return;
  clear(found->second);
  files_.erase(found);
  any_ = !files_.empty();
}

void PageCopies::erase(File& file, uint64_t page) {
  const auto found = file.pages.find(page);
  if (found == file.pages.end()) return;
  order_.erase(found->second.place);
  file.pages.erase(found);
}

void PageCopies::clear(File& file) {
  for (const auto& [number, page] : file.pages) order_.erase(page.place);
  file.pages.clear();
}

void PageCopies::put(Ino ino, File& file, uint64_t page, Bytes bytes) noexcept {
  erase(file, page);
  // Copies are made faster than pages are dropped: skip this copy, so that the page is stored completely.
  if (order_.size() * kPage >= limit_ + limit_ / 4) return;
  try {
    std::list<Key> place{{ino, page}};
    file.pages.emplace(page, Page{{bytes.begin(), bytes.end()}, ++version_, place.begin()});
    order_.splice(order_.end(), place);
    if (order_.size() * kPage > limit_ && !stopped_) start_thread_once();
  } catch (const std::bad_alloc&) {
  }
}

/// Makes the thread that drops pages work. Without it, the limit of copies is a quarter higher, and further ones are
/// skipped.
void PageCopies::start_thread_once() {
  if (!thread_.joinable()) {
    // First, so that the thread needs no memory.
    constexpr uint64_t kDivisor = kDroppedPart * kPage;
    oldest_.reserve(std::max<uint64_t>((limit_ + kDivisor - 1) / kDivisor, 1));
    if (Result<std::jthread> started = start_thread([this](const std::stop_token& stop) { run(stop); }))
      thread_ = *std::move(started);
  }
  full_.notify_all();
}

/// A part of a page with a copy has changed.
void PageCopies::change(File& file, uint64_t number, Page& page, uint64_t at, Bytes part) noexcept {
  page.version = ++version_;
  if (at > page.bytes.size()) return;
  try {
    page.bytes.resize(std::max<size_t>(page.bytes.size(), at + part.size()));
  } catch (const std::bad_alloc&) {
    return erase(file, number);
  }
  std::memcpy(page.bytes.data() + at, part.data(), part.size());
}

void PageCopies::given(Ino ino, uint64_t offset, Bytes bytes) {
  if (!any_) return;
  const LockGuard lock(mutex_);
  const auto found = files_.find(ino);
  if (found == files_.end() || found->second.given_up) return;
  for_each_page(offset, bytes, [&](uint64_t page, uint64_t at, Bytes part) CODECFS_REQUIRES(mutex_) {
    if (at == 0)
      put(ino, found->second, page, part);
    else
      erase(found->second, page);  // only complete pages are copied: the kernel reads complete pages
  });
}

void PageCopies::written(Ino ino, uint64_t offset, Bytes bytes) {
  if (!any_) return;
  const LockGuard lock(mutex_);
  const auto found = files_.find(ino);
  if (found == files_.end() || found->second.given_up) return;
  for_each_page(offset, bytes, [&](uint64_t number, uint64_t at, Bytes part) CODECFS_REQUIRES(mutex_) {
    const auto copy = found->second.pages.find(number);
    if (copy == found->second.pages.end()) {
      // The kernel reads a partly written page before it maps it.
      if (part.size() == kPage) put(ino, found->second, number, part);
      return;
    }
    change(found->second, number, copy->second, at, part);
  });
}

void PageCopies::give_up(Ino ino) {
  if (!any_) return;
  const LockGuard lock(mutex_);
  const auto found = files_.find(ino);
  if (found == files_.end()) return;
  found->second.given_up = true;
  clear(found->second);
}

PageCopies::WrittenBack PageCopies::compare(Ino ino, uint64_t offset, Bytes bytes) {
  WrittenBack result;
  if (!any_) return result;
  const LockGuard lock(mutex_);
  const auto found = files_.find(ino);
  if (found == files_.end() || found->second.pages.empty()) return result;
  result.changed.assign(bytes.size(), std::byte{0xff});
  std::byte* mask = result.changed.data();
  for_each_page(offset, bytes, [&](uint64_t number, uint64_t at, Bytes part) CODECFS_REQUIRES(mutex_) {
    const auto copy = found->second.pages.find(number);
    result.versions.push_back(copy == found->second.pages.end() ? 0 : copy->second.version);
    if (copy != found->second.pages.end() && at < copy->second.bytes.size()) {
      const std::vector<std::byte>& page = copy->second.bytes;
      const size_t known = std::min<size_t>(part.size(), page.size() - at);
      for (size_t i = 0; i < known; ++i) mask[i] = part[i] == page[at + i] ? std::byte{0} : std::byte{0xff};
    }
    mask += part.size();
  });
  result.any = std::ranges::any_of(result.changed, [](std::byte byte) { return byte != std::byte{0}; });
  return result;
}

void PageCopies::stored(Ino ino, uint64_t offset, Bytes bytes, const WrittenBack& compared) {
  if (compared.versions.empty()) return;
  const LockGuard lock(mutex_);
  const auto found = files_.find(ino);
  if (found == files_.end()) return;
  size_t index = 0;
  for_each_page(offset, bytes, [&](uint64_t number, uint64_t at, Bytes part) CODECFS_REQUIRES(mutex_) {
    const uint64_t version = compared.versions[index++];
    const auto copy = found->second.pages.find(number);
    if (copy == found->second.pages.end()) return;
    // The page was read or written meanwhile, so its content is unknown.
    if (copy->second.version != version) return erase(found->second, number);
    change(found->second, number, copy->second, at, part);
  });
}

uint64_t PageCopies::bytes() {
  const LockGuard lock(mutex_);
  return order_.size() * kPage;
}

void PageCopies::run(const std::stop_token& stop) {
  UniqueLock lock(mutex_);
  while (full_.wait(lock, stop, [&]() CODECFS_REQUIRES(mutex_) { return order_.size() * kPage > limit_; })) {
    oldest_.clear();
    for (const Key& key : order_) {
      if (oldest_.size() == oldest_.capacity()) break;
      oldest_.push_back({key, files_.find(key.ino)->second.pages.find(key.page)->second.version});
    }
    lock.unlock();
    for (size_t first = 0; first < oldest_.size();) {
      size_t last = first;
      while (last + 1 < oldest_.size() && oldest_[last + 1].key.ino == oldest_[first].key.ino &&
             oldest_[last + 1].key.page == oldest_[last].key.page + 1)
        ++last;
      kernel_->drop_pages(oldest_[first].key.ino, oldest_[first].key.page * kPage, (last - first + 1) * kPage);
      first = last + 1;
    }
    lock.lock();
    for (const Dropped& dropped : oldest_) {
      const auto file = files_.find(dropped.key.ino);
      if (file == files_.end()) continue;
      const auto page = file->second.pages.find(dropped.key.page);
      // A copy that changed meanwhile stays and is dropped in the next round.
      if (page != file->second.pages.end() && page->second.version == dropped.version)
        erase(file->second, dropped.key.page);
    }
    if (stop.stop_requested()) return;
  }
}

void PageCopies::stop() {
  {
    const LockGuard lock(mutex_);
    stopped_ = true;
  }
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

}  // namespace codecfs::fs
