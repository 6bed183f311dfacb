/* A filter that makes data longer, as base64 and error correction do: 32905 stores each byte as often as its first
 * parameter says (10 times if there is none). Decoding fails unless all copies are equal. With its codec half:
 * {"id": "grow", "times": 4}. */
#include <H5PLextern.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecfs/nczarr_codec.h"

static size_t grow_filter(unsigned flags, size_t cd_nelmts, const unsigned cd_values[], size_t nbytes, size_t* buf_size,
                          void** buf) {
  const size_t times = cd_nelmts > 0 ? cd_values[0] : 10;
  const unsigned char* in = *buf;
  const int decoding = (flags & H5Z_FLAG_REVERSE) != 0;
  if (times == 0 || (decoding && nbytes % times != 0)) return 0;
  const size_t size = decoding ? nbytes / times : nbytes * times;
  unsigned char* out = malloc(size > 0 ? size : 1);
  if (!out) return 0;
  for (size_t i = 0; i < (decoding ? size : nbytes); ++i) {
    if (!decoding) {
      memset(out + i * times, in[i], times);
      continue;
    }
    out[i] = in[i * times];
    for (size_t copy = 1; copy < times; ++copy) {
      if (in[i * times + copy] == out[i]) continue;
      free(out);
      return 0;
    }
  }
  free(*buf);
  *buf = out;
  *buf_size = size;
  return size;
}

static int to_hdf5(const char* codec, size_t* nparamsp, unsigned** paramsp) {
  const char* const at = strstr(codec, "\"times\"");
  unsigned* const values = malloc(sizeof *values);
  if (!values) return NC_ENOMEM;
  values[0] = at ? (unsigned)strtoul(at + strlen("\"times\":"), NULL, 10) : 10;
  *nparamsp = 1;
  *paramsp = values;
  return NC_NOERR;
}

static int to_codec(size_t nparams, const unsigned* params, char** codecp) {
  char text[100];
  snprintf(text, sizeof text, "{\"id\": \"grow\", \"times\": %u}", nparams > 0 ? params[0] : 10);
  *codecp = strdup(text);
  return *codecp ? NC_NOERR : NC_ENOMEM;
}

static const NCZ_codec_t codec = {
    NCZ_CODEC_CLASS_VER, NCZ_CODEC_HDF5, "grow", 32905, NULL, NULL, to_hdf5, to_codec, NULL};
static const H5Z_class2_t grow = {H5Z_CLASS_T_VERS, 32905, 1, 1, "grow", NULL, NULL, grow_filter};
H5PL_type_t H5PLget_plugin_type(void) { return H5PL_TYPE_FILTER; }
const void* H5PLget_plugin_info(void) { return &grow; }
const void* NCZ_get_codec_info(void) { return &codec; }
