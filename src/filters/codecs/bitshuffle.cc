// bitshuffle: HDF5 filter 32008. Stores the bits of elements as planes, in blocks, each of which may be compressed by
// LZ4 or Zstandard. Differs from Blosc's bit shuffle; there is no numcodecs codec for it.
//
// A block of N elements (N a multiple of 8) of S bytes is 8*S rows of N/8 bytes: row 8*j + k has bit k of byte j of all
// elements, the first of eight elements in the lowest bit:
//
//   byte 0: bit 0 | bit 1 | ... | bit 7 | byte 1: bit 0 | ...
//
//   not compressed   planes of block 0 | planes of block 1 | ... | the last count % 8 elements, unchanged
//   compressed       BE64 data bytes | BE32 block bytes | BE32 stored bytes, stored block | ... | the same
//
// The last block may have fewer elements, but a multiple of 8. parameters [major, minor, bytes of an element, elements
// of a block or 0 = the default, 0 none / 2 LZ4 / 3 Zstandard, level]. A compressed chunk stores its block size itself.
//
// Users give the parameters from the fourth on; the filter's set_local adds the first three. Three numbers are
// ambiguous: they count as complete if the third is the dtype's size and the first is 0. To give block, compression and
// level where the level equals that size, give all six, or a block size other than 0.

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <vector>

#include "filters/codecs/block_stream.h"
#include "filters/codecs/byte_planes.h"
#include "filters/codecs/zstd_frames.h"
#include "filters/core/filter.h"
#include "filters/core/parameter_limits.h"

namespace codecfs::filters::codecs::bitshuffle {
namespace {

enum class Compression : uint32_t { none = 0, lz4 = 2, zstd = 3 };

constexpr size_t kMaxElement = size_t{1} << 20;  // bytes

struct Settings {
  size_t element = 1;  // bytes
  size_t block = 0;    // elements
  Compression compression = Compression::none;
  int level = 0;  // Zstandard's; 0 for its default
};

/// The bitshuffle library's default: about 8 KiB, in elements a multiple of 8, at least 128.
size_t default_block(size_t element) { return std::max<size_t>(128, 8192 / element / 8 * 8); }

using Words = uint64_t __attribute__((vector_size(32)));

/// Transposes an 8x8 bit matrix: in each 8 bytes, bit e of byte k becomes bit k of byte e. Swaps blocks of 1, 2 and 4
/// bits.
template <class T>
void transpose_bits(T& x) {
  T t = (x ^ (x >> 7)) & 0x00AA00AA00AA00AA;
  x ^= t ^ (t << 7);
  t = (x ^ (x >> 14)) & 0x0000CCCC0000CCCC;
  x ^= t ^ (t << 14);
  t = (x ^ (x >> 28)) & 0x00000000F0F0F0F0;
  x ^= t ^ (t << 28);
}

void transpose_bits(std::byte* bytes, size_t size) {
  size_t i = 0;
  if constexpr (std::endian::native == std::endian::little) {
    for (; i + sizeof(Words) <= size; i += sizeof(Words)) {
      Words words;
      std::memcpy(&words, bytes + i, sizeof words);
      transpose_bits(words);
      std::memcpy(bytes + i, &words, sizeof words);
    }
  }
  for (; i < size; i += 8) {
    auto word = load_le<uint64_t>(bytes + i);
    transpose_bits(word);
    store_le(bytes + i, word);
  }
}

/// Converts the bit planes of a block of `count` elements (a multiple of 8) to elements. `scratch` must hold a block.
void join_bit_planes(const std::byte* from, std::byte* to, size_t count, size_t element, std::byte* scratch) {
  // The 8 rows of a byte position are the planes of count/8 groups of 8 bytes; byte k of a group has bit k of 8
  // elements.
  for (size_t j = 0; j < element; ++j) join_byte_planes(from + j * count, scratch + j * count, count / 8, 8);
  transpose_bits(scratch, count * element);
  join_byte_planes(scratch, to, count, element);
}

/// The inverse of join_bit_planes().
void split_bit_planes(const std::byte* from, std::byte* to, size_t count, size_t element, std::byte* scratch) {
  split_byte_planes(from, scratch, count, element);
  transpose_bits(scratch, count * element);
  for (size_t j = 0; j < element; ++j) split_byte_planes(scratch + j * count, to + j * count, count / 8, 8);
}

/// Returns the planes of a block: `stored` itself, or decompressed into `scratch` (`size` bytes).
Result<const std::byte*> planes_of(Bytes stored, Compression compression, MutableBytes scratch) {
  std::optional<size_t> written;
  if (compression == Compression::zstd) {
    CODECFS_TRY(zstd_content_size(stored));
    CODECFS_ASSIGN(written, zstd_decode(stored, scratch));
  } else if (stored.size() <= INT_MAX && scratch.size() <= INT_MAX) {
    const int result =
        LZ4_decompress_safe(reinterpret_cast<const char*>(stored.data()), reinterpret_cast<char*>(scratch.data()),
                            static_cast<int>(stored.size()), static_cast<int>(scratch.size()));
    if (result >= 0) written = static_cast<size_t>(result);
  }
  if (written != scratch.size()) return fail(EIO, "a block is damaged");
  return scratch.data();
}

Result<Buffer> decode(const Buffer& in, const Settings& settings, const SizeBound& bound) {
  const bool compressed = settings.compression != Compression::none;
  const size_t element = settings.element;
  BlockStream stream;
  size_t size = in.size();
  size_t block = settings.block;
  if (compressed) {
    CODECFS_ASSIGN(stream, BlockStream::open(in.bytes(), bound));
    size = stream.size();
    block = stream.block_size() / element;
    if (block == 0 || block % 8 != 0)
      return fail(EIO, "the header is damaged: blocks of {} bytes", stream.block_size());
  }
  if (size % element != 0) return fail(EIO, "{} bytes are not a whole number of elements of {} bytes", size, element);
  const size_t count = size / element;
  block = std::min(block, count / 8 * 8);
  CODECFS_ASSIGN(Buffer out, Buffer::allocate(size));
  CODECFS_ASSIGN(Buffer scratch, Buffer::allocate(2 * block * element));

  size_t done = 0;  // elements
  while (count - done >= 8) {
    const size_t now = std::min(block, (count - done) / 8 * 8);
    const size_t bytes = now * element;
    const std::byte* planes = in.data() + done * element;
    if (compressed) {
      CODECFS_ASSIGN(const Bytes stored, stream.next_block());
      CODECFS_ASSIGN(planes, planes_of(stored, settings.compression, scratch.mutable_bytes().first(bytes)));
    }
    join_bit_planes(planes, out.data() + done * element, now, element, scratch.data() + block * element);
    done += now;
  }
  Bytes rest = in.bytes().subspan(compressed ? 0 : done * element);
  if (compressed) {
    CODECFS_ASSIGN(rest, stream.take(size - done * element));
  }
  if (!rest.empty()) std::memcpy(out.data() + done * element, rest.data(), rest.size());
  return out;
}

/// Compresses the planes of one block and returns the bytes written. A block that grows is stored in compressed form
/// all the same, as the format has no other.
Result<size_t> compress_block(Bytes planes, const Settings& settings, MutableBytes room) {
  if (settings.compression == Compression::zstd) return zstd_encode_to(planes, settings.level, false, room);
  const int written =
      LZ4_compress_default(reinterpret_cast<const char*>(planes.data()), reinterpret_cast<char*>(room.data()),
                           static_cast<int>(planes.size()), static_cast<int>(std::min<size_t>(room.size(), INT_MAX)));
  if (written <= 0) return fail(EIO, "LZ4 cannot compress a block of {} bytes", planes.size());
  return static_cast<size_t>(written);
}

/// If no block becomes smaller.
uint64_t most_encoded(uint64_t size, const Settings& settings) {
  const uint64_t block_bytes = std::min<uint64_t>(settings.block * settings.element, size);
  const uint64_t blocks = block_bytes == 0 ? 0 : (size - 1) / block_bytes + 1;
  const uint64_t block_most = std::max<uint64_t>(LZ4_COMPRESSBOUND(block_bytes), zstd_bound(block_bytes));
  return BlockWriter::kHeader + blocks * (BlockWriter::kBlockHeader + block_most) + 8 * settings.element;
}

Result<Buffer> encode(Bytes in, const Settings& settings) {
  const bool compressed = settings.compression != Compression::none;
  const size_t element = settings.element;
  if (in.size() % element != 0)
    return fail(EINVAL, "{} bytes are not a whole number of elements of {} bytes", in.size(), element);
  const size_t count = in.size() / element;
  const size_t block = std::min(settings.block, count / 8 * 8);
  // The header has the configured block size even if the data is shorter.
  if (compressed && settings.block > LZ4_MAX_INPUT_SIZE / element)
    return fail(EINVAL, "blocks of {} elements of {} bytes are larger than LZ4 can have", settings.block, element);
  CODECFS_ASSIGN(Buffer scratch, Buffer::allocate(2 * block * element));
  const MutableBytes planes = scratch.mutable_bytes().first(block * element);
  std::byte* const spare = scratch.data() + planes.size();

  if (!compressed) {
    CODECFS_ASSIGN(Buffer out, Buffer::allocate(in.size()));
    size_t done = 0;  // elements
    while (count - done >= 8) {
      const size_t now = std::min(block, (count - done) / 8 * 8);
      split_bit_planes(in.data() + done * element, out.data() + done * element, now, element, spare);
      done += now;
    }
    const Bytes rest = in.subspan(done * element);
    if (!rest.empty()) std::memcpy(out.data() + done * element, rest.data(), rest.size());
    return out;
  }

  return encode_whole(most_encoded(in.size(), settings), [&](MutableBytes room) -> Result<size_t> {
    BlockWriter writer(room, in.size(), settings.block * element);
    size_t done = 0;  // elements
    while (count - done >= 8) {
      const size_t now = std::min(block, (count - done) / 8 * 8);
      split_bit_planes(in.data() + done * element, planes.data(), now, element, spare);
      CODECFS_ASSIGN(const size_t stored, compress_block(planes.first(now * element), settings, writer.block_room()));
      writer.add_block(stored);
      done += now;
    }
    writer.add_bytes(in.subspan(done * element));
    return writer.written();
  });
}

/// New parameters are block, compression and level; set_local puts three computed words before them.
Result<> check_new(const FilterStage& stage, uint64_t) {
  const std::vector<uint32_t>& given = stage.parameters;
  CODECFS_TRY(at_most(stage, 6, "three that are computed, the block, the compression and the level"));
  const size_t first = given.size() > 3 ? 3 : 0;
  if (first < given.size() && given[first] % 8 != 0)
    return fail(EINVAL, "the elements of a block must be a multiple of 8, not {}", given[first]);
  const uint32_t compression = first + 1 < given.size() ? given[first + 1] : 0;
  if (compression != 0 && compression != 2 && compression != 3)
    return fail(EINVAL, "the compression must be 0 (none), 2 (LZ4) or 3 (Zstandard), not {}", compression);
  if (compression != 3) return {};
  return in_range(stage, first + 2, "the level", ZSTD_minCLevel(), ZSTD_maxCLevel());
}

Result<std::vector<uint32_t>> working_parameters(const StageContext& context) {
  constexpr uint32_t kMajor = 0;  // of the bitshuffle library that defines this format
  constexpr uint32_t kMinor = 3;
  const auto& given = context.stage.parameters;
  const uint64_t element = context.chunk.type.size;
  if (given.size() > 3 || (given.size() == 3 && given[0] == 0 && (element == 0 || given[2] == element))) return given;
  if (element == 0 || element > kMaxElement) return fail(EINVAL, "elements of {} bytes", element);
  std::vector<uint32_t> working = {kMajor, kMinor, static_cast<uint32_t>(element)};
  working.insert(working.end(), given.begin(), given.end());
  return working;
}

Result<Settings> read_settings(const StageContext& context) {
  CODECFS_ASSIGN(const std::vector<uint32_t> parameters, working_parameters(context));
  const auto at = [&](size_t i) -> size_t { return i < parameters.size() ? parameters[i] : 0; };
  Settings settings;
  settings.element = at(2) == 0 ? context.chunk.type.size : at(2);
  if (settings.element == 0 || settings.element > kMaxElement)
    return fail(EINVAL, "elements of {} bytes", settings.element);
  settings.block = at(3) == 0 ? default_block(settings.element) : at(3);
  if (settings.block % 8 != 0) return fail(EINVAL, "blocks of {} elements; must be a multiple of 8", settings.block);
  settings.compression = static_cast<Compression>(at(4));
  settings.level = static_cast<int32_t>(at(5));
  switch (settings.compression) {
    case Compression::none:
    case Compression::lz4:
    case Compression::zstd: return settings;
  }
  return fail(EINVAL, "compression {} is not known (2 is LZ4, 3 is Zstandard)", at(4));
}

}  // namespace

Filter make_filter() {
  return {
      .id = 32008,
      .name = "bitshuffle",
      .aliases = {"bshuf"},
      .working_parameters = working_parameters,
      .check_new = check_new,
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        CODECFS_ASSIGN(const Settings settings, read_settings(context));
        return Coder{.decode = [settings](const Buffer& in, const SizeBound& out) { return decode(in, settings, out); },
                     .encode = [settings](Bytes in) { return encode(in, settings); },
                     .encoded =
                         [settings](const SizeBound& decoded) {
                           if (settings.compression == Compression::none) return decoded;
                           return block_stream_size(decoded, most_encoded(decoded.max, settings));
                         }};
      },
  };
}

}  // namespace codecfs::filters::codecs::bitshuffle
