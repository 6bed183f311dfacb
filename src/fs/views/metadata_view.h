#pragma once
// The metadata files beside the chunks, and the control files: their texts and attributes. Thread-safe.

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

#include "fs/namespace/coherence_monitor.h"
#include "fs/namespace/inode_attributes.h"
#include "fs/namespace/mount_context.h"
#include "fs/views/array_view.h"
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

 private:
  [[nodiscard]] std::string stats_text();
  Result<Text> zarr_json_of(const Node& node);
  void look_below(const Node& group);

  MountContext& mount_;
  EncodedForms& forms_;
  CoherenceMonitor& coherence_;
  InodeAttributes& inodes_;
  ArrayView& arrays_;
  ReferencesFile references_;
};

}  // namespace codecfs::fs
