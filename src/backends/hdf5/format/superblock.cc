// Finds the superblock of an HDF5 file, and clears the mark that a crashed writer left in it.

#include "backends/hdf5/format/superblock.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/endian.h"

namespace codecfs::hdf5 {
namespace {

constexpr std::array<unsigned char, 8> kSignature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
constexpr std::byte kOpenForWriting{0x01};
constexpr std::byte kOpenForSwmr{0x04};

// Superblock of version 2 and 3:
//   0 signature  8 version  9 size of offsets (O)  10 size of lengths  11 consistency flags
//   12 base address (O)  extension address (O)  end of file (O)  root group's address (O)  checksum (4)
constexpr size_t kVersionAt = 8;
constexpr size_t kOffsetSizeAt = 9;
constexpr size_t kFlagsAt = 11;
constexpr size_t kLargest = kFlagsAt + 1 + 4 * 8 + 4;

}  // namespace

std::optional<uint64_t> find_signature(int fd, uint64_t within) {
  struct stat status{};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const auto size = static_cast<uint64_t>(status.st_size);
  const uint64_t end = std::min(size, within);
  for (uint64_t address = 0; address + kSignature.size() <= end; address = address == 0 ? 512 : address * 2) {
    std::array<unsigned char, 8> bytes{};
    if (pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(address)) != ssize_t{8}) return std::nullopt;
    if (bytes == kSignature) return address;
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
  if (block.size() <= kFlagsAt || std::memcmp(block.data(), kSignature.data(), kSignature.size()) != 0) return;
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
    a += word(at);
    b += word(at + 4);
    c += word(at + 8);
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
