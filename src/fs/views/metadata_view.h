#pragma once
// The metadata files beside the chunks, and the control files: their texts and attributes. Thread-safe.

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

#include "fs/context/inode_attributes.h"
#include "fs/context/mount_context.h"
#include "fs/views/array_view.h"
#include "fs/views/coherence_monitor.h"
#include "fs/views/encoded_forms.h"
#include "fs/views/references_file.h"

namespace codecfs::fs {

/// The metadata file of this name in a directory, shown or hidden; also one that would make the directory a variable.
std::optional<FileKind> metadata_named(const Place& directory, std::string_view name);

class MetadataView {
 public:
  MetadataView(MountContext& mount, EncodedForms& forms, CoherenceMonitor& coherence, InodeAttributes& inodes,
               ArrayView& arrays)
      : mount_(mount), forms_(forms), coherence_(coherence), inodes_(inodes), arrays_(arrays), references_(mount) {}

  /// The text of a metadata or control file. ENOENT if the directory has no such file.
  Result<Text> text_of(const Node& node, FileKind file);
  /// Whether this mount has a control file.
  [[nodiscard]] bool has_control(FileKind file) const { return file != FileKind::references || references_.exists(); }
  /// ENOENT if the directory has no such file, or hides it.
  Result<struct stat> attributes(const Node& node, FileKind file);
  /// As attributes(), for a lookup: where defers_size(), `st_size` is kUnknownSize.
  Result<struct stat> looked_up(const Node& node, FileKind file);
  static constexpr off_t kUnknownSize = -1;
  /// Whether the size of a file is told only when it is asked for: it takes the reading of other objects, and `rm -r`
  /// looks up each file that it removes, so the removal of n objects would read n * n.
  [[nodiscard]] bool defers_size(const Node& node, FileKind file) const;
  /// Whether a file tells of everything below its group.
  static bool is_consolidated(const Node& node, FileKind file) {
    return file == FileKind::zmetadata || (file == FileKind::zarr_json && node.kind == NodeKind::group);
  }

 private:
  [[nodiscard]] std::string stats_text();
  Result<Text> zarr_json_of(const Node& node);
  void look_below(const Node& group);
  void note_given(const Node& node, FileKind file);
  /// Whether defers_size() may be true, now or later.
  [[nodiscard]] bool may_defer_size(const Node& node, FileKind file) const;

  MountContext& mount_;
  EncodedForms& forms_;
  CoherenceMonitor& coherence_;
  InodeAttributes& inodes_;
  ArrayView& arrays_;
  ReferencesFile references_;
};

}  // namespace codecfs::fs
