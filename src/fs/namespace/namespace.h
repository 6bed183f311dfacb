#pragma once
// Names and attributes: what a name in a directory is, in every view. Thread-safe.

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

#include "fs/context/inode_attributes.h"
#include "fs/context/mount_context.h"
#include "fs/views/array_names.h"
#include "fs/views/array_view.h"
#include "fs/views/chunk_files.h"
#include "fs/views/coherence_monitor.h"
#include "fs/views/metadata_view.h"

namespace codecfs::fs {

class Namespace {
 public:
  Namespace(MountContext& mount, CoherenceMonitor& coherence, InodeAttributes& inodes, ChunkFiles& chunk_files,
            ArrayView& arrays, ArrayNames& array_names, MetadataView& metadata)
      : mount_(mount),
        coherence_(coherence),
        inodes_(inodes),
        chunk_files_(chunk_files),
        arrays_(arrays),
        array_names_(array_names),
        metadata_(metadata) {}

  /// ENOENT without a reason for an absent name, which is no failure; and the errors of the source, after which known()
  /// tells what the name must be. `st_size` may be MetadataView::kUnknownSize: attributes() tells it.
  Result<struct stat> lookup(Ino parent, std::string_view name);
  /// Whether the kernel may cache that a name is absent: it can appear only through requests of this mount.
  [[nodiscard]] bool remembers_absence(Ino parent, std::string_view name);
  Result<struct stat> attributes(Ino ino);
  // What a name or file is, although lookup() or attributes() failed for another reason than absence. Programs take any
  // error of stat for "does not exist" (os.path.exists), and some read fill then: so the name is there, and to open or
  // read it is the error. The size is 1 where only reading would tell it. None if nothing is known.
  std::optional<struct stat> known(Ino parent, std::string_view name);
  std::optional<struct stat> known(Ino ino);
  /// Whether an error is one of these.
  static bool hides(const Error& error) { return error.code != ENOENT && error.code != EINTR; }
  // lookup() and attributes(), and known() where they fail so: for changes, which do not need the size.
  Result<struct stat> find(Ino parent, std::string_view name);
  Result<struct stat> found(Ino ino);
  /// The attributes of the file that the child is in its view.
  Result<struct stat> child_attributes(const Node& child);
  Result<std::string> link_target(Ino ino);

 private:
  Result<struct stat> lookup_chunk(Ino parent, const Place& directory, std::string_view name);
  Result<VariableViewPtr> variable_of(const Node& node);

  MountContext& mount_;
  CoherenceMonitor& coherence_;
  InodeAttributes& inodes_;
  ChunkFiles& chunk_files_;
  ArrayView& arrays_;
  ArrayNames& array_names_;
  MetadataView& metadata_;
};

}  // namespace codecfs::fs
