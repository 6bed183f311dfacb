#pragma once
// The npy and raw views: each variable is one file, with or without numpy's header. Only the content of arrays can be
// changed here. Reads and writes go to the chunks that they touch (array_file.h) by way of the same cache and the same
// edits that the other views have. Thread-safe.

#include <sys/stat.h>

#include <atomic>
#include <memory>

#include "base/mutex.h"
#include "fs/context/inode_attributes.h"
#include "fs/context/mount_context.h"
#include "fs/nodes/slice.h"
#include "fs/views/array_ahead.h"
#include "fs/views/array_blocks.h"
#include "fs/views/change_notifier.h"
#include "fs/views/filter_control.h"
#include "fs/views/prefetcher.h"

namespace codecfs::fs {

/// An open file of the npy or raw view.
struct OpenArray {
  Ino ino = 0;
  VariableViewPtr variable;  // as it was at open
  ArrayFile file;
  // Opened with O_TRUNC: gaps before the end of what was written become zeros, as in any file; the rest stays.
  bool truncated = false;
  Mutex mutex{LockRank::open_file};             // held during a write to a truncated array
  uint64_t end = 0;                             // bytes, of what was written; guarded by mutex
  mutable std::atomic<uint64_t> next_read = 0;  // offset at which a sequential reader continues
  mutable std::atomic<bool> is_sparse = false;  // the chunk that was read last is not stored
  // For a source that waits for a network: what is decoded ahead, and what is requested ahead of that.
  mutable ArrayAhead ahead{4};
  mutable ArrayAhead requested{24};
};

class ArrayView {
 public:
  ArrayView(MountContext& mount, InodeAttributes& inodes, FilterControl& filters, ChangeNotifier& notifier,
            Prefetcher& prefetcher, ArrayBlocks& blocks)
      : mount_(mount),
        inodes_(inodes),
        filters_(filters),
        notifier_(notifier),
        prefetcher_(prefetcher),
        blocks_(blocks) {}

  /// The attributes of a variable's file. EOPNOTSUPP if numpy has no such type.
  Result<struct stat> attributes(const Node& node);
  Result<std::unique_ptr<OpenArray>> open(const Node& node);

  // ESTALE if the shape or type differs from that at open.
  Result<Slice> read(const OpenArray& array, uint64_t offset, uint64_t size);
  /// Returns the bytes written. `written_back`: they are pages that a mapping wrote back.
  Result<size_t> write(OpenArray& array, uint64_t offset, Bytes bytes, const PageCopies::WrittenBack* written_back,
                       const Cancelled& cancelled);
  /// EINVAL unless a file has this size, which only .zarray changes.
  Result<> check_size(const Node& node, uint64_t size);
  /// ftruncate() of an array that was opened with O_TRUNC: writes zeros from the end of what was written to `size`.
  Result<> extend(OpenArray& array, uint64_t size, const Cancelled& cancelled);
  /// Whether a page that a mapping wrote back unchanged makes this chunk: it is absent, and readers of the source would
  /// not get the fill that the mapping shows.
  Result<bool> is_made_by_unchanged(const ChunkPlace& chunk);

 private:
  struct ArrayNow {
    const Node* node = nullptr;
    VariableViewPtr variable;
  };
  Result<ArrayNow> array_now(const OpenArray& array);
  /// Requests what this request and those after it need together. Only for sources that wait for a network.
  Result<> begin_reading(const OpenArray& array, const ArrayNow& now, uint64_t offset, uint64_t size, bool in_order);
  enum class Purpose { data, zeros };  // zeros: nothing is done where zeros are already
  Result<size_t> put_array(const OpenArray& array, uint64_t offset, Bytes bytes, Bytes mask, Purpose purpose,
                           const Cancelled& cancelled);
  /// Writes zeros from the end of the last write to `end`.
  Result<> put_zeros(OpenArray& array, uint64_t end, const Cancelled& cancelled);

  MountContext& mount_;
  InodeAttributes& inodes_;
  FilterControl& filters_;
  ChangeNotifier& notifier_;
  Prefetcher& prefetcher_;
  ArrayBlocks& blocks_;
};

}  // namespace codecfs::fs
