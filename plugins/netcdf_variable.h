/* The properties of a variable that a codec needs from netCDF. */
#ifndef CODECFS_PLUGINS_NETCDF_VARIABLE_H
#define CODECFS_PLUGINS_NETCDF_VARIABLE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct NetcdfVariable {
  size_t type_size;   /* bytes of an element */
  size_t chunk_size;  /* elements of a chunk; 1 for a scalar */
  size_t last_length; /* length of the last dimension; 0 for a scalar */
  bool big_endian;
} NetcdfVariable;

/* Returns 0 or a netCDF error code: NC_ENOTBUILT if the caller, which return_address identifies, has no netCDF
 * functions. Chunk sizes and dimensions are queried only on request. */
int netcdf_type_size(const void* return_address, int ncid, int varid, size_t* size);
int netcdf_variable(const void* return_address, int ncid, int varid, NetcdfVariable* variable);

#endif
