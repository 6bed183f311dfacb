// Opening and reading files, and decoding the chunks that they show.

#include <algorithm>
#include <utility>

#include "fs/namespace/tree.h"

namespace codecfs::fs {

Result<std::unique_ptr<OpenFile>> Tree::open(Ino ino, bool for_writing, bool truncate) {
  ++stats_.opens;
  KernelPages::Writer writer;
  if (for_writing) writer = KernelPages::Writer(kernel_pages_, ino);
  CODECFS_ASSIGN(std::unique_ptr<OpenFile> file, open_file(ino, for_writing, truncate));
  file->pages = std::move(writer);
  return file;
}

/// Whether a metadata file is open for writing, or its content has just changed.
bool Tree::is_in_motion(Ino ino) {
  constexpr std::chrono::seconds kMotion{2};
  return staged_files_.find(ino) != nullptr || std::chrono::steady_clock::now() - metadata_changed_at_.load() < kMotion;
}

Result<std::unique_ptr<OpenFile>> Tree::open_file(Ino ino, bool for_writing, bool truncate) {
  // A file that was renamed to a chunk has the chunk's inode number now. After ESTALE, the kernel looks the name up
  // again; pages that it read under the old number would never be invalidated.
  if (scratch_.promoted_to(ino)) return std::unexpected(Error{ESTALE, {}});
  CODECFS_ASSIGN(const Place place, current_place_of(ino));
  const Node& node = *place.node;
  if (node.kind == NodeKind::file) return open_plain(node, for_writing);
  if (place.file == FileKind::itself) return fail(EISDIR, "{}: is a directory", node.path);
  if (for_writing && read_only_) return fail(EROFS, "{}: this mount is read-only", node.path);
  auto file = std::make_unique<OpenFile>();
  if (node.kind == NodeKind::scratch) {
    file->scratch = ino;
    file->writer = for_writing;
    if (truncate) CODECFS_TRY(scratch_.resize(ino, 0));
    return file;
  }
  if (place.file == FileKind::array) return open_array(node, for_writing, truncate);
  if (place.file != FileKind::chunk) {
    if (for_writing && node.kind == NodeKind::control) return fail(EPERM, "{}: is only read", node.path);
    if (for_writing) {
      const Result<Text> text = truncate ? Result<Text>(nullptr) : text_of(node, place.file);
      file->staged = staged_files_.open(node.ino(place.file), text && *text ? **text : "", false);
      if (truncate) CODECFS_TRY(file->staged->resize(0));
      return file;
    }
    CODECFS_ASSIGN(file->snapshot, take_snapshot(ino));
    // Each change of the dataset changes .zmetadata, also between the kernel's requests for its length and its text.
    const bool tells_of_all = place.file == FileKind::zmetadata && !read_only_;
    file->live = node.kind == NodeKind::control || coherent_ || tells_of_all || is_in_motion(node.ino(place.file));
    return file;
  }
  // The kernel's inode number may be that of a scratch file, or of another view.
  CODECFS_ASSIGN(const ChunkPlace chunk, chunk_place(node, place.chunk));
  if (coherent_) open_afresh(chunk, *file);
  if (node.view == View::encoded) return open_encoded(node, chunk, for_writing, truncate);
  const Variable& variable = *chunk.variable->facts;
  if (variable.unreadable) return std::unexpected(*variable.unreadable);
  file->chunk = chunk;
  if (for_writing) {
    CODECFS_TRY(dataset_.source().variable_writable(node.object));
    if (truncate) {
      CODECFS_TRY(write_back_.resize(file->chunk, 0));
      chunk_changed(node, chunk.number);
    }
    file->writer = true;
    write_back_.open_writer(chunk.key);
  } else if (!variable.chunk_bytes && !write_back_.size(chunk.key)) {
    // The size that lookup returned is that of these bytes, so they are kept while the file is open.
    CODECFS_ASSIGN(file->snapshot, take_snapshot(ino));
  }
  if (!for_writing) opened_to_read(node, chunk);
  return file;
}

/// The whole content of a metadata file or chunk.
Result<Slice> Tree::make_whole(Ino ino) {
  CODECFS_ASSIGN(const Place place, place_of(ino));
  const Node& node = *place.node;
  if (place.file != FileKind::chunk) {
    CODECFS_ASSIGN(const Text text, text_of(node, place.file));
    return Slice{std::as_bytes(std::span(*text)), text};
  }
  CODECFS_ASSIGN(const ChunkPlace chunk, chunk_place(node, place.chunk));
  ChunkPtr bytes;
  if (node.view == View::encoded) {
    CODECFS_ASSIGN(bytes, encoded(node, chunk));
  } else if (const auto edited = write_back_.content(chunk.key)) {
    return Slice{edited->bytes->bytes().first(edited->size), edited->bytes};
  } else {
    CODECFS_ASSIGN(bytes, decoded(chunk));
  }
  return Slice{bytes->bytes(), bytes};
}

Result<std::shared_ptr<Snapshot>> Tree::take_snapshot(Ino ino) {
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->ino = ino;
  snapshot->changes = changes();
  CODECFS_ASSIGN(snapshot->held, make_whole(ino));
  return snapshot;
}

/// The current content: after an invalidation the kernel must not get the old one again.
Result<Slice> Tree::look_at(Snapshot& snapshot) {
  const std::lock_guard lock(snapshot.mutex);
  const uint64_t changes = this->changes();
  if (changes == snapshot.changes) return snapshot.held;
  Result<Slice> now = make_whole(snapshot.ino);
  // A file that was removed since the open keeps its last content.
  if (!now && now.error().code != ENOENT && now.error().code != ESTALE) return now;
  if (now) snapshot.held = *std::move(now);
  snapshot.changes = changes;
  return snapshot.held;
}

Result<Slice> Tree::read(const OpenFile& file, off_t offset, size_t size) {
  ++stats_.reads;
  const auto part = [&](Bytes bytes, std::shared_ptr<const void> owner) {
    const size_t from = std::min(bytes.size(), static_cast<size_t>(offset));
    bytes = bytes.subspan(from, std::min(size, bytes.size() - from));
    stats_.bytes_read += bytes.size();
    return Slice{bytes, std::move(owner)};
  };
  if (file.array) return read_array(*file.array, static_cast<uint64_t>(offset), size);
  if (file.plain) {
    CODECFS_ASSIGN(Slice slice, read_plain(file, static_cast<uint64_t>(offset), size));
    stats_.bytes_read += slice.bytes.size();
    return slice;
  }
  if (file.snapshot && file.live) return part(file.snapshot->held.bytes, file.snapshot->held.owner);
  if (file.snapshot) {
    CODECFS_ASSIGN(const Slice whole, look_at(*file.snapshot));
    return part(whole.bytes, whole.owner);
  }
  if (file.staged) {
    const Text text = file.staged->text();
    return part(std::as_bytes(std::span(*text)), text);
  }
  CODECFS_ASSIGN(const ChunkPlace chunk, chunk_of(file));
  if (chunk.variable == nullptr) {
    CODECFS_ASSIGN(std::string bytes, scratch_.read(file.scratch, static_cast<uint64_t>(offset), size));
    const auto owner = std::make_shared<const std::string>(std::move(bytes));
    stats_.bytes_read += owner->size();
    return Slice{std::as_bytes(std::span(*owner)), owner};
  }
  if (const std::optional<WriteBack::Content> edited = write_back_.content(chunk.key))
    return part(edited->bytes->bytes().first(edited->size), edited->bytes);
  Result<ChunkPtr> stored = decoded(chunk);
  // Removed since the open: it reads as fill.
  if (!stored && stored.error().code == ENOENT) stored = base_of(chunk);
  CODECFS_ASSIGN(const ChunkPtr bytes, std::move(stored));
  Slice slice = part(bytes->bytes(), bytes);
  cache_.served(chunk.key, slice.bytes.size());
  return slice;
}

uint64_t Tree::decoding_bytes(const Variable& variable) {
  // A chunk takes its decoded bytes, and as many again while a filter runs.
  return 2 * variable.chunk_bytes.value_or(uint64_t{1} << 20);
}

Result<Buffer> Tree::decode(const ChunkPlace& chunk) {
  CODECFS_ASSIGN(const ChunkInfo info, dataset_.source().locate(chunk.object, chunk.number));
  stats_.bytes_stored += info.stored_size;
  return dataset_.source().read_chunk(chunk.object, chunk.number);
}

Result<ChunkPtr> Tree::decoded(const ChunkPlace& chunk) {
  Result<ChunkPtr> bytes = cache_.get(chunk.key, decoding_bytes(*chunk.variable->facts), [&] { return decode(chunk); });
  if (bytes || bytes.error().code != ENOENT || !chunk.variable->shows_absent_chunks()) return bytes;
  return base_of(chunk);
}

ChunkPtr Tree::fetch_decoded(const ChunkPlace& chunk) {
  if (write_back_.size(chunk.key)) return nullptr;
  const Result<ChunkInfo> info = dataset_.source().locate(chunk.object, chunk.number);
  if (!info || !info->stored) return nullptr;
  return cache_.fetch(chunk.key, decoding_bytes(*chunk.variable->facts), [&] { return decode(chunk); });
}

Result<ChunkPtr> Tree::base_of(const ChunkPlace& chunk) {
  CODECFS_ASSIGN(const ChunkInfo info, dataset_.source().locate(chunk.object, chunk.number));
  const uint64_t estimate = decoding_bytes(*chunk.variable->facts);
  if (info.stored) {
    Result<ChunkPtr> bytes = cache_.get(chunk.key, estimate, [&] { return decode(chunk); });
    if (bytes || bytes.error().code != ENOENT) return bytes;
    // Removed since the lookup.
  }
  // All absent chunks of a variable share one fill chunk, cached under the inode number of its directory.
  CODECFS_ASSIGN(const Place place, place_of(chunk.key));
  return cache_.get(place.node->ino(), estimate, [&] { return make_fill_chunk(*chunk.variable->facts); });
}

}  // namespace codecfs::fs
