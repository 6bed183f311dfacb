#pragma once
// The mounted tree: what each file is and holds. Knows nodes, the dataset and the chunk cache, but nothing of FUSE;
// fs/operations.cc puts these answers into FUSE replies. All calls are safe from all threads.

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/filter_rules.h"
#include "fs/chunk_cache.h"
#include "fs/dataset.h"
#include "fs/nodes.h"
#include "fs/stats.h"
#include "fs/xattrs.h"

namespace codecfs::fs {

/// An open file: text that was made at open, or a chunk.
struct OpenFile {
  Text text;          // null for a chunk
  bool live = false;  // control files: made anew at each open, no size beforehand, no page cache
  VariableViewPtr variable;
  ObjectId object = 0;
  uint64_t chunk = 0;
  ChunkKey key = 0;
};

/// An open directory. Groups are listed once, at open; chunks are asked for as the reader goes on.
struct OpenDirectory {
  Place place;
  std::vector<Entry> entries;  // of a group
  VariableViewPtr variable;    // of a variable
};

/// One name that a directory shows.
struct DirectoryItem {
  std::string name;
  off_t next = 0;   // position behind it
  mode_t type = 0;  // S_IFREG, S_IFDIR or S_IFLNK
  Ino ino = 0;      // 0 where no inode number was given out yet
  /// Its attributes, if they are cheap to have.
  std::function<Result<struct stat>()> attributes;
};

/// Bytes for a reader, and what keeps them alive.
struct Slice {
  Bytes bytes;
  std::shared_ptr<const void> owner;
};

struct XattrView {
  std::shared_ptr<const std::vector<Xattr>> stored;
  std::string error;  // value of user._Error; empty where there is none
};

class Tree {
 public:
  struct Options {
    uint64_t cache_bytes = uint64_t{64} << 20;
    filters::FilterRules rules = {};
  };

  Tree(std::unique_ptr<Source> source, const Options& options);

  /// ENOENT for a name that is not there, which is no failure; and the backend's errors.
  Result<struct stat> lookup(Ino parent, std::string_view name);
  Result<struct stat> attributes(Ino ino);
  Result<std::string> link_target(Ino ino);

  Result<std::unique_ptr<OpenDirectory>> open_directory(Ino ino);
  /// Calls `take` with the names from position `from` on until it says that it has no room (false) or all are told.
  Result<> read_directory(OpenDirectory& directory, off_t from, const std::function<bool(const DirectoryItem&)>& take);

  Result<std::unique_ptr<OpenFile>> open(Ino ino);
  Result<Slice> read(const OpenFile& file, off_t offset, size_t size);

  /// Extended attributes. Where they cannot be read, there is still user._Error, which tells why.
  Result<XattrView> xattrs(Ino ino);
  /// Warns in the log of filter rules for variables that are not there.
  void check_rules();
  [[nodiscard]] struct statvfs filesystem() const;

  Stats& stats() { return stats_; }
  Dataset& dataset() { return dataset_; }
  /// Remembers why a request failed, for user._Error of that inode and the log.
  void note_error(Ino ino, const Error& error);

 private:
  Result<struct stat> entry_attributes(const Node& parent, const Entry& entry);
  Result<struct stat> metadata_attributes(const Node& node, FileKind file);
  Result<struct stat> chunk_attributes(const Node& node, const VariableView& view, uint64_t number);
  [[nodiscard]] struct stat make_attributes(Ino ino, mode_t type, uint64_t size) const;
  /// The text of a metadata or control file. ENOENT where the directory has no such file.
  Result<Text> text_of(const Node& node, FileKind file);
  Result<ChunkPtr> decoded(const VariableView& view, ObjectId object, uint64_t number, ChunkKey key);
  /// user._FilterOut: what the filter rules make of a variable, "none" for no filters; nothing where no rule applies.
  [[nodiscard]] std::optional<std::string> filter_out(const Node& node, const Variable& variable);
  Result<ChunkPtr> fill_chunk(const VariableView& view, ChunkKey key);
  Result<std::vector<Xattr>> make_xattrs(const Place& place);
  Result<> read_group(OpenDirectory& directory, off_t from, const std::function<bool(const DirectoryItem&)>& take);
  Result<> read_chunks(OpenDirectory& directory, uint64_t from, const std::function<bool(const DirectoryItem&)>& take);

  Stats stats_;
  Dataset dataset_;
  Nodes nodes_;
  ChunkCache cache_;
  const filters::FilterRules rules_;
  std::once_flag told_placement_;

  // getfattr asks for one value after the other, so what was made for the list is kept. By inode number; not for
  // chunks.
  LruMap<Ino, std::vector<Xattr>> xattrs_{16};

  std::mutex errors_mutex_;
  std::map<Ino, std::string> errors_;  // guarded by errors_mutex_; the latest reason of at most kMaxErrors inodes
};

}  // namespace codecfs::fs
