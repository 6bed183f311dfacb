/* LZ4 as HDF5 filter 32004, in the framing that is registered for that id (all numbers big-endian):
 *
 *     u64 bytes in all | u32 bytes a block | for each block: u32 stored bytes, data
 *
 * The last block may be shorter. A block that LZ4 does not make smaller is stored uncompressed, which its size
 * shows. The parameter is the block's size; none or 0 means 1 GiB.
 *
 * There is no codec: numcodecs' "lz4" is another format (a little-endian length and one block), so a codec with this
 * id would mislabel every chunk. */
#include <lz4.h>
#include <string.h>

#include "codecfs/hdf5_filter.h"

enum { LZ4_ID = 32004, HEADER = 12, DEFAULT_BLOCK = 1 << 30, LONGEST_RATIO = 255 };

static void put32(unsigned char* at, uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = (unsigned char)(value >> (24 - 8 * i));
}

static uint32_t get32(const unsigned char* at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static size_t compress(size_t block, size_t nbytes, size_t* buf_size, void** buf) {
  if (block > nbytes) block = nbytes;
  if (block == 0 || block > LZ4_MAX_INPUT_SIZE) return 0;
  const size_t blocks = (nbytes - 1) / block + 1;
  /* Stored blocks are never larger than their data, but LZ4 needs room for its bound while it encodes the last one. */
  const size_t capacity = HEADER + nbytes + 4 * blocks + (size_t)LZ4_compressBound((int)block) - block;
  unsigned char* out = malloc(capacity);
  if (!out) return 0;
  put32(out, (uint32_t)((uint64_t)nbytes >> 32));
  put32(out + 4, (uint32_t)nbytes);
  put32(out + 8, (uint32_t)block);
  unsigned char* at = out + HEADER;
  for (const char* in = *buf, *end = in + nbytes; in < end;) {
    const size_t size = (size_t)(end - in) < block ? (size_t)(end - in) : block;
    int stored = LZ4_compress_default(in, (char*)at + 4, (int)size, LZ4_compressBound((int)size));
    if (stored <= 0 || (size_t)stored >= size) {
      memcpy(at + 4, in, size);
      stored = (int)size;
    }
    put32(at, (uint32_t)stored);
    at += 4 + stored;
    in += size;
  }
  return replace_buffer(buf, buf_size, out, capacity, (size_t)(at - out));
}

static size_t decompress(size_t nbytes, size_t* buf_size, void** buf) {
  const unsigned char* in = *buf;
  if (nbytes < HEADER) return 0;
  const uint64_t total = (uint64_t)get32(in) << 32 | get32(in + 4);
  const size_t block = get32(in + 8);
  if (total == 0 || total > LARGEST_CHUNK || total / LONGEST_RATIO > nbytes || block == 0) return 0;
  char* out = malloc((size_t)total);
  if (!out) return 0;
  size_t at = HEADER, done = 0;
  while (done < total) {
    const size_t size = total - done < block ? (size_t)(total - done) : block;
    if (nbytes - at < 4) break;
    const size_t stored = get32(in + at);
    at += 4;
    if (stored > nbytes - at) break;
    if (stored == size)
      memcpy(out + done, in + at, size);
    else if (stored > LZ4_MAX_INPUT_SIZE || size > LZ4_MAX_INPUT_SIZE ||
             LZ4_decompress_safe((const char*)in + at, out + done, (int)stored, (int)size) != (int)size)
      break;
    at += stored;
    done += size;
  }
  if (done != total) {
    free(out);
    return 0;
  }
  return replace_buffer(buf, buf_size, out, (size_t)total, (size_t)total);
}

static size_t lz4_filter(unsigned flags, size_t cd_nelmts, const unsigned cd_values[], size_t nbytes, size_t* buf_size,
                         void** buf) {
  if (flags & H5Z_FLAG_REVERSE) return decompress(nbytes, buf_size, buf);
  const size_t block = cd_nelmts > 0 && cd_values[0] > 0 ? cd_values[0] : DEFAULT_BLOCK;
  return nbytes > LARGEST_CHUNK ? 0 : compress(block, nbytes, buf_size, buf);
}

static const H5Z_class2_t lz4_class = {H5Z_CLASS_T_VERS, LZ4_ID, 1, 1, "lz4", NULL, NULL, lz4_filter};
HDF5_FILTER_PLUGIN(lz4_class)
