// Finds the superblock of an HDF5 file, and clears the mark that a crashed writer left in it.

#include "backends/hdf5/format/superblock.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include "base/endian.h"

namespace codecfs::hdf5 {
namespace {

constexpr std::array<unsigned char, 8> kFileSignature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
constexpr std::byte kOpenForWriting{0x01};
constexpr std::byte kOpenForSwmr{0x04};

// Superblock of version 2 and 3:
//   0 signature  8 version  9 size of offsets (O)  10 size of lengths  11 consistency flags
//   12 base address (O)  extension address (O)  end of file (O)  root group's address (O)  checksum (4)
constexpr size_t kVersionAt = 8;
constexpr size_t kOffsetSizeAt = 9;
constexpr size_t kFlagsAt = 11;
constexpr size_t kLargest = kFlagsAt + 1 + 4 * 8 + 4;

// Superblock of version 0 and 1:
//   0 signature  8 version  13 size of offsets (O)
//   24 (version 1: 28) base address (O)  free space (O)  end of file (O)  driver information block's address (O)
// Driver information, a block (version 0 and 1) or a message in the superblock extension (2 and 3):
//   block    0 version  4 size of the information (4)  8 driver (8)  16 information
//   message  0 version  1 driver (8)  9 size of the information (2)  11 information
constexpr size_t kOldOffsetSizeAt = 13;
constexpr std::string_view kFamily = "NCSAfami";
constexpr std::string_view kMulti = "NCSAmult";
constexpr char kDriverMessage = 0x14;
constexpr size_t kExtension = 1024;  // bytes in which the message is searched

// Up to `size` bytes, fewer at the end of the file.
std::vector<std::byte> bytes_at(int fd, uint64_t address, size_t size) {
  std::vector<std::byte> bytes(size);
  const ssize_t count = address > INT64_MAX ? -1 : pread(fd, bytes.data(), size, static_cast<off_t>(address));
  bytes.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return bytes;
}

uint64_t load_offset(const std::byte* from, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= std::to_integer<uint64_t>(from[i]) << (8 * i);
  return value;
}

// Where the driver's name is in a driver information block, or in the messages of a superblock extension.
std::optional<size_t> find_driver(std::span<const std::byte> info, std::string_view driver, bool is_block) {
  const std::string_view text(reinterpret_cast<const char*>(info.data()), info.size());
  if (is_block) return text.size() >= 16 && text.substr(8, 8) == driver ? std::optional<size_t>(8) : std::nullopt;
  for (size_t at = text.find(driver); at != std::string_view::npos; at = text.find(driver, at + 1)) {
    // The message begins with its version; its type is in a header of 4 bytes (object header version 2) or 8 bytes.
    const auto has_type = [&](size_t header) { return at > header && text[at - 1 - header] == kDriverMessage; };
    if (at > 0 && text[at - 1] == 0 && (has_type(4) || has_type(8))) return at;
  }
  return std::nullopt;
}

}  // namespace

std::optional<DriverInfo> driver_info(int fd) {
  const auto at = find_signature(fd);
  if (!at) return std::nullopt;
  const std::vector<std::byte> block = bytes_at(fd, *at, 128);
  if (block.size() < kLargest) return std::nullopt;
  const unsigned version = std::to_integer<unsigned>(block[kVersionAt]);
  const bool old = version < 2;
  const size_t offset_size = std::to_integer<size_t>(block[old ? kOldOffsetSizeAt : kOffsetSizeAt]);
  if (offset_size > 8) return std::nullopt;
  const std::byte* const addresses = block.data() + (version == 0 ? 24 : version == 1 ? 28 : kFlagsAt + 1);
  const auto address = [&](size_t index) { return load_offset(addresses + index * offset_size, offset_size); };
  if (static_cast<size_t>(addresses - block.data()) + 4 * offset_size > block.size()) return std::nullopt;

  DriverInfo found{.file_bytes = address(2), .base = address(0)};
  const uint64_t info_at = address(old ? 3 : 1);
  if (offset_size == 0 || info_at == UINT64_MAX >> (64 - 8 * offset_size)) return found;  // none
  const std::vector<std::byte> info = bytes_at(fd, *at + info_at, old ? 24 : kExtension);
  if (find_driver(info, kMulti, old)) found.driver = DriverInfo::Driver::multi;
  const auto family = find_driver(info, kFamily, old);
  if (!family) return found;
  const size_t size_at = *family + kFamily.size() + (old ? 0 : sizeof(uint16_t));
  if (size_at + sizeof(uint64_t) > info.size()) return std::nullopt;
  found.driver = DriverInfo::Driver::family;
  found.member_bytes = load_le<uint64_t>(info.data() + size_at);
  return found;
}

std::optional<uint64_t> find_signature(int fd, uint64_t within) {
  struct stat status{};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const auto size = static_cast<uint64_t>(status.st_size);
  const uint64_t end = std::min(size, within);
  for (uint64_t address = 0; address + kFileSignature.size() <= end; address = address == 0 ? 512 : address * 2) {
    std::array<unsigned char, 8> bytes{};
    if (pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(address)) != ssize_t{8}) return std::nullopt;
    if (bytes == kFileSignature) return address;
  }
  return std::nullopt;
}

std::optional<std::vector<std::byte>> unmarked_superblock(int fd, uint64_t address) {
  std::vector<std::byte> block(kLargest);
  const ssize_t count = pread(fd, block.data(), block.size(), static_cast<off_t>(address));
  if (count <= 0) return std::nullopt;
  block.resize(static_cast<size_t>(count));
  std::vector<std::byte> unmarked = block;
  clear_marks(unmarked);
  if (unmarked == block) return std::nullopt;
  return unmarked;
}

void clear_marks(std::span<std::byte> block) {
  if (block.size() <= kFlagsAt || std::memcmp(block.data(), kFileSignature.data(), kFileSignature.size()) != 0) return;
  if (block[kVersionAt] != std::byte{3}) return;
  if ((block[kFlagsAt] & (kOpenForWriting | kOpenForSwmr)) == std::byte{0}) return;
  const size_t checked = kFlagsAt + 1 + 4 * std::to_integer<size_t>(block[kOffsetSizeAt]);
  if (block.size() < checked + sizeof(uint32_t)) return;
  // Leave a superblock with a wrong checksum to libhdf5.
  if (load_le<uint32_t>(block.data() + checked) != lookup3(block.first(checked))) return;
  block[kFlagsAt] &= ~(kOpenForWriting | kOpenForSwmr);
  store_le(block.data() + checked, lookup3(block.first(checked)));
}

uint32_t lookup3(std::span<const std::byte> bytes) {
  using std::rotl;
  uint32_t a = 0xdeadbeef + static_cast<uint32_t>(bytes.size());
  uint32_t b = a;
  uint32_t c = a;
  // Mixes 12 bytes per round; the last 1 to 12 bytes have another mix.
  const auto word = [&bytes](size_t at) {
    std::array<std::byte, 4> four{};
    for (size_t i = 0; i < 4 && at + i < bytes.size(); ++i) four[i] = bytes[at + i];
    return load_le<uint32_t>(four.data());
  };
  if (bytes.empty()) return c;
  size_t at = 0;
  for (; bytes.size() - at > 12; at += 12) {
    a += load_le<uint32_t>(bytes.data() + at);
    b += load_le<uint32_t>(bytes.data() + at + 4);
    c += load_le<uint32_t>(bytes.data() + at + 8);
    a = (a - c) ^ rotl(c, 4), c += b;
    b = (b - a) ^ rotl(a, 6), a += c;
    c = (c - b) ^ rotl(b, 8), b += a;
    a = (a - c) ^ rotl(c, 16), c += b;
    b = (b - a) ^ rotl(a, 19), a += c;
    c = (c - b) ^ rotl(b, 4), b += a;
  }
  a += word(at);
  b += word(at + 4);
  c += word(at + 8);
  c = (c ^ b) - rotl(b, 14);
  a = (a ^ c) - rotl(c, 11);
  b = (b ^ a) - rotl(a, 25);
  c = (c ^ b) - rotl(b, 16);
  a = (a ^ c) - rotl(c, 4);
  b = (b ^ a) - rotl(a, 14);
  c = (c ^ b) - rotl(b, 24);
  return c;
}

}  // namespace codecfs::hdf5
