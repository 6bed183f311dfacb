#pragma once
// Changes of names: groups, variables, links and files are created, moved and removed. Thread-safe.
//
// Locks, in this order: Tree::layout, shared by all changes here, exclusive for removals and moves; then a
// variable's pause in WriteBack. No function waits for a re-encoding: of the names of a variable that is being
// re-encoded, and of the groups above it, changes are EBUSY.

#include <sys/stat.h>

#include <string>
#include <string_view>

#include "fs/context/mount_context.h"
#include "fs/context/name_policy.h"
#include "fs/namespace/metadata_editor.h"
#include "fs/namespace/namespace.h"
#include "fs/views/change_notifier.h"
#include "fs/views/chunk_files.h"
#include "fs/views/coherence_monitor.h"

namespace codecfs::fs {

class TreeChanges {
 public:
  TreeChanges(MountContext& mount, CoherenceMonitor& coherence, ChangeNotifier& notifier, ChunkFiles& chunk_files,
              MetadataEditor& editor, Namespace& names, NamePolicy& policy)
      : mount_(mount),
        coherence_(coherence),
        notifier_(notifier),
        chunk_files_(chunk_files),
        editor_(editor),
        names_(names),
        policy_(policy) {}

  // EROFS, EPERM, EEXIST, ENOENT, ENOTEMPTY as in the system calls, and EINVAL for names that are never stored.
  Result<struct stat> make_directory(Ino parent, std::string_view name);
  Result<> remove_directory(Ino parent, std::string_view name);
  Result<struct stat> make_link(Ino parent, std::string_view name, std::string_view target);
  /// Source::restore_link().
  Result<> restore_link(Ino parent, std::string_view name, std::string_view note);
  /// link(2) of a temporary file to the name of a metadata file or chunk that does not exist: its content is stored
  /// under that name, as by rename(), and the file stays. EEXIST; EPERM for other files and names.
  Result<struct stat> make_hard_link(Ino ino, Ino parent, std::string_view name, const Cancelled& cancelled = {});
  Result<> unlink(Ino parent, std::string_view name);
  /// EXDEV for chunks and metadata files: mv then copies them. EINTR: cancelled, and nothing has changed.
  Result<> rename(Ino parent, std::string_view name, Ino to_parent, std::string_view to_name, bool replace,
                  const Cancelled& cancelled = {});

 private:
  struct ScratchName {
    Ino directory = 0;        // that holds the scratch files of the directory
    std::optional<Ino> file;  // none: no scratch file has the name
  };
  Result<const Node*> group_for_link(Ino parent, std::string_view name);
  Result<std::optional<ScratchName>> scratch_named(Ino parent, const Place& directory, std::string_view name);
  static Result<> check_complete(const Node& node, const ChunkPlace& chunk, uint64_t size);
  Result<Ino> put_content(const Place& directory, std::optional<FileKind> metadata,
                          const std::optional<ChunkPlace>& chunk, const std::string& content,
                          const Cancelled& cancelled);
  Result<struct stat> make_chunk_directory(const Place& directory, Ino parent, std::string_view name);
  Result<> remove_chunk_directory(const Place& directory);
  Result<> move_entry(Ino parent, std::string_view name, Ino to_parent, std::string_view to_name);
  /// Removes it from the source and from the caches.
  Result<> remove_entry(const Node& directory, std::string_view name, const Node& entry);
  [[nodiscard]] Result<> check_not_recoded(const Node& directory) const;
  Result<> has_no_files(const Node& variable);
  /// ENOTEMPTY while its directory shows chunks.
  Result<> may_remove_variable(const Node& node);
  /// The target of a link as the source stores it.
  [[nodiscard]] std::string target_from(const Node& directory, std::string_view target) const;

  MountContext& mount_;
  CoherenceMonitor& coherence_;
  ChangeNotifier& notifier_;
  ChunkFiles& chunk_files_;
  MetadataEditor& editor_;
  Namespace& names_;
  NamePolicy& policy_;
};

}  // namespace codecfs::fs
