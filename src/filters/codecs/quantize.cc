// quantize: numcodecs "quantize". Floats rounded to a number of decimal digits; that is not undone, only the dtype.
//
//   {"id": "quantize", "digits": 3, "dtype": "<f8", "astype": "<f4"}

#include "filters/codecs/cast.h"

namespace codecfs::filters::codecs {

Filter quantize() {
  return {
      .name = "quantize",
      .codec = "quantize",
      .make_decoder = [](const StageContext& context) -> Result<Decoder> {
        CODECFS_ASSIGN(const ElementTypes types, read_element_types(context.stage.codec));
        return make_cast_decoder(types);
      },
  };
}

}  // namespace codecfs::filters::codecs
