/* Makes the HDF5 files that h5py cannot make, with plain libhdf5.
 *
 * Usage: make_hdf5_c DIRECTORY
 *
 * Each file is a case of its own, named c_WHAT.h5. All are small, and the same bytes at every run. */
#include <hdf5.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(call)                                                     \
  do {                                                                  \
    if ((call) < 0) {                                                   \
      fprintf(stderr, "%s:%d: %s failed\n", __FILE__, __LINE__, #call); \
      exit(1);                                                          \
    }                                                                   \
  } while (0)

static hid_t create(const char* name, int latest) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  if (latest) CHECK(H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST));
  hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access);
  CHECK(file);
  H5Pclose(access);
  return file;
}

static hid_t dataset(hid_t file, const char* name, hid_t type, int rank, const hsize_t* dims, const hsize_t* most,
                     hid_t properties) {
  hid_t space = rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(rank, dims, most);
  hid_t made = H5Dcreate2(file, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  CHECK(made);
  H5Sclose(space);
  return made;
}

/* Writes 0, 1, 2, ... times a step, converted to the dataset's type. */
static void write_numbers(hid_t data, double step) {
  hid_t space = H5Dget_space(data);
  hssize_t count = H5Sget_simple_extent_npoints(space);
  double* values = malloc(sizeof *values * (size_t)count);
  for (hssize_t i = 0; i < count; ++i) values[i] = (double)(i % 1000) * step;
  CHECK(H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
  free(values);
  H5Sclose(space);
}

/* Chunks over the edge stored without their filters, with every index that can have such chunks. */
static void partial_chunks_unfiltered(void) {
  hid_t file = create("c_partial_chunks_unfiltered.h5", 1);
  const hsize_t dims[2] = {25, 33}, chunk[2] = {10, 10};
  const hsize_t one[2] = {H5S_UNLIMITED, 33}, both[2] = {H5S_UNLIMITED, H5S_UNLIMITED};
  const struct {
    const char* name;
    const hsize_t* most;
  } cases[] = {{"fixed_array", dims}, {"extensible_array", one}, {"btree2", both}};
  for (int i = 0; i < 3; ++i) {
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    CHECK(H5Pset_chunk(properties, 2, chunk));
    CHECK(H5Pset_chunk_opts(properties, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS));
    CHECK(H5Pset_shuffle(properties));
    CHECK(H5Pset_deflate(properties, 6));
    hid_t data = dataset(file, cases[i].name, H5T_STD_I32LE, 2, dims, cases[i].most, properties);
    write_numbers(data, 1);
    H5Dclose(data);
    H5Pclose(properties);
  }
  H5Fclose(file);
}

/* Space for all chunks allocated at creation, no filter: no index at all, chunks lie one behind the other. */
static void implicit_index(void) {
  hid_t file = create("c_implicit_index.h5", 1);
  const hsize_t dims[2] = {25, 33}, chunk[2] = {10, 10};
  hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  CHECK(H5Pset_chunk(properties, 2, chunk));
  CHECK(H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY));
  hid_t data = dataset(file, "v", H5T_STD_I16BE, 2, dims, NULL, properties);
  write_numbers(data, 1);
  H5Dclose(data);
  H5Pclose(properties);
  H5Fclose(file);
}

/* Integers of fewer bits than their bytes hold: plain, in the middle of the word, packed by n-bit. */
static void narrow_integers(void) {
  hid_t file = create("c_narrow_integers.h5", 0);
  const hsize_t dims[2] = {7, 9}, chunk[2] = {4, 4};
  const struct {
    const char* name;
    hid_t base;
    size_t precision, offset;
    int layout; /* 0 contiguous, 1 chunked, 2 n-bit, 3 n-bit and deflate */
    double step;
  } cases[] = {{"u12_of_16", H5T_STD_U16LE, 12, 0, 0, 1},
               {"i12_of_16_at_3", H5T_STD_I16LE, 12, 3, 1, -1},
               {"i20_of_32_be_nbit", H5T_STD_I32BE, 20, 5, 2, -3},
               {"u5_of_8_nbit", H5T_STD_U8LE, 5, 0, 3, 0.03}};
  for (int i = 0; i < 4; ++i) {
    hid_t type = H5Tcopy(cases[i].base);
    CHECK(H5Tset_precision(type, cases[i].precision));
    CHECK(H5Tset_offset(type, cases[i].offset));
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    if (cases[i].layout > 0) CHECK(H5Pset_chunk(properties, 2, chunk));
    if (cases[i].layout > 1) CHECK(H5Pset_nbit(properties));
    if (cases[i].layout > 2) CHECK(H5Pset_deflate(properties, 4));
    hid_t data = dataset(file, cases[i].name, type, 2, dims, NULL, properties);
    write_numbers(data, cases[i].step);
    H5Dclose(data);
    H5Pclose(properties);
    H5Tclose(type);
  }
  H5Fclose(file);
}

static void scale_offset(void) {
  hid_t file = create("c_scale_offset.h5", 0);
  const hsize_t dims[2] = {20, 15}, chunk[2] = {8, 8};
  const struct {
    const char* name;
    hid_t type;
    H5Z_SO_scale_type_t scale;
    int factor;
    double step;
  } cases[] = {{"ints", H5T_STD_I32LE, H5Z_SO_INT, H5Z_SO_INT_MINBITS_DEFAULT, 3},
               {"unsigned_be", H5T_STD_U16BE, H5Z_SO_INT, H5Z_SO_INT_MINBITS_DEFAULT, 1},
               {"floats", H5T_IEEE_F32LE, H5Z_SO_FLOAT_DSCALE, 2, 0.25},
               {"doubles", H5T_IEEE_F64BE, H5Z_SO_FLOAT_DSCALE, 3, 0.125}};
  for (int i = 0; i < 4; ++i) {
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    CHECK(H5Pset_chunk(properties, 2, chunk));
    CHECK(H5Pset_scaleoffset(properties, cases[i].scale, cases[i].factor));
    hid_t data = dataset(file, cases[i].name, cases[i].type, 2, dims, NULL, properties);
    write_numbers(data, cases[i].step);
    H5Dclose(data);
    H5Pclose(properties);
  }
  H5Fclose(file);
}

static void bitfields_and_opaque(void) {
  hid_t file = create("c_bitfields_and_opaque.h5", 0);
  const hsize_t dims[1] = {10};
  const uint32_t values[10] = {1, 0x80000000u, 3, 0xdeadbeefu, 5, 6, 7, 8, 9, 10};
  const struct {
    const char* name;
    hid_t type;
  } cases[] = {{"b8", H5T_STD_B8LE}, {"b16be", H5T_STD_B16BE}, {"b32", H5T_STD_B32LE}, {"b64be", H5T_STD_B64BE}};
  for (int i = 0; i < 4; ++i) {
    hid_t data = dataset(file, cases[i].name, cases[i].type, 1, dims, NULL, H5P_DEFAULT);
    CHECK(H5Dwrite(data, H5T_NATIVE_B32, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    hid_t space = H5Dget_space(data);
    hid_t attribute = H5Acreate2(data, "bits", cases[i].type, space, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(H5Awrite(attribute, H5T_NATIVE_B32, values));
    H5Aclose(attribute);
    H5Sclose(space);
    H5Dclose(data);
  }
  hid_t type = H5Tcreate(H5T_OPAQUE, 5);
  CHECK(H5Tset_tag(type, "five bytes"));
  hid_t data = dataset(file, "opaque", type, 1, dims, NULL, H5P_DEFAULT);
  char bytes[50];
  for (int i = 0; i < 50; ++i) bytes[i] = (char)(i * 5);
  CHECK(H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes));
  H5Dclose(data);
  H5Tclose(type);
  H5Fclose(file);
}

/* A C struct with the gaps that the compiler leaves, one in a nested struct, members out of order. */
static void compound_with_padding(void) {
  typedef struct {
    int8_t flag;
    int32_t values[3];
  } inner_t;
  typedef struct {
    int8_t a;
    double b;
    int16_t c;
    inner_t d;
    int8_t e;
  } outer_t;
  hid_t file = create("c_compound_with_padding.h5", 0);
  const hsize_t three[1] = {3}, dims[1] = {7}, chunk[1] = {3};
  hid_t array = H5Tarray_create2(H5T_NATIVE_INT32, 1, three);
  hid_t inner = H5Tcreate(H5T_COMPOUND, sizeof(inner_t));
  CHECK(H5Tinsert(inner, "flag", offsetof(inner_t, flag), H5T_NATIVE_INT8));
  CHECK(H5Tinsert(inner, "values", offsetof(inner_t, values), array));
  hid_t outer = H5Tcreate(H5T_COMPOUND, sizeof(outer_t));
  CHECK(H5Tinsert(outer, "d", offsetof(outer_t, d), inner));
  CHECK(H5Tinsert(outer, "a", offsetof(outer_t, a), H5T_NATIVE_INT8));
  CHECK(H5Tinsert(outer, "c", offsetof(outer_t, c), H5T_NATIVE_INT16));
  CHECK(H5Tinsert(outer, "b", offsetof(outer_t, b), H5T_NATIVE_DOUBLE));
  CHECK(H5Tinsert(outer, "e", offsetof(outer_t, e), H5T_NATIVE_INT8));
  outer_t values[7];
  memset(values, 0, sizeof values);
  for (int i = 0; i < 7; ++i) {
    values[i].a = (int8_t)i;
    values[i].b = i * 0.5;
    values[i].c = (int16_t)(-i);
    values[i].d.flag = 1;
    for (int k = 0; k < 3; ++k) values[i].d.values[k] = 10 * i + k;
    values[i].e = (int8_t)(100 + i);
  }
  hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  hid_t data = dataset(file, "contiguous", outer, 1, dims, NULL, properties);
  CHECK(H5Dwrite(data, outer, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
  H5Dclose(data);
  CHECK(H5Pset_chunk(properties, 1, chunk));
  CHECK(H5Pset_shuffle(properties));
  CHECK(H5Pset_deflate(properties, 6));
  data = dataset(file, "chunked", outer, 1, dims, NULL, properties);
  CHECK(H5Dwrite(data, outer, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
  H5Dclose(data);
  H5Pclose(properties);
  H5Tclose(outer);
  H5Tclose(inner);
  H5Tclose(array);
  H5Fclose(file);
}

/* Strings padded with spaces (Fortran), with NULs, and ended by one. */
static void string_paddings(void) {
  hid_t file = create("c_string_paddings.h5", 0);
  const hsize_t dims[1] = {3};
  const H5T_str_t paddings[] = {H5T_STR_NULLTERM, H5T_STR_NULLPAD};
  const char* names[] = {"null_terminated", "null_padded"};
  for (int i = 0; i < 2; ++i) {
    hid_t type = H5Tcopy(H5T_C_S1);
    CHECK(H5Tset_size(type, 6));
    CHECK(H5Tset_strpad(type, paddings[i]));
    hid_t data = dataset(file, names[i], type, 1, dims, NULL, H5P_DEFAULT);
    CHECK(H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, "one\0\0\0two\0\0\0three"));
    hid_t space = H5Screate_simple(1, dims, NULL);
    hid_t attribute = H5Acreate2(data, "texts", type, space, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(H5Awrite(attribute, type, "one\0\0\0two\0\0\0three"));
    H5Aclose(attribute);
    H5Sclose(space);
    H5Dclose(data);
    H5Tclose(type);
  }
  H5Fclose(file);
}

/* What is in a chunk or piece that was never written: fill values set, default and undefined; allocation early and
 * late. */
static void fill_and_allocation(void) {
  hid_t file = create("c_fill_and_allocation.h5", 0);
  const hsize_t dims[2] = {10, 12}, chunk[2] = {4, 5}, start[2] = {4, 0}, count[2] = {4, 5};
  const int fill = -7;
  const struct {
    const char* name;
    int chunked, early, set;
  } cases[] = {{"contiguous_never_written", 0, 0, 1}, {"contiguous_early", 0, 1, 1},
               {"chunked_never_written", 1, 0, 1},    {"chunked_early", 1, 1, 1},
               {"chunked_default", 1, 0, 0},          {"chunked_one_written", 2, 0, 1}};
  for (int i = 0; i < 6; ++i) {
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    if (cases[i].chunked) CHECK(H5Pset_chunk(properties, 2, chunk));
    if (cases[i].early) CHECK(H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY));
    if (cases[i].set) CHECK(H5Pset_fill_value(properties, H5T_NATIVE_INT, &fill));
    hid_t data = dataset(file, cases[i].name, H5T_STD_I16LE, 2, dims, NULL, properties);
    if (cases[i].chunked == 2) {
      int values[20];
      for (int k = 0; k < 20; ++k) values[k] = k;
      hid_t space = H5Dget_space(data), memory = H5Screate_simple(2, count, NULL);
      CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
      CHECK(H5Dwrite(data, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values));
      H5Sclose(space);
      H5Sclose(memory);
    }
    H5Dclose(data);
    H5Pclose(properties);
  }
  H5Fclose(file);
}

static hid_t lead_nowhere(const char* name, hid_t group, const void* value, size_t size, hid_t access, hid_t transfer) {
  (void)name, (void)group, (void)value, (void)size, (void)access, (void)transfer;
  return -1;
}

/* Links of every kind: one that dangles, one that closes a cycle, one to the root, one of a kind of its own. */
static void odd_links(void) {
  hid_t file = create("c_odd_links.h5", 0);
  const hsize_t dims[1] = {4};
  hid_t group = H5Gcreate2(file, "a", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  hid_t below = H5Gcreate2(group, "b", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  hid_t data = dataset(below, "data", H5T_STD_I32LE, 1, dims, NULL, H5P_DEFAULT);
  write_numbers(data, 1);
  CHECK(H5Lcreate_hard(file, "/", below, "to_the_root", H5P_DEFAULT, H5P_DEFAULT));
  CHECK(H5Lcreate_hard(file, "/a", below, "to_its_parent", H5P_DEFAULT, H5P_DEFAULT));
  CHECK(H5Lcreate_hard(below, "data", file, "data_again", H5P_DEFAULT, H5P_DEFAULT));
  CHECK(H5Lcreate_soft("/a/b/./data", group, "absolute", H5P_DEFAULT, H5P_DEFAULT));
  CHECK(H5Lcreate_soft("b/data", group, "relative", H5P_DEFAULT, H5P_DEFAULT));
  CHECK(H5Lcreate_soft("/nothing/here", group, "dangling", H5P_DEFAULT, H5P_DEFAULT));
  CHECK(H5Lcreate_soft("/", below, "soft_root", H5P_DEFAULT, H5P_DEFAULT));
  CHECK(H5Lcreate_external("c_implicit_index.h5", "/v", file, "elsewhere", H5P_DEFAULT, H5P_DEFAULT));
  CHECK(H5Lcreate_external("c_odd_links.h5", "/a/b/data", file, "external_but_here", H5P_DEFAULT, H5P_DEFAULT));
  CHECK(H5Lcreate_soft("/a/circle2", group, "circle1", H5P_DEFAULT, H5P_DEFAULT));
  CHECK(H5Lcreate_soft("circle1", group, "circle2", H5P_DEFAULT, H5P_DEFAULT));
  const H5L_class_t own = {
      .version = H5L_LINK_CLASS_T_VERS, .id = (H5L_type_t)187, .comment = "own", .trav_func = lead_nowhere};
  CHECK(H5Lregister(&own));
  CHECK(H5Lcreate_ud(file, "user_defined", own.id, "text", 5, H5P_DEFAULT, H5P_DEFAULT));
  CHECK(H5Lcreate_soft("/user_defined", group, "to_user_defined", H5P_DEFAULT, H5P_DEFAULT));
  H5Dclose(data);
  H5Gclose(below);
  H5Gclose(group);
  H5Fclose(file);
}

/* Attributes in dense storage, in creation order; a group of the old format with many members. */
static void many_members(void) {
  hid_t file = create("c_many_members.h5", 0);
  const hsize_t dims[1] = {1};
  char name[32];
  for (int i = 0; i < 300; ++i) {
    snprintf(name, sizeof name, "v%03d", (i * 7) % 300);
    hid_t data = dataset(file, name, H5T_STD_I32LE, 1, dims, NULL, H5P_DEFAULT);
    write_numbers(data, 1);
    H5Dclose(data);
  }
  H5Fclose(file);

  file = create("c_creation_order.h5", 1);
  hid_t ordered = H5Pcreate(H5P_GROUP_CREATE);
  CHECK(H5Pset_link_creation_order(ordered, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED));
  CHECK(H5Pset_attr_creation_order(ordered, H5P_CRT_ORDER_TRACKED));
  hid_t group = H5Gcreate2(file, "ordered", H5P_DEFAULT, ordered, H5P_DEFAULT);
  hid_t space = H5Screate(H5S_SCALAR);
  for (int i = 0; i < 30; ++i) {
    snprintf(name, sizeof name, "m%02d", (i * 7) % 30);
    hid_t data = dataset(group, name, H5T_STD_I32LE, 1, dims, NULL, H5P_DEFAULT);
    write_numbers(data, 1);
    H5Dclose(data);
    hid_t attribute = H5Acreate2(group, name, H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(H5Awrite(attribute, H5T_NATIVE_INT, &i));
    H5Aclose(attribute);
  }
  H5Sclose(space);
  H5Pclose(ordered);
  H5Gclose(group);
  H5Fclose(file);
}

/* Contiguous data behind a user block, and a chunked array of every rank from 1 to 5. */
static void user_block_and_ranks(void) {
  hid_t creation = H5Pcreate(H5P_FILE_CREATE);
  CHECK(H5Pset_userblock(creation, 2048));
  hid_t file = H5Fcreate("c_user_block_and_ranks.h5", H5F_ACC_TRUNC, creation, H5P_DEFAULT);
  CHECK(file);
  H5Pclose(creation);
  const hsize_t dims[5] = {5, 3, 4, 2, 3}, chunk[5] = {2, 2, 3, 2, 2};
  for (int rank = 1; rank <= 5; ++rank) {
    char name[32];
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    snprintf(name, sizeof name, "contiguous%d", rank);
    hid_t data = dataset(file, name, H5T_IEEE_F64BE, rank, dims, NULL, properties);
    write_numbers(data, 0.5);
    H5Dclose(data);
    CHECK(H5Pset_chunk(properties, rank, chunk));
    CHECK(H5Pset_deflate(properties, 1));
    CHECK(H5Pset_fletcher32(properties));
    snprintf(name, sizeof name, "chunked%d", rank);
    data = dataset(file, name, H5T_IEEE_F32LE, rank, dims, NULL, properties);
    write_numbers(data, 0.25);
    H5Dclose(data);
    H5Pclose(properties);
  }
  H5Fclose(file);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  if (chdir(argv[1]) != 0) {
    perror(argv[1]);
    return 1;
  }
  partial_chunks_unfiltered();
  implicit_index();
  narrow_integers();
  scale_offset();
  bitfields_and_opaque();
  compound_with_padding();
  string_paddings();
  fill_and_allocation();
  odd_links();
  many_members();
  user_block_and_ranks();
  return 0;
}
