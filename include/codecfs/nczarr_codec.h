/* netCDF-C's codec plugin API (its documentation: "NetCDF-4 Filter Support", NCZarr codecs): a library declares
 * which numcodecs codec corresponds to an HDF5 filter, and converts the codec's JSON to the filter's parameters.
 *
 * netCDF's own header of this API includes one that distributions do not install, so the structure is declared here
 * as the library uses it. (Its documentation differs: counts are size_t, initialize and finalize return nothing, and
 * hdf5_to_codec has no ncid and varid.)
 *
 * Memory: returned parameters and JSON are allocated with malloc, and the caller must free them. A function that
 * fails does not change the caller's pointers. Functions return 0 or one of the negative codes below. */
#ifndef CODECFS_PLUGINS_NCZARR_CODEC_H
#define CODECFS_PLUGINS_NCZARR_CODEC_H

#include <stddef.h>

enum { NCZ_CODEC_CLASS_VER = 1, NCZ_CODEC_HDF5 = 1 };

typedef struct NCZ_codec_t {
  int version;         /* NCZ_CODEC_CLASS_VER */
  int sort;            /* NCZ_CODEC_HDF5 */
  const char* codecid; /* numcodecs' name */
  unsigned int hdf5id;
  void (*NCZ_codec_initialize)(void); /* may be NULL */
  void (*NCZ_codec_finalize)(void);   /* may be NULL */
  int (*NCZ_codec_to_hdf5)(const char* codec, size_t* nparamsp, unsigned** paramsp);
  int (*NCZ_hdf5_to_codec)(size_t nparams, const unsigned* params, char** codecp);
  /* Computes the working parameters, which the filter gets, from the visible ones, which users and the JSON have.
   * It may replace both, and must free what it replaces. May be NULL: then both are the same. */
  int (*NCZ_modify_parameters)(int ncid, int varid, size_t* vnparamsp, unsigned** vparamsp, size_t* wnparamsp,
                               unsigned** wparamsp);
} NCZ_codec_t;

/* netCDF's error codes that a codec uses. */
enum { NC_NOERR = 0, NC_EINVAL = -36, NC_ENOMEM = -61, NC_ENOTBUILT = -128, NC_EFILTER = -132 };

/* The exports of a plugin: one codec, or a NULL-terminated list of codecs for filters of other libraries. */
const void* NCZ_get_codec_info(void);
const void* NCZ_codec_info_defaults(void);

#endif
