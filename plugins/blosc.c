/* Blosc (1.x) as HDF5 filter 32001 and as numcodecs' "blosc". Both store Blosc's container, which has everything
 * that a decoder needs; the parameters are for encoders:
 *
 *                 0       1        2             3             4      5        6
 *     visible     0       0        0             block bytes   level  shuffle  compressor
 *     working     2       2        type's bytes  chunk bytes   level  shuffle  compressor
 *
 * Users give visible parameters, and JSON has them. Working parameters include the type and the chunk from HDF5
 * (set_local) or netCDF (modify_parameters); their first two words are the versions of the filter and of the format.
 * Shuffle -1 is numcodecs' automatic choice. Only the functions with a context are used: no global state, no
 * threads, so calls are thread-safe. */
#include <blosc.h>
#include <string.h>

#include "codec_json.h"
#include "codecfs/hdf5_filter.h"
#include "host_function.h"
#include "netcdf_variable.h"

enum { BLOSC_ID = 32001, FILTER_VERSION = 2, DEFAULT_LEVEL = 5, PARAMETERS = 7 };
enum { TYPE_BYTES = 2, CHUNK_BYTES = 3, LEVEL = 4, SHUFFLE = 5, COMPRESSOR = 6 };

/* Default values of missing words, as in the original filter. */
static void complete(size_t count, const unsigned* given, unsigned values[PARAMETERS]) {
  const unsigned defaults[PARAMETERS] = {0, 0, 0, 0, DEFAULT_LEVEL, BLOSC_SHUFFLE, BLOSC_BLOSCLZ};
  memcpy(values, defaults, sizeof defaults);
  if (count > 0) memcpy(values, given, (count < PARAMETERS ? count : PARAMETERS) * sizeof *given);
}

static bool parameters_are_good(const unsigned values[PARAMETERS]) {
  const int shuffle = (int)values[SHUFFLE];
  return values[LEVEL] <= 9 && shuffle >= -1 && shuffle <= BLOSC_BITSHUFFLE && values[COMPRESSOR] <= BLOSC_ZSTD;
}

/* Blosc has one byte for the type's size and treats larger types as single bytes. */
static unsigned type_bytes(size_t size) { return size > BLOSC_MAX_TYPESIZE ? 1 : (unsigned)size; }

static size_t compress(unsigned flags, const unsigned values[PARAMETERS], size_t nbytes, size_t* buf_size, void** buf) {
  const char* name = NULL;
  if (!parameters_are_good(values) || blosc_compcode_to_compname((int)values[COMPRESSOR], &name) < 0) return 0;
  if (nbytes == 0 || nbytes > BLOSC_MAX_BUFFERSIZE) return 0;
  /* HDF5 stores a chunk unfiltered if an optional filter fails, which is smaller than a container that exceeds its
   * content. A mandatory filter returns that container. */
  const size_t capacity = (flags & H5Z_FLAG_OPTIONAL) ? nbytes : nbytes + BLOSC_MAX_OVERHEAD;
  void* out = malloc(capacity);
  if (!out) return 0;
  const size_t type = values[TYPE_BYTES] > 0 ? type_bytes(values[TYPE_BYTES]) : 1;
  int shuffle = (int)values[SHUFFLE];
  if (shuffle < 0) shuffle = type == 1 ? BLOSC_BITSHUFFLE : BLOSC_SHUFFLE;
  /* Visible parameters have a block size in the word that is the chunk's size in working parameters. */
  const size_t block = values[TYPE_BYTES] == 0 ? values[CHUNK_BYTES] : 0;
  const int size = blosc_compress_ctx((int)values[LEVEL], shuffle, type, nbytes, *buf, out, capacity, name, block, 1);
  if (size <= 0) {
    free(out);
    return 0;
  }
  return replace_buffer(buf, buf_size, out, capacity, (size_t)size);
}

static size_t decompress(size_t nbytes, size_t* buf_size, void** buf) {
  size_t size = 0;
  if (blosc_cbuffer_validate(*buf, nbytes, &size) < 0 || size == 0) return 0;
  void* out = malloc(size);
  if (!out) return 0;
  const int made = blosc_decompress_ctx(*buf, out, size, 1);
  if (made <= 0 || (size_t)made != size) {
    free(out);
    return 0;
  }
  return replace_buffer(buf, buf_size, out, size, size);
}

static size_t blosc_filter(unsigned flags, size_t cd_nelmts, const unsigned cd_values[], size_t nbytes,
                           size_t* buf_size, void** buf) {
  if (flags & H5Z_FLAG_REVERSE) return decompress(nbytes, buf_size, buf);
  unsigned values[PARAMETERS];
  complete(cd_nelmts, cd_values, values);
  return compress(flags, values, nbytes, buf_size, buf);
}

/* HDF5's part of the working parameters, when a dataset is created. */
static herr_t blosc_set_local(hid_t dcpl, hid_t type, hid_t space) {
  (void)space;
  __typeof__(&H5Pget_filter_by_id2) H5Pget_filter_by_id2;
  __typeof__(&H5Pmodify_filter) H5Pmodify_filter;
  __typeof__(&H5Pget_chunk) H5Pget_chunk;
  __typeof__(&H5Tget_size) H5Tget_size;
  __typeof__(&H5Tget_class) H5Tget_class;
  __typeof__(&H5Tget_super) H5Tget_super;
  __typeof__(&H5Tclose) H5Tclose;
  if (!HOST_FUNCTION(H5Pget_filter_by_id2) || !HOST_FUNCTION(H5Pmodify_filter) || !HOST_FUNCTION(H5Pget_chunk) ||
      !HOST_FUNCTION(H5Tget_size) || !HOST_FUNCTION(H5Tget_class) || !HOST_FUNCTION(H5Tget_super) ||
      !HOST_FUNCTION(H5Tclose))
    return -1;

  unsigned flags = 0, given[PARAMETERS] = {0}, values[PARAMETERS];
  size_t count = PARAMETERS;
  if (H5Pget_filter_by_id2(dcpl, BLOSC_ID, &flags, &count, given, 0, NULL, NULL) < 0) return -1;
  complete(count, given, values);
  if (!parameters_are_good(values)) return -1;

  hsize_t chunk[H5S_MAX_RANK];
  const int rank = H5Pget_chunk(dcpl, H5S_MAX_RANK, chunk);
  const size_t size = H5Tget_size(type);
  if (rank < 0 || rank > H5S_MAX_RANK || size == 0) return -1;
  /* Shuffling needs the base type of an array type. */
  size_t element = size;
  if (H5Tget_class(type) == H5T_ARRAY) {
    const hid_t base = H5Tget_super(type);
    if (base < 0) return -1;
    element = H5Tget_size(base);
    H5Tclose(base);
    if (element == 0) return -1;
  }
  uint64_t bytes = size;
  for (int i = 0; i < rank; ++i) {
    if (chunk[i] == 0 || bytes > UINT32_MAX / chunk[i]) return -1;
    bytes *= chunk[i];
  }
  values[0] = FILTER_VERSION;
  values[1] = BLOSC_VERSION_FORMAT;
  values[TYPE_BYTES] = type_bytes(element);
  values[CHUNK_BYTES] = (unsigned)bytes;
  return H5Pmodify_filter(dcpl, BLOSC_ID, flags, PARAMETERS, values) < 0 ? -1 : 1;
}

static const H5Z_class2_t blosc_class = {H5Z_CLASS_T_VERS, BLOSC_ID,    1, 1, "blosc", NULL,
                                         blosc_set_local,  blosc_filter};
HDF5_FILTER_PLUGIN(blosc_class)

/* The compressor codes of Blosc's format. The library would reject names that its build does not include, but
 * parameters must be readable without them. */
static const char* const compressors[] = {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"};

static int blosc_to_hdf5(const char* codec, size_t* nparamsp, unsigned** paramsp) {
  char name[CODEC_JSON_STRING] = "lz4";
  long long level = DEFAULT_LEVEL, shuffle = BLOSC_SHUFFLE, block = 0;
  if (!codec_json_is(codec, "blosc") || !codec_json_string(codec, "cname", name) ||
      !codec_json_integer(codec, "clevel", 0, 9, &level) ||
      !codec_json_integer(codec, "shuffle", -1, BLOSC_BITSHUFFLE, &shuffle) ||
      !codec_json_integer(codec, "blocksize", 0, BLOSC_MAX_BUFFERSIZE, &block))
    return NC_EINVAL;
  unsigned compressor = 0;
  while (strcmp(compressors[compressor], name) != 0)
    if (++compressor > BLOSC_ZSTD) return NC_EINVAL;
  const unsigned parameters[PARAMETERS] = {0,         0, 0, (unsigned)block, (unsigned)level, (unsigned)(int)shuffle,
                                           compressor};
  return codec_give_parameters(PARAMETERS, parameters, nparamsp, paramsp);
}

static int blosc_to_codec(size_t nparams, const unsigned* params, char** codecp) {
  unsigned values[PARAMETERS];
  if (nparams > PARAMETERS) return NC_EINVAL;
  complete(nparams, params, values);
  if (!parameters_are_good(values)) return NC_EINVAL;
  /* Working parameters, such as an HDF5 file's, have no block size. */
  const bool working = values[0] != 0 || values[1] != 0 || values[TYPE_BYTES] != 0;
  return codec_give_json(
      codecp, "{\"id\": \"blosc\", \"cname\": \"%s\", \"clevel\": %u, \"shuffle\": %d, \"blocksize\": %u}",
      compressors[values[COMPRESSOR]], values[LEVEL], (int)values[SHUFFLE], working ? 0 : values[CHUNK_BYTES]);
}

static int blosc_modify_parameters(int ncid, int varid, size_t* vnparamsp, unsigned** vparamsp, size_t* wnparamsp,
                                   unsigned** wparamsp) {
  unsigned values[PARAMETERS];
  if (*vnparamsp > PARAMETERS) return NC_EINVAL;
  complete(*vnparamsp, *vparamsp, values);
  if (!parameters_are_good(values)) return NC_EINVAL;
  NetcdfVariable variable;
  const int status = netcdf_variable(__builtin_return_address(0), ncid, varid, &variable);
  if (status != NC_NOERR) return status;
  if (variable.chunk_size > BLOSC_MAX_BUFFERSIZE / variable.type_size) return NC_EFILTER;
  values[0] = FILTER_VERSION;
  values[1] = BLOSC_VERSION_FORMAT;
  values[TYPE_BYTES] = type_bytes(variable.type_size);
  values[CHUNK_BYTES] = (unsigned)(variable.chunk_size * variable.type_size);
  unsigned* old = *wparamsp;
  const int given = codec_give_parameters(PARAMETERS, values, wnparamsp, wparamsp);
  if (given == NC_NOERR) free(old);
  return given;
}

static const NCZ_codec_t blosc_codec = {
    NCZ_CODEC_CLASS_VER, NCZ_CODEC_HDF5,         "blosc", BLOSC_ID, NULL, NULL, blosc_to_hdf5,
    blosc_to_codec,      blosc_modify_parameters};
PLUGIN_EXPORT const void* NCZ_get_codec_info(void) { return &blosc_codec; }
