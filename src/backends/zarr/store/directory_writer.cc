#include "backends/zarr/store/directory_writer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "base/log.h"

namespace codecfs::zarr {
namespace {

constexpr std::string_view kMark = ".codecfs-";
constexpr size_t kNameKept = 200;  // maximum part of a name in a temporary name, to stay below NAME_MAX

/// "0/1/2" -> "0/1" and "2"; "0.1" -> "" and "0.1".
std::pair<std::string_view, std::string_view> split(std::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash == std::string_view::npos) return {"", name};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

std::string below_array(const std::string& array, std::string_view below) {
  return below.empty() ? array : join_key(array, below);
}

std::string last_part(const std::string& path) { return std::string(split(path).second); }

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool is_temporary_name(std::string_view name) {
  const size_t mark = name.rfind(kMark);
  if (!name.starts_with('.') || mark == std::string_view::npos || mark < 2) return false;
  const std::string_view numbers = name.substr(mark + kMark.size());
  const size_t dash = numbers.find('-');
  return dash != std::string_view::npos && is_number(numbers.substr(0, dash)) && is_number(numbers.substr(dash + 1));
}

std::string temporary_name_of(std::string_view name, uint64_t number) {
  return fmt::format(".{}{}{}-{}", name.substr(0, kNameKept), kMark, ::getpid(), number);
}

void remove_leftovers_of(FileIo& io, const File& parent, const std::string& name) {
  const std::string start = fmt::format(".{}{}", name.substr(0, kNameKept), kMark);
  const auto names = names_in(parent);
  if (!names) return;
  for (const std::string& found : *names) {
    if (!found.starts_with(start) || !is_temporary_name(found)) continue;
    if (const auto removed = remove_tree(io, parent, found); !removed)
      log::warning("{}/{} was left behind: {}", parent.path, found, removed.error().reason);
  }
}

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), ::free);
  return real ? real.get() : path;
}

DirectoryWriter::DirectoryWriter(DirectoryStore& store, const std::string& path, FileIo& io)
    : store_(store), path_(real_path(path)), io_(io), lock_(store) {}

Result<> DirectoryWriter::write(const std::string& array, const std::string& name, Bytes bytes, mode_t mode) {
  const StorePart whole = {.bytes = bytes, .file = nullptr, .offset = 0, .size = bytes.size()};
  return write_parts(array, name, std::span(&whole, 1), mode);
}

/// Copies ranges of files in blocks, in which small parts are gathered.
Result<> DirectoryWriter::write_content(const File& file, std::span<const StorePart> parts) {
  constexpr uint64_t kBlock = uint64_t{1} << 20;
  if (parts.size() == 1 && !parts[0].file) return io_.write(file, 0, parts[0].bytes);
  std::vector<std::byte> block;
  uint64_t end = 0;
  const auto flush = [&]() -> Result<> {
    CODECFS_TRY(io_.write(file, end, block));
    end += block.size();
    block.clear();
    return {};
  };
  for (const StorePart& part : parts) {
    for (uint64_t done = 0; done < part.size;) {
      const uint64_t size = std::min(part.size - done, kBlock - block.size());
      if (part.file) {
        CODECFS_ASSIGN(const Buffer copied, part.file->read(part.offset + done, size));
        block.insert(block.end(), copied.data(), copied.data() + size);
      } else {
        const Bytes bytes = part.bytes.subspan(done, size);
        block.insert(block.end(), bytes.begin(), bytes.end());
      }
      done += size;
      if (block.size() == kBlock) CODECFS_TRY(flush());
    }
  }
  return flush();
}

Result<> DirectoryWriter::write_parts(const std::string& array, const std::string& name,
                                      std::span<const StorePart> parts, mode_t mode) try {
  CODECFS_TRY(lock_.make_exclusive());
  const auto [below, last] = split(name);
  CODECFS_ASSIGN(const File directory, directory_for(array, below));
  remove_leftovers(directory, below_array(array, below));
  remove_leftovers_above(array);

  const auto not_stored = [&](const Error& error) {
    return fail(error.code, "{} was not stored: {}", join_key(array, name), error.reason);
  };
  const auto temporary = create_temporary(directory, last, mode);
  if (!temporary) return not_stored(temporary.error());
  const auto& [file, file_name] = *temporary;
  Result<> written = make_like_existing(file, directory, std::string(last));
  if (written) written = write_content(file, parts);
  if (written) written = io_.sync(file);
  if (written) written = io_.rename(directory, file_name, std::string(last));
  if (!written) {
    if (const Result<> removed = io_.unlink(directory, file_name); !removed)
      log::warning("a temporary file was left behind: {}", removed.error().reason);
    return not_stored(written.error());
  }
  note_change(array, below);
  return {};
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to store a chunk", array);
}

Result<> DirectoryWriter::remove(const std::string& array, const std::string& name) try {
  CODECFS_ASSIGN(const auto status, store_.stat(join_key(array, name)));
  if (!status || !S_ISREG(status->st_mode)) return {};
  CODECFS_TRY(lock_.make_exclusive());
  const auto [below, last] = split(name);
  CODECFS_ASSIGN(const File directory, store_.directory(below_array(array, below)));
  remove_leftovers(directory, below_array(array, below));
  if (Result<> removed = io_.unlink(directory, std::string(last)); !removed && removed.error().code != ENOENT)
    return removed;
  note_change(array, below);
  return {};
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to remove a chunk", array);
}

Result<std::unique_ptr<NewDirectory>> DirectoryWriter::new_directory(const std::string& parent, const std::string& name,
                                                                     mode_t mode) {
  CODECFS_ASSIGN(const File directory, directory_to_change(parent));
  return new_directory(directory, name, mode);
}

Result<std::unique_ptr<NewDirectory>> DirectoryWriter::new_store(mode_t mode) {
  CODECFS_ASSIGN(const File holder, holder_of_store());
  return new_directory(holder, last_part(path_), mode);
}

Result<std::unique_ptr<NewDirectory>> DirectoryWriter::new_directory(const File& parent, const std::string& name,
                                                                     mode_t mode) try {
  CODECFS_TRY(lock_.make_exclusive());
  while (true) {
    CODECFS_ASSIGN(File own, open_directory(parent, "."));
    own.path = parent.path;
    auto made = TemporaryDirectory::make(io_, std::move(own), temporary_name(name), mode);
    if (made) {
      if (auto replaced = open_directory(parent, name)) CODECFS_TRY(made->make_like(std::move(*replaced)));
      return std::make_unique<TemporaryDirectory>(std::move(*made));
    }
    if (made.error().code != EEXIST) return pass_on(made);  // EEXIST: left by an earlier process with our id
  }
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to make it", name);
}

Result<std::unique_ptr<NewDirectory>> DirectoryWriter::remove_directory(const std::string& parent,
                                                                        const std::string& name) try {
  CODECFS_ASSIGN(File directory, directory_to_change(parent));
  std::string removed = temporary_name(name);
  for (Result<> moved = io_.move(directory, name, directory, removed); !moved;) {
    if (moved.error().code != EEXIST) return pass_on(moved);
    removed = temporary_name(name);
    moved = io_.move(directory, name, directory, removed);
  }
  // Sync before deleting the content: a power failure must not restore the directory with a part of its content.
  if (Result<> synced = sync_names(io_, directory); !synced) {
    if (const auto back = io_.move(directory, removed, directory, name); !back)
      log::warning("{} is called {} now: {}", join_key(parent, name), removed, back.error().reason);
    return pass_on(synced);
  }
  note_change(parent, "");
  return std::make_unique<TemporaryDirectory>(
      TemporaryDirectory::of_removed(io_, std::move(directory), std::move(removed)));
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to remove it", join_key(parent, name));
}

Result<> DirectoryWriter::move(const std::string& from_parent, const std::string& from, const std::string& to_parent,
                               const std::string& to) try {
  CODECFS_ASSIGN(const File source, directory_to_change(from_parent));
  CODECFS_ASSIGN(const File target, directory_to_change(to_parent));
  CODECFS_TRY(io_.move(source, from, target, to));
  const std::string old_key = join_key(from_parent, from);
  const std::string new_key = join_key(to_parent, to);
  {
    // Sync pending changes of the directory under its new name.
    const LockGuard lock(changed_mutex_);
    std::set<std::string> changed;
    for (const std::string& key : changed_)
      changed.insert(is_at_or_below(key, old_key) ? new_key + key.substr(old_key.size()) : key);
    changed_ = std::move(changed);
  }
  note_change(from_parent, "");
  note_change(to_parent, "");
  return {};
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to move it", join_key(from_parent, from));
}

/// The parent of the store's own directory. ESTALE if the store has been moved.
Result<File> DirectoryWriter::holder_of_store() const {
  const size_t slash = path_.rfind('/');
  if (slash == std::string::npos || slash + 1 == path_.size())
    return fail(EOPNOTSUPP, "{}: no directory holds it", path_);
  CODECFS_ASSIGN(File holder, open_directory(slash == 0 ? "/" : path_.substr(0, slash)));
  CODECFS_ASSIGN(const auto own, store_.stat(""));
  struct stat there;
  const bool is_there = ::fstatat(holder.fd.get(), last_part(path_).c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0;
  if (!own || !is_there || own->st_dev != there.st_dev || own->st_ino != there.st_ino)
    return fail(ESTALE, "{}: is no longer the directory that was opened", path_);
  return holder;
}

Result<> DirectoryWriter::exchange_store(NewDirectory& directory) {
  auto& target = dynamic_cast<TemporaryDirectory&>(directory);
  CODECFS_ASSIGN(DirectoryStore store, DirectoryStore::open(target.directory()));
  StoreLock lock(store);  // before other programs can see the directory
  CODECFS_TRY(lock.make_exclusive());
  CODECFS_ASSIGN(const File holder, holder_of_store());
  CODECFS_TRY(target.exchange(last_part(path_)));
  store_.move_to(store);
  lock_.take_over(lock);
  return {};
}

Result<bool> DirectoryWriter::commit_at_interval() {
  CODECFS_TRY(commit());
  return true;
}

Result<> DirectoryWriter::commit() {
  const LockGuard committing(commit_mutex_);
  std::set<std::string> changed;
  {
    const LockGuard lock(changed_mutex_);
    if (changed_.empty()) return {};
  }
  CODECFS_TRY(sync_inherited());
  {
    const LockGuard lock(changed_mutex_);
    changed.swap(changed_);
  }
  std::optional<Error> failure;
  if (const auto own = store_.stat(""); own && (!*own || (*own)->st_nlink == 0))
    failure = Error{ESTALE, fmt::format("{}: was deleted, with what was written to it", path_)};
  const bool is_gone = failure.has_value();
  for (auto at = changed.begin(); !is_gone && at != changed.end();) {
    Result<> synced = sync_directory(*at);
    if (synced) {
      at = changed.erase(at);
    } else {
      if (!failure) failure = std::move(synced.error());
      ++at;
    }
  }
  if (!failure) return {};
  const LockGuard lock(changed_mutex_);
  changed_.merge(changed);
  return std::unexpected(*failure);
}

Result<> DirectoryWriter::sync_inherited() {
  const LockGuard lock(inherited_mutex_);
  if (is_inherited_synced_) return {};
  CODECFS_ASSIGN(const File top, store_.directory(""));
  CODECFS_TRY(io_.sync_filesystem(top));
  is_inherited_synced_ = true;
  return {};
}

Result<> DirectoryWriter::sync_directory(const std::string& key) try {
  const auto directory = store_.directory(key);
  if (!directory) {
    // Another program has removed the directory with all its content.
    if (directory.error().code == ENOENT || directory.error().code == ENOTDIR) return {};
    return std::unexpected(directory.error());
  }
  return sync_names(io_, *directory);
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to commit", key);
}

/// Opens `below` in an array's directory, which is created if needed.
Result<File> DirectoryWriter::directory_for(const std::string& array, std::string_view below) {
  auto directory = store_.directory(below_array(array, below));
  if (directory || directory.error().code != ENOENT || below.empty()) return directory;

  CODECFS_ASSIGN(const auto status, store_.stat(array));
  if (!status) return fail(ENOENT, "{}: no longer exists", array);
  const mode_t mode = status->st_mode & 07777;
  for (size_t start = 0; start < below.size();) {
    const size_t end = std::min(below.find('/', start), below.size());
    // Open each level again, as other threads and programs may create and replace directories too.
    CODECFS_ASSIGN(const File parent,
                   store_.directory(below_array(array, below.substr(0, start == 0 ? 0 : start - 1))));
    const Result<> made = io_.make_directory(parent, std::string(below.substr(start, end - start)), mode);
    if (!made && made.error().code != EEXIST) return std::unexpected(made.error());
    start = end + 1;
  }
  return store_.directory(below_array(array, below));
}

/// Opens a directory in which names will change, and removes what a kill left in it.
Result<File> DirectoryWriter::directory_to_change(const std::string& key) {
  CODECFS_TRY(lock_.make_exclusive());
  CODECFS_ASSIGN(File directory, store_.directory(key));
  remove_leftovers(directory, key);
  remove_leftovers_above(key);
  return directory;
}

/// Ancestors of a changed directory may have leftovers of a large one that was being created or deleted.
void DirectoryWriter::remove_leftovers_above(const std::string& key) {
  if (key.empty() || !lock_.is_exclusive()) return;
  {
    const LockGuard lock(leftovers_mutex_);
    if (!cleared_above_.insert(key).second) return;
  }
  for (std::string above = holder_of(key);; above = holder_of(above)) {
    if (const auto directory = store_.directory(above)) remove_leftovers(*directory, above);
    if (above.empty()) return;
  }
}

void DirectoryWriter::remove_leftovers_beside() {
  if (!lock_.is_exclusive()) return;
  if (const auto holder = holder_of_store()) remove_leftovers_of(io_, *holder, last_part(path_));
}

/// Threads call this before they create a name in a directory, so no name in use is removed.
void DirectoryWriter::remove_leftovers(const File& directory, const std::string& key) {
  if (!lock_.is_exclusive()) return;
  struct stat status;
  if (::fstat(directory.fd.get(), &status) != 0) return;
  const LockGuard lock(leftovers_mutex_);
  // By inode and not by key, as several keys may lead to a directory through links.
  if (!cleared_.insert({status.st_dev, status.st_ino}).second) return;
  std::vector<std::string> leftovers;
  Result<> done = store_.for_each(key, [&](const char* name, DirectoryStore::EntryType type) -> Result<> {
    if (type != DirectoryStore::EntryType::unknown && is_temporary_name(name)) leftovers.emplace_back(name);
    return {};
  });
  for (const std::string& name : leftovers)
    if (done) done = remove_tree(io_, directory, name);
  if (!done)
    log::warning("{}: cannot remove temporary files of an interrupted write: {}", directory.path, done.error().reason);
}

std::string DirectoryWriter::temporary_name(std::string_view name) { return temporary_name_of(name, temporaries_++); }

Result<std::pair<File, std::string>> DirectoryWriter::create_temporary(const File& directory, std::string_view name,
                                                                       mode_t mode) {
  while (true) {
    std::string temporary = temporary_name(name);
    auto file = io_.create(directory, temporary, mode);
    if (file) return std::pair(std::move(*file), std::move(temporary));
    if (file.error().code != EEXIST) return pass_on(file);  // EEXIST: left by an earlier process with our id
  }
}

void DirectoryWriter::note_change(const std::string& array, std::string_view below) {
  const LockGuard lock(changed_mutex_);
  changed_.insert(below_array(array, below));
  // Also sync existing parents: the process that created them may have been killed before its sync.
  while (!below.empty()) {
    below = split(below).first;
    changed_.insert(below_array(array, below));
  }
}

}  // namespace codecfs::zarr
