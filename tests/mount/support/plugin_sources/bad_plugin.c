/* Libraries that are wrong in one way each, told by CASE. */
#include <H5PLextern.h>
#include <stdlib.h>
#include <unistd.h>

#include "codecfs/nczarr_codec.h"

static size_t identity(unsigned flags, size_t n, const unsigned values[], size_t nbytes, size_t* buf_size, void** buf) {
  (void)flags, (void)n, (void)values, (void)buf_size, (void)buf;
  return nbytes;
}
static int to_hdf5(const char* json, size_t* count, unsigned** values) {
  (void)json, (void)values;
  *count = 0;
  return NC_NOERR;
}
static int to_codec(size_t count, const unsigned* values, char** json) {
  (void)count, (void)values, (void)json;
  return NC_EINVAL;
}

#define CRASHES 1       /* in a constructor */
#define EXITS 2         /* in a constructor */
#define HANGS 3         /* in a constructor */
#define CRASHES_ASKED 4 /* in H5PLget_plugin_info */
#define CRASHES_LATER 5 /* in the codec's initialize */
#define VOL 6           /* an HDF5 plugin of another kind */
#define FILTER_VERSION 7
#define FILTER_NULL 8
#define FILTER_NO_FUNCTION 9
#define FILTER_ID 10
#define CODEC_VERSION 11
#define CODEC_SORT 12
#define CODEC_NO_ID 13
#define CODEC_NO_FUNCTION 14
#define CODEC_NULL 15
#define IDS_DIFFER 16
#define NO_TYPE 17
#define MISSING_SYMBOL 18
#define ONLY_ENCODES 19
#define MISSING_FUNCTION 20

#if CASE == CRASHES
__attribute__((constructor)) static void start(void) { *(volatile int*)8 = 1; }
#elif CASE == EXITS
__attribute__((constructor)) static void start(void) { exit(3); }
#elif CASE == HANGS
__attribute__((constructor)) static void start(void) {
  for (;;) pause();
}
#endif

#if CASE == CRASHES_LATER
static void initialize(void) { abort(); }
#else
#define initialize NULL
#endif

#if CASE == MISSING_SYMBOL
void a_function_that_no_library_has(void);
void* needs_it = a_function_that_no_library_has;
#elif CASE == MISSING_FUNCTION
void a_function_that_no_library_has(void);
__attribute__((used)) static void call_it(void) { a_function_that_no_library_has(); }
#endif

#ifndef ID
#define ID 32901
#endif

#if CASE < CODEC_VERSION || CASE > CODEC_NULL
static const H5Z_class2_t filter = {CASE == FILTER_VERSION ? 2 : H5Z_CLASS_T_VERS,
                                    CASE == FILTER_ID ? 70000 : ID,
                                    1,
                                    CASE != ONLY_ENCODES,
                                    "bad",
                                    NULL,
                                    NULL,
                                    CASE == FILTER_NO_FUNCTION ? NULL : identity};
#if CASE != NO_TYPE
H5PL_type_t H5PLget_plugin_type(void) { return CASE == VOL ? (H5PL_type_t)1 : H5PL_TYPE_FILTER; }
#endif
const void* H5PLget_plugin_info(void) {
#if CASE == CRASHES_ASKED
  abort();
#endif
  return CASE == FILTER_NULL ? NULL : &filter;
}
#endif

#if (CASE >= CODEC_VERSION && CASE <= IDS_DIFFER) || CASE == CRASHES_LATER
static const NCZ_codec_t codec = {CASE == CODEC_VERSION ? 2 : NCZ_CODEC_CLASS_VER,
                                  CASE == CODEC_SORT ? 2 : NCZ_CODEC_HDF5,
                                  CASE == CODEC_NO_ID ? NULL : "bad",
                                  CASE == IDS_DIFFER ? 32902 : ID,
                                  initialize,
                                  NULL,
                                  CASE == CODEC_NO_FUNCTION ? NULL : to_hdf5,
                                  to_codec,
                                  NULL};
const void* NCZ_get_codec_info(void) { return CASE == CODEC_NULL ? NULL : &codec; }
#endif
