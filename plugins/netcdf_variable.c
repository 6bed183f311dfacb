/* Queries the netCDF library that called a codec. */
#include "netcdf_variable.h"

#include <stdint.h>

#include "codecfs/nczarr_codec.h"
#include "host_function.h"

/* netCDF's limits and constants (netcdf.h, which a build of the plugins does not need). */
enum { NC_MAX_VAR_DIMS = 1024, NC_ENDIAN_NATIVE = 0, NC_ENDIAN_BIG = 2, NC_CHUNKED = 0 };

int netcdf_type_size(const void* return_address, int ncid, int varid, size_t* size) {
  int (*nc_inq_var)(int, int, char*, int*, int*, int*, int*);
  int (*nc_inq_type)(int, int, char*, size_t*);
  if (!host_function(return_address, "nc_inq_var", &nc_inq_var) ||
      !host_function(return_address, "nc_inq_type", &nc_inq_type))
    return NC_ENOTBUILT;
  int type = 0;
  int status = nc_inq_var(ncid, varid, NULL, &type, NULL, NULL, NULL);
  if (status == NC_NOERR) status = nc_inq_type(ncid, type, NULL, size);
  return status == NC_NOERR && *size == 0 ? NC_EFILTER : status;
}

int netcdf_variable(const void* return_address, int ncid, int varid, NetcdfVariable* variable) {
  int status = netcdf_type_size(return_address, ncid, varid, &variable->type_size);
  if (status != NC_NOERR) return status;
  int (*nc_inq_var)(int, int, char*, int*, int*, int*, int*);
  int (*nc_inq_dimlen)(int, int, size_t*);
  int (*nc_inq_var_chunking)(int, int, int*, size_t*);
  int (*nc_inq_var_endian)(int, int, int*);
  if (!host_function(return_address, "nc_inq_var", &nc_inq_var) ||
      !host_function(return_address, "nc_inq_dimlen", &nc_inq_dimlen) ||
      !host_function(return_address, "nc_inq_var_chunking", &nc_inq_var_chunking) ||
      !host_function(return_address, "nc_inq_var_endian", &nc_inq_var_endian))
    return NC_ENOTBUILT;

  int dimensions = 0, ids[NC_MAX_VAR_DIMS], storage = NC_CHUNKED, order = NC_ENDIAN_NATIVE;
  size_t chunk[NC_MAX_VAR_DIMS] = {0};
  status = nc_inq_var(ncid, varid, NULL, NULL, &dimensions, NULL, NULL);
  if (status != NC_NOERR) return status;
  if (dimensions < 0 || dimensions > NC_MAX_VAR_DIMS) return NC_EINVAL;
  if ((status = nc_inq_var(ncid, varid, NULL, NULL, NULL, ids, NULL)) != NC_NOERR) return status;
  if ((status = nc_inq_var_endian(ncid, varid, &order)) != NC_NOERR) return status;
  if (dimensions > 0 && (status = nc_inq_var_chunking(ncid, varid, &storage, chunk)) != NC_NOERR) return status;

  variable->chunk_size = 1;
  variable->last_length = 0;
  for (int i = 0; i < dimensions; ++i) {
    if ((status = nc_inq_dimlen(ncid, ids[i], &variable->last_length)) != NC_NOERR) return status;
    const size_t length = storage == NC_CHUNKED && chunk[i] > 0 ? chunk[i] : variable->last_length;
    if (length == 0 || variable->chunk_size > SIZE_MAX / variable->type_size / length) return NC_EFILTER;
    variable->chunk_size *= length;
  }
  const uint16_t probe = 1;
  const bool host_is_big = *(const unsigned char*)&probe == 0;
  variable->big_endian = order == NC_ENDIAN_BIG || (order == NC_ENDIAN_NATIVE && host_is_big);
  return NC_NOERR;
}
