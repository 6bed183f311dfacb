// Requests arrive on the threads of libfuse's loop, many at a time. The kernel's handle (fi->fh) owns open files and
// directories until RELEASE; all other state is in the Filesystem.

#include "fs/kernel/operations.h"

#include <fcntl.h>
#include <linux/fuse.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/log.h"
#include "fs/kernel/kernel_tuning.h"
#include "fs/kernel/requests.h"
#include "fs/passthrough/newer_protocol.h"

namespace codecfs::fs {
namespace {

void op_init(void* userdata, fuse_conn_info* connection) {
  Mount& mount = *static_cast<Mount*>(userdata);
  const bool is_remote = mount.filesystem.context().dataset.source().reads_at_once() != 0;
  choose_capabilities(connection, is_remote);
  complete_init(connection, {.passthrough = mount.offers_passthrough, .parallel_lookups = is_remote});
  mount.is_initialised = true;
  connection->max_read = kMaxRead;  // as in the mount option
  connection->max_readahead = kMaxRead;
  connection->max_background = 64;
}

/// Short for names that may be created through another view: their invalidation may be delayed.
double absence_timeout(fuse_req_t request, Ino parent, const char* name) {
  Filesystem& filesystem = filesystem_of(request);
  if (!filesystem.names().remembers_absence(parent, name)) return 0;
  const bool may_appear = !filesystem.read_only() || mount_of(request).rest != nullptr;
  const bool is_local = filesystem.context().dataset.source().reads_at_once() == 0;
  return at_most_idle(request, may_appear ? kAbsenceTimeout : is_local ? kTimeout : kRemoteAbsenceTimeout);
}

/// The kernel asks again before it uses any of it.
void reply_uncertain_entry(fuse_req_t request, const struct stat& status) {
  fuse_entry_param entry = entry_of(request, status);
  entry.attr_timeout = entry.entry_timeout = 0;
  reply_entry(request, entry);
}

void op_lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  mount_of(request).looked_up_in.store(parent, std::memory_order_relaxed);
  const bool is_control = parent == kRootIno && std::strcmp(name, ".codecfs") == 0;
  const auto operation = [&]() -> Result<> {
    // The kernel accepts names of up to 1024 bytes. It looks up each name before it creates it.
    if (std::strlen(name) > NAME_MAX) return std::unexpected(Error{ENAMETOOLONG, {}});
    const Result<struct stat> status = filesystem_of(request).names().lookup(parent, name);
    if (status) {
      fuse_entry_param entry = entry_of(request, *status);
      if (mount_of(request).notices.is_outdated()) entry.attr_timeout = entry.entry_timeout = 0;
      reply_entry(request, entry);
    } else if (status.error().code == ENOENT) {
      fuse_entry_param absent{};
      absent.entry_timeout = absence_timeout(request, parent, name);
      fuse_reply_entry(request, &absent);  // inode 0: the kernel caches that the name does not exist
    } else {
      const auto known =
          Namespace::hides(status.error()) ? filesystem_of(request).names().known(parent, name) : std::nullopt;
      if (!known) return std::unexpected(status.error());
      reply_uncertain_entry(request, *known);
    }
    return {};
  };
  answer_reading(request, parent, operation, RequestKind::other, is_control ? Wakes::never : Wakes::by_inode);
}

void op_getattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info) {
  const auto operation = [&]() -> Result<> {
    if (info != nullptr) CODECFS_TRY(check_current(file_of(info)->outdated));
    Result<struct stat> found = filesystem_of(request).names().attributes(ino);
    // The file was removed since it was opened: the kernel requests attributes before it reads.
    if (!found && found.error().code == ENOENT && info != nullptr) found = file_of(info)->attributes_of_removed(ino);
    // Of an open file, an error is no absence: what is known may not be its size.
    if (!found && info == nullptr && Namespace::hides(found.error())) {
      if (const auto known = filesystem_of(request).names().known(ino)) {
        fuse_reply_attr(request, &*known, 0);
        return {};
      }
    }
    CODECFS_ASSIGN(const struct stat status, std::move(found));
    fuse_reply_attr(request, &status, timeout_of(request, ino));
    return {};
  };
  // The kernel asks for the root before it looks up the control directory.
  answer_reading(request, ino, operation, RequestKind::other, ino == kRootIno ? Wakes::never : Wakes::by_inode);
}

void op_readlink(fuse_req_t request, fuse_ino_t ino) {
  answer_reading(request, ino, [&]() -> Result<> {
    CODECFS_ASSIGN(const std::string target, filesystem_of(request).names().link_target(ino));
    fuse_reply_readlink(request, target.c_str());
    return {};
  });
}

OpenDirectory* directory_of(fuse_file_info* info) { return OpenHandles<OpenDirectory>::at(info->fh); }

void op_open(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info) {
  static std::once_flag tuned;
  std::call_once(tuned, [&] { raise_readahead(mount_of(request).mountpoint, kMaxRead); });
  const bool for_writing = (info->flags & O_ACCMODE) != O_RDONLY;
  answer_reading(
      request, ino,
      [&]() -> Result<> {
        CODECFS_ASSIGN(
            std::unique_ptr<FileHandle> file,
            filesystem_of(request).files().open(ino, for_writing, for_writing && (info->flags & O_TRUNC) != 0));
        Caching& caching = file->caching;
        info->keep_cache = !caching.live && !caching.outside;
        caching.direct = writes_past_pages(caching, *info);
        info->direct_io = caching.live || caching.direct;
        keep_copies(request, ino, *file, *info);
        // The kernel must not keep pages of which there are no copies.
        if (file->copies.is_first()) info->keep_cache = 0;
        info->noflush = !for_writing;
        Mount& mount = mount_of(request);
        if (file->passable) {
          mount.passable_opens.answer(request, ino, *info, std::move(file));
          return {};
        }
        UnknownFile opened_file(mount, std::move(file));
        info->fh = opened_file.handle();
        const auto reply = [request, &mount, opened = *info] {
          if (fuse_reply_open(request, &opened) != 0) close_unknown(mount, opened.fh);
        };
        if (for_writing)
          mount.filesystem.context().kernel.pages.after_pushes(ino, reply);
        else
          reply();
        opened_file.told();
        return {};
      },
      for_writing ? RequestKind::writing : RequestKind::reading);
}

void op_read(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info* info) {
  answer_reading(
      request, ino,
      [&]() -> Result<> {
        CODECFS_TRY(check_current(file_of(info)->outdated));
        ++filesystem_of(request).context().stats.reads;
        filesystem_of(request).context().kernel.pages_given.requested(ino);
        CODECFS_ASSIGN(const Slice slice, file_of(info)->read(static_cast<uint64_t>(offset), size));
        if (!is_past_pages(*info))
          filesystem_of(request).context().chunks.page_copies.given(ino, static_cast<uint64_t>(offset), slice.bytes);
        filesystem_of(request).context().errors.succeeded(ino, RequestKind::reading);
        fuse_reply_buf(request, reinterpret_cast<const char*>(slice.bytes.data()), slice.bytes.size());
        return {};
      },
      RequestKind::reading);
}

void op_release(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info) {
  Mount& mount = mount_of(request);
  log_exceptions([&] {
    if (file_of(info)->close()) mount.notices.content_changed(ino, false);
  });
  mount.files.close(info->fh);
  fuse_reply_err(request, 0);
}

void op_opendir(fuse_req_t request, fuse_ino_t ino, fuse_file_info* info) {
  answer_reading(request, ino, [&]() -> Result<> {
    CODECFS_ASSIGN(std::unique_ptr<OpenDirectory> directory, filesystem_of(request).listing().open(ino));
    Mount& mount = mount_of(request);
    info->fh = mount.directories.add(std::move(directory));
    if (fuse_reply_open(request, info) != 0) mount.directories.close(info->fh);
    return {};
  });
}

// Entries that are listed with attributes need no LOOKUP before they are opened, and chunks can be pushed to inodes
// that the kernel knows. But the kernel keeps an inode for each, about 1 KB, and listing them takes longer. So a
// listing begins with attributes, and goes on without; with attributes again when a LOOKUP shows that they are wanted.
constexpr int64_t kDescribed = 1024;
constexpr int64_t kDescribedAfterLookup = 4096;
constexpr int64_t kChunksDescribed = 16384;  // where this takes no access to a filesystem, and nothing changes

int64_t entries_to_describe(MountContext& context, const OpenDirectory& directory) {
  const Source& source = context.dataset.source();
  const bool is_local_file = S_ISREG(source.status().st_mode) && source.reads_at_once() == 0;
  const bool is_cheap = directory.variable && is_local_file && context.options.read_only && !context.options.coherent;
  return is_cheap ? kChunksDescribed : kDescribed;
}

void expect_description(Mount& mount, OpenDirectory& directory, Ino ino, off_t offset) {
  Ino expected = ino;
  if (offset == 0)
    directory.undescribed = entries_to_describe(mount.filesystem.context(), directory);
  else if (directory.undescribed <= 0 && mount.looked_up_in.compare_exchange_strong(expected, 0))
    directory.undescribed = kDescribedAfterLookup;
}

/// The inodes of which the kernel is told by a listing, unless the reply fails or is not sent at all.
class ToldInodes {
 public:
  explicit ToldInodes(Mount& mount) : mount_(mount) {}
  ToldInodes(const ToldInodes&) = delete;
  ToldInodes& operator=(const ToldInodes&) = delete;
  ~ToldInodes() {
    for (const Ino ino : inodes_) note_forgotten(mount_, ino, 1);
  }
  void add(Ino ino) {
    inodes_.push_back(ino);
    note_looked_up(mount_, ino);
  }
  void replied() { inodes_.clear(); }

 private:
  Mount& mount_;
  std::vector<Ino> inodes_;
};

/// Adds one entry, with its attributes if they are wanted and available. `told`: gets its inode if the kernel will know
/// it.
size_t add_with_attributes(fuse_req_t request, MutableBytes room, const DirectoryItem& item, bool is_described,
                           ToldInodes& told) {
  fuse_entry_param entry{};
  const bool dots = item.name == "." || item.name == "..";  // the kernel ignores attributes of these
  if (is_described && item.attributes && !dots) {
    // An entry without attributes is listed all the same; its lookup returns the error. Of an entry that has become
    // another one since the directory was opened, the type is the old one.
    const Result<struct stat> status = item.attributes();
    if (status && (status->st_mode & S_IFMT) == item.type) entry = entry_of(request, *status);
  }
  entry.attr.st_mode = item.type | (entry.attr.st_mode & 07777);
  if (entry.ino == 0) entry.attr.st_ino = item.ino != 0 ? item.ino : 0xffffffff;  // only used as d_ino
  const size_t size = fuse_add_direntry_plus(request, reinterpret_cast<char*>(room.data()), room.size(),
                                             item.name.c_str(), &entry, item.next);
  if (entry.ino != 0 && size <= room.size()) told.add(entry.ino);
  return size;
}

size_t add_plain(fuse_req_t request, MutableBytes room, const DirectoryItem& item) {
  struct stat status{};
  status.st_mode = item.type;
  status.st_ino = item.ino != 0 ? item.ino : 0xffffffff;
  return fuse_add_direntry(request, reinterpret_cast<char*>(room.data()), room.size(), item.name.c_str(), &status,
                           item.next);
}

/// The kernel asks anew before it uses what these entries tell.
void expire_entries(MutableBytes entries) {
  for (size_t at = 0; at < entries.size();) {
    auto* const entry = reinterpret_cast<fuse_direntplus*>(entries.data() + at);
    entry->entry_out.entry_valid = entry->entry_out.attr_valid = 0;
    entry->entry_out.entry_valid_nsec = entry->entry_out.attr_valid_nsec = 0;
    at += FUSE_DIRENTPLUS_SIZE(entry);
  }
}

/// `add(room, item, told)` gives the bytes that the item needs, and adds it if there is room; see
/// add_with_attributes().
template <class Add>
void read_directory(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info* info, Add add,
                    bool has_attributes) {
  answer_reading(request, ino, [&]() -> Result<> {
    CODECFS_TRY(check_current(directory_of(info)->outdated));
    std::vector<std::byte> reply(std::min(size, size_t{kMaxRead}));
    size_t used = 0;
    ToldInodes told(mount_of(request));
    const Result<> read =
        filesystem_of(request).listing().read(*directory_of(info), offset, [&](const DirectoryItem& item) {
          const size_t entry = add(MutableBytes(reply).subspan(used), item, told);
          if (entry > reply.size() - used) return false;
          used += entry;
          return true;
        });
    if (!read && used == 0) return std::unexpected(read.error());
    if (has_attributes && mount_of(request).notices.is_outdated()) expire_entries(MutableBytes(reply).first(used));
    if (fuse_reply_buf(request, reinterpret_cast<const char*>(reply.data()), used) == 0) told.replied();
    return {};
  });
}

void op_readdir(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info* info) {
  read_directory(
      request, ino, size, offset, info,
      [&](MutableBytes room, const DirectoryItem& item, ToldInodes&) { return add_plain(request, room, item); }, false);
}

void op_readdirplus(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info* info) {
  // After the reply the directory may be closed.
  OpenDirectory& directory = *directory_of(info);
  expect_description(mount_of(request), directory, ino, offset);
  read_directory(
      request, ino, size, offset, info,
      [&](MutableBytes room, const DirectoryItem& item, ToldInodes& told) {
        const bool is_described = directory.undescribed.fetch_sub(1, std::memory_order_relaxed) > 0;
        return add_with_attributes(request, room, item, is_described, told);
      },
      true);
}

void op_releasedir(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  mount_of(request).directories.close(info->fh);
  fuse_reply_err(request, 0);
}

void op_statfs(fuse_req_t request, fuse_ino_t) {
  answer(
      request, kRootIno,
      [&]() -> Result<> {
        const struct statvfs numbers = filesystem_of(request).statistics();
        fuse_reply_statfs(request, &numbers);
        return {};
      },
      RequestKind::other, Wakes::never);
}

/// A reply in the protocol of getxattr and listxattr: the length for size 0, else the bytes if they fit.
void reply_sized(fuse_req_t request, const std::string& bytes, size_t size) {
  if (size == 0) {
    fuse_reply_xattr(request, bytes.size());
  } else if (bytes.size() > size) {
    fuse_reply_err(request, ERANGE);
  } else {
    fuse_reply_buf(request, bytes.data(), bytes.size());
  }
}

void op_getxattr(fuse_req_t request, fuse_ino_t ino, const char* name, size_t size) {
  const std::string_view wanted = name;
  // What `codecfs status`, unmounting and SourceRest ask for.
  const bool is_of_mount = ino == kRootIno && (wanted == "user._Progress" || wanted == kNotStoredXattr ||
                                               wanted == kRestXattr || wanted.starts_with(kUnmountXattr));
  const auto operation = [&]() -> Result<> {
    if (!wanted.starts_with("user.")) return std::unexpected(Error{ENODATA, {}});
    if (ino == kRootIno && wanted.starts_with(kUnmountXattr)) {
      CODECFS_TRY(mount_of(request).unmount_notifier.add_listener(wanted.substr(kUnmountXattr.size())));
      reply_sized(request, "", size);
      return {};
    }
    if (ino == kRootIno && wanted == kRestXattr) {
      if (mount_of(request).rest == nullptr) return std::unexpected(Error{ENODATA, {}});
      CODECFS_TRY(mount_of(request).rest->request_now());
      reply_sized(request, "", size);
      return {};
    }
    // These can be read while the source is busy.
    if (wanted == "user._Progress" || wanted == kNotStoredXattr) {
      CODECFS_ASSIGN(const std::vector<Xattr> live, filesystem_of(request).xattrs().live(ino));
      const auto found = std::ranges::find(live, wanted, &Xattr::name);
      if (found == live.end()) return std::unexpected(Error{ENODATA, {}});
      reply_sized(request, found->value, size);
      return {};
    }
    CODECFS_ASSIGN(const XattrView view, filesystem_of(request).xattrs().all(ino));
    for (const std::vector<Xattr>* list : {&view.live, view.stored.get()}) {
      for (const Xattr& xattr : *list) {
        if (xattr.name != wanted) continue;
        reply_sized(request, xattr.value, size);
        return {};
      }
    }
    // It may be one of those that cannot be read, which all() has noted.
    const bool is_known = !view.incomplete || is_special_xattr(wanted);
    return std::unexpected(Error{is_known ? ENODATA : view.incomplete->code, {}});
  };
  answer_reading(request, ino, operation, RequestKind::other, is_of_mount ? Wakes::never : Wakes::by_inode);
}

void op_listxattr(fuse_req_t request, fuse_ino_t ino, size_t size) {
  answer_reading(request, ino, [&]() -> Result<> {
    CODECFS_ASSIGN(const XattrView view, filesystem_of(request).xattrs().all(ino));
    std::string names;
    for (const Xattr& xattr : view.live) names += xattr.name + '\0';
    for (const Xattr& xattr : *view.stored) {
      if (names.size() + xattr.name.size() + 1 > kMaxXattrList) {
        log::warning("inode {}: only some of its {} attributes fit into an xattr list; .zattrs has them all", ino,
                     view.stored->size());
        break;
      }
      names += xattr.name;
      names += '\0';
    }
    reply_sized(request, names, size);
    return {};
  });
}

}  // namespace

const fuse_lowlevel_ops& operations() {
  static const fuse_lowlevel_ops table = [] {
    fuse_lowlevel_ops ops{};
    ops.init = op_init;
    ops.lookup = op_lookup;
    ops.getattr = op_getattr;
    ops.readlink = op_readlink;
    ops.open = op_open;
    ops.read = op_read;
    ops.release = op_release;
    ops.opendir = op_opendir;
    ops.readdir = op_readdir;
    ops.readdirplus = op_readdirplus;
    ops.releasedir = op_releasedir;
    ops.statfs = op_statfs;
    ops.getxattr = op_getxattr;
    ops.listxattr = op_listxattr;
    add_writing_operations(ops);
    return ops;
  }();
  return table;
}

}  // namespace codecfs::fs
