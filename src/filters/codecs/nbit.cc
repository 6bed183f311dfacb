// n-bit: HDF5 filter 5. Its parameters are a program over the datatype; only libhdf5 has it.

#include "filters/filter.h"

namespace codecfs::filters::codecs {

Filter nbit() { return {.id = 5, .name = "nbit", .aliases = {"n-bit"}, .in_libhdf5 = true}; }

}  // namespace codecfs::filters::codecs
