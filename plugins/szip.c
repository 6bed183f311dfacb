/* szip as a plugin (HDF5's id 4), for NCZarr readers as deflate.c. A little-endian word with the size of the data, then
 * the stream. Parameters: options, pixels per block, bits per pixel, pixels per scanline. */
#include <string.h>
#include <szlib.h>

#include "hdf5_filter.h"

enum { SIZE_WORD = 4 };

static int good_parameters(size_t count, const unsigned* values, SZ_com_t* settings) {
  if (count != 4) return 0;
  const unsigned block = values[1], bits = values[2], scanline = values[3];
  if (block < 2 || block > SZ_MAX_PIXELS_PER_BLOCK || block % 2 || scanline == 0 ||
      scanline > SZ_MAX_PIXELS_PER_SCANLINE)
    return 0;
  if (!(bits >= 1 && bits <= 24) && bits != 32 && bits != 64) return 0;
  *settings = (SZ_com_t){.options_mask = (int)values[0],
                         .bits_per_pixel = (int)bits,
                         .pixels_per_block = (int)block,
                         .pixels_per_scanline = (int)scanline};
  return 1;
}

static size_t szip_filter(unsigned flags, size_t cd_nelmts, const unsigned cd_values[], size_t nbytes, size_t* buf_size,
                          void** buf) {
  SZ_com_t settings;
  if (!good_parameters(cd_nelmts, cd_values, &settings)) return 0;
  unsigned char* in = *buf;
  if (flags & H5Z_FLAG_REVERSE) {
    if (nbytes <= SIZE_WORD) return 0;
    const size_t size = (size_t)in[3] << 24 | (size_t)in[2] << 16 | (size_t)in[1] << 8 | in[0];
    if (size == 0) return 0;
    void* out = malloc(size);
    if (!out) return 0;
    size_t made = size;
    if (SZ_BufftoBuffDecompress(out, &made, in + SIZE_WORD, nbytes - SIZE_WORD, &settings) != SZ_OK || made != size) {
      free(out);
      return 0;
    }
    return replace_buffer(buf, buf_size, out, size, size);
  }
  if (nbytes == 0 || nbytes > UINT32_MAX) return 0;
  /* As in HDF5, a chunk that does not get smaller is none of an optional filter; else it needs room to grow. */
  size_t size = (flags & H5Z_FLAG_OPTIONAL) ? nbytes : nbytes + nbytes / 2 + 4096;
  const size_t capacity = size + SIZE_WORD;
  unsigned char* out = malloc(capacity);
  if (!out) return 0;
  for (int i = 0; i < SIZE_WORD; ++i) out[i] = (unsigned char)(nbytes >> (8 * i));
  if (SZ_BufftoBuffCompress(out + SIZE_WORD, &size, in, nbytes, &settings) != SZ_OK || size == 0) {
    free(out);
    return 0;
  }
  return replace_buffer(buf, buf_size, out, capacity, size + SIZE_WORD);
}

static const H5Z_class2_t szip_class = {H5Z_CLASS_T_VERS, H5Z_FILTER_SZIP, 1, 1, "szip", NULL, NULL, szip_filter};
HDF5_FILTER_PLUGIN(szip_class)
