#include "backends/hdf5/source/mounted_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/wal/file_driver.h"
#include "backends/hdf5/wal/survivor.h"
#include "base/log.h"

namespace codecfs::hdf5 {

MountedFile::~MountedFile() {
  const LibraryLock lock;
  if (file.bytes) (void)file.close_and_hold();
}

Result<> MountedFile::open(const std::string& path, bool may_write, FileIo& io) {
  if (file.is_isolated || file.fetched) {
    file.path = path;  // as the daemon has resolved it
  } else {
    char* resolved = realpath(path.c_str(), nullptr);
    if (resolved == nullptr) return fail_errno(errno, "{}", path);
    file.path = resolved;
    free(resolved);  // NOLINT: realpath allocates with malloc
  }
  file.directory = file.path.substr(0, file.path.rfind('/'));
  std::error_code error;
  file.working_directory = std::filesystem::current_path(error).string();

  file.fd = UniqueFd(file.fetched ? ::fcntl(file.fetched->fd(), F_DUPFD_CLOEXEC, 0)
                                  : ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.fd || fstat(file.fd.get(), &file.status) != 0) return fail_errno(errno, "{}", path);
  if (!file.fetched) await_survivor(file.path);
  CODECFS_ASSIGN(file.bytes,
                 file.fetched ? LoggedFile::open_fetched(path, file.fetched) : LoggedFile::open(file.path, io));
  if (file.bytes->locked_by_another())
    log::warning("{} is locked by a program that writes it: what is shown may change or be damaged", path);
  if (file.bytes->missing_log())
    log::warning("{}; until then it is shown without these changes", file.bytes->missing_log()->reason);
  file.not_writable = why_not_writable(may_write);
  file.left = KeptSpace(file.bytes->left_space());

  const LibraryLock lock;
  // Open the file in libhdf5 for writing even before the first write, because libhdf5 cannot change the mode later.
  // Until then the LoggedFile discards what libhdf5 writes.
  CODECFS_TRY(file.open_as_allowed());
  warn_of_damage(path);
  CODECFS_TRY(check_root(path));

  CODECFS_ASSIGN(ObjectTree opened, ObjectTree::make(file.file.get(), file.path, file.status, *file.recorder));
  tree.emplace(std::move(opened));
  dimensions.emplace(file.file.get(), *tree, *file.recorder);
  std::atomic<uint8_t>& known = file.shared->is_netcdf;
  if (known == SharedState::unknown) known = tree->is_netcdf() ? SharedState::yes : SharedState::no;
  is_netcdf = known == SharedState::yes;
  file.reopened = [this] { use_reopened(); };
  return {};
}

Result<> MountedFile::resume(const std::string& path, bool may_write, UniqueFd journal, FileIo& io) {
  file.is_isolated = true;
  CODECFS_TRY(open(path, may_write, io));
  const LibraryLock lock;
  SharedState& shared = *file.shared;
  auto numbers = std::make_unique<NodeJournal>(std::move(journal));
  if (shared.edit != shared.edit_done) {
    // The process was killed during a change: it was made if its commit is in the log.
    const LoggedFile::LastCommit last = file.bytes->last_commit();
    if (shared.edit_log != 0 && shared.edit_log == last.log && last.sequence > shared.edit_sequence)
      shared.edit_done = shared.edit.load();
    else
      numbers->truncate(shared.edit_journal);
  }
  tree->keep_journal(std::move(numbers));
  return {};
}

std::optional<Error> MountedFile::why_not_writable(bool may_write) const {
  if (file.fetched)
    return Error{EROFS, fmt::format("{}: an HDF5 file in an object store is only read, because objects cannot be "
                                    "changed in part; a Zarr store can: codecfs convert {} NEW.zarr",
                                    file.path, file.path)};
  if (!may_write) return Error{EROFS, "it was mounted with -o ro"};
  if (file.bytes->missing_log()) return Error{EROFS, file.bytes->missing_log()->reason};
  if (const auto& family = file.bytes->family())
    return Error{EROFS,
                 fmt::format("{}: it is the first of a family of {} files, which are only read here; to write, make "
                             "one file of them: h5repack {} ONE.h5",
                             file.path, family->count(), family->pattern())};
  if (file.bytes->locked_by_another())
    return Error{EROFS, fmt::format("{}: another program has it open for writing", file.path)};
  if (access(file.path.c_str(), W_OK) != 0) return Error{EROFS, fmt::format("{}: {}", file.path, std::strerror(errno))};
  if (access(file.directory.c_str(), W_OK | X_OK) != 0)
    return Error{EROFS,
                 fmt::format("{}: {}; the log of changes is beside the file", file.directory, std::strerror(errno))};
  if (marked_as_open(file.fd.get()))
    return Error{EROFS, fmt::format("{}: it is marked as open for writing (h5clear -s removes the mark)", file.path)};
  return std::nullopt;
}

// A truncated file of which not even the root is complete would look empty.
Result<> MountedFile::check_root(const std::string& path) const {
  hsize_t size = 0;
  if (H5Fget_filesize(file.file.get(), &size) < 0 || size <= file.bytes->size()) return {};
  const Handle root(H5Gopen2(file.file.get(), "/", H5P_DEFAULT));
  ObjectInfo info;
  if (root && object_info(root.get(), info) && info.attributes != kUnknownAttributes) return {};
  return fail(EIO, "{} is truncated: it has {} bytes of {}, and its root group cannot be read", path,
              file.bytes->size(), size);
}

void MountedFile::warn_of_damage(const std::string& path) const {
  if (marked_as_open(file.fd.get()))
    log::warning("{} is marked as open for writing: a writer has it open or crashed (h5clear -s removes the mark)",
                 path);
  hsize_t size = 0;
  if (H5Fget_filesize(file.file.get(), &size) >= 0 && size > file.bytes->size())
    log::warning("{} is truncated: it has {} bytes of {}", path, file.bytes->size(), size);
}

Result<> MountedFile::finish(const Result<>& committed) {
  const ChangeTurn turn(file);
  const LibraryLock lock;
  file.reopened = [] {};
  dimensions.reset();
  tree.reset();
  // The commit of a deleted source reports that, but all changes are in the log.
  const bool is_gone = file.bytes->writing() && file.bytes->is_gone();
  bool is_to_be_stored = committed || is_gone;
  LeftSpace left;
  if (is_to_be_stored && !is_gone && file.bytes->writing()) {
    Result<LeftSpace> kept = file.leave_space();
    is_to_be_stored = kept.has_value();  // else the last commit stays
    if (kept) left = *std::move(kept);
  }
  const Result<> closed = is_to_be_stored ? file.close_in_library() : file.close_and_hold();
  if (file.bytes->writing() && is_to_be_stored && closed && !file.failure)
    CODECFS_TRY(is_gone ? file.bytes->seal() : file.bytes->commit());
  else
    left = {};
  const Result<> finished = file.bytes->finish(left);
  file.written.reset();
  if (is_gone) return finished;
  if (committed && !closed) return fail(closed.error().code, "{}; it is as of the last commit", closed.error().reason);
  CODECFS_TRY(committed);
  CODECFS_TRY(finished);
  return file.report_loss();
}

void MountedFile::use_reopened() {
  tree->use(file.file.get());
  dimensions->use(file.file.get());
}

Result<> MountedFile::writable() const {
  if (file.not_writable) return std::unexpected(*file.not_writable);
  return {};
}

}  // namespace codecfs::hdf5
