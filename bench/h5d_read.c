/* Reads all chunks of the variable "v" with libhdf5, in order, as many at a time as 4 MiB hold, into the same memory,
 * and prints the seconds: libhdf5 at its best, without Python. Usage: bench_h5d_read FILE */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static hid_t good(hid_t result, const char* what) {
  if (result >= 0) return result;
  fprintf(stderr, "bench_h5d_read: %s failed\n", what);
  exit(1);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: bench_h5d_read FILE\n");
    return 2;
  }
  const double start = now();
  const hid_t file = good(H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT), "H5Fopen");
  const hid_t variable = good(H5Dopen2(file, "v", H5P_DEFAULT), "H5Dopen2");
  const hid_t type = good(H5Dget_type(variable), "H5Dget_type");
  const hid_t space = good(H5Dget_space(variable), "H5Dget_space");
  const hid_t creation = good(H5Dget_create_plist(variable), "H5Dget_create_plist");
  hsize_t shape[3];
  hsize_t chunk[3];
  if (H5Sget_simple_extent_ndims(space) != 3) good(-1, "a variable of 3 dimensions");
  good(H5Sget_simple_extent_dims(space, shape, NULL), "H5Sget_simple_extent_dims");
  if (H5Pget_layout(creation) == H5D_CHUNKED) {
    good(H5Pget_chunk(creation, 3, chunk), "H5Pget_chunk");
  } else {
    chunk[0] = 1;
  }
  const size_t plane = (size_t)(shape[1] * shape[2]) * H5Tget_size(type);
  hsize_t planes = chunk[0];
  while ((planes + chunk[0]) * plane <= (size_t)4 << 20) planes += chunk[0];
  char* memory = malloc(planes * plane);
  if (memory == NULL) return 1;
  for (hsize_t first = 0; first < shape[0]; first += planes) {
    const hsize_t offset[3] = {first, 0, 0};
    const hsize_t count[3] = {first + planes <= shape[0] ? planes : shape[0] - first, shape[1], shape[2]};
    const hid_t piece = good(H5Screate_simple(3, count, NULL), "H5Screate_simple");
    good(H5Sselect_hyperslab(space, H5S_SELECT_SET, offset, NULL, count, NULL), "H5Sselect_hyperslab");
    good(H5Dread(variable, type, piece, space, H5P_DEFAULT, memory), "H5Dread");
    H5Sclose(piece);
  }
  printf("%.9f\n", now() - start);
  free(memory);
  H5Dclose(variable);
  H5Fclose(file);
  return 0;
}
