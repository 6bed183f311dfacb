// quantize: numcodecs "quantize". Floats rounded to a number of decimal digits; that is not undone, only the dtype.
//
//   {"id": "quantize", "digits": 3, "dtype": "<f8", "astype": "<f4"}

#include "filters/codecs/cast.h"

namespace codecfs::filters::codecs {

Filter quantize() {
  return {
      .name = "quantize",
      .codec = "quantize",
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        CODECFS_ASSIGN(const ElementTypes types, read_element_types(context.stage.codec));
        return make_cast_coder(types);
      },
  };
}

}  // namespace codecfs::filters::codecs
