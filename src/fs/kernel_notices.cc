#include "fs/kernel_notices.h"

#include <chrono>
#include <utility>

namespace codecfs::fs {

void KernelNotices::start(fuse_session* session) {
  session_ = session;
  for (Lane* lane : {&inodes_, &names_, &awaited_names_})
    lane->thread = std::jthread([this, lane](const std::stop_token& stop) { run(*lane, stop); });
}

void KernelNotices::stop() {
  for (Lane* lane : {&inodes_, &names_, &awaited_names_}) {
    if (!lane->thread.joinable()) continue;
    lane->thread.request_stop();
    lane->thread.join();
  }
}

void KernelNotices::add(Lane& lane, Notice notice, bool wait) {
  std::unique_lock lock(mutex_);
  lane.notices.push_back(std::move(notice));
  const uint64_t number = ++lane.last;
  changed_.notify_all();
  if (wait) changed_.wait_for(lock, std::chrono::seconds(1), [&] { return lane.done >= number; });
}

void KernelNotices::content_changed(Ino ino, bool wait) { add(inodes_, {.ino = ino, .name = {}}, wait); }

void KernelNotices::part_changed(Ino ino, uint64_t offset, uint64_t size, bool wait) {
  add(inodes_, {.ino = ino, .name = {}, .offset = offset, .size = size}, wait);
}

void KernelNotices::attributes_changed(Ino first, uint64_t count) {
  if (count > 0) add(inodes_, {.ino = first, .name = {}, .attributes = count}, false);
}

void KernelNotices::name_changed(Ino parent, std::string name, bool wait) {
  add(wait ? awaited_names_ : names_, {.ino = parent, .name = std::move(name)}, wait);
}

/// ENOENT where the kernel does not know it; nothing to do then.
void KernelNotices::tell(const Notice& notice, const std::stop_token& stop) {
  if (!notice.name.empty()) {
    fuse_lowlevel_notify_inval_entry(session_, notice.ino, notice.name.data(), notice.name.size());
  } else if (notice.attributes == 0) {
    fuse_lowlevel_notify_inval_inode(session_, notice.ino, static_cast<off_t>(notice.offset),
                                     static_cast<off_t>(notice.size));
  } else {
    for (Ino i = 0; i < notice.attributes && !stop.stop_requested(); ++i)
      fuse_lowlevel_notify_inval_inode(session_, notice.ino + i, -1, 0);
  }
}

void KernelNotices::run(Lane& lane, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return !lane.notices.empty(); })) {
    const Notice notice = std::move(lane.notices.front());
    lane.notices.pop_front();
    lock.unlock();
    tell(notice, stop);
    lock.lock();
    ++lane.done;
    changed_.notify_all();
  }
}

}  // namespace codecfs::fs
