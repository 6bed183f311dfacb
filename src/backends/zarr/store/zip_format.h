#pragma once
// The records of a zip archive. Pure functions of their bytes: no I/O. Source: PKWARE APPNOTE.TXT 6.3.10, sections 4.3
// to 4.5. All integers are little-endian.
//
//   [ local header | name | extra | data [| data descriptor] ]...       one per entry, in any order
//   [ central record | name | extra | comment ]...                      the central directory
//   [ ZIP64 end record | ZIP64 locator ]                                if 16 or 32 bits are not enough
//   end record | comment
//
// A size or an offset that does not fit into 32 bits has a field of all ones, and its value is in the extra field
// 0x0001.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::zarr::zip {

inline constexpr uint16_t kStored = 0;  // methods
inline constexpr uint16_t kDeflated = 8;
inline constexpr uint16_t kEncrypted = 1 << 0;  // flags
inline constexpr uint16_t kDescriptor = 1 << 3;
inline constexpr uint16_t kUtf8 = 1 << 11;

inline constexpr size_t kLocalBytes = 30;  // of a record before its name
inline constexpr size_t kCentralBytes = 46;
inline constexpr size_t kEndBytes = 22;
inline constexpr size_t kEnd64Bytes = 56;
inline constexpr size_t kLocatorBytes = 20;
inline constexpr size_t kMaxComment = 0xFFFF;
inline constexpr size_t kMaxName = 0xFFFF;

/// The common part of an entry's two headers.
struct Header {
  uint16_t flags = 0;
  uint16_t method = kStored;
  uint32_t time = 0;    // DOS date << 16 | DOS time
  uint32_t crc = 0;     // CRC-32 of the uncompressed bytes
  uint64_t stored = 0;  // bytes in the archive
  uint64_t size = 0;    // size without compression
};

struct LocalHeader {
  Header header;
  uint16_t name_bytes = 0;
  uint16_t extra_bytes = 0;
};

struct CentralRecord {
  Header header;
  uint16_t made_by = 0;  // upper byte 3: Unix; the upper 16 bits of `external` are then a mode
  uint16_t internal = 0;
  uint32_t external = 0;
  uint64_t offset = 0;  // of the local header
  std::string_view name;
  Bytes extra;
  Bytes comment;
  size_t bytes = 0;  // of the whole record
};

struct End {
  uint64_t entries = 0;
  uint64_t bytes = 0;   // of the central directory
  uint64_t offset = 0;  // its offset from the start of the archive proper
};

/// Parses the first kLocalBytes of a local header; the caller must read its extra field afterwards. EIO.
Result<LocalHeader> parse_local(Bytes bytes);
/// Takes 64-bit sizes from the extra field if needed. EIO if they are missing.
Result<> parse_local_extra(Bytes extra, LocalHeader& local);
/// Parses the record at the start of `bytes`. EIO; ENODATA if `bytes` has only a part of it.
Result<CentralRecord> parse_central(Bytes bytes);
/// The total length of a record, from its first kCentralBytes. EIO.
Result<size_t> central_bytes(Bytes bytes);
/// Parses the end record at the start of `bytes`; none if there is another record. Fields of all ones are returned as
/// such. EOPNOTSUPP for an archive of several volumes.
Result<std::optional<End>> parse_end(Bytes bytes);
Result<std::optional<End>> parse_end64(Bytes bytes);
/// The offset of the ZIP64 end record according to its locator, from the start of the archive proper.
std::optional<uint64_t> parse_locator(Bytes bytes);
/// Whether fields of an end record refer to the ZIP64 end record.
bool needs_end64(const End& end);

/// An extra field without 0x0001; empty if the result would exceed the limit.
std::vector<std::byte> without_zip64(Bytes extra);

/// `extra` must not contain 0x0001, which is added if needed.
void print_local(std::string& to, const Header& header, std::string_view name, Bytes extra);
void print_central(std::string& to, const CentralRecord& record);
/// Both end records if needed, and the comment; `end` is at `position` in the archive.
void print_end(std::string& to, const End& end, Bytes comment);

/// Seconds since 1970 as local DOS time, which covers 1980 to 2107 in steps of two seconds.
uint32_t dos_time(int64_t seconds);

}  // namespace codecfs::zarr::zip
