// The requests that change something. See operations.cc.

#include <sys/stat.h>
#include <sys/xattr.h>

#include <cstdio>

#include "base/log.h"
#include "fs/kernel/requests.h"
#include "fs/nodes/clock.h"

namespace codecfs::fs {
namespace {

void op_create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* info) {
  answer(request, parent, [&]() -> Result<> {
    CODECFS_ASSIGN(FileOpener::Created created,
                   filesystem_of(request).files().create(parent, name, mode, info->flags, given_up(request)));
    fuse_entry_param entry = entry_of(request, created.status);
    Mount& mount = mount_of(request);
    LookedUp looked_up(mount, entry.ino);
    Caching& caching = created.file->caching;
    caching.direct = writes_past_pages(caching, *info);
    info->direct_io = caching.direct;
    keep_copies(request, entry.ino, *created.file, *info);
    UnknownFile file(mount, std::move(created.file));
    info->fh = file.handle();
    mount.filesystem.context().kernel.pages.after_pushes(entry.ino, [request, &mount, entry, opened = *info] {
      if (fuse_reply_create(request, &entry, &opened) == 0) return;
      close_unknown(mount, opened.fh);
      note_forgotten(mount, entry.ino, 1);
    });
    file.told();
    looked_up.told();
    return {};
  });
}

/// `operation` returns an error, or nothing if it has replied, as for answer(). If it has to wait for a re-encoding, or
/// begins one, it returns before it has changed anything, and `keep` returns a copy of it, which must own what it uses:
/// that runs in another thread later. `bytes`: memory that the copy owns.
template <class Operation, class Keep>
void answer_or_park(fuse_req_t request, Ino ino, RequestKind kind, Operation operation, size_t bytes, Keep keep) {
  answer(
      request, ino,
      [&]() -> Result<> {
        Result<> done;
        {
          const RecodingPolicy::Scope never_waits(DuringRecoding::refuse);
          done = operation();
          if (done || !never_waits.has_refused()) return done;
        }
        return mount_of(request).parked.park(request, bytes, [request, ino, kind, kept = keep()] {
          answer(
              request, ino,
              [&]() -> Result<> {
                const RecodingPolicy::Scope waits(DuringRecoding::wait, given_up(request));
                return kept();
              },
              kind);
        });
      },
      kind);
}

Result<> write_and_reply(fuse_req_t request, Ino ino, Bytes all, uint64_t begin, const fuse_file_info& info) {
  fuse_file_info opened = info;
  FileHandle& file = *file_of(&opened);
  const bool is_mapped = info.writepage != 0;
  PageCopies& copies = filesystem_of(request).context().chunks.page_copies;
  PageCopies::WrittenBack compared;
  if (is_mapped) compared = copies.compare(ino, begin, all);
  const RecodingPolicy::Scope tried;
  const Result<size_t> taken = file.write(begin, all, is_mapped ? &compared : nullptr, given_up(request));
  if (!taken && tried.has_refused() && RecodingPolicy::current() == DuringRecoding::refuse)
    return std::unexpected(taken.error());
  // Invalidate the pages that were not stored: otherwise the kernel would keep what a mapping wrote.
  if ((is_mapped || !file.caching.direct) && taken.value_or(0) < all.size())
    mount_of(request).notices.part_changed(ino, begin, all.size(), false);
  CODECFS_ASSIGN(const size_t written, taken);
  if (is_mapped)
    copies.stored(ino, begin, all.first(written), compared);
  else if (!file.caching.direct && !is_past_pages(info))
    copies.written(ino, begin, all.first(written));
  // Kernels before 6.6 do not invalidate the pages of other descriptors; see also op_flush().
  if (file.caching.direct && written > 0) mount_of(request).notices.part_changed(ino, begin, written, false);
  filesystem_of(request).context().errors.succeeded(ino, RequestKind::writing);
  fuse_reply_write(request, written);
  return {};
}

void op_write(fuse_req_t request, fuse_ino_t ino, const char* bytes, size_t size, off_t offset, fuse_file_info* info) {
  const Bytes all = std::as_bytes(std::span(bytes, size));
  const auto begin = static_cast<uint64_t>(offset);
  const auto write = [&] { return write_and_reply(request, ino, all, begin, *info); };
  // Pages that are written back take the kernel's background slots, which readers need too: they never wait.
  if (info->writepage != 0) return answer(request, ino, write, RequestKind::writing);
  answer_or_park(request, ino, RequestKind::writing, write, size, [&] {
    return [request, ino, kept = std::string(bytes, size), begin, opened = *info] {
      return write_and_reply(request, ino, std::as_bytes(std::span(kept)), begin, opened);
    };
  });
}

void op_flush(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info) {
  answer(
      request, ino,
      [&]() -> Result<> {
        CODECFS_TRY(file_of(info)->flush(given_up(request)));
        // A write from dirty pages may not have waited for its invalidation: see KernelNotices::await().
        if (file_of(info)->is_writer()) mount_of(request).notices.await_all();
        fuse_reply_err(request, 0);
        return {};
      },
      RequestKind::writing);
}

void op_fsync(fuse_req_t request, fuse_ino_t ino, int, fuse_file_info* info) {
  answer(
      request, ino,
      [&]() -> Result<> {
        CODECFS_TRY(file_of(info)->sync(given_up(request)));
        if (file_of(info)->is_writer()) mount_of(request).notices.await_all();
        fuse_reply_err(request, 0);
        return {};
      },
      RequestKind::writing);
}

void op_fsyncdir(fuse_req_t request, fuse_ino_t ino, int, fuse_file_info*) {
  answer(request, ino, [&]() -> Result<> {
    CODECFS_TRY(filesystem_of(request).sync_all());
    fuse_reply_err(request, 0);
    return {};
  });
}

void op_setattr(fuse_req_t request, fuse_ino_t ino, struct stat* wanted, int set, fuse_file_info* info) {
  answer(
      request, ino,
      [&]() -> Result<> {
        InodeChange change;
        if (set & FUSE_SET_ATTR_MODE) change.permissions = wanted->st_mode;
        if (set & FUSE_SET_ATTR_UID) change.owner = wanted->st_uid;
        if (set & FUSE_SET_ATTR_GID) change.group = wanted->st_gid;
        if (set & FUSE_SET_ATTR_SIZE) change.size = static_cast<uint64_t>(wanted->st_size);
        if (set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_ATIME_NOW))
          change.accessed = (set & FUSE_SET_ATTR_ATIME_NOW) != 0 ? now() : wanted->st_atim;
        if (set & (FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW))
          change.modified = (set & FUSE_SET_ATTR_MTIME_NOW) != 0 ? now() : wanted->st_mtim;
        CODECFS_ASSIGN(const struct stat status,
                       filesystem_of(request).inodes().change(ino, change, given_up(request),
                                                              info != nullptr ? file_of(info) : nullptr));
        // The file was truncated and extended at once: the kernel sees the same size and would keep its pages.
        if (change.size && static_cast<uint64_t>(status.st_size) != *change.size)
          mount_of(request).notices.content_changed(status.st_ino, true);
        if (change.size) filesystem_of(request).context().errors.succeeded(ino, RequestKind::writing);
        fuse_reply_attr(request, &status, timeout_of(request, ino));
        return {};
      },
      RequestKind::writing);
}

void op_unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  answer(request, parent, [&]() -> Result<> {
    Filesystem& filesystem = filesystem_of(request);
    const Result<struct stat> gone = filesystem.names().find(parent, name);
    CODECFS_TRY(filesystem.tree().unlink(parent, name));
    // A chunk keeps its inode number: the kernel must not show old pages for a new chunk.
    if (gone) mount_of(request).notices.content_changed(gone->st_ino, false);
    fuse_reply_err(request, 0);
    return {};
  });
}

void op_rename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t to_parent, const char* to_name,
               unsigned flags) {
  answer(request, parent, [&]() -> Result<> {
    if ((flags & ~unsigned{RENAME_NOREPLACE}) != 0) return std::unexpected(Error{EINVAL, {}});
    const Result<> renamed = filesystem_of(request).tree().rename(parent, name, to_parent, to_name,
                                                                  (flags & RENAME_NOREPLACE) == 0, given_up(request));
    if (!renamed && !renamed.error().reason.empty())
      filesystem_of(request).context().errors.failed(to_parent, RequestKind::other, renamed.error().reason);
    CODECFS_TRY(renamed);
    fuse_reply_err(request, 0);
    return {};
  });
}

void forgotten(fuse_req_t request, Ino ino, uint64_t lookups) {
  mount_of(request).notices.note_forgotten(ino);
  note_forgotten(mount_of(request), ino, lookups);
}

void op_forget(fuse_req_t request, fuse_ino_t ino, uint64_t lookups) {
  log_exceptions([&] { forgotten(request, ino, lookups); });
  fuse_reply_none(request);
}

void op_forget_multi(fuse_req_t request, size_t count, fuse_forget_data* forgets) {
  log_exceptions([&] {
    for (size_t i = 0; i < count; ++i) forgotten(request, forgets[i].ino, forgets[i].nlookup);
  });
  fuse_reply_none(request);
}

void reply_made(fuse_req_t request, const struct stat& status) { reply_entry(request, entry_of(request, status)); }

void op_mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t) {
  answer(request, parent, [&]() -> Result<> {
    CODECFS_ASSIGN(const struct stat status, filesystem_of(request).tree().make_directory(parent, name));
    reply_made(request, status);
    return {};
  });
}

void op_symlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
  answer(request, parent, [&]() -> Result<> {
    CODECFS_ASSIGN(const struct stat status, filesystem_of(request).tree().make_link(parent, name, target));
    reply_made(request, status);
    return {};
  });
}

void op_rmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
  answer(request, parent, [&]() -> Result<> {
    CODECFS_TRY(filesystem_of(request).tree().remove_directory(parent, name));
    fuse_reply_err(request, 0);
    return {};
  });
}

void op_mknod(fuse_req_t request, fuse_ino_t parent, const char*, mode_t, dev_t) {
  answer(request, parent, [&]() -> Result<> { return fail(EPERM, "making special files is not possible here"); });
}

void op_link(fuse_req_t request, fuse_ino_t ino, fuse_ino_t parent, const char* name) {
  answer(request, parent, [&]() -> Result<> {
    CODECFS_ASSIGN(const struct stat status,
                   filesystem_of(request).tree().make_hard_link(ino, parent, name, given_up(request)));
    reply_made(request, status);
    return {};
  });
}

Result<> set_xattr_and_reply(fuse_req_t request, Ino ino, std::string_view name, std::string_view value, int flags) {
  const XattrMode mode = (flags & XATTR_CREATE) != 0    ? XattrMode::create
                         : (flags & XATTR_REPLACE) != 0 ? XattrMode::replace
                                                        : XattrMode::any;
  CODECFS_TRY(filesystem_of(request).xattrs().set(ino, name, value, mode, given_up(request)));
  filesystem_of(request).context().errors.succeeded(ino, RequestKind::attributes);
  fuse_reply_err(request, 0);
  return {};
}

Result<> remove_xattr_and_reply(fuse_req_t request, Ino ino, std::string_view name) {
  CODECFS_TRY(filesystem_of(request).xattrs().remove(ino, name, given_up(request)));
  filesystem_of(request).context().errors.succeeded(ino, RequestKind::attributes);
  fuse_reply_err(request, 0);
  return {};
}

void op_setxattr(fuse_req_t request, fuse_ino_t ino, const char* name, const char* value, size_t size, int flags) {
  answer_or_park(
      request, ino, RequestKind::attributes,
      [&] { return set_xattr_and_reply(request, ino, name, {value, size}, flags); }, size,
      [&] {
        return [request, ino, flags, name = std::string(name), value = std::string(value, size)] {
          return set_xattr_and_reply(request, ino, name, value, flags);
        };
      });
}

void op_removexattr(fuse_req_t request, fuse_ino_t ino, const char* name) {
  answer_or_park(
      request, ino, RequestKind::attributes, [&] { return remove_xattr_and_reply(request, ino, name); }, 0,
      [&] { return [request, ino, name = std::string(name)] { return remove_xattr_and_reply(request, ino, name); }; });
}

}  // namespace

void add_writing_operations(fuse_lowlevel_ops& ops) {
  ops.create = op_create;
  ops.write = op_write;
  ops.flush = op_flush;
  ops.fsync = op_fsync;
  ops.fsyncdir = op_fsyncdir;
  ops.setattr = op_setattr;
  ops.unlink = op_unlink;
  ops.rename = op_rename;
  ops.forget = op_forget;
  ops.forget_multi = op_forget_multi;
  ops.mkdir = op_mkdir;
  ops.mknod = op_mknod;
  ops.symlink = op_symlink;
  ops.link = op_link;
  ops.rmdir = op_rmdir;
  ops.setxattr = op_setxattr;
  ops.removexattr = op_removexattr;
}

}  // namespace codecfs::fs
