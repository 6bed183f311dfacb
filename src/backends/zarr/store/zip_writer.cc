#include "backends/zarr/store/zip_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "backends/zarr/store/directory_writer.h"
#include "base/file_name.h"
#include "base/file_owner.h"
#include "base/file_replace.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/progress_reporter.h"

namespace codecfs::zarr {
namespace {

std::atomic<uint64_t> temporaries = 0;  // counted for the process, which may have several archives open

const char* called_in_store(const std::string& key) { return key.empty() ? "the store" : key.c_str(); }

}  // namespace

/// A directory outside of the tree: new or removed.
class ZipWriter::Directory final : public NewDirectory {
 public:
  /// `parent` null: it replaces the store. `key`: its future key.
  Directory(ZipWriter& writer, ZipDirectoryPtr parent, ZipDirectoryPtr own, std::string key)
      : writer_(writer), parent_(std::move(parent)), own_(std::move(own)), key_(std::move(key)) {}

  Result<> write(const std::string& name, Bytes bytes, mode_t mode) override {
    CODECFS_ASSIGN(SpilledPtr spilled, writer_.spill(bytes));
    const LockGuard lock(writer_.store_.tree().mutex);
    return writer_.insert(own_, key_, name, std::move(spilled), mode);
  }

  Result<> make_directory(const std::string& name, mode_t) override try {
    const LockGuard lock(writer_.store_.tree().mutex);
    CODECFS_TRY(writer_.store_.tree().check_reach(join_key(key_, name)));
    ZipDirectoryPtr at = own_;
    for (size_t start = 0; start < name.size();) {
      const size_t end = std::min(name.find('/', start), name.size());
      ZipMember& member = at->members.try_emplace(name.substr(start, end - start)).first->second;
      if (auto* file = std::get_if<ZipFilePtr>(&member)) {
        if (*file) return fail(ENOTDIR, "{}: a file is in the way", name);
        member = writer_.store_.tree().new_directory();
      }
      at = ZipDirectoryPtr(std::get<ZipDirectoryPtr>(member));
      start = end + 1;
    }
    return {};
  } catch (const std::bad_alloc&) {
    return fail(ENOMEM, "{}: no memory to make it", name);
  }

  [[nodiscard]] Result<struct stat> parent_status() const override {
    if (!parent_) return fail(ENOENT, "no directory holds the store");
    const SharedLock lock(writer_.store_.tree().mutex);
    return writer_.store_.status_of(*parent_);
  }

  Result<> place(const std::string& name) override try {
    const LockGuard lock(writer_.store_.tree().mutex);
    CODECFS_TRY(writer_.store_.tree().check_reach(key_, own_.get()));
    if (!parent_->members.try_emplace(name, own_).second) return fail(EEXIST, "{}: exists", key_);
    own_.reset();
    writer_.store_.tree().touch(*parent_);
    writer_.is_dirty_ = true;
    return {};
  } catch (const std::bad_alloc&) {
    return fail(ENOMEM, "{}: no memory to make it", key_);
  }

  Result<> exchange(const std::string& name) override {
    const LockGuard lock(writer_.store_.tree().mutex);
    const auto found = parent_->members.find(name);
    if (found == parent_->members.end() || !std::holds_alternative<ZipDirectoryPtr>(found->second))
      return fail(ENOENT, "{}: no longer exists", key_);
    exchange_with(std::get<ZipDirectoryPtr>(found->second));
    writer_.store_.tree().touch(*parent_);
    return {};
  }

  /// The caller must hold ZipTree::mutex exclusively.
  void exchange_with(ZipDirectoryPtr& other) {
    own_->entry = std::exchange(other->entry, std::nullopt);
    own_.swap(other);
    writer_.is_dirty_ = true;
  }

 private:
  ZipWriter& writer_;
  ZipDirectoryPtr parent_;
  ZipDirectoryPtr own_;
  std::string key_;
};

ZipWriter::ZipWriter(ZipStore& store, const std::string& path, FileIo& io)
    : store_(store),
      path_(real_path(path)),
      io_(io),
      lock_(UniqueFd(::fcntl(store.tree().archive->file().fd.get(), F_DUPFD_CLOEXEC, 0)), "the archive") {}

std::string ZipWriter::temporary_name() { return temporary_name_of(name(), temporaries++); }

Result<File> ZipWriter::holder() const {
  return open_directory(path_.substr(0, std::max<size_t>(path_.rfind('/'), 1)));
}

/// ESTALE if another program has replaced the archive, whose changes a commit would undo.
Result<> ZipWriter::check_unchanged(const File& holder) const {
  const SharedLock lock(store_.tree().mutex);
  const struct stat& opened = store_.tree().archive->status();
  struct stat own;
  struct stat there;
  const bool is_same = ::fstat(store_.tree().archive->file().fd.get(), &own) == 0 &&
                       ::fstatat(holder.fd.get(), name().c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
                       own.st_dev == there.st_dev && own.st_ino == there.st_ino && own.st_size == opened.st_size &&
                       own.st_mtim.tv_sec == opened.st_mtim.tv_sec && own.st_mtim.tv_nsec == opened.st_mtim.tv_nsec;
  if (is_same) return {};
  if (!is_dirty_ && !has_committed_)
    return fail(ESTALE, "{}: another program has changed or replaced the archive: mount it again", path_);
  return fail(ESTALE,
              "{}: another program has changed, deleted or replaced the archive, and what was written is not in any "
              "file: copy what is needed from the mount, or end it with fusermount3 -u (as root: umount -l), which "
              "writes the whole archive to '{}', unless its content was changed",
              path_, path_.substr(0, path_.rfind('/') + 1) + rescued_name(name(), 0));
}

Result<> ZipWriter::begin() {
  if (has_begun_) return {};
  const LockGuard lock(begin_mutex_);
  if (has_begun_) return {};
  CODECFS_TRY(store_.may_change(""));
  CODECFS_TRY(lock_.make_exclusive());
  CODECFS_ASSIGN(const File directory, holder());
  if (Result<> unchanged = check_unchanged(directory); !unchanged) {
    lock_.make_shared();
    return unchanged;
  }
  if (lock_.is_exclusive()) remove_leftovers_of(io_, directory, name());
  has_begun_ = true;
  return {};
}

Result<SpilledPtr> ZipWriter::spill(Bytes bytes) {
  std::shared_ptr<SpillFile> file;
  {
    const LockGuard lock(spill_mutex_);
    while (!spill_) {
      CODECFS_ASSIGN(const File directory, holder());
      auto made = SpillFile::make(io_, directory, temporary_name());
      if (made) {
        spill_ = std::move(*made);
      } else if (made.error().code != EEXIST) {  // EEXIST: left by an earlier process with our id
        return fail(made.error().code, "cannot create a temporary file beside the archive: {}", made.error().reason);
      }
    }
    file = spill_;
  }
  return file->append(bytes);
}

/// ENOENT.
Result<ZipDirectoryPtr> ZipWriter::directory_to_change(const std::string& key) {
  auto directory = find_zip_directory(store_.root(), key);
  if (!directory) return fail(ENOENT, "{}: no longer exists", called_in_store(key));
  return directory;
}

/// `key` is that of `into`.
Result<> ZipWriter::insert(const ZipDirectoryPtr& into, const std::string& key, const std::string& name,
                           SpilledPtr bytes, mode_t mode) try {
  CODECFS_TRY(store_.tree().check_reach(join_key(key, name)));
  auto file = std::make_shared<ZipFile>();
  file->place = std::move(bytes);
  file->mode = mode;
  ZipDirectoryPtr at = into;
  for (size_t start = 0;;) {
    const size_t end = std::min(name.find('/', start), name.size());
    const auto [place, is_new] = at->members.try_emplace(name.substr(start, end - start));
    ZipMember& member = place->second;
    if (is_new) store_.tree().touch(*at);
    if (end == name.size()) {
      if (std::holds_alternative<ZipDirectoryPtr>(member))
        return fail(EISDIR, "{}: is a directory", join_key(key, name));
      member = std::move(file);
      return {};
    }
    if (is_new) member = store_.tree().new_directory();
    if (std::holds_alternative<ZipFilePtr>(member))
      return fail(ENOTDIR, "{}: a file is in the way", join_key(key, name));
    at = ZipDirectoryPtr(std::get<ZipDirectoryPtr>(member));
    start = end + 1;
  }
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to store it", join_key(key, name));
}

Result<> ZipWriter::write(const std::string& array, const std::string& name, Bytes bytes, mode_t mode) {
  CODECFS_TRY(begin());
  auto spilled = spill(bytes);
  if (!spilled)
    return fail(spilled.error().code, "{} was not stored: {}", join_key(array, name), spilled.error().reason);
  const LockGuard lock(store_.tree().mutex);
  CODECFS_ASSIGN(const ZipDirectoryPtr directory, directory_to_change(array));
  CODECFS_TRY(insert(directory, array, name, std::move(*spilled), mode));
  is_dirty_ = true;
  return {};
}

/// The parts are put together in memory.
Result<> ZipWriter::write_parts(const std::string& array, const std::string& name, std::span<const StorePart> parts,
                                mode_t mode) {
  uint64_t size = 0;
  for (const StorePart& part : parts) size += part.size;
  CODECFS_ASSIGN(Buffer whole, Buffer::allocate(size));
  uint64_t end = 0;
  for (const StorePart& part : parts) {
    Buffer copied;
    if (part.file) {
      CODECFS_ASSIGN(copied, part.file->read(part.offset, part.size));
    }
    std::ranges::copy(part.file ? copied.bytes() : part.bytes, whole.data() + end);
    end += part.size;
  }
  return write(array, name, whole.bytes(), mode);
}

Result<> ZipWriter::remove(const std::string& array, const std::string& name) {
  {
    const SharedLock lock(store_.tree().mutex);
    const auto member = find_zip_member(store_.root(), join_key(array, name));
    if (!member || !std::holds_alternative<ZipFilePtr>(*member)) return {};
  }
  CODECFS_TRY(begin());
  const LockGuard lock(store_.tree().mutex);
  const std::string key = join_key(array, name);
  const auto directory = find_zip_directory(store_.root(), holder_of(key));
  if (!directory) return {};
  const auto found = directory->members.find(key.substr(key.rfind('/') + 1));
  if (found == directory->members.end() || !std::holds_alternative<ZipFilePtr>(found->second)) return {};
  directory->members.erase(found);
  store_.tree().touch(*directory);
  is_dirty_ = true;
  return {};
}

Result<std::unique_ptr<NewDirectory>> ZipWriter::new_directory(const std::string& parent, const std::string& name,
                                                               mode_t) try {
  CODECFS_TRY(begin());
  const SharedLock lock(store_.tree().mutex);
  CODECFS_ASSIGN(ZipDirectoryPtr directory, directory_to_change(parent));
  CODECFS_TRY(store_.tree().check_reach(join_key(parent, name)));
  return std::make_unique<Directory>(*this, std::move(directory), store_.tree().new_directory(),
                                     join_key(parent, name));
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to make it", name);
}

Result<std::unique_ptr<NewDirectory>> ZipWriter::new_store(mode_t) try {
  CODECFS_TRY(begin());
  return std::make_unique<Directory>(*this, nullptr, store_.tree().new_directory(), "");
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "no memory to make a store");
}

Result<> ZipWriter::exchange_store(NewDirectory& directory) {
  const LockGuard lock(store_.tree().mutex);
  auto& fresh = dynamic_cast<Directory&>(directory);
  if (store_.tree().store_name.empty()) {
    fresh.exchange_with(store_.tree().top);
    return {};
  }
  const auto parent = find_zip_directory(store_.tree().top, holder_of(store_.tree().store_name));
  const auto found = parent->members.find(store_.tree().store_name.substr(store_.tree().store_name.rfind('/') + 1));
  fresh.exchange_with(std::get<ZipDirectoryPtr>(found->second));
  return {};
}

Result<std::unique_ptr<NewDirectory>> ZipWriter::remove_directory(const std::string& parent,
                                                                  const std::string& name) try {
  CODECFS_TRY(begin());
  const LockGuard lock(store_.tree().mutex);
  CODECFS_ASSIGN(const ZipDirectoryPtr directory, directory_to_change(parent));
  const auto found = directory->members.find(name);
  if (found == directory->members.end() || !std::holds_alternative<ZipDirectoryPtr>(found->second))
    return fail(ENOENT, "{}: no longer exists", join_key(parent, name));
  auto removed = std::make_unique<Directory>(*this, nullptr, std::get<ZipDirectoryPtr>(found->second), "");
  directory->members.erase(found);
  store_.tree().touch(*directory);
  is_dirty_ = true;
  return removed;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to remove it", join_key(parent, name));
}

Result<> ZipWriter::move(const std::string& from_parent, const std::string& from, const std::string& to_parent,
                         const std::string& to) try {
  CODECFS_TRY(begin());
  const LockGuard lock(store_.tree().mutex);
  CODECFS_ASSIGN(const ZipDirectoryPtr source, directory_to_change(from_parent));
  CODECFS_ASSIGN(const ZipDirectoryPtr target, directory_to_change(to_parent));
  const auto found = source->members.find(from);
  if (found == source->members.end()) return fail(ENOENT, "{}: no longer exists", join_key(from_parent, from));
  if (const auto* directory = std::get_if<ZipDirectoryPtr>(&found->second))
    CODECFS_TRY(store_.tree().check_reach(join_key(to_parent, to), directory->get()));
  if (!target->members.try_emplace(to, found->second).second)
    return fail(EEXIST, "{}: exists", join_key(to_parent, to));
  source->members.erase(found);
  store_.tree().touch(*source);
  store_.tree().touch(*target);
  is_dirty_ = true;
  return {};
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to move it", join_key(from_parent, from));
}

Result<bool> ZipWriter::commit_at_interval() {
  uint64_t bytes = 0;
  {
    const LockGuard lock(spill_mutex_);
    if (spill_) bytes = spill_->stored_bytes();
  }
  {
    const SharedLock lock(store_.tree().mutex);
    bytes += static_cast<uint64_t>(store_.tree().archive->status().st_size);
  }
  if (bytes > kSmallArchive && is_dirty_) return false;
  CODECFS_TRY(commit());
  return true;
}

Result<> ZipWriter::sync_inherited() {
  if (is_inherited_synced_) return {};
  CODECFS_ASSIGN(const File directory, holder());
  CODECFS_TRY(sync_names(io_, directory));
  is_inherited_synced_ = true;
  return {};
}

Result<> ZipWriter::commit() {
  const LockGuard committing(commit_mutex_);
  if (!is_dirty_ && !is_deleted()) return {};
  CODECFS_TRY(rewrite_archive(Purpose::commit));
  return {};
}

// A program that has copied and deleted the archive may have copied the one before the last commit.
bool ZipWriter::is_deleted() {
  if (!is_dirty_ && !has_committed_) return false;
  const SharedLock lock(store_.tree().mutex);
  struct stat own;
  return ::fstat(store_.tree().archive->file().fd.get(), &own) == 0 && own.st_nlink == 0;
}

Result<bool> ZipWriter::compact() {
  CODECFS_TRY(begin());
  const LockGuard committing(commit_mutex_);
  return rewrite_archive(Purpose::compact);
}

Result<> ZipWriter::end() {
  const Result<> rescued = rescue();
  const LockGuard lock(begin_mutex_);
  has_begun_ = false;
  lock_.make_shared();
  return rescued;
}

/// Writes a new archive beside one that another program has deleted or replaced. ESTALE, with its path.
Result<> ZipWriter::rescue() {
  const LockGuard committing(commit_mutex_);
  if (!is_dirty_ && !is_deleted()) return {};
  CODECFS_ASSIGN(const File directory, holder());
  std::shared_ptr<const ZipArchive> archive;
  {
    const SharedLock lock(store_.tree().mutex);
    archive = store_.tree().archive;
  }
  struct stat own;
  if (check_name(directory, name(), archive->file())) return {};  // it is there
  if (::fstat(archive->file().fd.get(), &own) != 0 || own.st_size != archive->status().st_size)
    return fail(ESTALE, "{}: another program has changed the archive: what was written to it is lost", path_);
  CODECFS_TRY(rewrite_archive(Purpose::rescue));
  return fail(ESTALE, "{}: was deleted or replaced by another program; its content with all changes is now in '{}'",
              path_, rescued_);
}

/// False: for Purpose::compact, the new archive would not be smaller.
Result<bool> ZipWriter::rewrite_archive(Purpose purpose) try {
  CODECFS_ASSIGN(const File directory, holder());
  if (purpose != Purpose::rescue) CODECFS_TRY(check_unchanged(directory));
  ZipSnapshot now;
  {
    const SharedLock lock(store_.tree().mutex);
    now = ZipSnapshot::of(store_.tree());
    is_dirty_ = false;
  }
  std::string temporary = temporary_name();
  auto file = io_.create(directory, temporary, S_IRUSR | S_IWUSR);
  while (!file && file.error().code == EEXIST) {
    temporary = temporary_name();
    file = io_.create(directory, temporary, S_IRUSR | S_IWUSR);
  }
  Result<bool> done = false;
  if (!file) {
    done = pass_on(file);
  } else if (done = replace(directory, std::move(*file), temporary, now, purpose); !done || !*done) {
    (void)io_.unlink(directory, temporary);
  }
  if (!done) {
    is_dirty_ = true;
    return fail(done.error().code, "{}: could not be rewritten, and is unchanged: {}", path_, done.error().reason);
  }
  if (Result<> synced = sync_names(io_, directory); !synced) {
    is_dirty_ = true;
    return fail(synced.error().code, "{}: was rewritten, but a power failure may restore the old one: {}", path_,
                synced.error().reason);
  }
  return done;
} catch (const std::bad_alloc&) {
  is_dirty_ = true;
  return fail(ENOMEM, "{}: no memory to rewrite the archive", path_);
}

/// False: not done, as the new archive is not smaller.
Result<bool> ZipWriter::replace(const File& holder, File file, const std::string& temporary, ZipSnapshot& snapshot,
                                Purpose purpose) {
  const std::shared_ptr<const ZipArchive> old = snapshot.archive();
  if (const Result<> given = make_like(file.fd.get(), old->file().fd.get(), Attributes::user); !given)
    return fail(given.error().code, "{}: {}", file.path, given.error().reason);
  ProgressReporter work(fmt::format("rewriting the archive {}", path_));
  work.expect(work_of_writing(snapshot.entries()));
  CODECFS_ASSIGN(RewrittenZip written, write_zip(io_, file, snapshot.entries(), snapshot.archive()->comment()));
  struct stat size;
  if (purpose == Purpose::compact && ::fstat(file.fd.get(), &size) == 0 && size.st_size >= old->status().st_size)
    return false;
  CODECFS_TRY(io_.sync(file));
  if (purpose == Purpose::rescue) {
    CODECFS_ASSIGN(const std::string rescued, name_rescued(io_, holder, temporary, name()));
    rescued_ = path_.substr(0, path_.rfind('/') + 1) + rescued;
    return true;
  }
  StoreLock lock(UniqueFd(::fcntl(file.fd.get(), F_DUPFD_CLOEXEC, 0)), "the archive");
  CODECFS_TRY(lock.make_exclusive());  // before other programs can see it
  file.path = path_;
  CODECFS_ASSIGN(const auto archive, ZipArchive::adopt(std::move(file), written.end));
  CODECFS_TRY(check_unchanged(holder));
  CODECFS_TRY(
      replace_file(io_, holder, {.name = temporary, .file = archive->file()}, {.name = name(), .file = old->file()}));
  has_committed_ = true;
  lock_.take_over(lock);
  {
    const LockGuard tree(store_.tree().mutex);
    store_.tree().archive = archive;
    snapshot.move_to(archive, written.entries);
  }
  return true;
}

}  // namespace codecfs::zarr
