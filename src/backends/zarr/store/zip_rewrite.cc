#include "backends/zarr/store/zip_rewrite.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <new>

#include "base/progress_reporter.h"

namespace codecfs::zarr {
namespace {

constexpr size_t kWriteBytes = size_t{1} << 20;  // bytes per write call
constexpr uint16_t kMadeBy = 3 << 8 | 45;        // Unix
constexpr uint32_t kMsdosDirectory = 1 << 4;     // external attributes
constexpr size_t kReadAhead = size_t{256} << 10;
constexpr uint64_t kEntryWork = 256;  // work per entry besides its bytes, in bytes

/// Writes a file sequentially.
class Output {
 public:
  Output(FileIo& io, const File& file) : io_(io), file_(file) {}

  [[nodiscard]] uint64_t offset() const { return offset_ + held_.size(); }
  /// Appended text is written by the next write().
  std::string& text() { return held_; }
  Result<> write() {
    if (held_.size() < kWriteBytes) return {};
    return flush();
  }
  Result<> flush() {
    CODECFS_TRY(io_.write(file_, offset_, std::as_bytes(std::span(held_))));
    offset_ += held_.size();
    held_.clear();
    return {};
  }
  /// Writes `count` bytes that read(from, to) produces in pieces.
  template <class Read>
  Result<> copy(uint64_t count, Read read) {
    for (uint64_t done = 0; done < count;) {
      const auto piece = static_cast<size_t>(std::min<uint64_t>(count - done, kWriteBytes));
      const size_t before = held_.size();
      held_.resize(before + piece);
      CODECFS_TRY(read(done, std::as_writable_bytes(std::span(held_)).subspan(before)));
      CODECFS_TRY(write());
      ProgressReporter::add_to_current(piece);
      done += piece;
    }
    return {};
  }

 private:
  FileIo& io_;
  const File& file_;
  uint64_t offset_ = 0;  // of the buffer in the file
  std::string held_;
};

/// Reads consecutive records.
class ReadAhead {
 public:
  /// Valid until the next call. EIO.
  Result<Bytes> read(const ZipArchive& archive, uint64_t offset, size_t bytes) {
    if (&archive != archive_ || offset < offset_ || offset - offset_ > held_.size() ||
        held_.size() - (offset - offset_) < bytes) {
      held_.resize(std::max(bytes, kReadAhead));
      CODECFS_ASSIGN(const size_t count, read_at(archive.file(), offset, held_));
      held_.resize(count);
      archive_ = &archive;
      offset_ = offset;
      if (count < bytes) return fail(EIO, "{}: became shorter while it was read", archive.file().path);
    }
    return Bytes(held_).subspan(static_cast<size_t>(offset - offset_), bytes);
  }

 private:
  const ZipArchive* archive_ = nullptr;
  uint64_t offset_ = 0;
  std::vector<std::byte> held_;
};

bool is_ascii(std::string_view name) {
  return std::ranges::all_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

class Rewriter {
 public:
  Rewriter(FileIo& io, const File& to, const std::vector<NewZipEntry>& entries)
      : output_(io, to), entries_(entries), now_(zip::dos_time(::time(nullptr))) {}

  Result<RewrittenZip> run(Bytes comment) {
    result_.entries.reserve(entries_.size());
    for (const NewZipEntry& entry : entries_) {
      CODECFS_TRY(add(entry));
      ProgressReporter::add_to_current(kEntryWork);
    }
    result_.end = {.entries = entries_.size(), .bytes = 0, .offset = output_.offset()};
    for (size_t i = 0; i < entries_.size(); ++i) {
      result_.entries[i].central = output_.offset();
      CODECFS_TRY(add_central(entries_[i], result_.entries[i]));
      CODECFS_TRY(output_.write());
    }
    result_.end.bytes = output_.offset() - result_.end.offset;
    zip::print_end(output_.text(), result_.end, comment);
    CODECFS_TRY(output_.flush());
    return std::move(result_);
  }

 private:
  Result<> add(const NewZipEntry& entry) {
    ZipEntry written{.offset = output_.offset(),
                     .name_hash = hash_of_zip_name(entry.name),
                     .name_bytes = static_cast<uint16_t>(entry.name.size()),
                     .flags = is_ascii(entry.name) ? uint16_t{0} : zip::kUtf8,
                     .method = zip::kStored};
    if (const auto* archived = std::get_if<ArchivedBytes>(&entry.bytes)) {
      CODECFS_TRY(add_archived(entry, *archived, written));
    } else if (const auto* spilled = std::get_if<SpilledPtr>(&entry.bytes)) {
      written.stored = written.size = (*spilled)->size();
      written.crc = (*spilled)->crc();
      zip::print_local(output_.text(), header_of(written, now_), entry.name, {});
      CODECFS_TRY(
          output_.copy(written.size, [&](uint64_t from, MutableBytes to) { return (*spilled)->read(from, to); }));
    } else {
      zip::print_local(output_.text(), header_of(written, now_), entry.name, {});
    }
    CODECFS_TRY(output_.write());
    written.end = output_.offset();
    result_.entries.push_back(written);
    return {};
  }

  Result<> add_archived(const NewZipEntry& entry, const ArchivedBytes& from, ZipEntry& written) {
    const ZipEntry& old = from.entry;
    const auto data = from.archive->locate(old, entry.name);
    if (!data)
      return fail(data.error().code, "{}; it cannot be copied into the new archive: remove it, or write it again",
                  data.error().reason);
    if (written.name_hash == old.name_hash) written.flags |= old.flags & zip::kUtf8;
    written.flags |= old.flags & ~(zip::kUtf8 | zip::kDescriptor);
    written.method = old.method;
    written.stored = old.stored;
    written.size = old.size;
    written.crc = old.crc;
    CODECFS_ASSIGN(const zip::CentralRecord record, central_of(from));
    const auto extra = zip::without_zip64(std::as_bytes(std::span(data->extra)));
    zip::print_local(output_.text(), header_of(written, record.header.time), entry.name, extra);
    return output_.copy(old.stored, [&](uint64_t start, MutableBytes to) {
      return from.archive->read_exactly(data->offset + start, to);
    });
  }

  Result<> add_central(const NewZipEntry& entry, const ZipEntry& written) {
    if (const auto* archived = std::get_if<ArchivedBytes>(&entry.bytes)) {
      CODECFS_ASSIGN(zip::CentralRecord record, central_of(*archived));
      const auto extra = zip::without_zip64(record.extra);
      record.header = header_of(written, record.header.time);
      record.offset = written.offset;
      record.name = entry.name;
      record.extra = extra;
      zip::print_central(output_.text(), record);
      return {};
    }
    const bool is_directory = std::holds_alternative<std::monostate>(entry.bytes);
    const uint32_t mode = (is_directory ? S_IFDIR : S_IFREG) | (entry.mode & 07777);
    zip::print_central(output_.text(), {.header = header_of(written, now_),
                                        .made_by = kMadeBy,
                                        .internal = 0,
                                        .external = mode << 16 | (is_directory ? kMsdosDirectory : 0),
                                        .offset = written.offset,
                                        .name = entry.name,
                                        .extra = {},
                                        .comment = {},
                                        .bytes = 0});
    return {};
  }

  static zip::Header header_of(const ZipEntry& entry, uint32_t time) {
    return {.flags = entry.flags,
            .method = entry.method,
            .time = time,
            .crc = entry.crc,
            .stored = entry.stored,
            .size = entry.size};
  }

  /// The record in the old archive, valid until the next call.
  Result<zip::CentralRecord> central_of(const ArchivedBytes& from) {
    for (size_t bytes = zip::kCentralBytes;;) {
      CODECFS_ASSIGN(const Bytes held, central_.read(*from.archive, from.entry.central, bytes));
      CODECFS_ASSIGN(const size_t all, zip::central_bytes(held));
      if (bytes == all) return zip::parse_central(held);
      bytes = all;
    }
  }

  Output output_;
  const std::vector<NewZipEntry>& entries_;
  const uint32_t now_;
  ReadAhead central_;
  RewrittenZip result_;
};

}  // namespace

uint64_t work_of_writing(const std::vector<NewZipEntry>& entries) {
  uint64_t work = kEntryWork * entries.size();
  for (const NewZipEntry& entry : entries) {
    if (const auto* archived = std::get_if<ArchivedBytes>(&entry.bytes))
      work += archived->entry.stored;
    else if (const auto* spilled = std::get_if<SpilledPtr>(&entry.bytes))
      work += (*spilled)->size();
  }
  return work;
}

Result<RewrittenZip> write_zip(FileIo& io, const File& to, const std::vector<NewZipEntry>& entries, Bytes comment) try {
  return Rewriter(io, to, entries).run(comment);
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to rewrite the archive", to.path);
}

}  // namespace codecfs::zarr
