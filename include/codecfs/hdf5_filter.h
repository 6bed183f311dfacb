/* What our HDF5 filter plugins share: the exported entry points, and the rules about the buffer.
 *
 * A filter gets *buf with nbytes valid bytes in an allocation of *buf_size. It returns the number of valid bytes that
 * it made, with *buf and *buf_size telling where; or 0 for failure, and then *buf is as it was. Buffers come from
 * malloc: HDF5's H5allocate_memory is malloc (but in a debugging build of its own), NCZarr's callers use malloc, and
 * all other plugins do the same. */
#ifndef CODECFS_PLUGINS_HDF5_FILTER_H
#define CODECFS_PLUGINS_HDF5_FILTER_H

#include <H5PLextern.h>
#include <stdint.h>
#include <stdlib.h>

#define PLUGIN_EXPORT __attribute__((visibility("default")))

/* HDF5's largest chunk, with room for checksums: a stream that goes on beyond it is damaged or hostile. */
static const uint64_t LARGEST_CHUNK = UINT32_MAX + (uint64_t)64;

/* The caller's buffer is given up for a new one with `valid` bytes. */
static inline size_t replace_buffer(void** buf, size_t* buf_size, void* data, size_t capacity, size_t valid) {
  free(*buf);
  *buf = data;
  *buf_size = capacity;
  return valid;
}

/* A larger output buffer for a stream of unknown length: twice the size, to LARGEST_CHUNK. NULL: the old one stands. */
static inline void* grow_output(void* data, size_t* capacity) {
  if (*capacity >= LARGEST_CHUNK) return NULL;
  const uint64_t wanted = (uint64_t)*capacity * 2;
  const size_t larger = (size_t)(wanted < LARGEST_CHUNK ? wanted : LARGEST_CHUNK);
  void* moved = realloc(data, larger);
  if (moved) *capacity = larger;
  return moved;
}

/* The two functions by which HDF5 finds a filter in a library, and a word to codecfs, which runs one call of a plugin
 * at a time unless it finds this name: all of ours keep no state. */
#define HDF5_FILTER_PLUGIN(filter_class)                                           \
  PLUGIN_EXPORT extern const char codecfs_plugin_is_reentrant;                     \
  const char codecfs_plugin_is_reentrant = 1;                                      \
  PLUGIN_EXPORT H5PL_type_t H5PLget_plugin_type(void) { return H5PL_TYPE_FILTER; } \
  PLUGIN_EXPORT const void* H5PLget_plugin_info(void) { return &(filter_class); }

#endif
