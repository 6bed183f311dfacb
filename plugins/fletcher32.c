/* fletcher32 as a plugin (HDF5's id 3), for NCZarr readers like deflate.c. Four bytes follow the data: the checksum
 * of its big-endian 16-bit words, as a little-endian word. HDF5 before 1.6.3 swapped the bytes of both halves. */
#include <string.h>

#include "codecfs/hdf5_filter.h"

enum { CHECKSUM = 4, WORDS_BEFORE_OVERFLOW = 360 };

static uint32_t fold(uint32_t sum) { return (sum & 0xffff) + (sum >> 16); }

static uint32_t checksum(const unsigned char* data, size_t size) {
  uint32_t sum1 = 0, sum2 = 0;
  for (size_t words = size / 2; words > 0;) {
    const size_t run = words < WORDS_BEFORE_OVERFLOW ? words : WORDS_BEFORE_OVERFLOW;
    for (size_t i = 0; i < run; ++i, data += 2) {
      sum1 += (uint32_t)(data[0] << 8 | data[1]);
      sum2 += sum1;
    }
    words -= run;
    sum1 = fold(sum1);
    sum2 = fold(sum2);
  }
  if (size % 2) {
    sum1 += (uint32_t)(*data << 8);
    sum2 += sum1;
    sum1 = fold(sum1);
    sum2 = fold(sum2);
  }
  return fold(sum2) << 16 | fold(sum1);
}

static size_t fletcher32_filter(unsigned flags, size_t cd_nelmts, const unsigned cd_values[], size_t nbytes,
                                size_t* buf_size, void** buf) {
  (void)cd_nelmts, (void)cd_values;
  const unsigned char* in = *buf;
  if (flags & H5Z_FLAG_REVERSE) {
    if (nbytes <= CHECKSUM) return 0;
    const size_t size = nbytes - CHECKSUM;
    if (flags & H5Z_FLAG_SKIP_EDC) return size;
    const unsigned char* tail = in + size;
    const uint32_t stored = (uint32_t)tail[3] << 24 | (uint32_t)tail[2] << 16 | (uint32_t)tail[1] << 8 | tail[0];
    const uint32_t old = (stored & 0x00ff00ffu) << 8 | (stored >> 8 & 0x00ff00ffu);
    const uint32_t real = checksum(in, size);
    return real == stored || real == old ? size : 0;
  }
  if (nbytes == 0 || nbytes > SIZE_MAX - CHECKSUM) return 0;
  unsigned char* out = malloc(nbytes + CHECKSUM);
  if (!out) return 0;
  memcpy(out, in, nbytes);
  const uint32_t sum = checksum(in, nbytes);
  for (int i = 0; i < CHECKSUM; ++i) out[nbytes + (size_t)i] = (unsigned char)(sum >> (8 * i));
  return replace_buffer(buf, buf_size, out, nbytes + CHECKSUM, nbytes + CHECKSUM);
}

static const H5Z_class2_t fletcher32_class = {H5Z_CLASS_T_VERS, H5Z_FILTER_FLETCHER32, 1, 1, "fletcher32", NULL, NULL,
                                              fletcher32_filter};
HDF5_FILTER_PLUGIN(fletcher32_class)
