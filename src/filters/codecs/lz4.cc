// lz4: HDF5 filter 32004. Blocks in the framing of block_stream.h; a block whose stored size equals its decoded size is
// not compressed. The last block may be shorter. numcodecs' "lz4" is a different format (numcodecs_lz4.cc), so this
// filter has no codec.
//
//   BE64 data bytes | BE32 block bytes | BE32 stored bytes, LZ4 block | ...
//
// parameters [block bytes, 0 = 1 GiB]; blocks are never larger than the data.

#include <lz4.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "filters/codecs/block_stream.h"
#include "filters/core/filter.h"
#include "filters/core/parameter_limits.h"

namespace codecfs::filters::codecs::lz4 {
namespace {

Result<Buffer> decode(const Buffer& in, const SizeBound& bound) {
  CODECFS_ASSIGN(BlockStream stream, BlockStream::open(in.bytes(), bound));
  if (stream.block_size() == 0 && stream.size() > 0) return fail(EIO, "the header is damaged: blocks of 0 bytes");
  CODECFS_ASSIGN(Buffer out, Buffer::allocate(stream.size()));
  for (size_t done = 0; done < out.size();) {
    const size_t size = std::min({stream.block_size(), out.size() - done, size_t{INT_MAX}});
    CODECFS_ASSIGN(const Bytes block, stream.next_block());
    if (block.size() == size) {
      std::memcpy(out.data() + done, block.data(), size);
    } else {
      const int written = block.size() > INT_MAX
                              ? -1
                              : LZ4_decompress_safe(reinterpret_cast<const char*>(block.data()),
                                                    reinterpret_cast<char*>(out.data() + done),
                                                    static_cast<int>(block.size()), static_cast<int>(size));
      if (written < 0 || static_cast<size_t>(written) != size)
        return fail(EIO, "the block at byte {} of the data is damaged", done);
    }
    done += size;
  }
  return out;
}

constexpr size_t kDefaultBlock = size_t{1} << 30;

/// If no block becomes smaller.
uint64_t most_encoded(uint64_t size, uint64_t block_size) {
  const uint64_t blocks = block_size == 0 || size == 0 ? 0 : (size - 1) / block_size + 1;
  return BlockWriter::kHeader + size + blocks * BlockWriter::kBlockHeader;
}

Result<Buffer> encode(Bytes in, size_t block_size) {
  block_size = std::min(block_size, in.size());
  if (block_size > LZ4_MAX_INPUT_SIZE)
    return fail(EINVAL, "blocks of {} bytes; LZ4 takes at most {}", block_size, LZ4_MAX_INPUT_SIZE);
  return encode_whole(most_encoded(in.size(), block_size), [&](MutableBytes room) -> Result<size_t> {
    BlockWriter writer(room, in.size(), block_size);
    for (size_t done = 0; done < in.size(); done += block_size) {
      const size_t size = std::min(block_size, in.size() - done);
      const MutableBytes to = writer.block_room();
      // LZ4 fails if the block does not become smaller; it is then stored uncompressed.
      int stored =
          LZ4_compress_default(reinterpret_cast<const char*>(in.data() + done), reinterpret_cast<char*>(to.data()),
                               static_cast<int>(size), static_cast<int>(size) - 1);
      if (stored <= 0) {
        std::memcpy(to.data(), in.data() + done, size);
        stored = static_cast<int>(size);
      }
      writer.add_block(static_cast<size_t>(stored));
    }
    return writer.written();
  });
}

}  // namespace

Filter make_filter() {
  return {
      .id = 32004,
      .name = "lz4",
      .library = std::string("lz4 ") + LZ4_versionString(),
      .check_new = [](const FilterStage& stage, uint64_t) -> Result<> {
        CODECFS_TRY(at_most(stage, 1, "the bytes of a block"));
        return in_range(stage, 0, "the bytes of a block", 0, LZ4_MAX_INPUT_SIZE);
      },
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        const auto& parameters = context.stage.parameters;
        const size_t block = parameters.empty() || parameters[0] == 0 ? kDefaultBlock : parameters[0];
        return Coder{.decode = decode,
                     .encode = [block](Bytes in) { return encode(in, block); },
                     .encoded =
                         [block](const SizeBound& decoded) {
                           return block_stream_size(decoded, most_encoded(decoded.max, block));
                         }};
      },
  };
}

}  // namespace codecfs::filters::codecs::lz4
