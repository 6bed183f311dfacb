#pragma once
// Converts elements from one dtype to another, as numpy's astype does.

#include "filters/codecs/element_types.h"
#include "filters/codecs/number_types.h"
#include "filters/core/filter.h"

namespace codecfs::filters::codecs {

/// EINVAL if a type is not numeric.
Result<Coder> make_cast_coder(const ElementTypes& types);

}  // namespace codecfs::filters::codecs
