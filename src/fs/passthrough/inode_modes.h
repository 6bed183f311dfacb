#pragma once
// How inodes are open: the kernel has one I/O mode for all open files of an inode.
//
//              open, with a backing file               open, without
//   closed  ----------------------------> passthrough  --------------> cached
//           <----------------------------  <-----------------------
//                     last close                last close
//
//   passthrough: each open gets the backing file of the first one, whatever was offered for it.
//   cached: each open is cached, whatever was offered for it.
//
// An open in another mode, or with another backing file, fails with EIO in the kernel. The kernel leaves a mode before
// it sends the RELEASE of the last open file, so an inode is never in another mode there than here: it may only be
// closed already. An open counts from before its reply, because its reply may overtake others. docs/transport.md has
// the rules of the kernel.

#include <cstddef>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "fs/nodes/nodes.h"
#include "fs/passthrough/backing_device.h"

namespace codecfs::fs {

/// Thread-safe. Covers only inodes that may have backing files.
class InodeModes {
 public:
  InodeModes() = default;
  InodeModes(const InodeModes&) = delete;
  InodeModes& operator=(const InodeModes&) = delete;

  /// An open file of an inode, from before the open is answered until its RELEASE. Must not outlive the InodeModes.
  class Open {
   public:
    Open() = default;
    Open(Open&& other) noexcept
        : modes_(std::exchange(other.modes_, nullptr)), ino_(other.ino_), backing_(std::move(other.backing_)) {}
    Open& operator=(Open&& other) noexcept {
      std::swap(modes_, other.modes_);
      std::swap(ino_, other.ino_);
      std::swap(backing_, other.backing_);
      return *this;
    }
    ~Open() {
      if (modes_ != nullptr) modes_->close(ino_);
    }

    /// The number of the backing file with which the open must be answered; 0: it must be answered as cached.
    [[nodiscard]] int32_t backing_id() const { return backing_ != nullptr ? backing_->id() : 0; }

    /// Whether that is a file of the source.
    [[nodiscard]] bool is_of_source() const { return backing_ != nullptr && backing_->is_of_source(); }

   private:
    friend class InodeModes;
    Open(InodeModes& modes, Ino ino, BackingPtr backing) : modes_(&modes), ino_(ino), backing_(std::move(backing)) {}

    InodeModes* modes_ = nullptr;
    Ino ino_ = 0;
    BackingPtr backing_;
  };

  /// `offered`: null if there is no backing file.
  Open open(Ino ino, BackingPtr offered);
  /// The backing file with which the inode is open; null if it is closed or cached.
  BackingPtr backing_of(Ino ino);
  /// Whether the inode is open in cached mode, so that a backing file would be of no use.
  bool is_cached(Ino ino);
  /// Inodes that are open.
  size_t count();

 private:
  struct State {
    uint64_t opens = 0;
    BackingPtr backing;  // null: cached
  };
  void close(Ino ino);

  Mutex mutex_;
  std::unordered_map<Ino, State> states_ CODECFS_GUARDED_BY(mutex_);  // of open inodes
};

}  // namespace codecfs::fs
