/* netCDF-C's codec plugin API (its documentation: "NetCDF-4 Filter Support", NCZarr codecs): how a library tells an
 * NCZarr reader which numcodecs codec an HDF5 filter is, and turns the codec's JSON into the filter's parameters.
 *
 * netCDF's own header of this API includes one that distributions do not install, so the structure is declared here as
 * the library uses it. (Its documentation differs: counts are size_t, initialize and finalize return nothing, and
 * hdf5_to_codec has no ncid and varid.)
 *
 * Memory: parameters and JSON are made with malloc and belong to the caller, who frees them with free. A failing
 * function leaves the caller's pointers as they were. Functions return 0 or one of the negative codes below. */
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
  /* Working parameters, which go to the filter, from the visible ones, which users see and the JSON is made of.
   * It may replace both; it frees what it replaces. May be NULL: then they are the same. */
  int (*NCZ_modify_parameters)(int ncid, int varid, size_t* vnparamsp, unsigned** vparamsp, size_t* wnparamsp,
                               unsigned** wparamsp);
} NCZ_codec_t;

/* netCDF's error codes that a codec uses. */
enum { NC_NOERR = 0, NC_EINVAL = -36, NC_ENOMEM = -61, NC_ENOTBUILT = -128, NC_EFILTER = -132 };

/* What a plugin exports: one codec, or a list that ends with NULL of codecs for filters that other libraries bring. */
const void* NCZ_get_codec_info(void);
const void* NCZ_codec_info_defaults(void);

#endif
