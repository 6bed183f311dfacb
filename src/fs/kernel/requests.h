#pragma once
// Common code of operations.cc and operations_write.cc: from a request to the mount, and from errors to replies.

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "base/fail_points.h"
#include "base/interruption.h"
#include "base/log.h"
#include "fs/chunks/recoding_policy.h"
#include "fs/kernel/operations.h"

namespace codecfs::fs {

// All changes go through this mount, which invalidates the kernel's caches, so they may be valid for a day.
inline constexpr double kTimeout = 86400;  // seconds
// For sources that other programs may change too.
inline constexpr double kOutsideTimeout = 0.9;
// For negative entries in directories where members can be created.
inline constexpr double kAbsenceTimeout = 1;
// For negative entries where the source is in an object store, which may have been wrong about them.
inline constexpr double kRemoteAbsenceTimeout = 5;
// For symlinks: if the object is removed, another of its names changes from a symlink to the object.
inline constexpr double kLinkTimeout = 1;

inline Mount& mount_of(fuse_req_t request) { return *static_cast<Mount*>(fuse_req_userdata(request)); }
inline Filesystem& filesystem_of(fuse_req_t request) { return mount_of(request).filesystem; }
inline FileHandle* file_of(fuse_file_info* info) { return OpenHandles<FileHandle>::at(info->fh); }

inline void reply_error(fuse_req_t request, Ino ino, const Error& error, RequestKind kind) {
  const bool was_interrupted = error.code == EINTR && Interruption::current() != nullptr;
  try {
    if (!was_interrupted) filesystem_of(request).context().note_error(ino, error, kind);
  } catch (const std::exception&) {  // no memory for the note
  }
  // Programs take EAGAIN of a read for the end of what a pipe has so far: Python returns what it has read before.
  fuse_reply_err(request, error.code == EAGAIN ? ENOMEM : error.code);
}

/// Whether a request for this inode needs the source: those of `codecfs status` and of unmounting do not.
inline bool needs_source(fuse_req_t request, Ino ino) {
  const Result<Place> place = filesystem_of(request).context().tree.nodes.at(ino);
  if (!place) return true;
  if (place->node->kind == NodeKind::views) return false;
  return place->node->kind != NodeKind::control || place->file == FileKind::references;
}

/// ESTALE for what was opened before another program has replaced the source.
inline Result<> check_current(const std::atomic<bool>& outdated) {
  if (!outdated.load(std::memory_order_relaxed)) return {};
  return fail(ESTALE, "the source was changed by another program since this was opened");
}

enum class Wakes : uint8_t { by_inode, never };

/// Runs one operation. It returns the error to reply, or nothing if it has replied itself. `kind`: for user._Error.
/// What it writes to a variable that is being re-encoded stays in memory, as no thread that serves requests may wait.
template <class Operation>
void answer(fuse_req_t request, Ino ino, Operation operation, RequestKind kind = RequestKind::other,
            Wakes wakes = Wakes::by_inode) {
  const RecodingPolicy::Scope never_waits(DuringRecoding::hold);
  const KernelNotices::Request served(mount_of(request).notices, ino);
  const Nodes::Request nodes(filesystem_of(request).context().tree.nodes);
  SourceRest* const rest = mount_of(request).rest.get();
  SourceRest::Use use;
  Result<> result;
  try {
    if (rest != nullptr && wakes == Wakes::by_inode && needs_source(request, ino)) result = rest->use(use);
    FailPoints::allocate();
    if (result) result = operation();
  } catch (const std::bad_alloc&) {
    result = fail(ENOMEM, "out of memory");
  } catch (const std::exception& exception) {
    result = fail(EIO, "internal error: {}", exception.what());
  }
  if (!result) reply_error(request, ino, result.error(), kind);
}

/// For what a request does beside its reply, which is not an error of the request: exceptions are logged.
template <class Operation>
void log_exceptions(Operation operation) noexcept {
  try {
    operation();
  } catch (const std::exception& exception) {
    log::error("internal error: {}", exception.what());
  }
}

/// Whether no client waits for the answer any more: it was interrupted, or the mount ends. The kernel tells neither
/// that it has unmounted nor anything else while all threads wait.
inline bool is_unwanted(fuse_req_t request) {
  const Mount& mount = mount_of(request);
  if (mount.ending || mount.stops_waiting || fuse_req_interrupted(request) != 0) return true;
  pollfd device{mount.device, 0, 0};
  return ::poll(&device, 1, 0) > 0 && (device.revents & POLLERR) != 0;
}

/// Whether the client was interrupted or the mount is ending. Valid until the request is answered.
inline Cancelled given_up(fuse_req_t request) {
  return [request] {
    const Mount& mount = mount_of(request);
    return mount.ending || mount.is_terminating || fuse_req_interrupted(request) != 0;
  };
}

/// answer() for operations that change nothing: EINTR if they wait for an object store and are not wanted any more.
template <class Operation>
void answer_reading(fuse_req_t request, Ino ino, Operation operation, RequestKind kind = RequestKind::other,
                    Wakes wakes = Wakes::by_inode) {
  const Interruption::Check check = [request] { return is_unwanted(request); };
  const Interruption::Scope scope(mount_of(request).device >= 0 ? &check : nullptr);
  answer(request, ino, std::move(operation), kind, wakes);
}

/// With -o idle= what the kernel remembers ends before the source may rest, so that each use after that is a request.
inline double at_most_idle(fuse_req_t request, double seconds) {
  const SourceRest* const rest = mount_of(request).rest.get();
  return rest == nullptr ? seconds : std::min(seconds, rest->most_remembered());
}

inline double timeout_of(fuse_req_t request, Ino ino) {
  // The length of a control file changes by itself.
  if (const auto place = filesystem_of(request).context().tree.nodes.at(ino);
      place && place->node->kind == NodeKind::control && place->file != FileKind::itself)
    return 0;
  return filesystem_of(request).coherence().may_change_outside(ino) ? kOutsideTimeout : at_most_idle(request, kTimeout);
}

inline fuse_entry_param entry_of(fuse_req_t request, const struct stat& status) {
  mount_of(request).notices.note_returned(status.st_ino);
  fuse_entry_param entry{};
  entry.ino = status.st_ino;
  entry.attr = status;
  entry.attr_timeout = entry.entry_timeout =
      S_ISLNK(status.st_mode) ? at_most_idle(request, kLinkTimeout) : timeout_of(request, status.st_ino);
  if (status.st_size == MetadataView::kUnknownSize) {  // the kernel asks for it before it tells any program
    entry.attr.st_size = 0;
    entry.attr_timeout = 0;
  }
  return entry;
}

/// Counts an inode in a reply to the kernel, until the kernel forgets it. Must be called before the reply.
inline void note_looked_up(Mount& mount, Ino ino) {
  mount.filesystem.context().tree.scratch.looked_up(ino);
  mount.filesystem.context().tree.nodes.looked_up(ino);
}

/// The kernel has forgotten an inode, or did not get the reply that told it.
inline void note_forgotten(Mount& mount, Ino ino, uint64_t lookups) {
  mount.filesystem.context().tree.scratch.forgotten(ino, lookups);
  mount.filesystem.context().tree.nodes.forgotten(ino, lookups);
}

/// Counts an inode in a reply to the kernel. The kernel has forgotten it at the end, unless told() was called.
class LookedUp {
 public:
  LookedUp(Mount& mount, Ino ino) : mount_(&mount), ino_(ino) { note_looked_up(mount, ino); }
  ~LookedUp() {
    if (mount_ != nullptr) note_forgotten(*mount_, ino_, 1);
  }
  LookedUp(const LookedUp&) = delete;
  LookedUp& operator=(const LookedUp&) = delete;
  /// The reply was sent, or is going to be.
  void told() { mount_ = nullptr; }

 private:
  Mount* mount_;
  const Ino ino_;
};

inline void reply_entry(fuse_req_t request, const fuse_entry_param& entry) {
  LookedUp looked_up(mount_of(request), entry.ino);
  if (fuse_reply_entry(request, &entry) == 0) looked_up.told();
}

/// Closes a file whose open reply failed: the kernel does not know it and will not release it.
inline void close_unknown(Mount& mount, uint64_t handle) noexcept {
  log_exceptions([&] { (void)OpenHandles<FileHandle>::at(handle)->close(); });
  mount.files.close(handle);
}

/// A file that the kernel does not know yet: it is closed, unless told() was called, when its open has failed.
class UnknownFile {
 public:
  UnknownFile(Mount& mount, std::unique_ptr<FileHandle> file)
      : mount_(&mount), handle_(mount.files.add(std::move(file))) {}
  ~UnknownFile() {
    if (mount_ != nullptr) close_unknown(*mount_, handle_);
  }
  UnknownFile(const UnknownFile&) = delete;
  UnknownFile& operator=(const UnknownFile&) = delete;
  [[nodiscard]] uint64_t handle() const { return handle_; }
  /// The reply was sent, or is going to be.
  void told() { mount_ = nullptr; }

 private:
  Mount* mount_;
  const uint64_t handle_;
};

/// Whether writes bypass the page cache: for a file that is only written, filling pages would take as long as the rest
/// of a write without encoding. It cannot be mapped through this descriptor, so mappings are not affected.
inline bool writes_past_pages(const Caching& caching, const fuse_file_info& info) {
  return (info.flags & O_ACCMODE) == O_WRONLY && !caching.whole;
}

/// Whether a READ or WRITE bypasses the page cache (O_DIRECT): only these have a lock owner.
inline bool is_past_pages(const fuse_file_info& info) { return info.lock_owner != 0; }

/// Keeps copies of the pages of a file that may be mapped for writing. Must be called before the open is answered.
inline void keep_copies(fuse_req_t request, Ino ino, FileHandle& file, const fuse_file_info& info) {
  if ((info.flags & O_ACCMODE) != O_RDWR || info.direct_io != 0) return;
  if (file.caching.mappable) file.copies = PageCopies::Writer(filesystem_of(request).context().chunks.page_copies, ino);
}

/// operations_write.cc
void add_writing_operations(fuse_lowlevel_ops& ops);

}  // namespace codecfs::fs
