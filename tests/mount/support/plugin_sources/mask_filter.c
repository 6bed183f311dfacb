/* An HDF5 filter as a stranger would write one, with nothing but HDF5's headers: filter 32900 flips the bits of each
 * byte that its first parameter has (none given: 0x5a).
 *
 * Its second parameter makes it behave in ways that real filters have: */
#include <H5PLextern.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  WELL = 0,
  FAIL = 1,           /* return 0, leave the buffer */
  FAIL_WITH_NULL = 2, /* return 0, free the buffer, leave a null pointer (netCDF's blosc) */
  TAKE_BUF_SIZE = 3,  /* take *buf_size for the number of bytes (netCDF's zstd) */
  NEW_BUFFER = 4,     /* answer in another allocation, told in *buf_size */
  SILENT_BUFFER = 5,  /* in another allocation, *buf_size not told */
  LIE_ABOUT_SIZE = 6, /* decoding: more bytes than there are */
  TOO_MUCH = 7,       /* decoding: four times the data, honestly allocated */
  TOO_LITTLE = 8,     /* decoding: half of it */
  NOT_REENTRANT = 9,  /* fail where two threads are in here at once */
  OPTIONAL_FLAG = 10, /* decoding: fail unless the flags are REVERSE or REVERSE | OPTIONAL */
  GROW = 11,          /* a header of 8 bytes before the data */
  DECLINE = 12,       /* encoding: return 0 for data that begins with 0xff */
  CRASH_ENCODING = 13,
  SLEEP_ENCODING = 14,
  BY_DOUBLE = 15 /* the third and fourth parameter are a double: the mask */
};

int ncaux_h5filterspec_fix8(unsigned char*, int); /* of netCDF, which a filter need not link */

static void flip(unsigned char* bytes, size_t count, unsigned mask) {
  for (size_t i = 0; i < count; ++i) bytes[i] ^= (unsigned char)mask;
}

static int inside = 0;

static size_t mask_filter(unsigned flags, size_t cd_nelmts, const unsigned cd_values[], size_t nbytes, size_t* buf_size,
                          void** buf) {
  unsigned mask = cd_nelmts > 0 ? cd_values[0] : 0x5a;
  const unsigned behaviour = cd_nelmts > 1 ? cd_values[1] : WELL;
  const int decoding = (flags & H5Z_FLAG_REVERSE) != 0;
  if (behaviour == FAIL && decoding) return 0;
  if (behaviour == BY_DOUBLE) {
    double value = 0;
    if (cd_nelmts != 4) return 0;
    memcpy(&value, cd_values + 2, sizeof value);
    if (ncaux_h5filterspec_fix8((unsigned char*)&value, 1) != 0) return 0;
    mask = (unsigned)value;
  }
  if (behaviour == FAIL_WITH_NULL && decoding) {
    free(*buf);
    *buf = NULL;
    return 0;
  }
  if (behaviour == NOT_REENTRANT) {
    if (__atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST) != 1) return 0;
    usleep(2000);
  }
  if (behaviour == DECLINE && !decoding && *(unsigned char*)*buf == 0xff) return 0;
  if (behaviour == CRASH_ENCODING && !decoding) abort();
  while (behaviour == SLEEP_ENCODING && !decoding) pause();
  flip(*buf, nbytes, mask);
  if (behaviour == GROW && decoding) {
    memmove(*buf, (char*)*buf + 8, nbytes - 8);
    return nbytes - 8;
  }
  if (behaviour == GROW) {
    *buf = realloc(*buf, nbytes + 8);
    *buf_size = nbytes + 8;
    memmove((char*)*buf + 8, *buf, nbytes);
    return nbytes + 8;
  }
  if (behaviour == NOT_REENTRANT) __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
  if (behaviour == TAKE_BUF_SIZE && decoding) return *buf_size;
  if (behaviour == NEW_BUFFER || behaviour == SILENT_BUFFER || (behaviour == TOO_MUCH && decoding)) {
    const size_t size = behaviour == TOO_MUCH ? nbytes * 4 : nbytes * 2;
    char* other = calloc(1, size);
    memcpy(other, *buf, nbytes);
    free(*buf);
    *buf = other;
    if (behaviour != SILENT_BUFFER) *buf_size = size;
    return behaviour == TOO_MUCH ? size : nbytes;
  }
  if (behaviour == LIE_ABOUT_SIZE && decoding) return nbytes * 1000;
  if (behaviour == TOO_LITTLE && decoding) return nbytes / 2;
  if (behaviour == OPTIONAL_FLAG && decoding && (flags & ~H5Z_FLAG_OPTIONAL) != H5Z_FLAG_REVERSE) return 0;
  return nbytes;
}

#ifdef CANNOT_APPLY /* as 32903: it refuses each dataset */
#define ID 32903
static htri_t can_apply(hid_t properties, hid_t type, hid_t space) { return 0; }
#else
#define ID 32900
#define can_apply NULL
#endif
static const H5Z_class2_t mask_class = {H5Z_CLASS_T_VERS, ID, 1, 1, "mask", can_apply, NULL, mask_filter};
H5PL_type_t H5PLget_plugin_type(void) { return H5PL_TYPE_FILTER; }
const void* H5PLget_plugin_info(void) { return &mask_class; }
