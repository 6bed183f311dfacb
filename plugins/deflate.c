/* deflate as a plugin (HDF5's id 1). libhdf5 has it built in and never loads this library; an NCZarr reader needs it
 * as the HDF5 filter of the codec "zlib" in libcodecfs_defaults. */
#include <limits.h>
#include <zlib.h>

#include "codecfs/hdf5_filter.h"

static size_t compress_chunk(int level, size_t nbytes, size_t* buf_size, void** buf) {
  uLongf size = compressBound(nbytes);
  const size_t capacity = size;
  void* out = malloc(capacity);
  if (!out) return 0;
  if (compress2(out, &size, *buf, nbytes, level) != Z_OK) {
    free(out);
    return 0;
  }
  return replace_buffer(buf, buf_size, out, capacity, size);
}

static unsigned clipped(size_t size) { return size < UINT_MAX ? (unsigned)size : UINT_MAX; }

static size_t decompress_chunk(size_t nbytes, size_t* buf_size, void** buf) {
  size_t capacity = *buf_size > 65536 ? *buf_size : 65536, size = 0, left = nbytes;
  unsigned char* out = malloc(capacity);
  if (!out) return 0;
  z_stream stream = {0};
  if (inflateInit(&stream) != Z_OK) {
    free(out);
    return 0;
  }
  stream.next_in = *buf;
  int status = Z_OK;
  while (status == Z_OK) {
    if (size == capacity) {
      unsigned char* larger = grow_output(out, &capacity);
      if (!larger) break;
      out = larger;
    }
    const unsigned in = clipped(left), room = clipped(capacity - size);
    stream.avail_in = in;
    stream.next_out = out + size;
    stream.avail_out = room;
    status = inflate(&stream, Z_NO_FLUSH); /* Z_BUF_ERROR: truncated */
    left -= in - stream.avail_in;
    size += room - stream.avail_out;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || size == 0) {
    free(out);
    return 0;
  }
  return replace_buffer(buf, buf_size, out, capacity, size);
}

static size_t deflate_filter(unsigned flags, size_t cd_nelmts, const unsigned cd_values[], size_t nbytes,
                             size_t* buf_size, void** buf) {
  if (flags & H5Z_FLAG_REVERSE) return decompress_chunk(nbytes, buf_size, buf);
  if (cd_nelmts != 1 || cd_values[0] > 9) return 0;
  return compress_chunk((int)cd_values[0], nbytes, buf_size, buf);
}

static const H5Z_class2_t deflate_class = {H5Z_CLASS_T_VERS, H5Z_FILTER_DEFLATE, 1, 1, "deflate", NULL, NULL,
                                           deflate_filter};
HDF5_FILTER_PLUGIN(deflate_class)
