#pragma once
// A zip archive, to be read. Opening it reads the central directory and nothing else; what that says is believed only
// as far as it can be true of the file, and each local header is compared with it when the entry is read.
//
// An entry that is stored is one pread of the archive; one that is deflated is inflated to the size that is declared
// and no further. The CRC of both is checked. Other methods, and encryption: EOPNOTSUPP.

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

namespace codecfs::zarr {

/// Where an entry is and what it is. One of them is kept for every entry as long as a store is open.
struct ZipEntry {
  uint64_t offset = 0;   // of the local header in the file, bytes
  uint64_t end = 0;      // nothing of the entry lies there or behind
  uint64_t central = 0;  // of the central record in the file
  uint64_t stored = 0;   // bytes in the archive
  uint64_t size = 0;     // bytes without the method
  uint32_t crc = 0;
  uint32_t name_hash = 0;  // of the name in the archive: the local header has the same
  uint16_t name_bytes = 0;
  uint16_t flags = 0;
  uint16_t method = 0;
};

uint32_t crc_of(Bytes bytes);
uint32_t hash_of_zip_name(std::string_view name);

class ZipArchive {
 public:
  static constexpr uint64_t kMaxEntries = 20'000'000;

  using Visit = std::function<Result<>(const zip::CentralRecord&, const ZipEntry&)>;

  /// Calls visit(record, entry) for every entry, in the order of the central directory, when all of it was found to be
  /// possible. EINVAL where it is no zip archive; EIO for a damaged one and one that cannot be true (entries that
  /// overlap or lie outside of the file), EOPNOTSUPP for several volumes, EFBIG for more than kMaxEntries.
  static Result<std::shared_ptr<const ZipArchive>> open(File file, const Visit& visit);
  /// One that was just written: what opening it would find.
  static Result<std::shared_ptr<const ZipArchive>> adopt(File file, zip::End end);

  [[nodiscard]] const File& file() const { return file_; }
  /// When it was opened.
  [[nodiscard]] const struct stat& status() const { return status_; }
  [[nodiscard]] Bytes comment() const { return std::as_bytes(std::span(comment_)); }
  /// The bytes of an entry, at most `limit`. `name` is for messages.
  [[nodiscard]] Result<Buffer> read(const ZipEntry& entry, const std::string& name, uint64_t limit) const;

  struct Data {
    uint64_t offset;    // of the stored bytes in the file
    std::string extra;  // of the local header
  };
  /// Reads and checks the local header. EIO.
  [[nodiscard]] Result<Data> locate(const ZipEntry& entry, const std::string& name) const;
  /// Fills `to` from the file. EIO where that is too short.
  [[nodiscard]] Result<> read_exactly(uint64_t offset, MutableBytes to) const;

 private:
  using Extent = std::pair<uint64_t, uint64_t>;  // offset and end of an entry

  ZipArchive() = default;
  Result<> find_end();
  Result<std::optional<uint64_t>> find_end64(uint64_t locator_at, uint64_t told);
  Result<std::vector<Extent>> check_layout() const;
  Result<> for_each(std::span<const Extent> extents, const Visit& visit) const;

  File file_;
  struct stat status_ = {};
  uint64_t bytes_ = 0;  // of the file
  std::string comment_;
  zip::End end_;
  uint64_t directory_ = 0;  // where the central directory is in the file
  uint64_t shift_ = 0;      // what is to be added to offsets that the archive tells
};

/// Whether a file is a zip archive: by its end, so that junk before it does no harm.
bool looks_like_zip(int fd, uint64_t bytes);

}  // namespace codecfs::zarr
