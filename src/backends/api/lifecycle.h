#pragma once
// The right to write a source, its commits, and its end. Thread-safe.
//
// A source is not modified before the first call that writes. That call acquires the right to write. What was written
// is durable after commit(). The defaults are those of a source that can only be read.

#include <chrono>
#include <cstdint>
#include <string>

#include "backends/api/object.h"
#include "base/result.h"

namespace codecfs {

class Lifecycle {
 public:
  virtual ~Lifecycle() = default;

  /// Excludes a path (absolute, without links), the future mount point, from all further access. EINVAL if that would
  /// make the source itself inaccessible.
  virtual Result<> exclude_path(const std::string&) { return {}; }

  /// Succeeds, or returns EROFS with the reason why this source is read-only.
  virtual Result<> writable() { return fail(EROFS, "this source can only be read"); }
  /// Acquires the right to write what stores this object (the source, or one dataset of a folder), so that a user
  /// learns at the first change, not when it is stored, that another program has it open. Cheap if already acquired.
  /// EBUSY; ESTALE if the path no longer refers to the opened source; EROFS.
  virtual Result<> begin_writing_to(ObjectId) { return writable(); }

  /// For a program that makes very many changes and can begin again: they need not survive the end of the process that
  /// makes them, nor be read, before the next commit. If it ends, all calls fail (EIO), and the source has the state of
  /// a commit. A failure may undo all since then. As begin_writing_to(). Must be called before the first change.
  virtual Result<> change_in_bulk() { return {}; }
  /// Makes all previous writes durable. Cheap if there are none.
  virtual Result<> commit() { return {}; }
  /// The periodic commit, for which no caller waits. False: nothing was done, because a commit costs too much to run
  /// every few seconds (an archive that is rewritten completely).
  virtual Result<bool> commit_at_interval() {
    CODECFS_TRY(commit());
    return true;
  }
  /// Unused bytes in the source, which `codecfs compact` frees.
  virtual uint64_t reclaimable_bytes() { return 0; }

  /// Releases resources that were not used for `unused_for`, including the locks that exclude other programs. The
  /// caller runs it periodically; it may take as long as commit().
  virtual void release_idle(std::chrono::seconds) {}
  /// Whether rest() and wake() do something.
  [[nodiscard]] virtual bool can_rest() const { return false; }
  /// Gives up everything that the source holds, as finish() does, so that other programs may write it; the next call
  /// opens it again. False if a call is running. Everything must be committed.
  virtual bool rest() { return false; }
  /// After rest(), before the next other call: opens the source again. False if another program has changed it: the id
  /// of its root stands for the root of what it is now, all other ids are ESTALE. ESTALE if it is gone or cannot be
  /// shown in its place; other errors of opening it.
  virtual Result<bool> wake() { return true; }
  /// If another program has moved the source, moves the log beside it to the new place. ESTALE if the source no longer
  /// exists. release_idle() does this too.
  virtual Result<> relocate_log() { return {}; }
  /// Whether another program has deleted the source after it was written, so that commit() must be asked again even if
  /// nothing was written since the last one: what was committed may be in no file that has a name. Cheap.
  [[nodiscard]] virtual bool is_deleted() { return false; }
  /// The last call: commits, and leaves the source as other programs expect it. If the source was deleted, writes its
  /// content with all changes to a new file beside it (only of HDF5 files and archives): ESTALE, with the path.
  virtual Result<> finish() { return {}; }
};

}  // namespace codecfs
