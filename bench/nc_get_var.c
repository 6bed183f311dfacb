/* Reads the variable "v" with netCDF-C, in order, 4 planes of its first dimension at a time (or as many as a chunk
 * has), into the same memory, and prints the seconds. Usage: bench_nc_get_var FILE */
#include <netcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void check(int status) {
  if (status == NC_NOERR) return;
  fprintf(stderr, "bench_nc_get_var: %s\n", nc_strerror(status));
  exit(1);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: bench_nc_get_var FILE\n");
    return 2;
  }
  const double start = now();
  int file = 0;
  int variable = 0;
  int rank = 0;
  int storage = 0;
  nc_type type = 0;
  int dimensions[NC_MAX_VAR_DIMS];
  size_t shape[3];
  size_t chunk[3] = {4, 0, 0};
  size_t element = 0;
  check(nc_open(argv[1], NC_NOWRITE, &file));
  check(nc_inq_varid(file, "v", &variable));
  check(nc_inq_varndims(file, variable, &rank));
  if (rank != 3) {
    fprintf(stderr, "bench_nc_get_var: a variable of 3 dimensions, please\n");
    return 1;
  }
  check(nc_inq_vardimid(file, variable, dimensions));
  for (int i = 0; i < rank; ++i) check(nc_inq_dimlen(file, dimensions[i], &shape[i]));
  check(nc_inq_vartype(file, variable, &type));
  check(nc_inq_type(file, type, NULL, &element));
  check(nc_inq_var_chunking(file, variable, &storage, chunk));
  const size_t planes = storage != NC_CHUNKED || chunk[0] < 4 ? 4 : chunk[0];
  char* memory = malloc(planes * shape[1] * shape[2] * element);
  if (memory == NULL) return 1;
  for (size_t first = 0; first < shape[0]; first += planes) {
    const size_t offset[3] = {first, 0, 0};
    const size_t count[3] = {first + planes <= shape[0] ? planes : shape[0] - first, shape[1], shape[2]};
    check(nc_get_vara(file, variable, offset, count, memory));
  }
  printf("%.9f\n", now() - start);
  free(memory);
  check(nc_close(file));
  return 0;
}
