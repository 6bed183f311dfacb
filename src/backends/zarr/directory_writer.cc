#include "backends/zarr/directory_writer.h"

#include <sys/stat.h>

#include <algorithm>
#include <new>
#include <optional>
#include <vector>

#include "base/log.h"

namespace codecfs::zarr {
namespace {

constexpr std::string_view kMark = ".codecfs-";
constexpr size_t kNameKept = 200;  // of a chunk's name in a temporary one, so that this stays below NAME_MAX

/// "0/1/2" -> "0/1" and "2"; "0.1" -> "" and "0.1".
std::pair<std::string_view, std::string_view> split(std::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash == std::string_view::npos) return {"", name};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

std::string below_array(const std::string& array, std::string_view below) {
  return below.empty() ? array : join_key(array, below);
}

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

Result<> DirectoryWriter::write(const std::string& array, const std::string& name, Bytes bytes, mode_t mode) try {
  CODECFS_TRY(lock_.make_exclusive());
  const auto [below, last] = split(name);
  CODECFS_ASSIGN(const File directory, directory_for(array, below));
  remove_leftovers(directory, below_array(array, below));

  const auto not_stored = [&](const Error& error) {
    return fail(error.code, "{} was not stored: {}", join_key(array, name), error.reason);
  };
  const auto temporary = create_temporary(directory, last, mode);
  if (!temporary) return not_stored(temporary.error());
  const auto& [file, file_name] = *temporary;
  Result<> written = io_.write(file, 0, bytes);
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

Result<> DirectoryWriter::commit() {
  const std::lock_guard committing(commit_mutex_);
  std::set<std::string> changed;
  {
    const std::lock_guard lock(changed_mutex_);
    changed.swap(changed_);
  }
  std::optional<Error> failure;
  for (auto at = changed.begin(); at != changed.end();) {
    Result<> synced = sync_directory(*at);
    if (synced) {
      at = changed.erase(at);
    } else {
      if (!failure) failure = std::move(synced.error());
      ++at;
    }
  }
  if (!failure) return {};
  const std::lock_guard lock(changed_mutex_);
  changed_.merge(changed);
  return std::unexpected(*failure);
}

Result<> DirectoryWriter::sync_directory(const std::string& key) try {
  const auto directory = store_.directory(key);
  if (!directory) {
    // Removed by somebody else, with all that was in it.
    if (directory.error().code == ENOENT || directory.error().code == ENOTDIR) return {};
    return std::unexpected(directory.error());
  }
  Result<> synced = io_.sync(*directory);
  // Filesystems of servers that keep names by themselves and have nothing to sync them with.
  if (!synced && synced.error().code == EINVAL) return {};
  return synced;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to commit", key);
}

/// `below` an array's directory, made where it is not there.
Result<File> DirectoryWriter::directory_for(const std::string& array, std::string_view below) {
  auto directory = store_.directory(below_array(array, below));
  if (directory || directory.error().code != ENOENT || below.empty()) return directory;

  CODECFS_ASSIGN(const auto status, store_.stat(array));
  if (!status) return fail(ENOENT, "{}: is gone", array);
  const mode_t mode = status->st_mode & 07777;
  for (size_t start = 0; start < below.size();) {
    const size_t end = std::min(below.find('/', start), below.size());
    // Opened again at each level, as others may make and replace them too.
    CODECFS_ASSIGN(const File parent,
                   store_.directory(below_array(array, below.substr(0, start == 0 ? 0 : start - 1))));
    const Result<> made = io_.make_directory(parent, std::string(below.substr(start, end - start)), mode);
    if (!made && made.error().code != EEXIST) return std::unexpected(made.error());
    start = end + 1;
  }
  return store_.directory(below_array(array, below));
}

/// Threads come here before they make a name in a directory, so that none is removed that is in use.
void DirectoryWriter::remove_leftovers(const File& directory, const std::string& key) {
  if (!lock_.is_exclusive()) return;
  struct stat status;
  if (::fstat(directory.fd.get(), &status) != 0) return;
  const std::lock_guard lock(leftovers_mutex_);
  // By number and not by key: links may lead to one directory by many ways.
  if (!cleared_.insert({status.st_dev, status.st_ino}).second) return;
  std::vector<std::string> leftovers;
  Result<> done = store_.for_each(key, [&](const char* name, DirectoryStore::EntryType type) -> Result<> {
    if (type == DirectoryStore::EntryType::other && is_temporary_name(name)) leftovers.emplace_back(name);
    return {};
  });
  for (const std::string& name : leftovers)
    if (done) done = io_.unlink(directory, name);
  if (!done) log::warning("{}: temporary files of an interrupted write stay: {}", directory.path, done.error().reason);
}

Result<std::pair<File, std::string>> DirectoryWriter::create_temporary(const File& directory, std::string_view name,
                                                                       mode_t mode) {
  while (true) {
    std::string temporary = fmt::format(".{}{}{}-{}", name.substr(0, kNameKept), kMark, ::getpid(), temporaries_++);
    auto file = io_.create(directory, temporary, mode);
    if (file) return std::pair(std::move(*file), std::move(temporary));
    if (file.error().code != EEXIST) return pass_on(file);  // else: left by another process that had our number
  }
}

void DirectoryWriter::note_change(const std::string& array, std::string_view below) {
  const std::lock_guard lock(changed_mutex_);
  changed_.insert(below_array(array, below));
  // Those above too, even where they were there: who made them may not have come to sync them.
  while (!below.empty()) {
    below = split(below).first;
    changed_.insert(below_array(array, below));
  }
}

}  // namespace codecfs::zarr
