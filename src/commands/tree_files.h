#pragma once
// A dataset as a tree of files, in one of the views of a mount, without a mount: what `cp -r` from or into a mount does
// is done in this process. Thread-safe.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "base/result.h"
#include "fs/filesystem.h"

namespace codecfs::commands {

class TreeFiles {
 public:
  using Ino = fs::Ino;

  TreeFiles(std::unique_ptr<Source> source, const fs::FilesystemOptions& options);
  TreeFiles(const TreeFiles&) = delete;
  TreeFiles& operator=(const TreeFiles&) = delete;

  [[nodiscard]] fs::Filesystem& filesystem() { return *filesystem_; }
  /// See Source::reads_at_once().
  [[nodiscard]] size_t reads_at_once() const { return filesystem_->context().dataset.source().reads_at_once(); }
  [[nodiscard]] static Ino root() { return fs::kRootIno; }

  struct Item {
    std::string name;
    mode_t type = 0;  // S_IFDIR, S_IFREG or S_IFLNK
  };
  /// Calls `take` with each name in a directory but "." and "..".
  Result<> list(Ino directory, const std::function<Result<>(const Item& item)>& take);
  /// The inode number of a name. ENOENT.
  Result<Ino> find(Ino directory, std::string_view name);
  /// The inode number of a path from the root, "a/b"; "" is the root.
  Result<Ino> find_path(std::string_view path);
  Result<uint64_t> size(Ino file);
  /// Whether the source stores this chunk; absent chunks may have files, too.
  Result<bool> is_stored(Ino chunk);
  /// Checks that the indexes of a file that is a shard are whole. EIO.
  Result<> check_shard(Ino file);
  /// EIO with the reason if the attributes of the group or variable of a directory cannot be read.
  Result<> check_attributes(Ino directory);
  Result<std::string> link_target(Ino link) { return filesystem_->names().link_target(link); }
  /// Calls `use` with the whole content of a file; the bytes are valid during the call.
  Result<> read(Ino file, const std::function<Result<>(Bytes content)>& use);

  /// Creates or replaces a file. It is complete and seen by all readers when this returns.
  Result<> write(Ino directory, std::string_view name, Bytes content);
  /// Not an error if it exists.
  Result<Ino> make_directory(Ino directory, std::string_view name);
  /// Removes a group, or a variable whose chunks do not matter, with its metadata files: it has no members.
  Result<> remove_directory(Ino parent, Ino directory, std::string_view name);
  Result<> make_link(Ino directory, std::string_view name, std::string_view target);
  /// Source::restore_link(). Not an error if the name exists.
  Result<> restore_link(Ino directory, std::string_view name, std::string_view note);
  /// Makes everything durable; the last call.
  Result<> finish();

 private:
  Result<std::unique_ptr<fs::FileHandle>> open_for_writing(Ino directory, std::string_view name);

  std::unique_ptr<fs::Filesystem> filesystem_;
  fs::Invalidator no_kernel_;
};

}  // namespace codecfs::commands
