#include "backends/hdf5/wal/write_log_rescue.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <algorithm>
#include <climits>
#include <vector>

#include "backends/hdf5/wal/write_log.h"
#include "base/file_name.h"
#include "base/file_owner.h"
#include "base/file_replace.h"
#include "base/log.h"
#include "base/progress_reporter.h"

namespace codecfs::hdf5 {
namespace {

constexpr long kFuseMagic = 0x65735546;

std::string parent_of(const std::string& path) { return path.substr(0, std::max<size_t>(path.rfind('/'), 1)); }

bool is_in_directory(const File& log) {
  struct stat status;
  return ::stat(parent_of(present_path(log.fd.get())).c_str(), &status) == 0;
}

std::string rescue_beside(const std::string& log) {
  const std::string name = log.substr(log.rfind('/') + 1);
  return is_log_name(name) ? parent_of(log) + "/" + rescued_name(rescue_stem_for(name), 0) : "a file beside it";
}

/// Creates a file, instead of one that an interrupted rescue has left: only the owner of the log uses its name.
Result<File> create_anew(FileIo& io, const File& directory, const std::string& name) {
  auto made = io.create(directory, name, S_IRUSR | S_IWUSR);
  if (made || made.error().code != EEXIST) return made;
  CODECFS_TRY(io.unlink(directory, name));
  return io.create(directory, name, S_IRUSR | S_IWUSR);
}

}  // namespace

std::string present_path(int fd) {
  std::string path(PATH_MAX, '\0');
  const ssize_t length = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), path.data(), path.size());
  path.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return path;
}

bool has_no_name(int fd) {
  struct stat status;
  struct statfs filesystem;
  if (::fstat(fd, &status) != 0) return false;
  if (status.st_nlink == 0) return true;
  if (::fstatfs(fd, &filesystem) != 0 || (filesystem.f_type != NFS_SUPER_MAGIC && filesystem.f_type != kFuseMagic))
    return false;
  const std::string path = present_path(fd);
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.starts_with(".nfs") || name.starts_with(".fuse_hidden");
}

bool is_given_up(const File& log) { return has_no_name(log.fd.get()) && is_in_directory(log); }

std::string how_to_end_deleted(const File& log) {
  if (has_no_name(log.fd.get()))
    return "its log was deleted, too, with the directory: copy what is needed from the mount; fusermount3 -u (as "
           "root: umount -l) ends the mount, and the changes are lost";
  const std::string path = present_path(log.fd.get());
  return fmt::format(
      "copy what is needed from the mount, or end it with fusermount3 -u (as root: umount -l), which writes the whole "
      "content to '{}'; to discard the changes: rm '{}'",
      rescue_beside(path), path);
}

bool LoggedFile::is_gone() const { return has_no_name(source_.fd.get()); }

std::unexpected<Error> LoggedFile::was_deleted() const {
  return fail(ESTALE,
              "{}: was deleted or replaced by another program (mv to another filesystem does that, too), and what was "
              "written to it is not in any other file: {}",
              source_.path, how_to_end_deleted(log_->file()));
}

/// Writes the content as of the last commit to a new file, durably, and returns its path.
Result<std::string> LoggedFile::rescue() {
  const std::string log_name = log_name_for(name_);
  const std::string draft = rescue_draft_for(log_name);
  CODECFS_ASSIGN(const File file, create_anew(io_, directory_, draft));
  const auto write = [&]() -> Result<std::string> {
    if (const Result<> given = make_like(file.fd.get(), source_.fd.get(), Attributes::user); !given)
      return fail(given.error().code, "{}: {}", file.path, given.error().reason);
    ProgressReporter work("writing the content of the deleted file " + source_.path);
    const uint64_t end = size();
    work.expect(end);
    std::vector<std::byte> buffer(std::min<uint64_t>(end, kCopyBytes));
    for (uint64_t at = 0; at < end;) {
      CODECFS_ASSIGN(const size_t got, read(at, buffer));
      if (got == 0) return fail(EIO, "{}: became shorter", source_.path);
      const Bytes part = Bytes(buffer).first(got);
      const bool is_hole = std::ranges::all_of(part, [](std::byte byte) { return byte == std::byte{0}; });
      if (!is_hole) CODECFS_TRY(io_.write(file, at, part));
      at += got;
      work.add(got);
    }
    CODECFS_TRY(io_.truncate(file, end));
    CODECFS_TRY(io_.sync(file));
    CODECFS_ASSIGN(const std::string name, name_rescued(io_, directory_, draft, rescue_stem_for(log_name)));
    CODECFS_TRY(io_.sync(directory_));
    return directory_.path + "/" + name;
  };
  Result<std::string> written = write();
  if (!written) (void)io_.unlink(directory_, draft);  // nothing, if only the last sync has failed
  return written;
}

/// Ends writing to a source that was deleted.
Result<> LoggedFile::finish_deleted() {
  const bool has_changes = log_->has_committed() || has_checkpointed_;
  if (!has_changes || is_given_up(log_->file())) {
    if (has_changes)
      log::warning("{}: was deleted or replaced by another program, and its changes are discarded with the log",
                   source_.path);
    reset_buffer();
    CODECFS_ASSIGN(identity_, identify(writable_));
    return remove_log();
  }
  CODECFS_TRY(log_->usable());
  CODECFS_TRY(drop_uncommitted());
  const auto rescued = rescue();
  if (!rescued)
    return fail(rescued.error().code,
                "{}: was deleted or replaced by another program, and its content could not be written to a new file: "
                "{}; what was written last is only in '{}', for a copy of the file",
                source_.path, rescued.error().reason, present_path(log_->file().fd.get()));
  CODECFS_ASSIGN(identity_, identify(writable_));
  if (const Result<> removed = remove_log(); !removed) log::warning("{}", removed.error().reason);
  return fail(ESTALE, "{}: was deleted or replaced by another program; its content with all changes is now in '{}'",
              source_.path, *rescued);
}

}  // namespace codecfs::hdf5
