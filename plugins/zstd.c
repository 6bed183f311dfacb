/* Zstandard as HDF5 filter 32015 and as numcodecs' "zstd". One parameter, the level, as a signed 32-bit word; both
 * store RFC 8878 frames.
 *
 * The encoder writes one frame with its content size, which other plugins need. The decoder accepts any number of
 * frames, with or without sizes. */
/* For ZSTD_findDecompressedSize. */
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "codec_json.h"
#include "codecfs/hdf5_filter.h"

enum { ZSTD_ID = 32015, NUMCODECS_DEFAULT_LEVEL = 0, LARGEST_BLOCK = 128 * 1024 };

static size_t compress(int level, size_t nbytes, size_t* buf_size, void** buf) {
  const size_t bound = ZSTD_compressBound(nbytes);
  if (ZSTD_isError(bound)) return 0;
  void* out = malloc(bound);
  if (!out) return 0;
  const size_t size = ZSTD_compress(out, bound, *buf, nbytes, level);
  if (ZSTD_isError(size)) {
    free(out);
    return 0;
  }
  return replace_buffer(buf, buf_size, out, bound, size);
}

/* If all frames declare their sizes. */
static size_t decompress_known(size_t size, size_t nbytes, size_t* buf_size, void** buf) {
  void* out = malloc(size);
  if (!out) return 0;
  if (ZSTD_decompress(out, size, *buf, nbytes) != size) {
    free(out);
    return 0;
  }
  return replace_buffer(buf, buf_size, out, size, size);
}

static size_t decompress_stream(size_t nbytes, size_t* buf_size, void** buf) {
  size_t capacity = *buf_size > 65536 ? *buf_size : 65536;
  ZSTD_DStream* stream = ZSTD_createDStream();
  void* out = malloc(capacity);
  ZSTD_inBuffer input = {*buf, nbytes, 0};
  ZSTD_outBuffer output = {out, capacity, 0};
  bool ok = stream && out;
  size_t missing = 1;
  /* At the end of a frame the result is 0. Before that, a call that has room and makes no progress means truncated
   * input. */
  while (ok && (input.pos < input.size || missing != 0)) {
    if (output.pos == output.size) {
      void* larger = grow_output(out, &capacity);
      ok = larger != NULL;
      if (!ok) break;
      out = output.dst = larger;
      output.size = capacity;
    }
    const size_t eaten = input.pos, made = output.pos;
    missing = ZSTD_decompressStream(stream, &output, &input);
    ok = !ZSTD_isError(missing) && (input.pos > eaten || output.pos > made || missing == 0);
  }
  ZSTD_freeDStream(stream);
  if (!ok || output.pos == 0) {
    free(out);
    return 0;
  }
  return replace_buffer(buf, buf_size, out, capacity, output.pos);
}

static size_t decompress(size_t nbytes, size_t* buf_size, void** buf) {
  const unsigned long long size = ZSTD_findDecompressedSize(*buf, nbytes);
  if (size == ZSTD_CONTENTSIZE_UNKNOWN) return decompress_stream(nbytes, buf_size, buf);
  /* A block takes at least 4 bytes and decodes to at most 128 KiB: a larger size is invalid. */
  const uint64_t possible = ((uint64_t)nbytes / 4 + 1) * LARGEST_BLOCK;
  if (size == ZSTD_CONTENTSIZE_ERROR || size == 0 || size > possible || size > LARGEST_CHUNK) return 0;
  return decompress_known((size_t)size, nbytes, buf_size, buf);
}

static bool level_is_known(int level) { return level >= ZSTD_minCLevel() && level <= ZSTD_maxCLevel(); }

static size_t zstd_filter(unsigned flags, size_t cd_nelmts, const unsigned cd_values[], size_t nbytes, size_t* buf_size,
                          void** buf) {
  if (flags & H5Z_FLAG_REVERSE) return decompress(nbytes, buf_size, buf);
  const int level = cd_nelmts > 0 ? (int)cd_values[0] : ZSTD_CLEVEL_DEFAULT;
  return level_is_known(level) ? compress(level, nbytes, buf_size, buf) : 0;
}

static const H5Z_class2_t zstd_class = {H5Z_CLASS_T_VERS, ZSTD_ID, 1, 1, "zstd", NULL, NULL, zstd_filter};
HDF5_FILTER_PLUGIN(zstd_class)

static int zstd_to_hdf5(const char* codec, size_t* nparamsp, unsigned** paramsp) {
  long long level = NUMCODECS_DEFAULT_LEVEL;
  if (!codec_json_is(codec, "zstd") || !codec_json_integer(codec, "level", ZSTD_minCLevel(), ZSTD_maxCLevel(), &level))
    return NC_EINVAL;
  const unsigned parameters[] = {(unsigned)(int)level};
  return codec_give_parameters(1, parameters, nparamsp, paramsp);
}

static int zstd_to_codec(size_t nparams, const unsigned* params, char** codecp) {
  const int level = nparams > 0 ? (int)params[0] : ZSTD_CLEVEL_DEFAULT;
  if (nparams > 1 || !level_is_known(level)) return NC_EINVAL;
  return codec_give_json(codecp, "{\"id\": \"zstd\", \"level\": %d}", level);
}

static const NCZ_codec_t zstd_codec = {NCZ_CODEC_CLASS_VER, NCZ_CODEC_HDF5, "zstd", ZSTD_ID, NULL, NULL,
                                       zstd_to_hdf5,        zstd_to_codec,  NULL};
PLUGIN_EXPORT const void* NCZ_get_codec_info(void) { return &zstd_codec; }
