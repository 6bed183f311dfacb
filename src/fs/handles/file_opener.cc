#include "fs/handles/file_opener.h"

#include <fcntl.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "filters/core/pipeline.h"
#include "fs/handles/array_handle.h"
#include "fs/handles/chunk_handle.h"
#include "fs/handles/content_handle.h"
#include "fs/handles/log_handle.h"
#include "fs/handles/plain_handle.h"
#include "fs/handles/scratch_handle.h"
#include "fs/handles/shard_handle.h"
#include "fs/handles/snapshot_handle.h"
#include "fs/handles/staged_handle.h"
#include "fs/nodes/chunk_names.h"
#include "fs/nodes/clock.h"
#include "model/limits.h"

namespace codecfs::fs {
namespace {

/// More bytes than any encoder produces for a chunk, or for the chunks of a shard that are not more than the limit of
/// one chunk together: a longer file is refused.
uint64_t max_encoded(View view, const Variable& variable) {
  const bool is_known = variable.chunk_bytes && !form_of(view).shows_shards(variable);
  const uint64_t bytes = is_known ? *variable.chunk_bytes : max_chunk_bytes();
  const uint64_t of_plugin = filters::has_plugin(variable.filters) ? filters::max_of_plugin(bytes) : 0;
  return std::max(bytes + bytes / 2 + (uint64_t{1} << 20), of_plugin);
}

std::string string_of(const Buffer& buffer) { return {reinterpret_cast<const char*>(buffer.data()), buffer.size()}; }

}  // namespace

FileOpener::FileOpener(const Uses& uses)
    : uses_(uses),
      mount_(uses.mount),
      whole_(uses.mount, uses.encoded, uses.metadata),
      chunk_io_(uses.mount, uses.filters, uses.notifier, uses.inodes, uses.arrays) {}

// --- open

FileOpener::Opened FileOpener::open(Ino ino, bool for_writing, bool truncate) {
  ++mount_.stats.opens;
  KernelPages::Writer writer;
  if (for_writing) writer = KernelPages::Writer(mount_.kernel.pages, ino);
  CODECFS_ASSIGN(std::unique_ptr<FileHandle> file, open_file(ino, for_writing, truncate));
  file->pages = std::move(writer);
  return file;
}

FileOpener::Opened FileOpener::open_file(Ino ino, bool for_writing, bool truncate) {
  // A file that was renamed to a chunk has the chunk's inode number now. After ESTALE, the kernel looks the name up
  // again; pages that it read under the old number would never be invalidated.
  if (mount_.tree.scratch.promoted_to(ino)) return std::unexpected(Error{ESTALE, {}});
  CODECFS_ASSIGN(const Place place, uses_.coherence.current_place_of(ino));
  const Node& node = *place.node;
  if (node.kind == NodeKind::file) return open_plain(node, for_writing);
  if (place.file == FileKind::unknown) return open_unknown(node);
  if (place.file == FileKind::itself || place.file == FileKind::chunk_directory)
    return fail(EISDIR, "{}: is a directory", node.path);
  if (for_writing && mount_.options.read_only) return fail(EROFS, "{}: this mount is read-only", node.path);
  if (node.kind == NodeKind::scratch) return open_scratch(ino, for_writing, truncate);
  if (place.file == FileKind::array) return open_array(node, for_writing, truncate);
  if (place.file != FileKind::chunk) return open_metadata(place, ino, for_writing, truncate);
  // The kernel's inode number may be that of a scratch file, or of another view.
  CODECFS_ASSIGN(const ChunkPlace chunk, mount_.chunk_place(ino));
  if (mount_.options.coherent) uses_.coherence.chunk_opened(chunk);
  Opened file = node.form().is_encoded ? open_encoded(node, chunk, for_writing, truncate)
                : for_writing          ? open_chunk_to_write(node, chunk, truncate)
                                       : open_chunk(node, chunk, ino);
  if (file) (*file)->caching.outside = mount_.options.coherent;
  return file;
}

/// A name in the directory of a variable that could not be read. After ESTALE, the kernel looks it up again.
FileOpener::Opened FileOpener::open_unknown(const Node& variable) {
  CODECFS_TRY(mount_.dataset.variable(variable.object));
  return std::unexpected(Error{ESTALE, {}});
}

FileOpener::Opened FileOpener::open_plain(const Node& node, bool for_writing) {
  if (for_writing) CODECFS_TRY(uses_.policy.changeable_directory(node.ino()));
  CODECFS_ASSIGN(auto content, mount_.dataset.source().open_content(node.object));
  if (content) return std::make_unique<ContentHandle>(mount_.stats, std::move(content));
  CODECFS_ASSIGN(UniqueFd file, mount_.dataset.source().open_file(node.object));
  return std::make_unique<PlainHandle>(mount_.stats, std::move(file));
}

FileOpener::Opened FileOpener::open_scratch(Ino ino, bool for_writing, bool truncate) {
  if (truncate) CODECFS_TRY(mount_.tree.scratch.resize(ino, 0));
  return std::make_unique<ScratchHandle>(chunk_io_, ino, for_writing);
}

FileOpener::Opened FileOpener::open_array(const Node& node, bool for_writing, bool truncate) {
  CODECFS_ASSIGN(std::unique_ptr<OpenArray> array, uses_.arrays.open(node));
  if (mount_.options.coherent) CODECFS_TRY(uses_.coherence.array_opened(node, *array->variable));
  std::unique_ptr<FileHandle> file;
  if (for_writing) {
    CODECFS_TRY(mount_.dataset.source().variable_writable(node.object));
    array->truncated = truncate;
    WriteBack::Writer writer = mount_.chunks.write_back.open_writer({array->ino, 0, 0, array->variable});
    file = std::make_unique<ArrayHandle>(mount_, uses_.arrays, std::move(array), std::move(writer));
  } else {
    file = std::make_unique<ArrayHandle>(mount_, uses_.arrays, std::move(array), WriteBack::Writer());
  }
  file->caching.outside = mount_.options.coherent;
  return file;
}

FileOpener::Opened FileOpener::open_metadata(const Place& place, Ino ino, bool for_writing, bool truncate) {
  const Node& node = *place.node;
  if (for_writing) {
    if (node.kind == NodeKind::control) return fail(EPERM, "{}: is only read", node.path);
    const Result<Text> text = truncate ? Result<Text>(nullptr) : uses_.metadata.text_of(node, place.file);
    auto staged = mount_.tree.staged_files.open(node.ino(place.file), text && *text ? **text : "", false);
    if (truncate) CODECFS_TRY(staged->resize(0));
    return staged_handle(std::move(staged), false);
  }
  if (place.file == FileKind::log) return std::make_unique<LogHandle>(mount_.stats);
  CODECFS_ASSIGN(std::unique_ptr<Snapshot> snapshot, whole_.take_snapshot(ino));
  // Each change of the dataset changes consolidated metadata, also between the kernel's requests for its length and its
  // text.
  const bool tells_of_all = MetadataView::is_consolidated(node, place.file) && !mount_.options.read_only;
  const bool live = node.kind == NodeKind::control || mount_.options.coherent || tells_of_all ||
                    uses_.notifier.is_in_motion(node.ino(place.file)) ||
                    mount_.kernel.metadata_given.lacks_size(node.ino(place.file));
  return std::make_unique<SnapshotHandle>(whole_, std::move(snapshot), live);
}

FileOpener::Opened FileOpener::open_chunk_to_write(const Node& node, const ChunkPlace& chunk, bool truncate) {
  if (const auto& unreadable = chunk.variable->facts->unreadable) return std::unexpected(*unreadable);
  CODECFS_TRY(mount_.dataset.source().variable_writable(node.object));
  // Its look-up may have failed, and a part of it cannot be written then.
  if (!truncate && mount_.kernel.shows_unfound && !mount_.chunks.write_back.size(chunk.key))
    CODECFS_TRY(mount_.dataset.source().locate(node.object, chunk.number));
  // First, as its end is the end of the replacement.
  auto file = std::make_unique<ChunkHandle>(chunk_io_, node, chunk, mount_.chunks.write_back.open_writer(chunk));
  if (truncate) {
    CODECFS_ASSIGN(WriteBack::Replacement replacement, mount_.chunks.write_back.begin_replacement(chunk));
    uses_.notifier.chunk_changed(node, chunk.number);
    replacement.keep();
  }
  return file;
}

FileOpener::Opened FileOpener::open_chunk(const Node& node, const ChunkPlace& chunk, Ino ino) {
  const Variable& variable = *chunk.variable->facts;
  if (variable.unreadable) return std::unexpected(*variable.unreadable);
  std::unique_ptr<FileHandle> file;
  if (!variable.chunk_bytes && !mount_.chunks.write_back.size(chunk.key)) {
    CODECFS_ASSIGN(std::unique_ptr<Snapshot> snapshot, whole_.take_snapshot(ino));
    file = std::make_unique<ChunkSnapshotHandle>(chunk_io_, node, chunk, whole_, std::move(snapshot));
  } else {
    file = std::make_unique<ChunkHandle>(chunk_io_, node, chunk);
  }
  file->passable = uses_.prefetcher.opened_to_read(node, chunk);
  return file;
}

FileOpener::Opened FileOpener::open_encoded(const Node& node, const ChunkPlace& chunk, bool for_writing,
                                            bool truncate) {
  const Variable& variable = *chunk.variable->facts;
  CODECFS_ASSIGN(const Ino ino, mount_.tree.nodes.chunk_ino(node, chunk.number, grid_of(node.view, variable).count()));
  CODECFS_TRY(mount_.still_means(chunk));  // and so the number is that of the same chunk
  if (!for_writing && node.form().shows_shards(variable)) {
    auto shard = uses_.encoded.open_shard(node, chunk.number);
    if (shard || shard.error().code == ENOENT) CODECFS_TRY(mount_.still_means(chunk));
    if (!shard) return std::unexpected(shard.error());
    return std::make_unique<ShardHandle>(mount_.stats, *std::move(shard));
  }
  if (!for_writing) {
    std::optional<PassableChunk> passable = uses_.prefetcher.opened_to_read(node, chunk);
    // If the size is known without reading it, the kernel may have all of it by now.
    if (!mount_.options.coherent && uses_.encoded.passed_bytes(node, chunk)) {
      auto file = std::make_unique<SnapshotHandle>(whole_, WholeFiles::empty_snapshot(ino), false);
      file->passable = std::move(passable);
      return file;
    }
    CODECFS_ASSIGN(std::unique_ptr<Snapshot> snapshot, whole_.take_snapshot(ino));
    mount_.chunks.conversions.done(
        conversion_key(node.view, chunk.key));  // the kernel caches what it reads from the snapshot
    return std::make_unique<SnapshotHandle>(whole_, std::move(snapshot), mount_.options.coherent);
  }
  CODECFS_TRY(mount_.dataset.source().variable_writable(node.object));
  std::string before;
  if (!truncate) {
    CODECFS_ASSIGN(const ChunkPtr bytes, uses_.encoded.content(node, chunk));
    before = string_of(*bytes);
  }
  auto staged = mount_.tree.staged_files.open(ino, before, false, max_encoded(node.view, variable));
  if (truncate) CODECFS_TRY(staged->resize(0));
  return staged_handle(std::move(staged), true);
}

std::unique_ptr<FileHandle> FileOpener::staged_handle(std::shared_ptr<StagedFile> staged, bool is_writer) {
  const StagedHandle::Uses uses{mount_, uses_.editor, uses_.notifier, uses_.names};
  return std::make_unique<StagedHandle>(uses, std::move(staged), is_writer);
}

// --- create

Result<FileOpener::Created> FileOpener::create(Ino parent, std::string_view name, mode_t permissions, int flags,
                                               const Cancelled& cancelled) {
  ++mount_.stats.opens;
  CODECFS_ASSIGN(Created created, create_file(parent, name, permissions, flags, cancelled));
  created.file->pages = KernelPages::Writer(mount_.kernel.pages, created.status.st_ino);
  return created;
}

Result<FileOpener::Created> FileOpener::create_file(Ino parent, std::string_view name, mode_t permissions, int flags,
                                                    const Cancelled& cancelled) {
  CODECFS_ASSIGN(const Place directory, uses_.policy.changeable_directory(parent, name));
  const Node* node = directory.node;
  const std::optional<FileKind> metadata = metadata_named(directory, name);
  if (metadata && node->kind != NodeKind::variable) return create_metadata(*node, *metadata);
  CODECFS_ASSIGN(const std::optional<ChunkPlace> chunk, uses_.chunk_files.named(directory, name));
  if (metadata || chunk) CODECFS_TRY(mount_.recodings.check_idle(node->object, node->path));
  if (metadata) return create_metadata(*node, *metadata);
  if (!chunk) {
    {
      const SharedLock names(mount_.tree.names);
      if (mount_.tree.is_still(parent, directory)) {
        CODECFS_TRY(uses_.policy.may_stage(directory, name));
        mount_.tree.overlay.note_made(*node);
        CODECFS_ASSIGN(const Ino holder, mount_.ino_of(directory));
        return create_scratch(*node, holder, name, permissions);
      }
    }
    return create_file(parent, name, permissions, flags, cancelled);
  }
  mount_.tree.overlay.note_made(*node);
  if (node->form().is_encoded) return create_encoded(*node, *chunk);
  return create_chunk(*node, *chunk, parent, flags, cancelled);
}

Result<FileOpener::Created> FileOpener::create_scratch(const Node& node, Ino parent, std::string_view name,
                                                       mode_t permissions) {
  if (node.kind == NodeKind::variable) CODECFS_TRY(mount_.dataset.source().variable_writable(node.object));
  CODECFS_ASSIGN(const Ino ino, mount_.tree.scratch.create(parent, name, permissions));
  mount_.tree.times.set(parent, {}, now());
  CODECFS_ASSIGN(const struct stat status, uses_.names.attributes(ino));
  return Created{status, std::make_unique<ScratchHandle>(chunk_io_, ino, true)};
}

Result<FileOpener::Created> FileOpener::create_chunk(const Node& node, const ChunkPlace& chunk, Ino parent, int flags,
                                                     const Cancelled& cancelled) {
  // The first write applies the rules, as the kernel holds the directory now. A chunk without a fixed size could not be
  // stored by then.
  if (!chunk.variable->facts->chunk_bytes) CODECFS_TRY(uses_.filters.apply_rules(chunk, cancelled));
  // Without O_EXCL and O_TRUNC (dd conv=notrunc) the writer changes a part of a chunk that held fill.
  const bool is_part = (flags & (O_EXCL | O_TRUNC)) == 0;
  // First, as its end is the end of what follows.
  auto file = std::make_unique<ChunkHandle>(chunk_io_, node, chunk, mount_.chunks.write_back.open_writer(chunk));
  // The kernel looked it up as absent, but it may have been written through another view since.
  CODECFS_ASSIGN(const bool is_new, mount_.chunks.write_back.create(chunk, is_part));
  const bool is_there = !is_new && !mount_.tree.overlay.is_unlinked(node, chunk.number);
  if (is_there && (flags & O_EXCL) != 0)
    return fail(EEXIST, "{}/{}: exists", node.path, path_of_chunk(node.view, *chunk.variable->facts, chunk.number));
  if (!is_new && !is_there) CODECFS_TRY(mount_.chunks.write_back.resize(chunk, 0, is_part));
  std::optional<WriteBack::Replacement> replacement;
  if (is_there && (flags & O_TRUNC) != 0) {
    CODECFS_ASSIGN(WriteBack::Replacement begun, mount_.chunks.write_back.begin_replacement(chunk));
    replacement.emplace(std::move(begun));
  }
  mount_.tree.overlay.forget_unlinked(node, chunk.number);
  uses_.notifier.chunk_changed(node, chunk.number);
  CODECFS_ASSIGN(const Ino ino, mount_.tree.nodes.chunk_ino(node, chunk.number, chunk.variable->facts->grid.count()));
  mount_.tree.times.set(ino, {}, now());
  mount_.tree.times.set(parent, {}, now());
  CODECFS_ASSIGN(const struct stat status, uses_.names.attributes(ino));
  CODECFS_TRY(mount_.still_means(chunk));  // and so the number is that of the same chunk
  if (replacement) replacement->keep();
  return Created{status, std::move(file)};
}

Result<FileOpener::Created> FileOpener::create_metadata(const Node& node, FileKind file) {
  if (!mount_.state_of(node).hidden.contains(file) && (node.kind == NodeKind::variable || file != FileKind::zarray))
    return fail(EEXIST, "{}: exists", node.path);
  mount_.tree.overlay.note_made(node);
  auto staged = mount_.tree.staged_files.open(node.ino(file), "", true);
  const struct stat status = uses_.inodes.make(node, node.ino(file), S_IFREG, staged->shown_size().value_or(0));
  return Created{status, staged_handle(std::move(staged), true)};
}

Result<FileOpener::Created> FileOpener::create_encoded(const Node& node, const ChunkPlace& chunk) {
  const Variable& variable = *chunk.variable->facts;
  CODECFS_TRY(mount_.dataset.source().variable_writable(node.object));
  CODECFS_ASSIGN(const Ino ino, mount_.tree.nodes.chunk_ino(node, chunk.number, grid_of(node.view, variable).count()));
  CODECFS_TRY(mount_.still_means(chunk));  // and so the number is that of the same chunk
  auto staged = mount_.tree.staged_files.open(ino, "", true, max_encoded(node.view, variable));
  const struct stat status = uses_.inodes.make(node, ino, S_IFREG, staged->shown_size().value_or(0));
  return Created{status, staged_handle(std::move(staged), true)};
}

}  // namespace codecfs::fs
