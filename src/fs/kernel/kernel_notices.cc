#include "fs/kernel/kernel_notices.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <thread>

#include "base/log.h"
#include "base/threads.h"

namespace codecfs::fs {
namespace {

constexpr std::chrono::seconds kWaitTimeout{1};
// For the last free worker: the kernel may need it to serve what it waits for.
constexpr std::chrono::milliseconds kLastWorkerTimeout{20};
// For the names of chunks: the kernel may hold their directory for a request that waits, in turn, for a name in the
// directory of this request.
constexpr std::chrono::milliseconds kNameTimeout{20};
// While a notification for the inode of the request itself is sent; one that does not block takes microseconds.
constexpr std::chrono::milliseconds kOwnInodeTimeout{1};
constexpr Ino kClockInterval = 64;  // inodes between two reads of the clock
// The kernel learns of an inode when the client that has asked for it runs again after the reply.
constexpr std::chrono::seconds kJustReturned{1};
constexpr std::chrono::milliseconds kRetryInterval{1};
constexpr int kRetries = 50;

/// Counts a request that waits, under the mutex of the count.
class Waiting {
 public:
  explicit Waiting(unsigned& count) : count_(count) { ++count_; }
  ~Waiting() { --count_; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  unsigned& count_;
};

}  // namespace

thread_local Ino KernelNotices::served_ = 0;
thread_local uint64_t KernelNotices::count_at_begin_ = 0;

Result<> KernelNotices::start(fuse_session* session, unsigned workers) {
  session_ = session;
  workers_ = workers;
  known_.add(kRootIno);
  for (Lane* lane : {&inodes_, &ranges_, &names_, &awaited_names_, &chunk_names_}) {
    CODECFS_ASSIGN(lane->thread, start_thread([this, lane](const std::stop_token& stop) { run(*lane, stop); }));
  }
  return {};
}

void KernelNotices::stop() {
  {
    const LockGuard lock(mutex_);
    stopped_ = stopped_now_ = true;
    for (Lane* lane : {&inodes_, &ranges_, &names_, &awaited_names_, &chunk_names_}) {
      lane->done += lane->notices.size();
      lane->notices.clear();
    }
    changed_.notify_all();
  }
  for (Lane* lane : {&inodes_, &ranges_, &names_, &awaited_names_, &chunk_names_}) {
    if (!lane->thread.joinable()) continue;
    lane->thread.request_stop();
    lane->thread.join();
  }
}

void KernelNotices::note_returned(Ino ino) {
  known_.add(ino);
  Returned& place = returned(ino);
  place.when = Clock::now().time_since_epoch().count();
  place.ino = ino;
}

void KernelNotices::note_forgotten(Ino ino) {
  Ino expected = ino;
  returned(ino).ino.compare_exchange_strong(expected, 0);
}

bool KernelNotices::is_just_returned(Ino ino) {
  const Returned& place = returned(ino);
  return place.ino == ino && Clock::now().time_since_epoch() - Clock::duration(place.when) < kJustReturned;
}

void KernelNotices::add(Lane& lane, Notice notice, bool wait) {
  ++count_;
  UniqueLock lock(mutex_);
  if (stopped_) return;
  const Ino ino = notice.ino;
  // The kernel knows the directory of a name, but not each inode.
  if (!notice.name.empty() || notice.count != 1 || known_.contains(ino)) {
    lane.notices.push_back(std::move(notice));
    ++lane.last;
    changed_.notify_all();
  }
  // A lane is processed in order: the wait is for all that was queued before, too.
  if (!wait || lane.done == lane.last) return;
  const Waiting waiting(waiting_);
  await(lane, lane.last, ino != served_ ? served_ : 0, kWaitTimeout, lock);
}

void KernelNotices::await(const Lane& lane, uint64_t number, Ino held, Clock::duration timeout,
                          UniqueLock<Mutex>& lock) {
  const Clock::time_point begun = Clock::now();
  if (waiting_ >= workers_) timeout = std::min<Clock::duration>(timeout, kLastWorkerTimeout);
  while (lane.done < number) {
    // For a range, as long as there is progress.
    Clock::time_point until = (&lane == &ranges_ ? std::max(begun, lane.since) : begun) + timeout;
    for (const Lane* awaited : {&inodes_, &awaited_names_, &chunk_names_})
      if (held != 0 && awaited->sending == held) until = std::min(until, awaited->since + kOwnInodeTimeout);
    if (Clock::now() >= until) return;
    changed_.wait_until(lock, until);
  }
}

void KernelNotices::content_changed(Ino ino, bool wait) { add(inodes_, {.ino = ino, .name = {}}, wait); }

void KernelNotices::part_changed(Ino ino, uint64_t offset, uint64_t size, bool wait) {
  add(inodes_, {.ino = ino, .name = {}, .offset = offset, .size = size}, wait);
}

void KernelNotices::await_all() {
  UniqueLock lock(mutex_);
  const Waiting waiting(waiting_);
  await(inodes_, inodes_.last, 0, kWaitTimeout, lock);
  await(chunk_names_, chunk_names_.last, 0, kNameTimeout, lock);
}

void KernelNotices::contents_changed(Ino first, uint64_t count, bool wait) {
  add(ranges_, {.ino = first, .name = {}, .count = count}, wait);
}

void KernelNotices::attributes_changed(Ino first, uint64_t count, bool wait) {
  add(ranges_, {.ino = first, .name = {}, .count = count, .attributes = true}, wait);
}

void KernelNotices::drop_pages(Ino ino, uint64_t offset, uint64_t size) {
  fuse_lowlevel_notify_inval_inode(session_, ino, static_cast<off_t>(offset), static_cast<off_t>(size));
}

bool KernelNotices::drop_all_pages() {
  constexpr uint64_t kMaxDropped = uint64_t{1} << 22;
  ++count_;
  uint64_t dropped = 0;
  for (const KnownInodes::Range& range : known_.within({kRootIno, UINT64_MAX - kRootIno})) {
    dropped += range.count;
    if (dropped > kMaxDropped) return false;
    for (Ino i = 0; i < range.count; ++i) {
      if (stopped_now_) return false;
      fuse_lowlevel_notify_inval_inode(session_, range.first + i, 0, 0);
    }
  }
  return true;
}

bool KernelNotices::store_pages(Ino ino, uint64_t offset, Bytes content) {
  fuse_bufvec bytes = FUSE_BUFVEC_INIT(content.size());
  bytes.buf[0].mem = const_cast<std::byte*>(content.data());  // it is only read
  return fuse_lowlevel_notify_store(session_, ino, static_cast<off_t>(offset), &bytes, fuse_buf_copy_flags{}) == 0;
}

void KernelNotices::name_changed(Ino parent, std::string name, bool wait) {
  add(wait ? awaited_names_ : names_, {.ino = parent, .name = std::move(name)}, wait);
}

void KernelNotices::names_changed(Ino parent, std::vector<std::string> names) {
  for (std::string& name : names) add(chunk_names_, {.ino = parent, .name = std::move(name)}, false);
  // A lane is processed in order, so waiting for the last notification waits for all.
  UniqueLock lock(mutex_);
  const Waiting waiting(waiting_);
  await(chunk_names_, chunk_names_.last, parent != served_ ? served_ : 0, kNameTimeout, lock);
}

void KernelNotices::invalidate(Ino ino, off_t offset, off_t size, const std::stop_token& stop) {
  int error = fuse_lowlevel_notify_inval_inode(session_, ino, offset, size);
  for (int i = 0; i < kRetries && error == -ENOENT && is_just_returned(ino) && !stop.stop_requested(); ++i) {
    std::this_thread::sleep_for(kRetryInterval);
    error = fuse_lowlevel_notify_inval_inode(session_, ino, offset, size);
  }
}

/// Ignores errors: ENOENT means that the kernel does not know the inode or entry.
void KernelNotices::send(const Notice& notice, const std::stop_token& stop) {
  if (!notice.name.empty()) {
    fuse_lowlevel_notify_inval_entry(session_, notice.ino, notice.name.data(), notice.name.size());
  } else if (notice.count == 1 && !notice.attributes) {
    invalidate(notice.ino, static_cast<off_t>(notice.offset), static_cast<off_t>(notice.size), stop);
  } else {
    send_range(notice, stop);
  }
}

void KernelNotices::send_range(const Notice& notice, const std::stop_token& stop) {
  const off_t from = notice.attributes ? -1 : 0;
  for (const KnownInodes::Range& range : known_.within({notice.ino, notice.count}))
    for (Ino i = 0; i < range.count && !stop.stop_requested(); ++i) {
      invalidate(range.first + i, from, 0, stop);
      if (i % kClockInterval != 0) continue;
      const LockGuard lock(mutex_);
      ranges_.since = Clock::now();
    }
}

void KernelNotices::run(Lane& lane, const std::stop_token& stop) {
  UniqueLock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return !lane.notices.empty(); })) {
    const Notice notice = std::move(lane.notices.front());
    lane.notices.pop_front();
    lane.sending = notice.ino;
    lane.since = Clock::now();
    changed_.notify_all();  // requests about this inode stop waiting
    lock.unlock();
    try {
      send(notice, stop);
    } catch (const std::exception& exception) {
      log::error("cannot tell the kernel of a change, whose caches may be outdated: {}", exception.what());
    }
    lock.lock();
    lane.sending = 0;
    ++lane.done;
    changed_.notify_all();
  }
}

}  // namespace codecfs::fs
