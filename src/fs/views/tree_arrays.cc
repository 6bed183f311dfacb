// The npy and raw views: each variable is one file, with or without numpy's header, and groups are directories of such
// files. Only the content of arrays can be changed here; nothing can be created, moved or removed.
//
// Reads and writes go to the chunks that they touch (fs/array_file.h) by way of the same cache and the same edits that
// the other views have.

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "backends/api/names.h"
#include "base/log.h"
#include "fs/namespace/clock.h"
#include "fs/namespace/tree.h"

namespace codecfs::fs {
namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr unsigned kMaxLinks = 40;             // as many as the kernel follows
constexpr uint64_t kNear = uint64_t{4} << 20;  // bytes that a sequential reader's requests are out of order, at most
constexpr uint64_t kOfRandom = uint64_t{64} << 10;  // bytes that a request for a place in between has, at most
constexpr size_t kBlocks = 2;
constexpr uint64_t kZeros = uint64_t{1} << 20;  // bytes that are written at once where a writer left a gap

std::string_view suffix_of(View view) { return view == View::npy ? kSuffix : std::string_view(); }

/// Of the last name of a path.
std::string path_with_suffix(std::string_view path) {
  const size_t name = path.rfind('/') + 1;
  return fmt::format("{}{}", path.substr(0, name), with_suffix(path.substr(name), kSuffix));
}

bool is_zeros(Bytes bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

std::string Tree::array_path(const Node& node) {
  if (node.is_root()) return fmt::format("/{}", files_of(node).front().name);
  return node.view == View::npy ? path_with_suffix(node.path) : node.path;
}

Result<ArrayFile> Tree::array_of(View view, ObjectId variable) {
  CODECFS_ASSIGN(const VariableViewPtr now, dataset_.variable(variable));
  return ArrayFile::make(now->facts, view == View::npy);
}

Result<struct stat> Tree::array_attributes(const Node& node) {
  const Result<ArrayFile> file = array_of(node.view, node.object);
  if (!file)
    return fail(file.error().code, "{}: has no file in the {} view: {}", node.path, name_of(node.view),
                file.error().reason);
  return make_attributes(node, node.ino(FileKind::array), S_IFREG, file->size());
}

// --- names

std::optional<ObjectId> Tree::variable_behind(const Node& directory, const Entry& entry) {
  if (entry.kind == EntryKind::variable) return entry.object;
  if (entry.kind != EntryKind::symlink) return std::nullopt;
  std::vector<ObjectId> groups;  // from the root to where the link has led by now
  for (const Node* at = &directory;;) {
    if (at->kind != NodeKind::group && at->kind != NodeKind::folder) return std::nullopt;
    groups.insert(groups.begin(), at->object);
    if (at->is_root()) break;
    const Result<Place> parent = nodes_.at(at->parent);
    if (!parent) return std::nullopt;
    at = parent->node;
  }
  std::string rest = entry.target;
  if (rest.starts_with('/')) return std::nullopt;
  for (unsigned links = 0; !rest.empty();) {
    const size_t end = std::min(rest.find('/'), rest.size());
    const std::string part = rest.substr(0, end);
    rest.erase(0, std::min(end + 1, rest.size()));
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      groups.pop_back();
      if (groups.empty()) return std::nullopt;  // leaves the dataset
      continue;
    }
    const Result<Entry> found = dataset_.source().find(groups.back(), part);
    if (!found) return std::nullopt;
    if (found->kind == EntryKind::variable) return rest.empty() ? std::optional(found->object) : std::nullopt;
    if (found->kind == EntryKind::symlink) {
      if (++links > kMaxLinks || found->target.starts_with('/')) return std::nullopt;
      rest = rest.empty() ? found->target : found->target + "/" + rest;
    } else if (found->kind == EntryKind::group || found->kind == EntryKind::folder) {
      groups.push_back(found->object);
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

Result<Entry> Tree::array_entry(const Node& group, std::string_view name) {
  Source& source = dataset_.source();
  if (group.view == View::npy && name.size() > kSuffix.size() && name.ends_with(kSuffix)) {
    const std::string_view stem = name.substr(0, name.size() - kSuffix.size());
    const Result<Entry> entry = source.find(group.object, stem);
    if (!entry && entry.error().code != ENOENT) return entry;
    if (entry && variable_behind(group, *entry)) return entry;
    if (is_cut_name(stem)) {
      CODECFS_ASSIGN(const std::vector<Entry> entries, source.list(group.object));
      for (const Entry& other : entries)
        if (with_suffix(other.name, kSuffix) == name && variable_behind(group, other)) return other;
    }
  }
  CODECFS_ASSIGN(Entry entry, source.find(group.object, name));
  // It exists under its other name.
  if (group.view == View::npy && variable_behind(group, entry)) return std::unexpected(Error{ENOENT, {}});
  return entry;
}

void Tree::show_arrays(const Node& group, OpenDirectory& directory) {
  std::vector<Entry> shown;
  std::vector<std::string> names;
  std::unordered_set<std::string> taken;
  std::vector<const Entry*> others;
  for (Entry& entry : directory.entries) {
    const std::optional<ObjectId> variable = variable_behind(group, entry);
    if (!variable) {
      others.push_back(&entry);
      continue;
    }
    // A variable that cannot be read is listed, and looking it up fails with the reason. In a folder, no dataset is
    // opened for the listing.
    if (group.kind != NodeKind::folder) {
      const Result<ArrayFile> file = array_of(group.view, *variable);
      if (!file && file.error().code == EOPNOTSUPP) continue;
    }
    names.push_back(with_suffix(entry.name, suffix_of(group.view)));
    taken.insert(names.back());
    shown.push_back(std::move(entry));
  }
  for (const Entry* entry : others) {
    if (taken.contains(entry->name)) continue;  // a group "x.npy" beside a variable "x"
    names.push_back(entry->name);
    shown.push_back(*entry);
  }
  directory.entries = std::move(shown);
  directory.names = std::move(names);
}

Result<std::string> Tree::array_link_target(const Node& link) {
  if (link.view != View::npy) return link.target;
  CODECFS_ASSIGN(const Place parent, nodes_.at(link.parent));
  const Entry entry{{}, EntryKind::symlink, 0, link.target};
  return variable_behind(*parent.node, entry) ? path_with_suffix(link.target) : link.target;
}

// --- reading

Result<std::unique_ptr<OpenFile>> Tree::open_array(const Node& node, bool for_writing, bool truncate) {
  CODECFS_ASSIGN(VariableViewPtr view, dataset_.variable(node.object));
  if (view->facts->unreadable) return std::unexpected(*view->facts->unreadable);
  CODECFS_ASSIGN(ArrayFile array, ArrayFile::make(view->facts, node.view == View::npy));
  auto file = std::make_unique<OpenFile>();
  file->array = std::make_shared<OpenArray>(node.ino(FileKind::array), std::move(view), std::move(array));
  if (coherent_) CODECFS_TRY(read_array_afresh(node, *file));
  if (!for_writing) return file;
  CODECFS_TRY(dataset_.source().variable_writable(node.object));
  file->array->truncated = truncate;
  file->writer = true;
  write_back_.open_writer(file->array->ino);
  return file;
}

Result<Tree::ArrayNow> Tree::array_now(const OpenArray& array) {
  CODECFS_ASSIGN(const Place place, nodes_.at(array.ino));
  CODECFS_ASSIGN(VariableViewPtr now, dataset_.variable(place.node->object));
  const Variable& before = *array.variable->facts;
  if (now != array.variable && (now->facts->grid.shape() != before.grid.shape() ||
                                now->facts->grid.chunks() != before.grid.chunks() || now->facts->type != before.type))
    return fail(ESTALE, "{}: has another shape or type since the file was opened; open it again", place.node->path);
  return ArrayNow{place.node, std::move(now)};
}

Result<Slice> Tree::read_array(const OpenArray& array, uint64_t offset, uint64_t size) {
  CODECFS_ASSIGN(const ArrayNow now, array_now(array));
  const uint64_t count = now.variable->facts->grid.count();
  // The kernel sends several requests at a time, in no certain order.
  const uint64_t expected = array.next_read.exchange(offset + size);
  const bool in_order = std::max(offset, expected) - std::min(offset, expected) <= kNear;
  // For a sequential reader the kernel asks for larger pieces.
  const bool is_random = !in_order || (offset != expected && size <= kOfRandom);
  const auto read_chunk = [&](uint64_t number, uint64_t share) -> Result<ArrayFile::Part> {
    CODECFS_ASSIGN(const Ino key, nodes_.chunk_key(*now.node, number, count));
    // The whole chunk, as it will be stored at close.
    if (const auto edited = write_back_.content(key)) return ArrayFile::Part{edited->bytes->bytes(), edited->bytes};
    const ChunkPlace place{key, now.node->object, number, now.variable};
    CODECFS_ASSIGN(const ChunkInfo info, dataset_.source().locate(place.object, number));
    if (!info.stored) return ArrayFile::Part{};
    const uint64_t changes = this->changes();
    if (in_order && !cache_.is_wanted(key)) chunk_of_array(place);
    const Result<ChunkPtr> chunk = decoded(place);
    if (!chunk && chunk.error().code == ENOENT) return ArrayFile::Part{};  // removed meanwhile
    CODECFS_TRY(chunk);
    if (is_random) give_chunk(array, number, *chunk, changes);
    cache_.served(key, share);
    return ArrayFile::Part{(*chunk)->bytes(), *chunk};
  };
  const bool in_blocks = in_order && !coherent_ && array.file.bytes_of_chunks(offset, size) > block_size_ * 2;
  CODECFS_ASSIGN(ArrayFile::Part part,
                 in_blocks ? read_blocks(array, offset, size, read_chunk) : array.file.read(offset, size, read_chunk));
  stats_.bytes_read += part.bytes.size();
  return Slice{part.bytes, std::move(part.owner)};
}

Result<ArrayFile::Part> Tree::read_blocks(const OpenArray& array, uint64_t offset, uint64_t size,
                                          const ArrayFile::ReadChunk& read_chunk) {
  size = std::min(size, array.file.size() - std::min(offset, array.file.size()));
  const uint64_t first = offset / block_size_;
  if (size == 0 || (offset + size - 1) / block_size_ == first) {
    CODECFS_ASSIGN(ArrayFile::Part block, block_of(array, first, read_chunk));
    block.bytes = block.bytes.subspan(offset % block_size_, size);
    return block;
  }
  CODECFS_ASSIGN(Buffer joined, Buffer::allocate(size));
  for (uint64_t at = offset; at < offset + size;) {
    CODECFS_ASSIGN(const ArrayFile::Part block, block_of(array, at / block_size_, read_chunk));
    const uint64_t from = at % block_size_;
    const uint64_t count = std::min(block.bytes.size() - from, offset + size - at);
    std::memcpy(joined.data() + (at - offset), block.bytes.data() + from, count);
    at += count;
  }
  const auto owner = std::make_shared<const Buffer>(std::move(joined));
  return ArrayFile::Part{owner->bytes(), owner};
}

Result<ArrayFile::Part> Tree::block_of(const OpenArray& array, uint64_t index, const ArrayFile::ReadChunk& read_chunk) {
  const uint64_t state = write_back_.changes_made() + dataset_.changes();
  std::shared_ptr<ArrayBlock> block;
  {
    const std::lock_guard lock(blocks_mutex_);
    const auto found =
        std::ranges::find_if(blocks_, [&](const auto& kept) { return kept->ino == array.ino && kept->index == index; });
    if (found != blocks_.end() && (*found)->state == state) {
      blocks_.splice(blocks_.begin(), blocks_, found);
    } else {
      if (found != blocks_.end()) blocks_.erase(found);
      if (blocks_.size() >= kBlocks) blocks_.pop_back();
      blocks_.push_front(std::make_shared<ArrayBlock>());
      blocks_.front()->ino = array.ino;
      blocks_.front()->index = index;
      blocks_.front()->state = state;
    }
    block = blocks_.front();
  }
  const std::lock_guard assembling(block->mutex);
  if (block->part.bytes.empty()) {
    CODECFS_ASSIGN(block->part, array.file.read(index * block_size_, block_size_, read_chunk));
  }
  return block->part;
}

// --- writing

Result<bool> Tree::is_made_by_unchanged(const ChunkPlace& chunk) {
  if (!chunk.variable->facts->is_fill_undefined) return false;
  if (write_back_.content(chunk.key)) return false;
  CODECFS_ASSIGN(const ChunkInfo info, dataset_.source().locate(chunk.object, chunk.number));
  return !info.stored;
}

Result<size_t> Tree::put_array(const OpenArray& array, uint64_t offset, Bytes bytes, Bytes mask, Purpose purpose,
                               const Cancelled& cancelled) {
  CODECFS_ASSIGN(ArrayNow now, array_now(array));
  CODECFS_TRY(dataset_.source().variable_writable(now.node->object));
  const uint64_t count = now.variable->facts->grid.count();
  const bool fill_is_zeros = is_zeros(now.variable->facts->fill) && !now.variable->facts->is_fill_undefined;
  std::vector<uint64_t> changed;
  const auto change_chunk = [&](const ArrayFile::ChunkChange& change) -> Result<> {
    CODECFS_ASSIGN(const Ino key, nodes_.chunk_key(*now.node, change.number, count));
    ChunkPlace place{key, now.node->object, change.number, now.variable};
    if (!change.any) {
      CODECFS_ASSIGN(const bool made, is_made_by_unchanged(place));
      if (!made) return {};
    }
    if (purpose == Purpose::zeros && fill_is_zeros && !write_back_.content(key)) {
      CODECFS_ASSIGN(const ChunkInfo info, dataset_.source().locate(place.object, place.number));
      if (!info.stored) return {};
    }
    if (changed.empty()) {
      CODECFS_TRY(apply_rules(place, cancelled));
      CODECFS_ASSIGN(now, array_now(array));
      place.variable = now.variable;
    }
    CODECFS_TRY(write_back_.change(place, change.whole, change.last, change.apply));
    overlay_.forget_unlinked(*now.node, change.number);
    changed.push_back(change.number);
    return {};
  };
  Result<uint64_t> taken = array.file.write(offset, bytes, change_chunk, mask);
  if (!taken && taken.error().code == EINVAL)
    taken.error().reason = fmt::format("{}: {}", now.node->path, taken.error().reason);
  if (!changed.empty()) {
    times_.set(array.ino, {}, fs::now());
    const uint64_t header = array.file.header_size();
    const uint64_t begin = std::max(offset, header) - header;
    part_changed(*now.node, {begin, std::min(offset + bytes.size(), array.file.size()) - header - begin}, changed);
  }
  return taken;
}

Result<> Tree::put_zeros(OpenArray& array, uint64_t end, const Cancelled& cancelled) {
  CODECFS_ASSIGN(Buffer zeros, Buffer::allocate(kZeros));
  std::ranges::fill(zeros.mutable_bytes(), std::byte{0});
  // The header is what it is.
  array.end = std::max(array.end, array.file.header_size());
  const uint64_t begin = array.end;
  const auto put = [&]() -> Result<> {
    while (array.end < end) {
      if (cancelled && cancelled()) return std::unexpected(Error{EINTR, {}});
      const Bytes part = zeros.bytes().first(std::min(kZeros, end - array.end));
      CODECFS_ASSIGN(const size_t written, put_array(array, array.end, part, {}, Purpose::zeros, cancelled));
      array.end += written;
    }
    return {};
  };
  const Result<> done = put();
  // The kernel knows only of what was written, and may have pages of this.
  if (array.end > begin) kernel_->part_changed(array.ino, begin, array.end - begin, false);
  return done;
}

Result<size_t> Tree::write_array(OpenArray& array, uint64_t offset, Bytes bytes,
                                 const PageCopies::WrittenBack* written_back, const Cancelled& cancelled) {
  std::unique_lock lock(array.mutex, std::defer_lock);
  // What is mapped comes in any order, and through whatever opening of the file the kernel finds.
  const bool after_truncation = array.truncated && written_back == nullptr;
  if (after_truncation) {
    lock.lock();
    // Behind the end nothing is written, so nothing is left out before it.
    if (offset > array.end && offset < array.file.size()) CODECFS_TRY(put_zeros(array, offset, cancelled));
  }
  const Bytes mask = written_back != nullptr ? Bytes(written_back->changed) : Bytes();
  CODECFS_ASSIGN(const size_t written, put_array(array, offset, bytes, mask, Purpose::data, cancelled));
  if (after_truncation) array.end = std::max<uint64_t>(array.end, offset + written);
  return written;
}

Result<> Tree::resize_array(const Node& node, uint64_t size, const OpenFile* file, const Cancelled& cancelled) {
  CODECFS_ASSIGN(const ArrayFile now, array_of(node.view, node.object));
  if (size != now.size())
    return fail(EINVAL, "{}: an array of this shape has {} bytes, not {}; its shape is changed in .zarray", node.path,
                now.size(), size);
  if (file == nullptr || !file->array || !file->array->truncated) return {};
  const std::lock_guard lock(file->array->mutex);
  return put_zeros(*file->array, size, cancelled);
}

// --- one state, many views

void Tree::array_file_changed(const Node& shown, const VariableView& view, uint64_t chunk) {
  const Result<ArrayFile> file = ArrayFile::make(view.facts, shown.view == View::npy);
  if (!file) return;
  const ArrayFile::Range range = file->range_of_chunk(chunk);
  times_.set(shown.ino(FileKind::array), {}, now());
  kernel_pages_.await_quiet(shown.ino(FileKind::array));
  if (range.size > 0) kernel_->part_changed(shown.ino(FileKind::array), range.offset, range.size, true);
}

void Tree::array_files_changed(const Node& node) {
  for (const Node* shown : nodes_.in_all_views(node))
    if (shows_arrays(shown->view)) kernel_->content_changed(shown->ino(FileKind::array), false);
}

void Tree::part_changed(const Node& node, ArrayFile::Range data, const std::vector<uint64_t>& chunks) {
  const Result<VariableViewPtr> view = dataset_.variable(node.object);
  if (!view) return;
  const ChunkGrid& grid = (*view)->facts->grid;
  for (const Node* shown : nodes_.in_all_views(node)) {
    if (shown->view == node.view) continue;
    if (shows_arrays(shown->view)) {
      const Ino ino = shown->ino(FileKind::array);
      times_.set(ino, {}, now());
      kernel_pages_.await_quiet(ino);
      const Result<ArrayFile> file = ArrayFile::make((*view)->facts, shown->view == View::npy);
      if (file) kernel_->part_changed(ino, file->header_size() + data.offset, data.size, true);
      continue;
    }
    std::vector<std::string> names;
    for (size_t i = 0; i < chunks.size(); ++i) {
      const Result<Ino> ino = nodes_.chunk_ino(*shown, chunks[i], grid.count());
      if (!ino) return;
      times_.set(*ino, {}, now());
      kernel_pages_.await_quiet(*ino);
      former_files_changed(*ino);
      // Invalidations keep their order, so waiting for the last one waits for all.
      kernel_->content_changed(*ino, i + 1 == chunks.size());
      names.push_back(grid.name_of(chunks[i]));
    }
    // The kernel may remember that some did not exist.
    if (shown->view == nodes_.shown()) kernel_->names_changed(shown->ino(), std::move(names));
  }
}

void Tree::member_changed(const Node& directory, std::string_view name, bool wait) {
  if (directory.view == View::npy) kernel_->name_changed(directory.ino(), with_suffix(name, kSuffix), wait);
  kernel_->name_changed(directory.ino(), std::string(name), wait);
}

}  // namespace codecfs::fs
