// scale-offset: HDF5 filter 6. Only libhdf5 has it. Not numcodecs' fixedscaleoffset.

#include "filters/filter.h"

namespace codecfs::filters::codecs {

Filter scaleoffset() { return {.id = 6, .name = "scaleoffset", .aliases = {"scale-offset"}, .in_libhdf5 = true}; }

}  // namespace codecfs::filters::codecs
