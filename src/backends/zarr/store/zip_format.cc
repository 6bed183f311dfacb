#include "backends/zarr/store/zip_format.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "base/endian.h"

namespace codecfs::zarr::zip {
namespace {

constexpr uint32_t kLocalSignature = 0x04034B50;
constexpr uint32_t kCentralSignature = 0x02014B50;
constexpr uint32_t kEndSignature = 0x06054B50;
constexpr uint32_t kEnd64Signature = 0x06064B50;
constexpr uint32_t kLocatorSignature = 0x07064B50;
constexpr uint16_t kZip64 = 0x0001;
constexpr uint32_t kAllOnes = 0xFFFFFFFF;
constexpr uint16_t kAllOnes16 = 0xFFFF;
constexpr uint16_t kVersion = 20;  // version needed to extract
constexpr uint16_t kVersion64 = 45;
constexpr uint16_t kUnix = 3 << 8;
constexpr size_t kFieldBytes = 4;  // of an extra field before its data
constexpr size_t kMaxExtra = 0xFFFF - kFieldBytes - 24;

uint16_t get16(Bytes from, size_t at) { return load_le<uint16_t>(from.data() + at); }
uint32_t get32(Bytes from, size_t at) { return load_le<uint32_t>(from.data() + at); }
uint64_t get64(Bytes from, size_t at) { return load_le<uint64_t>(from.data() + at); }

template <std::unsigned_integral T>
void put(std::string& to, T value) {
  std::array<std::byte, sizeof(T)> bytes;
  store_le(bytes.data(), value);
  to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void put(std::string& to, Bytes bytes) { to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()); }

/// Calls visit(id, data, whole) for every field in order; ignores trailing bytes that are not a field.
template <class Visit>
void for_each_field(Bytes extra, Visit visit) {
  while (extra.size() >= kFieldBytes) {
    const size_t size = get16(extra, 2);
    if (size > extra.size() - kFieldBytes) return;
    visit(get16(extra, 0), extra.subspan(kFieldBytes, size), extra.first(kFieldBytes + size));
    extra = extra.subspan(kFieldBytes + size);
  }
}

Bytes zip64_field(Bytes extra) {
  Bytes found;
  for_each_field(extra, [&](uint16_t id, Bytes data, Bytes) {
    if (id == kZip64 && found.empty()) found = data;
  });
  return found;
}

/// Takes the next 64-bit value if the 32-bit field is all ones.
Result<> widen(uint64_t& value, Bytes& zip64) {
  if (value != kAllOnes) return {};
  if (zip64.size() < 8) return fail(EIO, "a size or offset of more than 32 bits is missing");
  value = get64(zip64, 0);
  zip64 = zip64.subspan(8);
  return {};
}

Header parse_header(Bytes bytes) {
  return {.flags = get16(bytes, 0),
          .method = get16(bytes, 2),
          .time = get32(bytes, 4),
          .crc = get32(bytes, 8),
          .stored = get32(bytes, 12),
          .size = get32(bytes, 16)};
}

uint32_t narrow(uint64_t value) { return value >= kAllOnes ? kAllOnes : static_cast<uint32_t>(value); }
uint16_t narrow16(uint64_t value) { return value >= kAllOnes16 ? kAllOnes16 : static_cast<uint16_t>(value); }

void print_header(std::string& to, const Header& header, bool is_large) {
  put(to, header.flags);
  put(to, header.method);
  put(to, header.time);
  put(to, header.crc);
  put(to, is_large ? kAllOnes : static_cast<uint32_t>(header.stored));
  put(to, is_large ? kAllOnes : static_cast<uint32_t>(header.size));
}

bool is_large(const Header& header) { return header.stored >= kAllOnes || header.size >= kAllOnes; }

}  // namespace

Result<LocalHeader> parse_local(Bytes bytes) {
  if (bytes.size() < kLocalBytes || get32(bytes, 0) != kLocalSignature)
    return fail(EIO, "there is no local header where the central directory says");
  return LocalHeader{
      .header = parse_header(bytes.subspan(6)), .name_bytes = get16(bytes, 26), .extra_bytes = get16(bytes, 28)};
}

Result<> parse_local_extra(Bytes extra, LocalHeader& local) {
  Bytes zip64 = zip64_field(extra);
  if ((local.header.flags & kDescriptor) != 0) return {};  // the sizes are in the data descriptor
  CODECFS_TRY(widen(local.header.size, zip64));
  return widen(local.header.stored, zip64);
}

Result<size_t> central_bytes(Bytes bytes) {
  if (get32(bytes, 0) != kCentralSignature) return fail(EIO, "the central directory is damaged");
  return kCentralBytes + get16(bytes, 28) + get16(bytes, 30) + get16(bytes, 32);
}

Result<CentralRecord> parse_central(Bytes bytes) {
  if (bytes.size() < kCentralBytes) return fail(ENODATA, "the central directory ends within a record");
  if (get32(bytes, 0) != kCentralSignature) return fail(EIO, "the central directory is damaged");
  const size_t name = get16(bytes, 28);
  const size_t extra = get16(bytes, 30);
  const size_t comment = get16(bytes, 32);
  CentralRecord record{.header = parse_header(bytes.subspan(8)),
                       .made_by = get16(bytes, 4),
                       .internal = get16(bytes, 36),
                       .external = get32(bytes, 38),
                       .offset = get32(bytes, 42),
                       .name = {},
                       .extra = {},
                       .comment = {},
                       .bytes = kCentralBytes + name + extra + comment};
  if (bytes.size() < record.bytes) return fail(ENODATA, "the central directory ends within a record");
  record.name = {reinterpret_cast<const char*>(bytes.data()) + kCentralBytes, name};
  record.extra = bytes.subspan(kCentralBytes + name, extra);
  record.comment = bytes.subspan(kCentralBytes + name + extra, comment);
  Bytes zip64 = zip64_field(record.extra);
  CODECFS_TRY(widen(record.header.size, zip64));
  CODECFS_TRY(widen(record.header.stored, zip64));
  CODECFS_TRY(widen(record.offset, zip64));
  const uint16_t disk = get16(bytes, 34);
  if (disk != 0 && disk != kAllOnes16) return fail(EOPNOTSUPP, "a part of an archive of several volumes");
  return record;
}

Result<std::optional<End>> parse_end(Bytes bytes) {
  if (bytes.size() < kEndBytes || get32(bytes, 0) != kEndSignature) return std::optional<End>();
  const auto is_first = [](uint16_t disk) { return disk == 0 || disk == kAllOnes16; };
  if (!is_first(get16(bytes, 4)) || !is_first(get16(bytes, 6)) || get16(bytes, 8) != get16(bytes, 10))
    return fail(EOPNOTSUPP, "a part of an archive of several volumes");
  return End{.entries = get16(bytes, 10), .bytes = get32(bytes, 12), .offset = get32(bytes, 16)};
}

Result<std::optional<End>> parse_end64(Bytes bytes) {
  if (bytes.size() < kEnd64Bytes || get32(bytes, 0) != kEnd64Signature) return std::optional<End>();
  if (get32(bytes, 16) != 0 || get32(bytes, 20) != 0 || get64(bytes, 24) != get64(bytes, 32))
    return fail(EOPNOTSUPP, "a part of an archive of several volumes");
  return End{.entries = get64(bytes, 32), .bytes = get64(bytes, 40), .offset = get64(bytes, 48)};
}

std::optional<uint64_t> parse_locator(Bytes bytes) {
  if (bytes.size() < kLocatorBytes || get32(bytes, 0) != kLocatorSignature) return std::nullopt;
  return get64(bytes, 8);
}

bool needs_end64(const End& end) {
  return end.entries == kAllOnes16 || end.bytes == kAllOnes || end.offset == kAllOnes;
}

std::vector<std::byte> without_zip64(Bytes extra) {
  std::vector<std::byte> kept;
  for_each_field(extra, [&](uint16_t id, Bytes, Bytes whole) {
    if (id != kZip64) kept.insert(kept.end(), whole.begin(), whole.end());
  });
  if (kept.size() > kMaxExtra) kept.clear();
  return kept;
}

void print_local(std::string& to, const Header& header, std::string_view name, Bytes extra) {
  const bool large = is_large(header);
  put(to, kLocalSignature);
  put(to, large ? kVersion64 : kVersion);
  print_header(to, header, large);
  put(to, static_cast<uint16_t>(name.size()));
  put(to, static_cast<uint16_t>(extra.size() + (large ? kFieldBytes + 16 : 0)));
  to += name;
  if (large) {
    put(to, kZip64);
    put(to, uint16_t{16});
    put(to, header.size);
    put(to, header.stored);
  }
  put(to, extra);
}

void print_central(std::string& to, const CentralRecord& record) {
  const bool large = is_large(record.header);
  const bool is_far = record.offset >= kAllOnes;
  const auto zip64_bytes = static_cast<uint16_t>((large ? 16 : 0) + (is_far ? 8 : 0));
  put(to, kCentralSignature);
  put(to, record.made_by);
  put(to, zip64_bytes != 0 ? kVersion64 : kVersion);
  print_header(to, record.header, large);
  put(to, static_cast<uint16_t>(record.name.size()));
  put(to, static_cast<uint16_t>(record.extra.size() + (zip64_bytes != 0 ? kFieldBytes + zip64_bytes : 0)));
  put(to, static_cast<uint16_t>(record.comment.size()));
  put(to, uint16_t{0});
  put(to, record.internal);
  put(to, record.external);
  put(to, narrow(record.offset));
  to += record.name;
  if (zip64_bytes != 0) {
    put(to, kZip64);
    put(to, zip64_bytes);
    if (large) put(to, record.header.size);
    if (large) put(to, record.header.stored);
    if (is_far) put(to, record.offset);
  }
  put(to, record.extra);
  put(to, record.comment);
}

void print_end(std::string& to, const End& end, Bytes comment) {
  if (end.entries >= kAllOnes16 || end.bytes >= kAllOnes || end.offset >= kAllOnes) {
    put(to, kEnd64Signature);
    put(to, uint64_t{kEnd64Bytes - 12});
    put(to, static_cast<uint16_t>(kUnix | kVersion64));
    put(to, kVersion64);
    put(to, uint32_t{0});
    put(to, uint32_t{0});
    put(to, end.entries);
    put(to, end.entries);
    put(to, end.bytes);
    put(to, end.offset);
    put(to, kLocatorSignature);
    put(to, uint32_t{0});
    put(to, end.offset + end.bytes);
    put(to, uint32_t{1});
  }
  put(to, kEndSignature);
  put(to, uint32_t{0});
  put(to, narrow16(end.entries));
  put(to, narrow16(end.entries));
  put(to, narrow(end.bytes));
  put(to, narrow(end.offset));
  put(to, static_cast<uint16_t>(comment.size()));
  put(to, comment);
}

uint32_t dos_time(int64_t seconds) {
  const auto time = static_cast<time_t>(seconds);
  struct tm local = {};
  if (::localtime_r(&time, &local) == nullptr || local.tm_year < 80) return 1 << 21 | 1 << 16;  // 1980-01-01
  const auto years = static_cast<uint32_t>(std::min(local.tm_year - 80, 127));
  const auto date = years << 9 | static_cast<uint32_t>(local.tm_mon + 1) << 5 | static_cast<uint32_t>(local.tm_mday);
  return date << 16 | static_cast<uint32_t>(local.tm_hour) << 11 | static_cast<uint32_t>(local.tm_min) << 5 |
         static_cast<uint32_t>(std::min(local.tm_sec, 59)) / 2;
}

}  // namespace codecfs::zarr::zip
