// A request that waits can be answered by two threads: by the one that makes the backing file, and by the one that
// receives the interruption. The one that takes it from waiting_ answers it; after that the other must not touch it.

#include "fs/kernel/passable_opens.h"

#include <fcntl.h>

#include <cstdint>
#include <exception>
#include <utility>

#include "fs/kernel/requests.h"
#include "fs/passthrough/newer_protocol.h"

namespace codecfs::fs {
namespace {

/// While this thread registers interrupted(), which libfuse calls at once if the request is interrupted already. Then
/// it must not answer, because libfuse uses the request afterwards.
thread_local bool is_registering = false;
thread_local bool was_interrupted = false;

}  // namespace

void PassableOpens::answer(fuse_req_t request, Ino ino, const fuse_file_info& info, std::unique_ptr<FileHandle> file) {
  Passthrough& passthrough = *mount_.filesystem.context().kernel.passthrough;
  const PassableChunk chunk = *std::exchange(file->passable, std::nullopt);
  Waiting open{.request = request, .ino = ino, .info = info, .file = std::move(file)};
  if (passthrough.modes().is_cached(ino)) {
    reply(std::move(open), nullptr);
    return;
  }
  BackingPtr backing = passthrough.modes().backing_of(ino);
  // Not all filesystems have O_DIRECT, without which the kernel could not open the source's file.
  if (backing == nullptr && (info.flags & O_DIRECT) == 0) backing = passthrough.open_source(chunk);
  if (backing == nullptr) backing = passthrough.files().find(chunk.key);
  MountContext& context = mount_.filesystem.context();
  const bool is_at_once = !chunk.produce || (!chunk.is_expected && !passthrough.files().is_coming(chunk.key)) ||
                          context.kernel.pages_given.has(ino, context.changes());
  if (backing != nullptr || is_at_once) {
    reply(std::move(open), std::move(backing));
    return;
  }
  const uint64_t number = add(std::move(open));
  is_registering = true;
  was_interrupted = false;
  fuse_req_interrupt_func(request, interrupted, reinterpret_cast<void*>(number));
  is_registering = false;
  // From here on another thread may have answered, so `request` must not be used.
  try {
    if (!was_interrupted) backing = passthrough.files().get(chunk.key, chunk.bytes, chunk.produce);
  } catch (const std::exception&) {
    // Out of memory: without a backing file.
  }
  if (std::optional<Waiting> waiting = take(number)) reply(*std::move(waiting), std::move(backing));
}

void PassableOpens::interrupted(fuse_req_t request, void* number) {
  if (is_registering) {
    was_interrupted = true;
    return;
  }
  PassableOpens& opens = mount_of(request).passable_opens;
  if (std::optional<Waiting> waiting = opens.take(reinterpret_cast<uint64_t>(number)))
    opens.reply(*std::move(waiting), nullptr);
}

void PassableOpens::reply(Waiting open, BackingPtr backing) {
  Stats& stats = mount_.filesystem.context().stats;
  open.file->opened = mount_.filesystem.context().kernel.passthrough->modes().open(open.ino, std::move(backing));
  const int32_t id = open.file->opened.backing_id();
  if (id != 0) {
    open.info.keep_cache = 0;  // the kernel refuses it together with a backing file
    mount_.filesystem.context().kernel.pages_given.forget(open.ino);
    // Reads with O_DIRECT need no alignment here, whatever the source's filesystem requires: codecfs answers them.
    if (open.file->opened.is_of_source() && (open.info.flags & O_DIRECT) != 0) open.info.direct_io = 1;
    ++stats.passthrough_opens;
  }
  open.info.fh = mount_.files.add(std::move(open.file));
  if (reply_open(open.request, open.info, id) != 0) close_unknown(mount_, open.info.fh);
}

uint64_t PassableOpens::add(Waiting open) {
  const LockGuard lock(mutex_);
  waiting_.emplace(++last_, std::move(open));
  return last_;
}

std::optional<PassableOpens::Waiting> PassableOpens::take(uint64_t number) {
  const LockGuard lock(mutex_);
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return std::nullopt;
  std::optional<Waiting> open(std::move(found->second));
  waiting_.erase(found);
  return open;
}

}  // namespace codecfs::fs
