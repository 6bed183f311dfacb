#pragma once
// The mounted filesystem: wires its components together. Independent of FUSE; fs/kernel translates requests and
// replies. All public functions are safe from all threads.

#include <sys/statvfs.h>

#include <memory>
#include <string>
#include <vector>

#include "fs/context/inode_attributes.h"
#include "fs/context/mount_context.h"
#include "fs/context/name_policy.h"
#include "fs/handles/file_opener.h"
#include "fs/handles/inode_changes.h"
#include "fs/namespace/listing.h"
#include "fs/namespace/metadata_editor.h"
#include "fs/namespace/namespace.h"
#include "fs/namespace/tree_changes.h"
#include "fs/views/array_blocks.h"
#include "fs/views/array_names.h"
#include "fs/views/array_view.h"
#include "fs/views/change_notifier.h"
#include "fs/views/chunk_files.h"
#include "fs/views/coherence_monitor.h"
#include "fs/views/encoded_forms.h"
#include "fs/views/encoded_view.h"
#include "fs/views/filter_control.h"
#include "fs/views/metadata_view.h"
#include "fs/views/mount_rules.h"
#include "fs/views/prefetcher.h"
#include "fs/views/xattr_control.h"

namespace codecfs::fs {

class Filesystem {
 public:
  Filesystem(std::unique_ptr<Source> source, const FilesystemOptions& options);
  ~Filesystem();
  Filesystem(const Filesystem&) = delete;
  Filesystem& operator=(const Filesystem&) = delete;

  /// Before the first request.
  void set_invalidator(Invalidator& kernel);

  MountContext& context() { return mount_; }
  MountRules& rules() { return rules_; }
  CoherenceMonitor& coherence() { return coherence_; }
  Namespace& names() { return names_; }
  Listing& listing() { return listing_; }
  TreeChanges& tree() { return tree_changes_; }
  XattrControl& xattrs() { return xattrs_; }
  FilterControl& filters() { return filters_; }
  EncodedForms& forms() { return forms_; }
  FileOpener& files() { return opener_; }
  InodeChanges& inodes() { return inode_changes_; }

  [[nodiscard]] bool read_only() const { return mount_.options.read_only; }
  [[nodiscard]] struct statvfs statistics() const;
  /// The paths, from the root, of the chunks and arrays that are open for writing (a mapped file is).
  std::vector<std::string> paths_open_for_writing();
  Result<> sync_all() { return mount_.chunks.write_back.sync_all(); }
  /// Ends read-ahead and pushes to the kernel. Must be called while requests are still answered.
  void stop_reading_ahead();
  /// Frees the memory of everything that can be read again.
  void drop_caches();
  /// The source was closed, everything being stored: other programs may change it from now on.
  void source_rests();
  /// Another program has replaced the source: inode numbers that the kernel knows become ESTALE, but for the roots of
  /// views. Temporary files move to the root, as their directories may not exist any more. Must be called while no
  /// request is served.
  void source_replaced();
  /// Stores everything at the end of the mount. EIO if scratch files are lost.
  Result<> finish();

 private:
  // Each uses those above it.
  MountContext mount_;
  MountRules rules_;
  EncodedForms forms_;
  ChangeNotifier notifier_;
  CoherenceMonitor coherence_;
  FilterControl filters_;
  InodeAttributes inode_attributes_;
  EncodedView encoded_;
  Prefetcher prefetcher_;
  ArrayBlocks blocks_;
  ArrayView arrays_;
  ArrayNames array_names_;
  ChunkFiles chunk_files_;
  MetadataView metadata_;
  MetadataEditor editor_;
  XattrControl xattrs_;
  Namespace names_;
  Listing listing_;
  NamePolicy policy_;
  TreeChanges tree_changes_;
  InodeChanges inode_changes_;
  FileOpener opener_;
};

}  // namespace codecfs::fs
