#pragma once
// An open .codecfs/log. Its bytes stay where they are, and messages that are logged later follow them, so that
// `tail -f` shows them.

#include <cstdint>
#include <string>

#include "base/mutex.h"
#include "base/recent_log.h"
#include "fs/handles/file_handle.h"

namespace codecfs::fs {

class LogHandle final : public FileHandle {
 public:
  explicit LogHandle(Stats& stats) : FileHandle(false), stats_(stats), messages_(log::recent_messages()) {
    caching.live = true;
  }

  /// ESTALE for bytes that a reader that follows the log for long has passed.
  Result<Slice> read(uint64_t offset, size_t size) override;

 private:
  Stats& stats_;
  Mutex mutex_;
  log::RecentMessages messages_ CODECFS_GUARDED_BY(mutex_);
  uint64_t begin_ CODECFS_GUARDED_BY(mutex_) = 0;  // of the text of `messages_`, in bytes of the file
};

}  // namespace codecfs::fs
