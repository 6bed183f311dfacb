#include "fs/handles/staged_handle.h"

#include <optional>
#include <span>
#include <string>

#include "base/fail_points.h"

namespace codecfs::fs {

Result<Slice> StagedHandle::read(uint64_t offset, size_t size) {
  const std::shared_ptr<const std::string> text = staged_->text();
  return part_of(uses_.mount.stats, {std::as_bytes(std::span(*text)), text}, offset, size);
}

Result<size_t> StagedHandle::write(uint64_t offset, Bytes bytes, const PageCopies::WrittenBack* written_back,
                                   const Cancelled&) {
  if (written_back != nullptr && !written_back->any) return bytes.size();
  CODECFS_TRY(staged_->write(offset, bytes, written_back == nullptr ? &descriptor_ : nullptr));
  // Programs that ignore errors of close(), such as shells, see those of write(). The text stays, so close() fails too.
  if (const std::shared_ptr<const std::string> text = staged_->text_if_written_whole())
    CODECFS_TRY(uses_.editor.check(staged_->ino(), *text));
  return bytes.size();
}

Result<> StagedHandle::flush(const Cancelled& cancelled) {
  const bool shown = staged_->shown_size().has_value();
  std::optional<StagedFile::Change> change = staged_->take_change(descriptor_);
  if (!change && (!shown || staged_->shown_size())) return {};
  const Ino ino = staged_->ino();
  FailPoints::allocate();
  Result<> applied;
  if (change) applied = uses_.editor.apply(ino, *change->text, cancelled);
  if (!applied && applied.error().code == EINVAL && change->without_rest)
    applied = uses_.editor.apply(ino, *change->without_rest, cancelled);
  change.reset();
  // From now on the file shows the state of the source, or does not exist.
  uses_.mount.kernel.invalidator->content_changed(ino, true);
  if (!uses_.names.attributes(ino)) uses_.notifier.file_gone(ino, true);
  return applied;
}

Result<> StagedHandle::sync(const Cancelled& cancelled) {
  CODECFS_TRY(flush(cancelled));
  MountContext& mount = uses_.mount;
  CODECFS_ASSIGN(const Place place, mount.tree.nodes.at(staged_->ino()));
  if (place.file != FileKind::chunk) return mount.chunks.write_back.commit();
  CODECFS_ASSIGN(const ChunkPlace chunk, mount.chunk_place(staged_->ino()));
  return mount.chunks.write_back.sync(chunk);
}

bool StagedHandle::close() {
  log_unreported(flush({}));
  staged_->end();
  if (!uses_.names.attributes(staged_->ino())) uses_.notifier.file_gone(staged_->ino(), false);
  return true;
}

}  // namespace codecfs::fs
