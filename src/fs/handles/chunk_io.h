#pragma once
// Reading and writing chunks of the decoded views through open files. Thread-safe.

#include "fs/context/inode_attributes.h"
#include "fs/context/mount_context.h"
#include "fs/nodes/slice.h"
#include "fs/views/array_view.h"
#include "fs/views/change_notifier.h"
#include "fs/views/filter_control.h"

namespace codecfs::fs {

class ChunkIo {
 public:
  ChunkIo(MountContext& mount, FilterControl& filters, ChangeNotifier& notifier, InodeAttributes& inodes,
          ArrayView& arrays)
      : mount_(mount), filters_(filters), notifier_(notifier), inodes_(inodes), arrays_(arrays) {}

  /// `ino`: of the file that is read.
  Result<Slice> read(const ChunkPlace& chunk, Ino ino, uint64_t offset, size_t size);
  /// `node`: the variable in the view that is written through. `written_through`: the inode number of the scratch file
  /// that the chunk was, if it is written through that.
  Result<size_t> write(const Node& node, const ChunkPlace& chunk, uint64_t offset, Bytes bytes,
                       const PageCopies::WrittenBack* written_back, const Cancelled& cancelled,
                       Ino written_through = 0);
  /// For the last close of a writer. Returns whether the file's content or length changes: a short file is padded, an
  /// incomplete replacement is dropped, which is logged and becomes the error of the file.
  bool close_writer(const Node& node, const ChunkPlace& chunk, WriteBack::Writer& writer);
  /// The attributes of a chunk that was removed. ENOENT for other files.
  Result<struct stat> attributes_of_removed(Ino ino, const ChunkPlace& chunk);

  MountContext& mount() { return mount_; }

 private:
  void note_refused(const Node& node, const ChunkPlace& chunk, const Error& error);

  MountContext& mount_;
  FilterControl& filters_;
  ChangeNotifier& notifier_;
  InodeAttributes& inodes_;
  ArrayView& arrays_;
};

}  // namespace codecfs::fs
