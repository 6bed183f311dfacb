/* Common code of our HDF5 filter plugins: the exported entry points, and the buffer contract.
 *
 * A filter gets *buf with nbytes valid bytes in an allocation of *buf_size. It returns the number of valid bytes of
 * its output, with *buf and *buf_size updated, or 0 for failure, with *buf unchanged. Buffers are allocated with
 * malloc: HDF5's H5allocate_memory is malloc (except in debug builds), NCZarr's callers use malloc, and so do all
 * other plugins. */
#ifndef CODECFS_PLUGINS_HDF5_FILTER_H
#define CODECFS_PLUGINS_HDF5_FILTER_H

#include <H5PLextern.h>
#include <stdint.h>
#include <stdlib.h>

#define PLUGIN_EXPORT __attribute__((visibility("default")))

/* HDF5's largest chunk, with room for checksums: a stream that exceeds it is damaged or malicious. */
static const uint64_t LARGEST_CHUNK = UINT32_MAX + (uint64_t)64;

/* Frees the caller's buffer and replaces it by a new one with `valid` bytes. */
static inline size_t replace_buffer(void** buf, size_t* buf_size, void* data, size_t capacity, size_t valid) {
  free(*buf);
  *buf = data;
  *buf_size = capacity;
  return valid;
}

/* Doubles the output buffer of a stream of unknown length, up to LARGEST_CHUNK. NULL: the old buffer is unchanged. */
static inline void* grow_output(void* data, size_t* capacity) {
  if (*capacity >= LARGEST_CHUNK) return NULL;
  const uint64_t wanted = (uint64_t)*capacity * 2;
  const size_t larger = (size_t)(wanted < LARGEST_CHUNK ? wanted : LARGEST_CHUNK);
  void* moved = realloc(data, larger);
  if (moved) *capacity = larger;
  return moved;
}

/* The two functions that HDF5 looks up in a plugin, and a marker for codecfs, which otherwise serializes the calls of a
 * plugin: all of our filters are stateless. */
#define HDF5_FILTER_PLUGIN(filter_class)                                           \
  PLUGIN_EXPORT extern const char codecfs_plugin_is_reentrant;                     \
  const char codecfs_plugin_is_reentrant = 1;                                      \
  PLUGIN_EXPORT H5PL_type_t H5PLget_plugin_type(void) { return H5PL_TYPE_FILTER; } \
  PLUGIN_EXPORT const void* H5PLget_plugin_info(void) { return &(filter_class); }

#endif
