/* An HDF5 filter whose set_local changes its parameters, as those of SZ3 or FCIDECOMP do: it puts the size of an
 * element in front. It refuses parameters of a length that it has made itself twice. Filter 32904 flips the bits of
 * each byte that its last parameter has. */
#include <H5PLextern.h>
#include <string.h>

enum { ID = 32904, MOST = 3 };

static herr_t set_local(hid_t properties, hid_t type, hid_t space) {
  unsigned flags = 0;
  unsigned values[MOST + 1];
  size_t count = MOST;
  (void)space;
  if (H5Pget_filter_by_id2(properties, ID, &flags, &count, values + 1, 0, NULL, NULL) < 0 || count >= MOST) return -1;
  values[0] = (unsigned)H5Tget_size(type);
  return H5Pmodify_filter(properties, ID, flags, count + 1, values);
}

static size_t flip(unsigned flags, size_t count, const unsigned values[], size_t size, size_t* room, void** buffer) {
  unsigned char* bytes = *buffer;
  (void)flags;
  (void)room;
  if (count < 2) return 0;
  for (size_t i = 0; i < size; ++i) bytes[i] ^= (unsigned char)values[count - 1];
  return size;
}

static const H5Z_class2_t completing_class = {H5Z_CLASS_T_VERS, ID, 1, 1, "completing", NULL, set_local, flip};
H5PL_type_t H5PLget_plugin_type(void) { return H5PL_TYPE_FILTER; }
const void* H5PLget_plugin_info(void) { return &completing_class; }
