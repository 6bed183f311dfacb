#include "filters/core/gzip_frames.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/endian.h"

namespace codecfs::filters {
namespace {

constexpr size_t kZlibHead = 2;
constexpr size_t kZlibTail = 4;
constexpr size_t kGzipHead = 10;
constexpr size_t kGzipTail = 8;
constexpr uint8_t kZlibBytes[kZlibHead] = {0x78, 0x9c};  // window of 32 KiB, default level
constexpr uint8_t kGzipBytes[kGzipHead] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff};

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
};

std::unexpected<Error> damaged(const char* what) {
  return fail(EIO, "the compressed data is damaged, or is not one {}", what);
}

/// What deflate blocks that fill `in` decode to.
Result<Buffer> inflate_blocks(Bytes in, uint64_t size, const char* what) {
  thread_local const std::unique_ptr<libdeflate_decompressor, FreeDecompressor> decompressor(
      libdeflate_alloc_decompressor());
  if (decompressor == nullptr) return fail(ENOMEM, "no memory for a decompressor");
  CODECFS_ASSIGN(Buffer decoded, Buffer::allocate(size));
  size_t used = 0;
  size_t written = 0;
  const auto result = libdeflate_deflate_decompress_ex(decompressor.get(), in.data(), in.size(),
                                                       decoded.mutable_bytes().data(), size, &used, &written);
  if (result != LIBDEFLATE_SUCCESS || used != in.size() || written != size) return damaged(what);
  return decoded;
}

uint32_t crc32_of(Bytes bytes) { return libdeflate_crc32(0, bytes.data(), bytes.size()); }
uint32_t adler32_of(Bytes bytes) { return libdeflate_adler32(1, bytes.data(), bytes.size()); }

/// The header of a member has optional parts; 0 if it is not one.
size_t gzip_head(Bytes member) {
  constexpr uint8_t kHeaderCrc = 2;
  constexpr uint8_t kExtra = 4;
  constexpr uint8_t kName = 8;
  constexpr uint8_t kComment = 16;
  if (member.size() < kGzipHead + kGzipTail || std::memcmp(member.data(), kGzipBytes, 3) != 0) return 0;
  const auto flags = static_cast<uint8_t>(member[3]);
  size_t at = kGzipHead;
  if ((flags & kExtra) != 0) {
    if (at + 2 > member.size()) return 0;
    at += 2 + size_t{load_le<uint16_t>(member.data() + at)};
  }
  for (const uint8_t text : {kName, kComment}) {
    if ((flags & text) == 0) continue;
    while (at < member.size() && member[at] != std::byte{0}) ++at;
    ++at;
  }
  if ((flags & kHeaderCrc) != 0) at += 2;
  return at + kGzipTail <= member.size() && flags < 32 ? at : 0;
}

}  // namespace

Result<Buffer> gzip_of_zlib(Bytes stream, uint64_t size) {
  constexpr const char* kWhat = "zlib stream";
  if (size > UINT32_MAX || stream.size() < kZlibHead + kZlibTail) return damaged(kWhat);
  const auto method = static_cast<uint8_t>(stream[0]);
  const auto flags = static_cast<uint8_t>(stream[1]);
  constexpr uint8_t kDictionary = 0x20;
  if ((method & 0x0f) != 8 || (method * 256 + flags) % 31 != 0 || (flags & kDictionary) != 0) return damaged(kWhat);
  const Bytes blocks = stream.subspan(kZlibHead, stream.size() - kZlibHead - kZlibTail);
  CODECFS_ASSIGN(const Buffer decoded, inflate_blocks(blocks, size, kWhat));
  if (load_be<uint32_t>(stream.data() + stream.size() - kZlibTail) != adler32_of(decoded.bytes()))
    return damaged(kWhat);
  CODECFS_ASSIGN(Buffer member, Buffer::allocate(blocks.size() + kGzipHead + kGzipTail));
  std::byte* const to = member.mutable_bytes().data();
  std::memcpy(to, kGzipBytes, kGzipHead);
  std::ranges::copy(blocks, to + kGzipHead);
  store_le(to + kGzipHead + blocks.size(), crc32_of(decoded.bytes()));
  store_le(to + kGzipHead + blocks.size() + 4, static_cast<uint32_t>(size));
  return member;
}

Result<Buffer> zlib_of_gzip(Bytes member, uint64_t size) {
  constexpr const char* kWhat = "gzip member";
  const size_t head = gzip_head(member);
  if (head == 0 || size > UINT32_MAX) return damaged(kWhat);
  const Bytes blocks = member.subspan(head, member.size() - head - kGzipTail);
  const Bytes tail = member.last(kGzipTail);
  CODECFS_ASSIGN(const Buffer decoded, inflate_blocks(blocks, size, kWhat));
  if (load_le<uint32_t>(tail.data()) != crc32_of(decoded.bytes()) || load_le<uint32_t>(tail.data() + 4) != size)
    return damaged(kWhat);
  CODECFS_ASSIGN(Buffer stream, Buffer::allocate(blocks.size() + kZlibHead + kZlibTail));
  std::byte* const to = stream.mutable_bytes().data();
  std::memcpy(to, kZlibBytes, kZlibHead);
  std::ranges::copy(blocks, to + kZlibHead);
  store_be(to + kZlibHead + blocks.size(), adler32_of(decoded.bytes()));
  return stream;
}

}  // namespace codecfs::filters
