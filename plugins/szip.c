/* szip as a plugin (HDF5's id 4), for NCZarr readers like deflate.c. A little-endian word with the size of the data,
 * then the Rice-coded samples. Parameters: options, pixels (samples) per block, bits per pixel, pixels per scanline.
 *
 * Pixels of 32 and 64 bits are stored as byte planes of 8-bit samples; scanlines are padded to whole blocks.
 * libaec's szip interface does that, and encodes here; but for a truncated stream it returns uninitialised memory,
 * so libaec itself decodes. */
#include <libaec.h>
#include <string.h>
#include <szlib.h>

#include "codecfs/hdf5_filter.h"

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

/* Decodes exactly size bytes of samples, or fails. */
static int rice_decode(const unsigned char* in, size_t nbytes, unsigned char* out, size_t size,
                       const SZ_com_t* settings, size_t blocks) {
  const int planes = settings->bits_per_pixel >= 32;
  struct aec_stream stream = {0};
  stream.next_in = in;
  stream.avail_in = nbytes;
  stream.next_out = out;
  stream.avail_out = size;
  stream.bits_per_sample = planes ? 8 : (unsigned)settings->bits_per_pixel;
  stream.block_size = (unsigned)settings->pixels_per_block;
  stream.rsi = (unsigned)blocks;
  stream.flags = ((settings->options_mask & SZ_MSB_OPTION_MASK) ? AEC_DATA_MSB : 0) |
                 ((settings->options_mask & SZ_NN_OPTION_MASK) ? AEC_DATA_PREPROCESS : 0);
  return aec_buffer_decode(&stream) == AEC_OK && stream.total_out == size;
}

static size_t decompress(const SZ_com_t* settings, size_t nbytes, size_t* buf_size, void** buf) {
  const unsigned char* in = *buf;
  if (nbytes <= SIZE_WORD) return 0;
  const size_t size = (size_t)in[3] << 24 | (size_t)in[2] << 16 | (size_t)in[1] << 8 | in[0];
  const size_t bits = (size_t)settings->bits_per_pixel, pixel = bits >= 32 ? bits / 8 : 1;
  const size_t sample = bits >= 32 || bits <= 8 ? 1 : bits <= 16 ? 2 : 4;
  const size_t block = (size_t)settings->pixels_per_block, scanline = (size_t)settings->pixels_per_scanline;
  if (size == 0 || size % pixel != 0 || size % sample != 0) return 0;

  const size_t blocks = (scanline + block - 1) / block;
  const size_t line = scanline * sample, padded_line = blocks * block * sample, whole_lines = (size - 1) / line;
  const size_t coded = whole_lines * padded_line + (size - whole_lines * line);
  unsigned char* samples = malloc(coded);
  if (!samples) return 0;
  if (!rice_decode(in + SIZE_WORD, nbytes - SIZE_WORD, samples, coded, settings, blocks)) {
    free(samples);
    return 0;
  }
  for (size_t i = 1; i <= whole_lines; ++i) {
    const size_t left = size - i * line;
    memmove(samples + i * line, samples + i * padded_line, left < line ? left : line);
  }
  if (pixel == 1) return replace_buffer(buf, buf_size, samples, coded, size);

  unsigned char* out = malloc(size);
  if (out) {
    const size_t count = size / pixel;
    for (size_t byte = 0; byte < pixel; ++byte)
      for (size_t i = 0; i < count; ++i) out[i * pixel + byte] = samples[byte * count + i];
  }
  free(samples);
  return out ? replace_buffer(buf, buf_size, out, size, size) : 0;
}

static size_t szip_filter(unsigned flags, size_t cd_nelmts, const unsigned cd_values[], size_t nbytes, size_t* buf_size,
                          void** buf) {
  SZ_com_t settings;
  if (!good_parameters(cd_nelmts, cd_values, &settings)) return 0;
  if (flags & H5Z_FLAG_REVERSE) return decompress(&settings, nbytes, buf_size, buf);
  if (nbytes == 0 || nbytes > UINT32_MAX) return 0;
  /* As in HDF5, an optional filter fails if the chunk does not become smaller; a mandatory one needs room to grow. */
  size_t size = (flags & H5Z_FLAG_OPTIONAL) ? nbytes : nbytes + nbytes / 2 + 4096;
  const size_t capacity = size + SIZE_WORD;
  unsigned char* out = malloc(capacity);
  if (!out) return 0;
  for (int i = 0; i < SIZE_WORD; ++i) out[i] = (unsigned char)(nbytes >> (8 * i));
  if (SZ_BufftoBuffCompress(out + SIZE_WORD, &size, *buf, nbytes, &settings) != SZ_OK || size == 0) {
    free(out);
    return 0;
  }
  return replace_buffer(buf, buf_size, out, capacity, size + SIZE_WORD);
}

static const H5Z_class2_t szip_class = {H5Z_CLASS_T_VERS, H5Z_FILTER_SZIP, 1, 1, "szip", NULL, NULL, szip_filter};
HDF5_FILTER_PLUGIN(szip_class)
