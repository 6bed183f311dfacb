/* Reads one float variable with netCDF-C, for bench/run. Usage: bench_nc_get_var FILE VARIABLE */
#include <netcdf.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int status) {
  if (status == NC_NOERR) return;
  fprintf(stderr, "bench_nc_get_var: %s\n", nc_strerror(status));
  exit(1);
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: bench_nc_get_var FILE VARIABLE\n");
    return 2;
  }
  int file = 0;
  int variable = 0;
  int rank = 0;
  int dimensions[NC_MAX_VAR_DIMS];
  size_t count = 1;
  check(nc_open(argv[1], NC_NOWRITE, &file));
  check(nc_inq_varid(file, argv[2], &variable));
  check(nc_inq_varndims(file, variable, &rank));
  check(nc_inq_vardimid(file, variable, dimensions));
  for (int i = 0; i < rank; ++i) {
    size_t length = 0;
    check(nc_inq_dimlen(file, dimensions[i], &length));
    count *= length;
  }
  float* values = malloc(count * sizeof *values);
  if (values == NULL) return 1;
  check(nc_get_var_float(file, variable, values));
  printf("%g\n", values[count - 1]);
  free(values);
  check(nc_close(file));
  return 0;
}
