#pragma once
// The records of a zip archive. Pure functions of their bytes: no I/O. Source: PKWARE APPNOTE.TXT 6.3.10, sections 4.3
// to 4.5. All integers are little-endian.
//
//   [ local header | name | extra | data [| data descriptor] ]...       an entry each, in any order
//   [ central record | name | extra | comment ]...                      the central directory: what there is
//   [ ZIP64 end record | ZIP64 locator ]                                where 16 or 32 bits are not enough
//   end record | comment
//
// Where a size or an offset does not fit into 32 bits, its field is all ones and the extra field 0x0001 holds it.

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

/// What both headers of an entry tell.
struct Header {
  uint16_t flags = 0;
  uint16_t method = kStored;
  uint32_t time = 0;    // DOS date << 16 | DOS time
  uint32_t crc = 0;     // CRC-32 of the bytes as they are without the method
  uint64_t stored = 0;  // bytes in the archive
  uint64_t size = 0;    // bytes without the method
};

struct LocalHeader {
  Header header;
  uint16_t name_bytes = 0;
  uint16_t extra_bytes = 0;
};

struct CentralRecord {
  Header header;
  uint16_t made_by = 0;  // upper byte 3: Unix, `external` >> 16 is a mode then
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
  uint64_t offset = 0;  // of it, from the start of the archive proper
};

/// The first kLocalBytes of a local header, and its extra field, once it is read. EIO.
Result<LocalHeader> parse_local(Bytes bytes);
/// Sizes that do not fit into 32 bits. EIO where they are missing.
Result<> parse_local_extra(Bytes extra, LocalHeader& local);
/// The record at the start of `bytes`. EIO; ENODATA where `bytes` hold only a part of it.
Result<CentralRecord> parse_central(Bytes bytes);
/// The length of the record whose first kCentralBytes these are. EIO.
Result<size_t> central_bytes(Bytes bytes);
/// The end record at the start of `bytes`; none where there is another thing. Fields of all ones stay so. EOPNOTSUPP
/// for an archive of several volumes.
Result<std::optional<End>> parse_end(Bytes bytes);
Result<std::optional<End>> parse_end64(Bytes bytes);
/// Where the ZIP64 end record is said to be, from the start of the archive proper.
std::optional<uint64_t> parse_locator(Bytes bytes);
/// Whether the fields of an end record that ask for the ZIP64 one do.
bool needs_end64(const End& end);

/// An extra field without 0x0001; empty where there would be no room for that.
std::vector<std::byte> without_zip64(Bytes extra);

/// `extra` without 0x0001, which is added where need be.
void print_local(std::string& to, const Header& header, std::string_view name, Bytes extra);
void print_central(std::string& to, const CentralRecord& record);
/// Both end records where need be, and the comment; `end` is at `position` of the archive.
void print_end(std::string& to, const End& end, Bytes comment);

/// A time in seconds since 1970 as the local DOS time, which goes from 1980 to 2107 in steps of two seconds.
uint32_t dos_time(int64_t seconds);

}  // namespace codecfs::zarr::zip
