#include "backends/zarr/store/zip_archive.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace codecfs::zarr {
namespace {

constexpr size_t kWindow = size_t{1} << 20;  // bytes of the central directory in memory at a time
constexpr uint64_t kMaxExpansion = 1032;     // maximum ratio of deflate: a match of 258 bytes takes two bits
constexpr uint64_t kSmall = uint64_t{64} << 10;

/// Reads a part of a file sequentially through a buffer.
class Window {
 public:
  Window(const ZipBytes& file, uint64_t offset, uint64_t end) : file_(file), offset_(offset), end_(end) {}

  [[nodiscard]] uint64_t offset() const { return offset_ + start_; }
  [[nodiscard]] Bytes bytes() const { return Bytes(held_).subspan(start_); }
  [[nodiscard]] bool is_last() const { return offset_ + held_.size() >= end_; }
  void skip(size_t bytes) { start_ += bytes; }
  /// Reads more of the file into the buffer.
  Result<> fill() {
    held_.erase(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(start_));
    offset_ += start_;
    start_ = 0;
    const size_t before = held_.size();
    held_.resize(before + static_cast<size_t>(std::min<uint64_t>(kWindow, end_ - offset_ - before)));
    CODECFS_ASSIGN(const size_t count, file_.read(offset_ + before, MutableBytes(held_).subspan(before)));
    if (before + count != held_.size()) return fail(EIO, "{}: became shorter while it was read", file_.file.path);
    return {};
  }

 private:
  const ZipBytes& file_;
  uint64_t offset_;  // of the buffer in the file
  uint64_t end_;
  std::vector<std::byte> held_;
  size_t start_ = 0;  // first byte in the buffer that was not consumed
};

/// Finds the last end record in the tail of a file, preferably one whose comment ends at the end of the file.
std::optional<size_t> find_end_record(Bytes tail) {
  std::optional<size_t> other;
  for (size_t at = tail.size() < zip::kEndBytes ? 0 : tail.size() - zip::kEndBytes + 1; at-- > 0;) {
    if (tail[at] != std::byte{'P'} || tail[at + 1] != std::byte{'K'} || tail[at + 2] != std::byte{5} ||
        tail[at + 3] != std::byte{6})
      continue;
    const size_t comment = std::to_integer<size_t>(tail[at + 20]) | std::to_integer<size_t>(tail[at + 21]) << 8;
    if (at + zip::kEndBytes + comment == tail.size()) return at;
    if (!other && at + zip::kEndBytes + comment < tail.size()) other = at;
  }
  return other;
}

Result<std::vector<std::byte>> read_tail(const ZipBytes& file, uint64_t bytes) {
  std::vector<std::byte> tail(
      static_cast<size_t>(std::min<uint64_t>(bytes, zip::kEndBytes + zip::kMaxComment + zip::kLocatorBytes)));
  CODECFS_ASSIGN(const size_t count, file.read(bytes - tail.size(), tail));
  tail.resize(count);
  return tail;
}

}  // namespace

uint32_t crc_of(Bytes bytes) { return ::libdeflate_crc32(0, bytes.data(), bytes.size()); }
uint32_t hash_of_zip_name(std::string_view name) { return ::libdeflate_crc32(0, name.data(), name.size()); }

bool looks_like_zip(int fd, uint64_t bytes) {
  const ZipBytes file{.file = {.fd = UniqueFd(::dup(fd)), .path = {}}, .object = nullptr};
  const auto tail = read_tail(file, bytes);
  return tail && find_end_record(*tail);
}

Result<size_t> ZipBytes::read(uint64_t offset, MutableBytes to) const {
  if (!object) return read_at(file, offset, to);
  if (offset > object->size() || to.size() > object->size() - offset)
    return fail(EIO, "{}: {} bytes at {} are beyond its end", file.path, to.size(), offset);
  CODECFS_TRY(object->read_mirrored(offset, to));
  return to.size();
}

Result<std::shared_ptr<const ZipArchive>> ZipArchive::open(ZipBytes bytes, const Visit& visit) try {
  const std::string path = bytes.file.path;
  const auto in_archive = [&](const Error& error) { return fail(error.code, "{}: {}", path, error.reason); };
  std::shared_ptr<ZipArchive> archive(new ZipArchive);
  archive->source_ = std::move(bytes);
  if (::fstat(archive->file().fd.get(), &archive->status_) != 0) return fail_errno(errno, "{}", path);
  if (const auto& object = archive->source_.object) {
    archive->status_.st_mode = S_IFREG | 0444;
    archive->status_.st_mtim = archive->status_.st_ctim = {.tv_sec = object->modified(), .tv_nsec = 0};
  }
  archive->bytes_ = static_cast<uint64_t>(archive->status_.st_size);
  if (const auto found = archive->find_end(); !found) return in_archive(found.error());
  const auto extents = archive->check_layout();
  if (!extents) return in_archive(extents.error());
  if (const auto visited = archive->for_each(*extents, visit); !visited) return in_archive(visited.error());
  return archive;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "no memory to open a zip archive");
}

Result<std::shared_ptr<const ZipArchive>> ZipArchive::adopt(File file, zip::End end) {
  std::shared_ptr<ZipArchive> archive(new ZipArchive);
  archive->source_.file = std::move(file);
  if (::fstat(archive->file().fd.get(), &archive->status_) != 0) return fail_errno(errno, "{}", archive->file().path);
  archive->bytes_ = static_cast<uint64_t>(archive->status_.st_size);
  archive->end_ = end;
  archive->directory_ = end.offset;
  return archive;
}

/// Finds the central directory. Data before the archive shifts all offsets in it.
Result<> ZipArchive::find_end() {
  CODECFS_ASSIGN(const auto tail, read_tail(source_, bytes_));
  const auto at = find_end_record(tail);
  if (!at) return fail(EINVAL, "is not a zip archive, or is truncated: its end is missing");
  const uint64_t position = bytes_ - tail.size() + *at;
  CODECFS_ASSIGN(const auto end, zip::parse_end(Bytes(tail).subspan(*at)));
  end_ = *end;
  const size_t comment = std::to_integer<size_t>(tail[*at + 20]) | std::to_integer<size_t>(tail[*at + 21]) << 8;
  comment_.assign(reinterpret_cast<const char*>(tail.data()) + *at + zip::kEndBytes, comment);
  uint64_t directory_end = position;
  if (*at >= zip::kLocatorBytes) {
    const auto told = zip::parse_locator(Bytes(tail).subspan(*at - zip::kLocatorBytes, zip::kLocatorBytes));
    if (told) {
      CODECFS_ASSIGN(const auto found, find_end64(position - zip::kLocatorBytes, *told));
      if (found) directory_end = *found;
    }
  }
  if (directory_end == position && zip::needs_end64(end_) && end_.offset != position - end_.bytes)
    return fail(EIO, "its ZIP64 end record is missing");
  if (end_.bytes > directory_end || end_.offset > directory_end - end_.bytes)
    return fail(EIO, "its end record puts the central directory outside of the file");
  directory_ = directory_end - end_.bytes;
  shift_ = directory_ - end_.offset;
  if (end_.entries > kMaxEntries)
    return fail(EFBIG, "has {} entries, more than the {} that are read", end_.entries, kMaxEntries);
  if (end_.entries > end_.bytes / zip::kCentralBytes)
    return fail(EIO, "claims {} entries in a central directory of {} bytes", end_.entries, end_.bytes);
  return {};
}

/// Reads the ZIP64 end record, which replaces the other, and returns its offset.
Result<std::optional<uint64_t>> ZipArchive::find_end64(uint64_t locator_at, uint64_t told) {
  std::vector<std::byte> record(zip::kEnd64Bytes);
  if (locator_at < record.size()) return std::nullopt;
  // It normally precedes the locator directly, even with data before the archive; otherwise use the locator's offset.
  for (const uint64_t place : {locator_at - record.size(), told}) {
    if (place > locator_at - record.size()) continue;
    CODECFS_TRY(read_exactly(place, record));
    CODECFS_ASSIGN(const auto end64, zip::parse_end64(record));
    if (!end64) continue;
    if (!zip::needs_end64(end_) && (end64->offset != end_.offset || end64->bytes != end_.bytes))
      return fail(EIO, "its two end records disagree");
    end_ = *end64;
    return place;
  }
  return std::nullopt;
}

/// Determines the maximum end of each entry, and checks that no entry overlaps the next.
Result<std::vector<ZipArchive::Extent>> ZipArchive::check_layout() const {
  std::vector<Extent> extents;
  extents.reserve(static_cast<size_t>(end_.entries));
  CODECFS_TRY(for_each({}, [&](const zip::CentralRecord& record, const ZipEntry& entry) -> Result<> {
    const uint64_t least = zip::kLocalBytes + record.name.size();
    if (entry.offset > directory_ || least > directory_ - entry.offset ||
        entry.stored > directory_ - entry.offset - least)
      return fail(EIO, "the entry \"{}\" is outside of the archive", record.name);
    extents.emplace_back(entry.offset, entry.offset + least + entry.stored);
    return {};
  }));
  if (extents.size() != end_.entries)
    return fail(EIO, "has {} entries where its end record says {}", extents.size(), end_.entries);
  std::ranges::sort(extents);
  for (size_t i = 0; i + 1 < extents.size(); ++i)
    if (extents[i].second > extents[i + 1].first)
      return fail(EIO, "its entries at {} and {} overlap, which no honest archive has", extents[i].first,
                  extents[i + 1].first);
  return extents;
}

Result<> ZipArchive::for_each(std::span<const Extent> extents, const Visit& visit) const try {
  Window window(source_, directory_, directory_ + end_.bytes);
  uint64_t entries = 0;
  while (window.offset() < directory_ + end_.bytes) {
    auto record = zip::parse_central(window.bytes());
    if (!record && record.error().code == ENODATA && !window.is_last()) {
      CODECFS_TRY(window.fill());
      continue;
    }
    if (!record) return fail(record.error().code == ENODATA ? EIO : record.error().code, "{}", record.error().reason);
    if (++entries > end_.entries) return fail(EIO, "has more entries than the {} of its end record", end_.entries);
    if (record->offset > bytes_ || shift_ > bytes_ - record->offset)
      return fail(EIO, "the entry \"{}\" is outside of the archive", record->name);
    ZipEntry entry{.offset = record->offset + shift_,
                   .end = directory_,
                   .central = window.offset(),
                   .stored = record->header.stored,
                   .size = record->header.size,
                   .crc = record->header.crc,
                   .name_hash = hash_of_zip_name(record->name),
                   .name_bytes = static_cast<uint16_t>(record->name.size()),
                   .flags = record->header.flags,
                   .method = record->header.method};
    const auto next = std::ranges::upper_bound(extents, entry.offset, {}, &Extent::first);
    if (next != extents.end()) entry.end = next->first;
    CODECFS_TRY(visit(*record, entry));
    window.skip(record->bytes);
  }
  return {};
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "no memory to read the central directory");
}

Result<> ZipArchive::read_exactly(uint64_t offset, MutableBytes to) const {
  // What is small is read again, or has others beside it.
  if (source_.object && to.size() > kSmall) {
    CODECFS_ASSIGN(const Buffer bytes, source_.object->read(offset, to.size()));
    std::memcpy(to.data(), bytes.data(), to.size());
    return {};
  }
  CODECFS_ASSIGN(const size_t count, source_.read(offset, to));
  if (count != to.size()) return fail(EIO, "{}: became shorter while it was read", file().path);
  return {};
}

remote::ByteRange ZipArchive::span_of(const ZipEntry& entry) const {
  constexpr uint64_t kExtra = 256;  // bytes that the local header has, as a rule, beside the name
  const uint64_t most = zip::kLocalBytes + entry.name_bytes + kExtra + entry.stored;
  return {entry.offset, std::min(most, entry.end - entry.offset)};
}

void ZipArchive::expect(std::span<const ZipEntry> entries) const {
  if (!source_.object) return;
  std::vector<remote::ByteRange> ranges;
  for (const ZipEntry& entry : entries) ranges.push_back(span_of(entry));
  source_.object->expect(ranges);
}

Result<ZipArchive::Data> ZipArchive::locate(const ZipEntry& entry, const std::string& name, Bytes held) const {
  const auto read = [&](uint64_t at, MutableBytes to) -> Result<> {
    if (at > held.size() || to.size() > held.size() - at) return read_exactly(entry.offset + at, to);
    std::ranges::copy(held.subspan(at, to.size()), to.begin());
    return {};
  };
  const auto disagrees = [&](const char* what) {
    return fail(EIO, "{}: its local header in the archive disagrees with the central directory: {}", name, what);
  };
  std::vector<std::byte> start(zip::kLocalBytes + entry.name_bytes);
  CODECFS_TRY(read(0, start));
  auto local = zip::parse_local(start);
  if (!local) return fail(EIO, "{}: {}", name, local.error().reason);
  const std::string_view local_name(reinterpret_cast<const char*>(start.data()) + zip::kLocalBytes, entry.name_bytes);
  if (local->name_bytes != entry.name_bytes || hash_of_zip_name(local_name) != entry.name_hash)
    return disagrees("another name");
  if (local->header.method != entry.method) return disagrees("another method");
  if ((local->header.flags & zip::kEncrypted) != (entry.flags & zip::kEncrypted)) return disagrees("encryption");
  Data data{.offset = entry.offset + start.size() + local->extra_bytes, .extra = std::string(local->extra_bytes, '\0')};
  if (data.offset > entry.end || entry.stored > entry.end - data.offset)
    return disagrees("its bytes would reach into what follows");
  CODECFS_TRY(read(start.size(), std::as_writable_bytes(std::span(data.extra))));
  if (const auto parsed = zip::parse_local_extra(std::as_bytes(std::span(data.extra)), *local); !parsed)
    return fail(EIO, "{}: {}", name, parsed.error().reason);
  const bool tells = (local->header.flags & zip::kDescriptor) == 0;
  if (tells && (local->header.stored != entry.stored || local->header.size != entry.size))
    return disagrees("other sizes");
  if (tells && local->header.crc != entry.crc) return disagrees("another CRC");
  return data;
}

Result<Buffer> ZipArchive::read(const ZipEntry& entry, const std::string& name, uint64_t limit) const try {
  if ((entry.flags & zip::kEncrypted) != 0)
    return fail(EOPNOTSUPP, "{}: is encrypted: extract the archive with unzip, and mount the directory", name);
  if (entry.method != zip::kStored && entry.method != zip::kDeflated)
    return fail(EOPNOTSUPP, "{}: is compressed in the archive by method {}; stored (0) and deflated (8) are read", name,
                entry.method);
  if (entry.size > limit) return fail(EIO, "{}: {} bytes, more than the {} that it can need", name, entry.size, limit);
  const bool is_possible = entry.method == zip::kStored
                               ? entry.size == entry.stored
                               : entry.size / kMaxExpansion <= entry.stored && entry.stored / 2 <= entry.size + kSmall;
  if (!is_possible)
    return fail(EIO, "{}: claims that {} bytes in the archive are {} bytes, which cannot be", name, entry.stored,
                entry.size);
  Buffer stored;
  if (source_.object) {
    const remote::ByteRange span = span_of(entry);
    CODECFS_ASSIGN(stored, source_.object->read(span.offset, span.size));
  }
  CODECFS_ASSIGN(const Data data, locate(entry, name, stored.bytes()));
  const uint64_t at = data.offset - entry.offset;
  if (source_.object && at <= stored.size() && entry.stored <= stored.size() - at) {
    stored.drop_front(static_cast<size_t>(at));
    stored.truncate(static_cast<size_t>(entry.stored));
  } else {
    CODECFS_ASSIGN(stored, Buffer::allocate(static_cast<size_t>(entry.stored)));
    CODECFS_TRY(read_exactly(data.offset, stored.mutable_bytes()));
  }
  if (entry.method == zip::kDeflated) {
    CODECFS_ASSIGN(Buffer inflated, Buffer::allocate(static_cast<size_t>(entry.size)));
    const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> decompressor(
        ::libdeflate_alloc_decompressor(), ::libdeflate_free_decompressor);
    if (!decompressor) return fail(ENOMEM, "{}: no memory to inflate it", name);
    size_t count = 0;
    const auto result = ::libdeflate_deflate_decompress(decompressor.get(), stored.data(), stored.size(),
                                                        inflated.data(), inflated.size(), &count);
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE)
      return fail(EIO, "{}: inflates to more than the {} bytes that the archive declares", name, entry.size);
    if (result != LIBDEFLATE_SUCCESS || count != entry.size)
      return fail(EIO, "{}: its deflated bytes in the archive are damaged", name);
    stored = std::move(inflated);
  }
  if (crc_of(stored.bytes()) != entry.crc) return fail(EIO, "{}: its CRC in the archive is wrong: it is damaged", name);
  return stored;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to read it", name);
}

}  // namespace codecfs::zarr
