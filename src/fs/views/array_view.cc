#include "fs/views/array_view.h"

#include <algorithm>
#include <utility>

#include "fs/nodes/clock.h"
#include "fs/views/array_names.h"

namespace codecfs::fs {
namespace {

constexpr uint64_t kPlacesAhead = 16;          // times the bytes that are requested: of these, places are
constexpr uint64_t kRequestedAhead = 3;        // times the bytes, decoded, that are decoded ahead
constexpr size_t kMaxRequested = 1024;         // chunks, at a time
constexpr uint64_t kNear = uint64_t{4} << 20;  // bytes that a sequential reader's requests are out of order, at most
constexpr uint64_t kOfRandom = uint64_t{64} << 10;  // bytes that a request for a place in between has, at most
// A chunk from which this part or less is requested is not read as a whole, if the array does not fit in the cache.
constexpr uint64_t kSmallPart = 4;
constexpr uint64_t kZeros = uint64_t{1} << 20;  // bytes that are written at once where a writer left a gap

}  // namespace

Result<struct stat> ArrayView::attributes(const Node& node) {
  const Result<ArrayFile> file = array_of(mount_.dataset, node.view, node.object);
  if (!file)
    return fail(file.error().code, "{}: has no file in the {} view: {}", node.path, name_of(node.view),
                file.error().reason);
  return inodes_.make(node, node.ino(FileKind::array), S_IFREG, file->size());
}

Result<Slice> ArrayView::read(const OpenArray& array, uint64_t offset, uint64_t size) {
  CODECFS_ASSIGN(const ArrayNow now, array_now(array));
  const uint64_t count = now.variable->facts->grid.count();
  // The kernel sends several requests at a time, in no certain order.
  const uint64_t expected = array.next_read.exchange(offset + size);
  const bool in_order = std::max(offset, expected) - std::min(offset, expected) <= kNear;
  // For a sequential reader the kernel asks for larger pieces.
  const bool is_random = !in_order || (offset != expected && size <= kOfRandom);
  const bool is_remote = mount_.dataset.source().reads_at_once() != 0;
  if (is_remote && !array.is_sparse) CODECFS_TRY(begin_reading(array, now, offset, size, in_order));
  const auto read_chunk = [&](uint64_t number, uint64_t share) -> Result<ArrayFile::Part> {
    CODECFS_ASSIGN(const Ino key, mount_.tree.nodes.chunk_key(*now.node, number, count));
    // The whole chunk, as it will be stored at close.
    if (const auto edited = mount_.chunks.write_back.content(key))
      return ArrayFile::Part{edited->bytes->bytes(), edited->bytes};
    const ChunkPlace place{key, now.node->object, number, now.variable};
    const uint64_t changes = mount_.changes();
    // After an absent chunk there are often others.
    if (in_order && !is_remote && !array.is_sparse && !mount_.chunks.cache.is_wanted(key))
      prefetcher_.chunk_of_array(place);
    const Result<ChunkPtr> chunk = mount_.chunks.decoder.stored(place);
    const bool is_absent = !chunk && chunk.error().code == ENOENT;
    if (array.is_sparse != is_absent) array.is_sparse = is_absent;
    if (is_absent) return ArrayFile::Part{};
    CODECFS_TRY(chunk);
    if (is_random) prefetcher_.give_chunk(array.ino, array.file, number, *chunk, changes);
    mount_.chunks.cache.served(key, share);
    return ArrayFile::Part{(*chunk)->bytes(), *chunk};
  };
  // Of chunks that will be dropped before they are requested again, only what is requested is read, where this takes no
  // decoding.
  const auto read_part = [&](uint64_t number, uint64_t from, uint64_t bytes) -> Result<ArrayFile::Part> {
    CODECFS_ASSIGN(const Ino key, mount_.tree.nodes.chunk_key(*now.node, number, count));
    if (mount_.chunks.cache.is_wanted(key) || mount_.chunks.write_back.size(key)) return ArrayFile::Part{};
    CODECFS_ASSIGN(const ChunkPtr part,
                   mount_.chunks.decoder.part({key, now.node->object, number, now.variable}, from, bytes));
    return part == nullptr ? ArrayFile::Part{} : ArrayFile::Part{part->bytes(), part};
  };
  const bool takes_parts = is_random && !is_remote && !mount_.options.coherent &&
                           array.file.size() > mount_.chunks.cache.limit() &&
                           size * kSmallPart <= now.variable->facts->chunk_bytes.value_or(0);
  const bool in_blocks = in_order && !mount_.options.coherent && blocks_.are_for(array.file, offset, size);
  CODECFS_ASSIGN(ArrayFile::Part part, in_blocks ? blocks_.read(array.ino, array.file, offset, size, read_chunk)
                                                 : array.file.read(offset, size, read_chunk,
                                                                   takes_parts ? read_part : ArrayFile::ReadPart()));
  // Chunks may have been found by the numbers of another shape.
  CODECFS_TRY(array_now(array));
  mount_.stats.bytes_read += part.bytes.size();
  return Slice{part.bytes, std::move(part.owner)};
}

Result<> ArrayView::begin_reading(const OpenArray& array, const ArrayNow& now, uint64_t offset, uint64_t size,
                                  bool in_order) {
  // The more chunks are requested at a time, the more requests can be joined: neighbours in the array need not be
  // neighbours in the file.
  const uint64_t budget = mount_.chunks.read_ahead.budget();
  const auto requested = array.requested.note(offset, size, in_order, array.file, kRequestedAhead * budget);
  if (requested && in_order) {
    Source& source = mount_.dataset.source();
    if (now.variable->facts->shards) {
      const uint64_t end = requested->offset + requested->size;
      const uint64_t most = std::min(array.file.size() - end, kPlacesAhead * requested->size);
      if (most > 0) (void)source.expect_places(now.node->object, array.file.chunks_of(end, most, kMaxRequested));
    }
    const std::vector<uint64_t> numbers = array.file.chunks_of(requested->offset, requested->size, kMaxRequested);
    if (numbers.size() > 1) (void)source.expect(now.node->object, numbers);
  }
  const auto range = array.ahead.note(offset, size, in_order, array.file, budget);
  if (!range) return {};
  const std::vector<uint64_t> numbers = array.file.chunks_of(range->offset, range->size, ReadAhead::kMaxTasks);
  if (numbers.size() < 2) return {};
  CODECFS_ASSIGN(const Ino key, mount_.tree.nodes.chunk_key(*now.node, numbers[0], now.variable->facts->grid.count()));
  prefetcher_.chunks_of_array({key, now.node->object, numbers[0], now.variable}, numbers);
  return {};
}

Result<size_t> ArrayView::write(OpenArray& array, uint64_t offset, Bytes bytes,
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

Result<> ArrayView::check_size(const Node& node, uint64_t size) {
  CODECFS_ASSIGN(const ArrayFile now, array_of(mount_.dataset, node.view, node.object));
  if (size == now.size()) return {};
  return fail(EINVAL, "{}: an array of this shape has {} bytes, not {}; its shape is changed in .zarray", node.path,
              now.size(), size);
}

Result<> ArrayView::extend(OpenArray& array, uint64_t size, const Cancelled& cancelled) {
  if (!array.truncated) return {};
  const LockGuard lock(array.mutex);
  return put_zeros(array, size, cancelled);
}

Result<std::unique_ptr<OpenArray>> ArrayView::open(const Node& node) {
  CODECFS_ASSIGN(VariableViewPtr view, mount_.dataset.variable(node.object));
  if (view->facts->unreadable) return std::unexpected(*view->facts->unreadable);
  CODECFS_ASSIGN(ArrayFile file, array_of(view->facts, node.view));
  return std::make_unique<OpenArray>(node.ino(FileKind::array), std::move(view), std::move(file));
}

Result<bool> ArrayView::is_made_by_unchanged(const ChunkPlace& chunk) {
  if (!chunk.variable->facts->is_fill_undefined) return false;
  if (mount_.chunks.write_back.content(chunk.key)) return false;
  CODECFS_ASSIGN(const ChunkInfo info, mount_.dataset.source().locate(chunk.object, chunk.number));
  return !info.stored;
}

Result<ArrayView::ArrayNow> ArrayView::array_now(const OpenArray& array) {
  CODECFS_ASSIGN(const Place place, mount_.tree.nodes.at(array.ino));
  CODECFS_ASSIGN(VariableViewPtr now, mount_.dataset.variable(place.node->object));
  const Variable& before = *array.variable->facts;
  if (now != array.variable && (now->facts->grid.shape() != before.grid.shape() ||
                                now->facts->grid.chunks() != before.grid.chunks() || now->facts->type != before.type))
    return fail(ESTALE, "{}: has another shape or type since the file was opened; open it again", place.node->path);
  return ArrayNow{place.node, std::move(now)};
}

Result<size_t> ArrayView::put_array(const OpenArray& array, uint64_t offset, Bytes bytes, Bytes mask, Purpose purpose,
                                    const Cancelled& cancelled) {
  CODECFS_ASSIGN(ArrayNow now, array_now(array));
  CODECFS_TRY(mount_.dataset.source().variable_writable(now.node->object));
  const uint64_t count = now.variable->facts->grid.count();
  const bool fill_is_zeros = is_all_zero(now.variable->facts->fill) && !now.variable->facts->is_fill_undefined;
  std::vector<uint64_t> changed;
  const auto change_chunk = [&](const ArrayFile::ChunkChange& change) -> Result<> {
    CODECFS_ASSIGN(const Ino key, mount_.tree.nodes.chunk_key(*now.node, change.number, count));
    ChunkPlace place{key, now.node->object, change.number, now.variable};
    if (!change.any) {
      CODECFS_ASSIGN(const bool made, is_made_by_unchanged(place));
      if (!made) return {};
    }
    if (purpose == Purpose::zeros && fill_is_zeros && !mount_.chunks.write_back.content(key)) {
      CODECFS_ASSIGN(const ChunkInfo info, mount_.dataset.source().locate(place.object, place.number));
      if (!info.stored) return {};
    }
    if (changed.empty()) {
      CODECFS_TRY(filters_.apply_rules(place, cancelled));
      CODECFS_ASSIGN(now, array_now(array));
      place.variable = now.variable;
    }
    CODECFS_TRY(mount_.chunks.write_back.change(place, change.whole, change.last, change.apply));
    mount_.tree.overlay.forget_unlinked(*now.node, change.number);
    changed.push_back(change.number);
    return {};
  };
  Result<uint64_t> taken = array.file.write(offset, bytes, change_chunk, mask);
  if (!taken && taken.error().code == EINVAL)
    taken.error().reason = fmt::format("{}: {}", now.node->path, taken.error().reason);
  if (!changed.empty()) {
    mount_.tree.times.set(array.ino, {}, fs::now());
    const uint64_t header = array.file.header_size();
    const uint64_t begin = std::max(offset, header) - header;
    notifier_.part_changed(*now.node, {begin, std::min(offset + bytes.size(), array.file.size()) - header - begin},
                           changed);
  }
  return taken;
}

Result<> ArrayView::put_zeros(OpenArray& array, uint64_t end, const Cancelled& cancelled) {
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
  if (array.end > begin) mount_.kernel.invalidator->part_changed(array.ino, begin, array.end - begin, false);
  return done;
}

}  // namespace codecfs::fs
