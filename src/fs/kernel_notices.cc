#include "fs/kernel_notices.h"

#include <chrono>
#include <utility>

namespace codecfs::fs {

void KernelNotices::start(fuse_session* session) {
  session_ = session;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void KernelNotices::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

uint64_t KernelNotices::add(Notice notice) {
  notice.number = ++last_;
  notices_.push_back(std::move(notice));
  changed_.notify_all();
  return last_;
}

void KernelNotices::content_changed(Ino ino, bool wait) {
  std::unique_lock lock(mutex_);
  const uint64_t number = add({ino, {}, 0, 0});
  if (wait) wait_for(lock, number);
}

void KernelNotices::wait_for(std::unique_lock<std::mutex>& lock, uint64_t number) {
  changed_.wait_for(lock, std::chrono::seconds(1), [&] { return done_ >= number; });
}

void KernelNotices::name_changed(Ino parent, std::string name, bool wait) {
  std::unique_lock lock(mutex_);
  const uint64_t number = add({parent, std::move(name), 0, 0});
  if (wait) wait_for(lock, number);
}

void KernelNotices::attributes_changed(Ino first, uint64_t count) {
  if (count == 0) return;
  const std::lock_guard lock(mutex_);
  add({first, {}, count, 0});
}

void KernelNotices::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return !notices_.empty(); })) {
    const Notice notice = std::move(notices_.front());
    notices_.pop_front();
    lock.unlock();
    // ENOENT where the kernel does not know it; nothing to do then.
    if (notice.attributes > 0)
      for (Ino i = 0; i < notice.attributes && !stop.stop_requested(); ++i)
        fuse_lowlevel_notify_inval_inode(session_, notice.ino + i, -1, 0);
    else if (notice.name.empty())
      fuse_lowlevel_notify_inval_inode(session_, notice.ino, 0, 0);
    else
      fuse_lowlevel_notify_inval_entry(session_, notice.ino, notice.name.data(), notice.name.size());
    lock.lock();
    done_ = notice.number;
    changed_.notify_all();
  }
}

}  // namespace codecfs::fs
