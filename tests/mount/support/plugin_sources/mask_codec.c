/* The codec half of mask_filter.c, in a library of its own: {"id": "mask", "value": 90, "behaviour": 0}.
 *
 * A "value" over 255 is stored as its last eight bits, as NCZ_modify_parameters may change what is stored.
 *
 * With "of_variable": 1 the mask is worked out from what netCDF tells of the variable: its type's number and size, the
 * lengths of its dimensions and chunks, and its byte order. Where MASK_TRACE names a file, calls of initialize and
 * finalize are noted there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecfs/nczarr_codec.h"

int nc_inq_var(int, int, char*, int*, int*, int*, int*);
int nc_inq_type(int, int, char*, size_t*);
int nc_inq_dimlen(int, int, size_t*);
int nc_inq_var_chunking(int, int, int*, size_t*);
int nc_inq_var_endian(int, int, int*);
int nc_inq_varid(int, const char*, int*);
int nc_inq_vartype(int, int, int*);
int nc_inq_varndims(int, int, int*);
int nc_inq_vardimid(int, int, int*);
int nc_inq_varnatts(int, int, int*);
int nc_inq_dim(int, int, char*, size_t*);
int nc_inq_dimid(int, const char*, int*);
int nc_inq_att(int, int, const char*, int*, size_t*);
enum { NO_ATTRIBUTE = -43 };

/* Whether the single inquiries tell what nc_inq_var does. */
static int are_consistent(int ncid, int varid, const char* name, int type, int dimensions, const int* ids,
                          int attributes) {
  int found = -1;
  if (nc_inq_varid(ncid, name, &found) != 0 || found != varid) return 0;
  if (nc_inq_vartype(ncid, varid, &found) != 0 || found != type) return 0;
  if (nc_inq_varndims(ncid, varid, &found) != 0 || found != dimensions) return 0;
  if (nc_inq_varnatts(ncid, varid, &found) != 0 || found != attributes) return 0;
  if (nc_inq_att(ncid, varid, "no such attribute", NULL, NULL) != NO_ATTRIBUTE) return 0;
  int again[16];
  if (nc_inq_vardimid(ncid, varid, again) != 0 || memcmp(again, ids, (size_t)dimensions * sizeof *ids) != 0) return 0;
  for (int i = 0; i < dimensions; ++i) {
    char dimension[257];
    size_t length = 0, other = 0;
    if (nc_inq_dim(ncid, ids[i], dimension, &length) != 0 || nc_inq_dimlen(ncid, ids[i], &other) != 0) return 0;
    if (length != other || nc_inq_dimid(ncid, dimension, &found) != 0 || found != ids[i]) return 0;
  }
  return nc_inq_dimid(ncid, "no such dimension", &found) != 0 && nc_inq_varid(ncid, "no such variable", &found) != 0;
}

static void trace(const char* what) {
  static FILE* file; /* opened while the library is loaded; later it may not open files */
  const char* path = getenv("MASK_TRACE");
  if (!file && path) file = fopen(path, "a");
  if (!file) return;
  fputs(what, file);
  fflush(file);
}
static void initialize(void) { trace("initialize\n"); }
static void finalize(void) { trace("finalize\n"); }

static unsigned number_of(const char* json, const char* key, unsigned fallback) {
  const char* at = strstr(json, key);
  return at ? (unsigned)strtoul(at + strlen(key) + 2, NULL, 10) : fallback;
}

static int to_hdf5(const char* codec, size_t* nparamsp, unsigned** paramsp) {
  if (strstr(codec, "\"refuse\"")) return NC_EINVAL;
  unsigned* values = calloc(3, sizeof *values);
  if (!values) return NC_ENOMEM;
  values[0] = number_of(codec, "\"value\"", 0x5a);
  values[1] = number_of(codec, "\"behaviour\"", 0);
  values[2] = number_of(codec, "\"of_variable\"", 0);
  *nparamsp = 3;
  *paramsp = values;
  return NC_NOERR;
}

static int to_codec(size_t nparams, const unsigned* params, char** codecp) {
  char text[200];
  snprintf(text, sizeof text, "{\"id\": \"mask\", \"value\": %u}", nparams > 0 ? params[0] : 0x5a);
  *codecp = strdup(text);
  return NC_NOERR;
}

static int modify(int ncid, int varid, size_t* vnparamsp, unsigned** vparamsp, size_t* wnparamsp, unsigned** wparamsp) {
  unsigned* working = malloc(2 * sizeof *working);
  if (!working || *vnparamsp != 3) return NC_EINVAL;
  memcpy(working, *vparamsp, 2 * sizeof *working);
  if ((*vparamsp)[2]) {
    int type = 0, dimensions = 0, ids[16], storage = -1, order = -1, attributes = -1;
    char name[257], type_name[257];
    size_t size = 0, chunk[16] = {0};
    int status = nc_inq_var(ncid, varid, name, &type, &dimensions, ids, &attributes);
    if (status == 0 && dimensions > 16) status = NC_EINVAL;
    if (status == 0) status = nc_inq_type(ncid, type, type_name, &size);
    if (status == 0) status = nc_inq_var_chunking(ncid, varid, &storage, chunk);
    if (status == 0) status = nc_inq_var_endian(ncid, varid, &order);
    if (status == 0 && !are_consistent(ncid, varid, name, type, dimensions, ids, attributes)) status = NC_EINVAL;
    unsigned sum = (unsigned)(type + (int)size + order + storage);
    for (int i = 0; status == 0 && i < dimensions; ++i) {
      size_t length = 0;
      status = nc_inq_dimlen(ncid, ids[i], &length);
      sum += (unsigned)(length + 3 * chunk[i]);
    }
    /* Other files and variables are not known. */
    if (status == 0 &&
        (nc_inq_var_endian(ncid + 1, varid, &order) == 0 || nc_inq_var_endian(ncid, varid + 1, &order) == 0))
      status = NC_EINVAL;
    if (status != 0) {
      free(working);
      return status;
    }
    working[0] = sum & 0xff;
  }
  *wnparamsp = 2;
  *wparamsp = working;
  /* The visible parameters may be replaced too. */
  unsigned* visible = malloc(3 * sizeof *visible);
  memcpy(visible, *vparamsp, 3 * sizeof *visible);
  visible[0] &= 0xff;
  free(*vparamsp);
  *vparamsp = visible;
  return NC_NOERR;
}

static const NCZ_codec_t codec = {
    NCZ_CODEC_CLASS_VER, NCZ_CODEC_HDF5, "mask", 32900, initialize, finalize, to_hdf5, to_codec, modify};
#ifdef AS_DEFAULTS
static const NCZ_codec_t* const codecs[] = {&codec, NULL};
const void* NCZ_codec_info_defaults(void) { return codecs; }
#else
const void* NCZ_get_codec_info(void) { return &codec; }
#endif
