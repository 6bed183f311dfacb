/* bzip2 as HDF5 filter 307 and as numcodecs' "bz2". Both have one parameter, the level 1..9, and store a bzip2 file. */
#include <bzlib.h>
#include <limits.h>

#include "codec_json.h"
#include "codecfs/hdf5_filter.h"

enum { BZIP2_ID = 307, BZIP2_DEFAULT_LEVEL = 9, NUMCODECS_DEFAULT_LEVEL = 1 };

static size_t compress(int level, size_t nbytes, size_t* buf_size, void** buf) {
  /* libbzip2's own bound; its counts are unsigned int. */
  const uint64_t bound = (uint64_t)nbytes + nbytes / 100 + 600;
  if (bound > UINT_MAX) return 0;
  char* out = malloc((size_t)bound);
  if (!out) return 0;
  unsigned size = (unsigned)bound;
  if (BZ2_bzBuffToBuffCompress(out, &size, *buf, (unsigned)nbytes, level, 0, 0) != BZ_OK) {
    free(out);
    return 0;
  }
  return replace_buffer(buf, buf_size, out, (size_t)bound, size);
}

static unsigned clipped(size_t size) { return size < UINT_MAX ? (unsigned)size : UINT_MAX; }

static size_t decompress(size_t nbytes, size_t* buf_size, void** buf) {
  size_t capacity = *buf_size > 65536 ? *buf_size : 65536, size = 0, left = nbytes;
  char* out = malloc(capacity);
  if (!out) return 0;
  bz_stream stream = {0};
  bool ok = BZ2_bzDecompressInit(&stream, 0, 0) == BZ_OK;
  const bool initialized = ok;
  bool done = false;
  bool open = initialized;
  stream.next_in = *buf;
  while (ok && !done) {
    if (size == capacity) {
      char* larger = grow_output(out, &capacity);
      if (!larger) {
        ok = false;
        break;
      }
      out = larger;
    }
    const unsigned in = clipped(left), room = clipped(capacity - size);
    stream.avail_in = in;
    stream.next_out = out + size;
    stream.avail_out = room;
    const int status = BZ2_bzDecompress(&stream);
    const unsigned eaten = in - stream.avail_in, made = room - stream.avail_out;
    left -= eaten;
    size += made;
    if (status == BZ_STREAM_END) {
      /* Parallel compressors write several consecutive streams. */
      char* rest = stream.next_in;
      BZ2_bzDecompressEnd(&stream);
      open = false;
      done = left < 4 || rest[0] != 'B' || rest[1] != 'Z' || rest[2] != 'h';
      if (!done) {
        stream = (bz_stream){0};
        ok = open = BZ2_bzDecompressInit(&stream, 0, 0) == BZ_OK;
        stream.next_in = rest;
      }
    } else {
      ok = status == BZ_OK && (eaten > 0 || made > 0); /* neither: the stream is truncated */
    }
  }
  if (open) BZ2_bzDecompressEnd(&stream);
  if (!ok || size == 0) {
    free(out);
    return 0;
  }
  return replace_buffer(buf, buf_size, out, capacity, size);
}

static size_t bzip2_filter(unsigned flags, size_t cd_nelmts, const unsigned cd_values[], size_t nbytes,
                           size_t* buf_size, void** buf) {
  if (flags & H5Z_FLAG_REVERSE) return decompress(nbytes, buf_size, buf);
  const unsigned level = cd_nelmts > 0 ? cd_values[0] : BZIP2_DEFAULT_LEVEL;
  if (level < 1 || level > 9) return 0;
  return compress((int)level, nbytes, buf_size, buf);
}

static const H5Z_class2_t bzip2_class = {H5Z_CLASS_T_VERS, BZIP2_ID, 1, 1, "bzip2", NULL, NULL, bzip2_filter};
HDF5_FILTER_PLUGIN(bzip2_class)

static int bzip2_to_hdf5(const char* codec, size_t* nparamsp, unsigned** paramsp) {
  long long level = NUMCODECS_DEFAULT_LEVEL;
  if (!codec_json_is(codec, "bz2") || !codec_json_integer(codec, "level", 1, 9, &level)) return NC_EINVAL;
  const unsigned parameters[] = {(unsigned)level};
  return codec_give_parameters(1, parameters, nparamsp, paramsp);
}

static int bzip2_to_codec(size_t nparams, const unsigned* params, char** codecp) {
  const unsigned level = nparams > 0 ? params[0] : BZIP2_DEFAULT_LEVEL;
  if (nparams > 1 || level < 1 || level > 9) return NC_EINVAL;
  return codec_give_json(codecp, "{\"id\": \"bz2\", \"level\": %u}", level);
}

static const NCZ_codec_t bzip2_codec = {NCZ_CODEC_CLASS_VER, NCZ_CODEC_HDF5, "bz2", BZIP2_ID, NULL, NULL,
                                        bzip2_to_hdf5,       bzip2_to_codec, NULL};
PLUGIN_EXPORT const void* NCZ_get_codec_info(void) { return &bzip2_codec; }
