// bitround: numcodecs "bitround". Floats with the low bits of the mantissa rounded off; there is nothing to undo.
//
//   {"id": "bitround", "keepbits": 10}

#include "filters/filter.h"

namespace codecfs::filters::codecs {

Filter bitround() {
  return {
      .name = "bitround",
      .codec = "bitround",
      .make_coder = [](const StageContext&) -> Result<Coder> {
        return Coder{.decode = [](Buffer in, const SizeBound&) -> Result<Buffer> { return in; }, .encoded = {}};
      },
  };
}

}  // namespace codecfs::filters::codecs
