#pragma once
// Opens and creates files: chooses the FileHandle for what a name is. Thread-safe.

#include <sys/stat.h>

#include <memory>
#include <string>
#include <string_view>

#include "fs/context/name_policy.h"
#include "fs/handles/chunk_io.h"
#include "fs/handles/file_handle.h"
#include "fs/handles/whole_files.h"
#include "fs/namespace/metadata_editor.h"
#include "fs/namespace/namespace.h"
#include "fs/views/array_view.h"
#include "fs/views/chunk_files.h"
#include "fs/views/coherence_monitor.h"
#include "fs/views/encoded_view.h"
#include "fs/views/filter_control.h"
#include "fs/views/metadata_view.h"
#include "fs/views/prefetcher.h"

namespace codecfs::fs {

class FileOpener {
 public:
  /// What it uses; all outlive it and the handles.
  struct Uses {
    MountContext& mount;
    CoherenceMonitor& coherence;
    ChangeNotifier& notifier;
    InodeAttributes& inodes;
    FilterControl& filters;
    EncodedView& encoded;
    ChunkFiles& chunk_files;
    ArrayView& arrays;
    MetadataView& metadata;
    MetadataEditor& editor;
    Prefetcher& prefetcher;
    Namespace& names;
    NamePolicy& policy;
  };
  explicit FileOpener(const Uses& uses);

  // Reply to an open for writing, and to create(), only from after_pushes() of KernelPages.

  /// EROFS, EISDIR, ESTALE, EPERM, and the errors of the source.
  Result<std::unique_ptr<FileHandle>> open(Ino ino, bool for_writing, bool truncate);
  struct Created {
    struct stat status;
    std::unique_ptr<FileHandle> file;
  };
  /// `flags`: of open(2); O_TRUNC and O_EXCL matter if the file exists by now. EINVAL for names that are never stored.
  Result<Created> create(Ino parent, std::string_view name, mode_t permissions, int flags,
                         const Cancelled& cancelled = {});

 private:
  using Opened = Result<std::unique_ptr<FileHandle>>;
  Opened open_file(Ino ino, bool for_writing, bool truncate);
  Opened open_unknown(const Node& variable);
  Opened open_plain(const Node& node, bool for_writing);
  Opened open_scratch(Ino ino, bool for_writing, bool truncate);
  Opened open_array(const Node& node, bool for_writing, bool truncate);
  Opened open_metadata(const Place& place, Ino ino, bool for_writing, bool truncate);
  Opened open_chunk(const Node& node, const ChunkPlace& chunk, Ino ino);
  Opened open_chunk_to_write(const Node& node, const ChunkPlace& chunk, bool truncate);
  Opened open_encoded(const Node& node, const ChunkPlace& chunk, bool for_writing, bool truncate);
  Result<Created> create_file(Ino parent, std::string_view name, mode_t permissions, int flags,
                              const Cancelled& cancelled);
  Result<Created> create_scratch(const Node& node, Ino parent, std::string_view name, mode_t permissions);
  Result<Created> create_chunk(const Node& node, const ChunkPlace& chunk, Ino parent, int flags,
                               const Cancelled& cancelled);
  Result<Created> create_metadata(const Node& node, FileKind file);
  Result<Created> create_encoded(const Node& node, const ChunkPlace& chunk);
  std::unique_ptr<FileHandle> staged_handle(std::shared_ptr<StagedFile> staged, bool is_writer);

  Uses uses_;
  MountContext& mount_;
  WholeFiles whole_;
  ChunkIo chunk_io_;
};

}  // namespace codecfs::fs
