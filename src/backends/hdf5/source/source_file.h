#pragma once
// What all parts of the backend know of the mounted file.

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/api/written_sources.h"
#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/library/watch.h"
#include "backends/hdf5/recode/kept_space.h"
#include "backends/hdf5/wal/write_log.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs::hdf5 {

class Dataset;

struct SourceFile {
  std::string path;                        // absolute, symlinks resolved
  std::string directory;                   // that holds it
  std::string working_directory;           // of the process when the file was opened
  UniqueFd fd;                             // the file itself, for questions about it
  std::unique_ptr<LoggedFile> bytes;       // under libhdf5, and for reading chunks past it
  std::unique_ptr<WrittenSource> written;  // while `bytes` has a log; guarded by the LibraryLock
  std::optional<Error> not_writable;       // why it was opened for reading only
  struct stat status{};                    // when it was opened
  Handle file;
  std::unique_ptr<Watch> watch = std::make_unique<Watch>();  // asked before libhdf5 looks at something new

  /// Opens the file in libhdf5 (H5F_ACC_RDWR or H5F_ACC_RDONLY). Under the LibraryLock. EIO: it cannot, and says why.
  Result<Handle> open_in_library(unsigned flags) const;
  /// The same for `file`: for writing unless it is `not_writable`, which it becomes where libhdf5 does not want that.
  /// EIO.
  Result<> open_as_allowed();
  /// Makes libhdf5 write all that it holds of the file into `bytes` and forget it; every identifier of one of the
  /// file's objects is void. Under the LibraryLock. EIO: it holds on to something; ENOSPC.
  Result<> close_in_library();
  /// Makes libhdf5 write what it holds of the file into `bytes`, as it does when it closes the file. EIO, ENOSPC.
  Result<> flush_in_library();
  /// Opens what was closed, for writing. Whoever keeps identifiers finds the epoch moved and asks for new ones. Under
  /// the LibraryLock. EIO: then nothing can be read or written any more.
  Result<> reopen_in_library();
  /// Moves when identifiers of objects became void, and when an object was outdated. Guarded by the LibraryLock.
  uint64_t epoch = 0;
  /// What Datasets know of the object at this address is not so any more (its place, its chain, or that it is this
  /// object at all): those that are open see it, and fail. Under the LibraryLock.
  void outdate(uint64_t address);
  /// The epochs in which objects were outdated, by address. Guarded by the LibraryLock.
  std::unordered_map<uint64_t, uint64_t> outdated;

  // The numbers of the stored chunks of the sparse variable that is being listed; of one variable at a time. Guarded by
  // the LibraryLock.
  std::shared_ptr<const std::vector<uint64_t>> listing;
  const Dataset* listing_owner = nullptr;

  /// Counts the changes of where the chunks of the dataset at an address are. Read under the LibraryLock together with
  /// a place, and again after the bytes were read without it: if it moved, they may be another chunk's. Several
  /// variables may share a counter.
  std::array<std::atomic<uint64_t>, 256> generations{};
  std::atomic<uint64_t>& generation_of(uint64_t address) {
    return generations[std::hash<uint64_t>{}(address / 8) % generations.size()];
  }

  /// Looks at all that nobody has looked at, before objects or links change. See Watch::settle(). EIO: the file is too
  /// damaged for that.
  Result<> settle();
  /// Takes the right to write, once. Under the LibraryLock. EROFS, EBUSY, ESTALE; EIO after a failure.
  Result<> begin_writing();
  /// To be called before each change, under the LibraryLock: the same, and sees to it that there is room for `bytes`
  /// that are written and for `growth` of the file (all of them where it is not told), as libhdf5 cannot take back what
  /// it has begun. Also ENOSPC.
  Result<> allow_change(uint64_t both) { return allow_change(both, both); }
  Result<> allow_change(uint64_t bytes, uint64_t growth);
  /// The same for a change in which libhdf5 runs filters or makes much at once, and so may fail: commits what was
  /// changed before, so that a failure takes back this change alone.
  Result<> allow_risky_change(uint64_t bytes, uint64_t growth);
  /// libhdf5 failed in the middle of a change: what it holds in memory must not be committed. Rolls back to the last
  /// commit and opens the file again, which makes every identifier void; where that fails too, nothing is written any
  /// more. Passes the error on.
  std::unexpected<Error> change_failed(std::unexpected<Error> error);
  std::unexpected<Error> take_back(std::unexpected<Error> error, bool loses_others);
  /// Makes durable what was changed. Under the LibraryLock.
  Result<> commit();
  /// Brings the source up to the last commit. Under the LibraryLock.
  Result<> checkpoint();
  /// An error once after changes of others were lost with one that failed.
  Result<> tell_loss();
  /// Called under the LibraryLock after change_failed() has opened the file again.
  std::function<void()> reopened = [] {};
  /// Takes back what was changed since the last commit and opens the file in libhdf5 again. Under the LibraryLock, and
  /// only where nobody was told of those changes. EIO: then nothing is written any more.
  Result<> roll_back();
  bool changed = false;          // since the last commit; guarded by the LibraryLock
  uint64_t changes = 0;          // that were allowed since the last commit; guarded by the LibraryLock
  std::optional<Error> failure;  // nothing is written any more; guarded by the LibraryLock
  std::optional<Error> loss;     // not told yet; guarded by the LibraryLock
  uint64_t loss_epoch = 0;       // when uncommitted changes were lost: what was known before is outdated
  bool rolling_back = false;     // guarded by the LibraryLock

  /// close_in_library() with what is written held in memory.
  Result<> close_and_hold();

  /// The filter masks of chunks that we wrote, by the dataset's address and the chunk's number: libhdf5 1.10 goes on
  /// telling the mask from before for the chunk that it looked up last. Guarded by the LibraryLock.
  std::unordered_map<uint64_t, std::unordered_map<uint64_t, uint32_t>> written_masks;

  /// One at a time gives a dataset the shape that is shown. Before any other lock of the backend.
  std::mutex shape_mutex;

  /// Before the last close_in_library() of a file that was written: datasets take its free space for the next mount,
  /// if an attribute can tell of them. EIO: then nothing may be stored any more.
  Result<LeftSpace> leave_space();
  /// Free space of the file, in bytes. Under the LibraryLock.
  [[nodiscard]] uint64_t free_space() const;
  /// That libhdf5 has forgotten with closing the file, in bytes. Guarded by the LibraryLock.
  uint64_t forgotten_space = 0;
  /// That an earlier mount has left, until its release is committed. Guarded by the LibraryLock.
  KeptSpace left;
  bool left_is_checked = false;
  bool left_is_released = false;
  void check_left_space();

  /// The directory of a file that the source names with a relative name: the source's own where it is there, else the
  /// working directory.
  [[nodiscard]] const std::string& prefix_for(const std::string& name) const {
    struct stat found{};
    return stat((directory + "/" + name).c_str(), &found) == 0 ? directory : working_directory;
  }
};

}  // namespace codecfs::hdf5
