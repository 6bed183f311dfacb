/* shuffle as a plugin (HDF5's id 2), for NCZarr readers like deflate.c. First bytes of all elements, then second
 * bytes, and so on; trailing bytes (usually a checksum) are unchanged. The parameter is the element's size. */
#include <string.h>

#include "codecfs/hdf5_filter.h"

static size_t shuffle_filter(unsigned flags, size_t cd_nelmts, const unsigned cd_values[], size_t nbytes,
                             size_t* buf_size, void** buf) {
  if (cd_nelmts != 1 || cd_values[0] == 0) return 0;
  const size_t size = cd_values[0], count = nbytes / size;
  if (size == 1 || count <= 1) return nbytes;
  unsigned char* out = malloc(nbytes);
  if (!out) return 0;
  const unsigned char* in = *buf;
  for (size_t byte = 0; byte < size; ++byte) {
    const size_t plane = byte * count;
    if (flags & H5Z_FLAG_REVERSE)
      for (size_t i = 0; i < count; ++i) out[i * size + byte] = in[plane + i];
    else
      for (size_t i = 0; i < count; ++i) out[plane + i] = in[i * size + byte];
  }
  memcpy(out + count * size, in + count * size, nbytes - count * size);
  return replace_buffer(buf, buf_size, out, nbytes, nbytes);
}

static const H5Z_class2_t shuffle_class = {H5Z_CLASS_T_VERS, H5Z_FILTER_SHUFFLE, 1, 1, "shuffle", NULL, NULL,
                                           shuffle_filter};
HDF5_FILTER_PLUGIN(shuffle_class)
