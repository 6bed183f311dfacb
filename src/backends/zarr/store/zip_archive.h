#pragma once
// Reads a zip archive. Opening reads only the central directory, whose offsets and sizes are checked against the file;
// each local header is compared with it when the entry is read.
//
// An uncompressed entry is one pread of the archive; a deflated one is inflated to its declared size at most. The CRC
// of both is verified. Other methods and encryption: EOPNOTSUPP.

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/zarr/store/zip_format.h"
#include "base/buffer.h"
#include "base/file_io.h"
#include "base/result.h"
#include "remote/object_file.h"

namespace codecfs::zarr {

/// Location and form of an entry. Kept in memory for every entry of an open store.
struct ZipEntry {
  uint64_t offset = 0;   // of the local header in the file, bytes
  uint64_t end = 0;      // upper bound for the end of the entry
  uint64_t central = 0;  // of the central record in the file
  uint64_t stored = 0;   // bytes in the archive
  uint64_t size = 0;     // size without compression
  uint32_t crc = 0;
  uint32_t name_hash = 0;  // of the name in the archive, which the local header must repeat
  uint16_t name_bytes = 0;
  uint16_t flags = 0;
  uint16_t method = 0;
};

uint32_t crc_of(Bytes bytes);
uint32_t hash_of_zip_name(std::string_view name);

/// The bytes of an archive: a local file, or one in an object store, whose `file` is its mirror, with its name as path.
struct ZipBytes {
  File file;
  std::shared_ptr<remote::ObjectFile> object;  // null for a local file

  /// Fewer bytes at the end of a local file. EIO and others.
  [[nodiscard]] Result<size_t> read(uint64_t offset, MutableBytes to) const;
};

class ZipArchive {
 public:
  static constexpr uint64_t kMaxEntries = 20'000'000;

  using Visit = std::function<Result<>(const zip::CentralRecord&, const ZipEntry&)>;

  /// Calls visit(record, entry) for every entry in the order of the central directory, after the whole directory was
  /// verified. EINVAL if it is not a zip archive; EIO for a damaged or inconsistent one (entries that overlap or are
  /// outside of the file), EOPNOTSUPP for several volumes, EFBIG for more than kMaxEntries.
  static Result<std::shared_ptr<const ZipArchive>> open(ZipBytes bytes, const Visit& visit);
  /// For an archive that was just written and needs no verification.
  static Result<std::shared_ptr<const ZipArchive>> adopt(File file, zip::End end);

  [[nodiscard]] const File& file() const { return source_.file; }
  /// Where the bytes of an entry are, with its local header; perhaps a few more.
  [[nodiscard]] remote::ByteRange span_of(const ZipEntry& entry) const;
  /// These entries will be read soon.
  void expect(std::span<const ZipEntry> entries) const;
  /// Status at open.
  [[nodiscard]] const struct stat& status() const { return status_; }
  [[nodiscard]] Bytes comment() const { return std::as_bytes(std::span(comment_)); }
  /// The content of an entry, at most `limit` bytes. `name` is for messages.
  [[nodiscard]] Result<Buffer> read(const ZipEntry& entry, const std::string& name, uint64_t limit) const;

  struct Data {
    uint64_t offset;    // of the stored bytes in the file
    std::string extra;  // of the local header
  };
  /// Reads and verifies the local header. EIO.
  [[nodiscard]] Result<Data> locate(const ZipEntry& entry, const std::string& name) const {
    return locate(entry, name, {});
  }
  /// Fills `to` from the file. EIO if the file is too short.
  [[nodiscard]] Result<> read_exactly(uint64_t offset, MutableBytes to) const;

 private:
  using Extent = std::pair<uint64_t, uint64_t>;  // offset and end of an entry

  ZipArchive() = default;
  /// `held`: what was read of the entry, from its offset on.
  Result<Data> locate(const ZipEntry& entry, const std::string& name, Bytes held) const;
  Result<> find_end();
  Result<std::optional<uint64_t>> find_end64(uint64_t locator_at, uint64_t told);
  Result<std::vector<Extent>> check_layout() const;
  Result<> for_each(std::span<const Extent> extents, const Visit& visit) const;

  ZipBytes source_;
  struct stat status_ = {};
  uint64_t bytes_ = 0;  // of the file
  std::string comment_;
  zip::End end_;
  uint64_t directory_ = 0;  // offset of the central directory in the file
  uint64_t shift_ = 0;      // added to all offsets in the archive
};

/// Whether a file is a zip archive, according to its end: data before the archive is allowed.
bool looks_like_zip(int fd, uint64_t bytes);

}  // namespace codecfs::zarr
