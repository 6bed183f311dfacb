/* A filter with a parameter of every type that a spec may have, as netCDF's own test filter is described: id 32768,
 * codec "test", both halves in one library. It encodes only if each parameter has the value that netCDF's tests give
 * it, and then flips the bits of each byte that the first parameter has. */
#include <H5PLextern.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecfs/nczarr_codec.h"

enum { ID = 32768, COUNT = 14 };

int ncaux_h5filterspec_fix8(unsigned char*, int); /* of netCDF, which a filter need not link */

static const char* const kKeys[COUNT] = {"testcase", "byte",    "ubyte",    "short",    "ushort",
                                         "int",      "uint",    "float",    "double_0", "double_1",
                                         "int64_0",  "int64_1", "uint64_0", "uint64_1"};

static uint64_t eight_bytes(const unsigned values[2]) {
  uint64_t value;
  unsigned char bytes[8];
  memcpy(bytes, values, sizeof bytes);
  ncaux_h5filterspec_fix8(bytes, 1);
  memcpy(&value, bytes, sizeof value);
  return value;
}

static int are_right(size_t count, const unsigned values[]) {
  float real;
  double precise;
  if (count != COUNT) return 0;
  memcpy(&real, values + 7, sizeof real);
  const uint64_t bits = eight_bytes(values + 8);
  memcpy(&precise, &bits, sizeof precise);
  /* Signed bytes and shorts are cut, and not sign-extended: as netCDF does, not as its document says. */
  return (unsigned char)values[1] == (unsigned char)-17 && values[2] == 23 && (short)values[3] == -25 &&
         values[4] == 27 && values[5] == 77 && values[6] == 93 && real == 789.0F && precise == 12345678.12345678 &&
         eight_bytes(values + 10) == (uint64_t)-9223372036854775807LL && eight_bytes(values + 12) == UINT64_MAX;
}

static size_t flip(unsigned flags, size_t count, const unsigned values[], size_t size, size_t* room, void** buffer) {
  unsigned char* bytes = *buffer;
  (void)flags;
  (void)room;
  if (!are_right(count, values)) return 0;
  for (size_t i = 0; i < size; ++i) bytes[i] ^= (unsigned char)values[0];
  return size;
}

static const H5Z_class2_t test_class = {H5Z_CLASS_T_VERS, ID, 1, 1, "test", NULL, NULL, flip};
H5PL_type_t H5PLget_plugin_type(void) { return H5PL_TYPE_FILTER; }
const void* H5PLget_plugin_info(void) { return &test_class; }

/* {"id": "test", "testcase": "1", "byte": "239", ...} */
static int to_hdf5(const char* codec, size_t* countp, unsigned** valuesp) {
  unsigned* values = calloc(COUNT, sizeof *values);
  if (!values) return NC_ENOMEM;
  for (int i = 0; i < COUNT; ++i) {
    char key[40];
    snprintf(key, sizeof key, "\"%s\"", kKeys[i]);
    const char* at = strstr(codec, key);
    if (!at) {
      free(values);
      return NC_EINVAL;
    }
    at += strlen(key);
    at += strcspn(at, "0123456789");
    values[i] = (unsigned)strtoul(at, NULL, 10);
  }
  *countp = COUNT;
  *valuesp = values;
  return NC_NOERR;
}

static int to_codec(size_t count, const unsigned* values, char** codecp) {
  char text[1000];
  int size = snprintf(text, sizeof text, "{\"id\": \"test\"");
  if (count != COUNT) return NC_EINVAL;
  for (int i = 0; i < COUNT; ++i)
    size += snprintf(text + size, sizeof text - (size_t)size, ", \"%s\": \"%u\"", kKeys[i], values[i]);
  snprintf(text + size, sizeof text - (size_t)size, "}");
  *codecp = strdup(text);
  return NC_NOERR;
}

static const NCZ_codec_t codec = {NCZ_CODEC_CLASS_VER, NCZ_CODEC_HDF5, "test", ID, NULL, NULL, to_hdf5, to_codec, NULL};
const void* NCZ_get_codec_info(void) { return &codec; }
