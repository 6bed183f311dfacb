#pragma once
// Directory listing. Thread-safe.
//
// A position tells what comes next, so a reader may come back to any of them, and nothing is kept for a variable's
// chunks, however many: 0 is ".", 1 is "..", 2 to 15 are the metadata files in their order, 16 + n is entry n of a
// group or chunk number n of a variable; in a directory of chunks, the entry with coordinate n. The scratch files come
// behind all of these, by their inode numbers.

#include <sys/stat.h>

#include <functional>
#include <memory>

#include "fs/context/mount_context.h"
#include "fs/namespace/namespace.h"
#include "fs/nodes/open_directory.h"
#include "fs/views/array_names.h"
#include "fs/views/chunk_files.h"
#include "fs/views/coherence_monitor.h"
#include "fs/views/encoded_view.h"
#include "fs/views/metadata_view.h"
#include "fs/views/shown_chunks.h"

namespace codecfs::fs {

/// Takes the next name of a directory; false if there is no room for it.
using TakeItem = std::function<bool(const DirectoryItem&)>;

class Listing {
 public:
  Listing(MountContext& mount, CoherenceMonitor& coherence, EncodedView& encoded, ChunkFiles& chunk_files,
          ArrayNames& array_names, MetadataView& metadata, Namespace& names)
      : mount_(mount),
        coherence_(coherence),
        encoded_(encoded),
        chunk_files_(chunk_files),
        array_names_(array_names),
        metadata_(metadata),
        names_(names) {}

  Result<std::unique_ptr<OpenDirectory>> open(Ino ino);
  /// Calls `take` with each name from position `from` on, until it returns false or the names end.
  Result<> read(OpenDirectory& directory, off_t from, const TakeItem& take);

 private:
  Result<> read_group(OpenDirectory& directory, off_t from, const TakeItem& take);
  Result<> read_views(off_t from, const TakeItem& take);
  Result<> read_chunks(OpenDirectory& directory, uint64_t from, const TakeItem& take);
  Result<> read_chunk_directory(OpenDirectory& directory, uint64_t from, const TakeItem& take);
  Result<bool> take_top_of_chunks(OpenDirectory& directory, const TakeItem& take);
  struct ListedChunk {
    const OpenDirectory& directory;
    bool is_shape_current;  // else the numbers of its chunks mean other chunks by now
    uint64_t number = 0;
  };
  ListedChunk first_chunk(const OpenDirectory& directory);
  /// `chunk` must outlive the result.
  [[nodiscard]] DirectoryItem chunk_item(const ListedChunk& chunk, std::string name, uint64_t position);
  Result<> read_scratch(Ino directory, uint64_t from, const TakeItem& take);
  static Result<> check_count(const Node& node, const VariableView& view, const ShownChunks& shown);
  Result<struct stat> listed_attributes(const OpenDirectory& directory, const Entry& entry);

  MountContext& mount_;
  CoherenceMonitor& coherence_;
  EncodedView& encoded_;
  ChunkFiles& chunk_files_;
  ArrayNames& array_names_;
  MetadataView& metadata_;
  Namespace& names_;
};

}  // namespace codecfs::fs
