/* What a codec asks netCDF about the variable that it is applied to. */
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

/* 0 or a netCDF error code: NC_ENOTBUILT where the caller, which return_address tells, has no netCDF functions.
 * Chunks and the rest are asked for only where the codec wants them. */
int netcdf_type_size(const void* return_address, int ncid, int varid, size_t* size);
int netcdf_variable(const void* return_address, int ncid, int varid, NetcdfVariable* variable);

#endif
