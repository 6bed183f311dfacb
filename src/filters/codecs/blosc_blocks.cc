// After the header (see blosc.cc), all numbers LE32:
//
//   place of block 0 in the buffer | place of block 1 | ... | blocks
//
// block: stored bytes, data | stored bytes, data | ...
//
// A block that is split has as many streams as an element has bytes, others have one. A stream with as many stored as
// decoded bytes is not compressed.
//
// A block is split if the buffer's flags permit it, unless it is the last and smaller than the others. Blocks are
// shuffled each for itself.

#include "filters/codecs/blosc_blocks.h"

#include <blosc.h>
#include <lz4.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <utility>

#include "base/endian.h"
#include "base/helpers.h"
#include "base/parallel.h"
#include "filters/codecs/byte_planes.h"
#include "filters/codecs/zstd_frames.h"

namespace codecfs::filters::codecs {
namespace {

constexpr unsigned kReserved = 0x08;  // flags
constexpr unsigned kNotSplit = 0x10;
constexpr size_t kMaxSplits = 16;
constexpr size_t kLeastElements = 128;  // of a block that is split
// Decoded bytes of a buffer. With less, waking other threads takes as long as they save.
constexpr size_t kWorthHelp = size_t{4} << 20;
constexpr size_t kMaxParts = 64;
constexpr size_t kLeastBlocks = 8;

struct Header {
  explicit Header(Bytes in)
      : version(static_cast<unsigned>(in[0])),
        codec_version(static_cast<unsigned>(in[1])),
        flags(static_cast<unsigned>(in[2])),
        element(static_cast<size_t>(in[3])),
        block(load_le<uint32_t>(in.data() + 8)) {}

  [[nodiscard]] bool is_known() const {
    const unsigned codec = flags >> 5;
    return version == BLOSC_VERSION_FORMAT && codec_version == 1 && (flags & (kReserved | BLOSC_DOBITSHUFFLE)) == 0 &&
           (codec == BLOSC_LZ4_FORMAT || codec == BLOSC_ZSTD_FORMAT) && element != 0 && block != 0 &&
           block <= BLOSC_MAX_BLOCKSIZE;
  }
  [[nodiscard]] bool is_zstd() const { return flags >> 5 == BLOSC_ZSTD_FORMAT; }
  [[nodiscard]] bool is_shuffled() const { return (flags & BLOSC_DOSHUFFLE) != 0 && element > 1; }
  [[nodiscard]] size_t streams_of(size_t size) const {
    const bool is_split =
        (flags & kNotSplit) == 0 && element <= kMaxSplits && block / element >= kLeastElements && size == block;
    return is_split ? element : 1;
  }

  unsigned version;
  unsigned codec_version;
  unsigned flags;
  size_t element;  // bytes
  size_t block;    // bytes
};

Result<bool> decode_stream(const Header& header, Bytes in, MutableBytes out) {
  if (in.size() == out.size()) {
    std::memcpy(out.data(), in.data(), out.size());
    return true;
  }
  if (!header.is_zstd())
    return LZ4_decompress_safe(reinterpret_cast<const char*>(in.data()), reinterpret_cast<char*>(out.data()),
                               static_cast<int>(in.size()),
                               static_cast<int>(out.size())) == static_cast<int>(out.size());
  Result<std::optional<size_t>> written = zstd_decode(in, out);
  if (!written && written.error().code == ENOMEM) return pass_on(written);
  return written && *written == out.size();
}

/// The block that begins at `at` of the buffer.
Result<bool> decode_block(const Header& header, Bytes in, size_t at, MutableBytes out) {
  const size_t streams = header.streams_of(out.size());
  if (out.size() % streams != 0) return false;
  const size_t size = out.size() / streams;
  for (size_t i = 0; i < streams; ++i) {
    if (at > in.size() || in.size() - at < sizeof(uint32_t)) return false;
    const size_t stored = load_le<uint32_t>(in.data() + at);
    at += sizeof(uint32_t);
    if (stored > in.size() - at) return false;
    CODECFS_ASSIGN(const bool is_decoded, decode_stream(header, in.subspan(at, stored), out.subspan(i * size, size)));
    if (!is_decoded) return false;
    at += stored;
  }
  return true;
}

/// Calls `decode` for all blocks, in parts: of the first one and of that after the last one. In several threads if
/// `with_help`. True if all calls returned that.
Result<bool> in_parts(size_t blocks, bool with_help, const std::function<Result<bool>(size_t, size_t)>& decode) {
  if (!with_help) return decode(0, blocks);
  const size_t parts = std::min(blocks, kMaxParts);
  std::atomic<bool> is_good = true;
  CODECFS_TRY(parallel_for(parts, {.helpers = Helpers::current()}, [&](uint64_t part) -> Result<> {
    if (!is_good) return {};
    CODECFS_ASSIGN(const bool is_decoded, decode(blocks * part / parts, blocks * (part + 1) / parts));
    if (!is_decoded) is_good = false;
    return {};
  }));
  return is_good.load();
}

/// By the library, which takes three more blocks of memory in each thread. It tells no reason where it fails.
Result<bool> decode_with_library(const Header& header, Bytes in, MutableBytes out) {
  if (header.element == 0 || header.block == 0 || header.block % header.element != 0 ||
      out.size() % header.element != 0 || header.block > out.size() / kLeastBlocks ||
      (header.flags & BLOSC_MEMCPYED) != 0)
    return false;
  return in_parts((out.size() + header.block - 1) / header.block, true, [&](size_t first, size_t end) {
    const size_t begin = first * header.block;
    const size_t size = std::min(end * header.block, out.size()) - begin;
    const auto element = static_cast<int>(header.element);
    return blosc_getitem(in.data(), static_cast<int>(begin) / element, static_cast<int>(size) / element,
                         out.data() + begin) == static_cast<int>(size);
  });
}

}  // namespace

Result<bool> decode_blosc_blocks(Bytes in, MutableBytes out) {
  const Header header(in);
  const bool is_large = out.size() >= kWorthHelp && Helpers::current() != nullptr;
  if (!header.is_known()) return is_large ? decode_with_library(header, in, out) : false;
  if (header.block > out.size()) return false;
  const Bytes after = in.subspan(BLOSC_MIN_HEADER_LENGTH);
  if ((header.flags & BLOSC_MEMCPYED) != 0) {
    if (after.size() != out.size()) return false;
    std::memcpy(out.data(), after.data(), out.size());
    return true;
  }
  const size_t blocks = (out.size() + header.block - 1) / header.block;
  if (after.size() / sizeof(uint32_t) < blocks) return false;
  return in_parts(blocks, is_large, [&](size_t first, size_t end) -> Result<bool> {
    Buffer planes;
    if (header.is_shuffled()) {
      CODECFS_ASSIGN(planes, Buffer::allocate(header.block));
    }
    for (size_t i = first; i < end; ++i) {
      const size_t begin = i * header.block;
      const MutableBytes block = out.subspan(begin, std::min(header.block, out.size() - begin));
      const MutableBytes room = header.is_shuffled() ? planes.mutable_bytes().first(block.size()) : block;
      const size_t at = load_le<uint32_t>(after.data() + i * sizeof(uint32_t));
      CODECFS_ASSIGN(const bool is_decoded, decode_block(header, in, at, room));
      if (!is_decoded) return false;
      if (header.is_shuffled()) join_byte_planes(room, block.data(), header.element);
    }
    return true;
  });
}

}  // namespace codecfs::filters::codecs
