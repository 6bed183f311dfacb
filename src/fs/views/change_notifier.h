#pragma once
// What a change in one view means for the others: drops the caches that are derived from what changed, and tells the
// kernel. Thread-safe; no lock of this mount is held while the kernel is awaited, except where a function says so.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fs/chunks/array_file.h"
#include "fs/context/mount_context.h"
#include "fs/nodes/chunk_names.h"
#include "fs/views/encoded_forms.h"

namespace codecfs::fs {

class ChangeNotifier {
 public:
  ChangeNotifier(MountContext& mount, EncodedForms& forms) : mount_(mount), forms_(forms) {}

  /// Invalidates a chunk in the other views after a change through the view of `node`. `written_through`: the inode
  /// number of the scratch file that the chunk was, if it was written through that.
  void chunk_changed(const Node& node, uint64_t number, Ino written_through = 0);
  /// As chunk_changed(), for a range of the array without header, and its chunks.
  void part_changed(const Node& node, ArrayFile::Range data, const std::vector<uint64_t>& chunks);
  /// As chunk_changed(), after the change of a shard: invalidates the chunks in it. `node`: in the view encoded3.
  void shard_changed(const Node& node, uint64_t shard);
  /// Another program has changed these chunks: invalidates them in all views. Does not wait.
  void chunks_changed_outside(const Node& node, const Variable& facts, const ChunkRange& range);
  /// After a re-encoding: invalidates what the kernel and the caches hold of the encoded chunks, and all sizes.
  Result<> chunks_reencoded(const Node& node);
  /// Gives the chunks of a paused variable new inode numbers. `before` and `now`: the number of chunks.
  Result<> renumber_chunks(const Node& node, uint64_t before, uint64_t now, bool wait);
  /// After a change of the shape.
  void array_files_changed(const Node& node);

  /// Invalidates the metadata of an object, in the caches and in the kernel.
  void metadata_changed(const Node& node, bool wait = true);
  /// As metadata_changed(), also of all variables of the dataset if the source shares metadata between them.
  void layout_changed(const Node& node, bool wait = true);
  void forget_xattrs(const Node& node);
  /// Whether a metadata file is open for writing, or its content has just changed.
  bool is_in_motion(Ino ino);

  /// Invalidates the names under which a view may show a member. `wait`: only outside of requests that change this
  /// directory; none does in the views of arrays.
  void member_changed(const Node& directory, std::string_view name, bool wait);
  /// The file of an inode number no longer exists.
  void file_gone(Ino ino, bool wait);
  /// The file of a chunk in the view of `node` no longer exists.
  void chunk_gone(const Node& node, uint64_t number, bool wait);

 private:
  void text_changed(Ino file, bool wait);
  void names_in_range_changed(const Node& shown, const Variable& facts, const ChunkRange& range, Ino first);
  void contents_changed(const Node& shown, Ino first, uint64_t count);
  void former_files_changed(Ino chunk, Ino written_through = 0);
  void array_file_changed(const Node& shown, const VariableView& view, uint64_t chunk);

  MountContext& mount_;
  EncodedForms& forms_;
};

/// Names of a directory that have changed, and with them its times. The destructor invalidates them in the other views.
/// Construct it before taking a lock, so that the lock is not held while the kernel is notified.
class ChangedNames {
 public:
  ChangedNames(MountContext& mount, ChangeNotifier& notifier) : mount_(mount), notifier_(notifier) {}
  ChangedNames(const ChangedNames&) = delete;
  ChangedNames& operator=(const ChangedNames&) = delete;
  ~ChangedNames();
  void add(const Node& directory, std::string_view name);
  void add_chunk(const Node& variable, uint64_t number);

 private:
  void tell_of_chunk(const Node& variable, uint64_t number);
  void tell_of_name(const Node& directory, std::string_view name);

  MountContext& mount_;
  ChangeNotifier& notifier_;
  std::vector<std::pair<const Node*, std::string>> names_;
  std::vector<std::pair<const Node*, uint64_t>> chunks_;
};

}  // namespace codecfs::fs
