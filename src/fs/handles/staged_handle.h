#pragma once
// An open file that is stored as a whole when it is closed: a metadata file, or an encoded chunk.

#include <memory>
#include <utility>

#include "fs/context/staged_files.h"
#include "fs/handles/file_handle.h"
#include "fs/namespace/metadata_editor.h"
#include "fs/namespace/namespace.h"
#include "fs/views/change_notifier.h"

namespace codecfs::fs {

class StagedHandle final : public FileHandle {
 public:
  /// What the handle uses; all outlive it.
  struct Uses {
    MountContext& mount;
    MetadataEditor& editor;
    ChangeNotifier& notifier;
    Namespace& names;
  };
  StagedHandle(const Uses& uses, std::shared_ptr<StagedFile> staged, bool is_writer)
      : FileHandle(is_writer), uses_(uses), staged_(std::move(staged)) {
    caching.whole = true;
  }

  Result<Slice> read(uint64_t offset, size_t size) override;
  Result<size_t> write(uint64_t offset, Bytes bytes, const PageCopies::WrittenBack* written_back,
                       const Cancelled& cancelled) override;
  Result<> flush(const Cancelled& cancelled) override;
  Result<> sync(const Cancelled& cancelled) override;
  bool close() override;

 private:
  const Uses uses_;
  const std::shared_ptr<StagedFile> staged_;
  StagedFile::Descriptor descriptor_;
};

}  // namespace codecfs::fs
