// astype: numcodecs "astype". Stores the elements as another dtype.
//
//   {"id": "astype", "encode_dtype": "<f4", "decode_dtype": "<f8"}

#include "filters/codecs/cast.h"
#include "filters/core/encoded_type.h"

namespace codecfs::filters::codecs::astype {

Filter make_filter() {
  return {
      .name = "astype",
      .codec = "astype",
      .make_coder = [](const StageContext& context) -> Result<Coder> {
        CODECFS_ASSIGN(const ElementTypes types,
                       read_element_types(context.stage.codec, "decode_dtype", "encode_dtype"));
        CODECFS_ASSIGN(Coder coder, make_cast_coder(types));
        coder.encoded_chunk = retyped(context.chunk, types.encoded);
        return coder;
      },
  };
}

}  // namespace codecfs::filters::codecs::astype
