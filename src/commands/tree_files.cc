#include "commands/tree_files.h"

#include <fcntl.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "fs/nodes/chunk_names.h"

namespace codecfs::commands {

TreeFiles::TreeFiles(std::unique_ptr<Source> source, const fs::FilesystemOptions& options)
    : filesystem_(std::make_unique<fs::Filesystem>(std::move(source), options)) {
  filesystem_->set_invalidator(no_kernel_);
}

Result<> TreeFiles::list(Ino directory, const std::function<Result<>(const Item& item)>& take) {
  constexpr size_t kBatch = 1024;
  CODECFS_ASSIGN(const std::unique_ptr<fs::OpenDirectory> open, filesystem_->listing().open(directory));
  off_t next = 0;
  for (;;) {
    std::vector<Item> items;
    const off_t from = next;
    CODECFS_TRY(filesystem_->listing().read(*open, from, [&](const fs::DirectoryItem& item) {
      if (items.size() == kBatch) return false;
      next = item.next;
      if (item.name == "." || item.name == "..") return true;
      items.push_back({item.name, item.type});
      return true;
    }));
    if (next == from) return {};
    for (const Item& item : items) CODECFS_TRY(take(item));
  }
}

Result<TreeFiles::Ino> TreeFiles::find(Ino directory, std::string_view name) {
  CODECFS_ASSIGN(const struct stat found, filesystem_->names().lookup(directory, name));
  return found.st_ino;
}

Result<TreeFiles::Ino> TreeFiles::find_path(std::string_view path) {
  Ino at = root();
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    if (end > 0) {
      CODECFS_ASSIGN(at, find(at, path.substr(0, end)));
    }
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return at;
}

Result<uint64_t> TreeFiles::size(Ino file) {
  CODECFS_ASSIGN(const struct stat status, filesystem_->names().attributes(file));
  return static_cast<uint64_t>(status.st_size);
}

Result<bool> TreeFiles::is_stored(Ino chunk) {
  fs::MountContext& mount = filesystem_->context();
  CODECFS_ASSIGN(const fs::Place file, mount.tree.nodes.at(chunk));
  CODECFS_ASSIGN(const fs::ChunkPlace place, mount.chunk_place(*file.node, file.chunk));
  CODECFS_ASSIGN(const ChunkInfo info, mount.dataset.source().locate(place.object, place.number));
  return info.stored;
}

Result<> TreeFiles::check_shard(Ino ino) {
  fs::MountContext& mount = filesystem_->context();
  CODECFS_ASSIGN(const fs::Place file, mount.tree.nodes.at(ino));
  CODECFS_ASSIGN(const fs::ChunkPlace shard, mount.chunk_place(*file.node, file.chunk));
  const Variable& facts = *shard.variable->facts;
  if (!file.node->form().shows_shards(facts)) return {};
  for (const fs::ChunkRange& range : fs::chunks_of_shard(facts, shard.number))
    for (uint64_t number = range.first; number < range.first + range.count; ++number)
      CODECFS_TRY(mount.dataset.source().locate(shard.object, number));
  return {};
}

Result<> TreeFiles::check_attributes(Ino directory) {
  fs::MountContext& mount = filesystem_->context();
  CODECFS_ASSIGN(const fs::Place place, mount.tree.nodes.at(directory));
  if (place.node->kind == fs::NodeKind::group) {
    CODECFS_TRY(mount.dataset.source().group_attributes(place.node->object));
    return {};
  }
  if (place.node->kind != fs::NodeKind::variable) return {};
  CODECFS_ASSIGN(const VariablePtr variable, mount.dataset.described(place.node->object));
  if (variable->unreadable_attributes) return std::unexpected(*variable->unreadable_attributes);
  return {};
}

Result<> TreeFiles::read(Ino file, const std::function<Result<>(Bytes content)>& use) {
  CODECFS_ASSIGN(const std::unique_ptr<fs::FileHandle> handle, filesystem_->files().open(file, false, false));
  const Result<> used = [&]() -> Result<> {
    CODECFS_ASSIGN(const uint64_t length, size(file));
    // Most handles have their whole content in one piece.
    CODECFS_ASSIGN(const fs::Slice first, handle->read(0, length));
    if (first.bytes.size() == length) return use(first.bytes);
    CODECFS_ASSIGN(Buffer whole, Buffer::allocate(length));
    for (uint64_t at = 0; at < length;) {
      CODECFS_ASSIGN(const fs::Slice part, handle->read(at, length - at));
      if (part.bytes.empty()) {
        whole.truncate(at);
        break;
      }
      std::ranges::copy(part.bytes, whole.mutable_bytes().begin() + static_cast<ptrdiff_t>(at));
      at += part.bytes.size();
    }
    return use(whole.bytes());
  }();
  handle->close();
  return used;
}

Result<std::unique_ptr<fs::FileHandle>> TreeFiles::open_for_writing(Ino directory, std::string_view name) {
  const Result<Ino> found = find(directory, name);
  if (found) return filesystem_->files().open(*found, true, true);
  if (found.error().code != ENOENT) return std::unexpected(found.error());
  CODECFS_ASSIGN(fs::FileOpener::Created created,
                 filesystem_->files().create(directory, name, 0644, O_WRONLY | O_CREAT | O_TRUNC));
  return std::move(created.file);
}

Result<> TreeFiles::write(Ino directory, std::string_view name, Bytes content) {
  CODECFS_ASSIGN(const std::unique_ptr<fs::FileHandle> file, open_for_writing(directory, name));
  const Result<> written = [&]() -> Result<> {
    for (uint64_t at = 0; at < content.size();) {
      CODECFS_ASSIGN(const size_t taken, file->write(at, content.subspan(at), nullptr, {}));
      if (taken == 0) return fail(EIO, "{}: no byte was written", name);
      at += taken;
    }
    return file->flush();
  }();
  file->close();
  return written;
}

Result<TreeFiles::Ino> TreeFiles::make_directory(Ino directory, std::string_view name) {
  const Result<struct stat> made = filesystem_->tree().make_directory(directory, name);
  if (made) return made->st_ino;
  if (made.error().code != EEXIST) return std::unexpected(made.error());
  return find(directory, name);
}

Result<> TreeFiles::remove_directory(Ino parent, Ino directory, std::string_view name) {
  fs::TreeChanges& tree = filesystem_->tree();
  CODECFS_TRY(list(directory, [&](const Item& item) -> Result<> {
    if (item.type != S_IFREG) return {};
    const Result<> removed = tree.unlink(directory, item.name);
    return removed || removed.error().code == ENOENT ? Result<>() : removed;
  }));
  return tree.remove_directory(parent, name);
}

Result<> TreeFiles::make_link(Ino directory, std::string_view name, std::string_view target) {
  const Result<struct stat> made = filesystem_->tree().make_link(directory, name, target);
  if (!made && made.error().code != EEXIST) return std::unexpected(made.error());
  return {};
}

Result<> TreeFiles::restore_link(Ino directory, std::string_view name, std::string_view note) {
  Result<> made = filesystem_->tree().restore_link(directory, name, note);
  return !made && made.error().code == EEXIST ? Result<>() : made;
}

Result<> TreeFiles::finish() {
  filesystem_->stop_reading_ahead();
  return filesystem_->finish();
}

}  // namespace codecfs::commands
