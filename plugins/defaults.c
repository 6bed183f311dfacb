/* The codecs of HDF5's own filters: zlib (deflate), shuffle, fletcher32 and szip. NCZarr readers combine them with
 * any library that provides the HDF5 filter of the same id. */
#include <stdlib.h>

#include "codec_json.h"
#include "netcdf_variable.h"

#define PLUGIN_EXPORT __attribute__((visibility("default")))

enum { DEFLATE_ID = 1, SHUFFLE_ID = 2, FLETCHER32_ID = 3, SZIP_ID = 4, NUMCODECS_ZLIB_LEVEL = 1 };

/* Replaces parameters by new ones; keeps the old ones if there is no memory. */
static int replace_parameters(size_t count, const unsigned* values, size_t* nparamsp, unsigned** paramsp) {
  unsigned* old = *paramsp;
  const int status = codec_give_parameters(count, values, nparamsp, paramsp);
  if (status == NC_NOERR) free(old);
  return status;
}

static int zlib_to_hdf5(const char* codec, size_t* nparamsp, unsigned** paramsp) {
  long long level = NUMCODECS_ZLIB_LEVEL;
  /* numcodecs' -1 is zlib's own default, 6. */
  if (!codec_json_is(codec, "zlib") || !codec_json_integer(codec, "level", -1, 9, &level)) return NC_EINVAL;
  const unsigned parameters[] = {level < 0 ? 6 : (unsigned)level};
  return codec_give_parameters(1, parameters, nparamsp, paramsp);
}

static int zlib_to_codec(size_t nparams, const unsigned* params, char** codecp) {
  if (nparams != 1 || params[0] > 9) return NC_EINVAL;
  return codec_give_json(codecp, "{\"id\": \"zlib\", \"level\": %u}", params[0]);
}

/* Shuffle's JSON has the visible parameters, and numcodecs uses its elementsize: with 0, which netCDF's own codec
 * writes, zarr-python returns shuffled bytes as data without an error. So the visible parameters here have the
 * element's size: from the JSON, or else the type's size, which modify_parameters sets before the JSON is written.
 * An unknown size is an error. */
static int shuffle_to_hdf5(const char* codec, size_t* nparamsp, unsigned** paramsp) {
  long long size = 0;
  if (!codec_json_is(codec, "shuffle") || !codec_json_integer(codec, "elementsize", 0, 0x7fffffff, &size))
    return NC_EINVAL;
  const unsigned parameters[] = {(unsigned)size};
  return codec_give_parameters(size > 0 ? 1 : 0, parameters, nparamsp, paramsp);
}

static int shuffle_to_codec(size_t nparams, const unsigned* params, char** codecp) {
  if (nparams != 1 || params[0] == 0) return NC_EINVAL;
  return codec_give_json(codecp, "{\"id\": \"shuffle\", \"elementsize\": %u}", params[0]);
}

static int shuffle_modify_parameters(int ncid, int varid, size_t* vnparamsp, unsigned** vparamsp, size_t* wnparamsp,
                                     unsigned** wparamsp) {
  if (*vnparamsp > 1) return NC_EINVAL;
  if (*vnparamsp == 0 || (*vparamsp)[0] == 0) {
    size_t size = 0;
    int status = netcdf_type_size(__builtin_return_address(0), ncid, varid, &size);
    const unsigned parameters[] = {(unsigned)size};
    if (status == NC_NOERR) status = replace_parameters(1, parameters, vnparamsp, vparamsp);
    if (status != NC_NOERR) return status;
  }
  return replace_parameters(1, *vparamsp, wnparamsp, wparamsp);
}

static int fletcher32_to_hdf5(const char* codec, size_t* nparamsp, unsigned** paramsp) {
  if (!codec_json_is(codec, "fletcher32")) return NC_EINVAL;
  return codec_give_parameters(0, NULL, nparamsp, paramsp);
}

static int fletcher32_to_codec(size_t nparams, const unsigned* params, char** codecp) {
  (void)params;
  return nparams == 0 ? codec_give_json(codecp, "{\"id\": \"fletcher32\"}") : NC_EINVAL;
}

/* szip's options, and its limits. */
enum {
  K13 = 1,
  CHIP = 2,
  LSB = 8,
  MSB = 16,
  RAW = 128,
  PIXELS_PER_BLOCK = 32,
  BLOCKS_PER_SCANLINE = 128,
  LONGEST_SCANLINE = 4096
};

static int szip_block_is_good(long long pixels) { return pixels >= 2 && pixels <= PIXELS_PER_BLOCK && pixels % 2 == 0; }

static int szip_to_hdf5(const char* codec, size_t* nparamsp, unsigned** paramsp) {
  long long mask = 0, block = 0;
  /* numcodecs has no such codec, and so no defaults for missing keys. */
  if (!codec_json_is(codec, "szip") || !codec_json_has(codec, "mask") || !codec_json_has(codec, "pixels-per-block") ||
      !codec_json_integer(codec, "mask", 0, 0xffffffffLL, &mask) ||
      !codec_json_integer(codec, "pixels-per-block", 0, PIXELS_PER_BLOCK, &block) || !szip_block_is_good(block))
    return NC_EINVAL;
  const unsigned parameters[] = {(unsigned)mask, (unsigned)block};
  return codec_give_parameters(2, parameters, nparamsp, paramsp);
}

static int szip_to_codec(size_t nparams, const unsigned* params, char** codecp) {
  if ((nparams != 2 && nparams != 4) || !szip_block_is_good(params[1])) return NC_EINVAL;
  return codec_give_json(codecp, "{\"id\": \"szip\", \"mask\": %u, \"pixels-per-block\": %u}", params[0], params[1]);
}

/* netCDF's rules differ from HDF5's: the scanline follows the variable's last dimension, not the chunk's. Both kinds
 * of streams are decoded with the parameters that they were encoded with. */
static int szip_modify_parameters(int ncid, int varid, size_t* vnparamsp, unsigned** vparamsp, size_t* wnparamsp,
                                  unsigned** wparamsp) {
  if (*vnparamsp < 2 || !szip_block_is_good((*vparamsp)[1])) return NC_EINVAL;
  const unsigned mask = (*vparamsp)[0], block = (*vparamsp)[1];
  NetcdfVariable variable;
  const int status = netcdf_variable(__builtin_return_address(0), ncid, varid, &variable);
  if (status != NC_NOERR) return status;
  if (variable.last_length == 0 || variable.type_size > 8) return NC_EFILTER;

  unsigned bits = (unsigned)(8 * variable.type_size);
  if (bits > 32)
    bits = 64;
  else if (bits > 24)
    bits = 32;
  const size_t scanline_limit = (size_t)BLOCKS_PER_SCANLINE * block;
  size_t scanline = scanline_limit;
  if (variable.last_length < block) {
    if (variable.chunk_size < block) return NC_EFILTER;
    if (variable.chunk_size < scanline) scanline = variable.chunk_size;
  } else if (variable.last_length <= LONGEST_SCANLINE && variable.last_length < scanline) {
    scanline = variable.last_length;
  }
  const unsigned options = ((mask & ~(unsigned)(CHIP | LSB | MSB)) | K13 | RAW) | (variable.big_endian ? MSB : LSB);
  const unsigned parameters[] = {options, block, bits, (unsigned)scanline};
  return replace_parameters(4, parameters, wnparamsp, wparamsp);
}

static const NCZ_codec_t zlib_codec = {NCZ_CODEC_CLASS_VER, NCZ_CODEC_HDF5, "zlib", DEFLATE_ID, NULL, NULL,
                                       zlib_to_hdf5,        zlib_to_codec,  NULL};
static const NCZ_codec_t shuffle_codec = {
    NCZ_CODEC_CLASS_VER, NCZ_CODEC_HDF5,           "shuffle", SHUFFLE_ID, NULL, NULL, shuffle_to_hdf5,
    shuffle_to_codec,    shuffle_modify_parameters};
static const NCZ_codec_t fletcher32_codec = {
    NCZ_CODEC_CLASS_VER, NCZ_CODEC_HDF5,      "fletcher32", FLETCHER32_ID, NULL, NULL,
    fletcher32_to_hdf5,  fletcher32_to_codec, NULL};
static const NCZ_codec_t szip_codec = {
    NCZ_CODEC_CLASS_VER, NCZ_CODEC_HDF5,        "szip", SZIP_ID, NULL, NULL, szip_to_hdf5,
    szip_to_codec,       szip_modify_parameters};

static const NCZ_codec_t* const codecs[] = {&zlib_codec, &shuffle_codec, &fletcher32_codec, &szip_codec, NULL};
PLUGIN_EXPORT const void* NCZ_codec_info_defaults(void) { return codecs; }
