#pragma once
// Memory full of one element.

#include "base/buffer.h"

namespace codecfs {

/// Repeats `element` all over `target`; zeros where the element is empty or all zero bytes.
void repeat_element(Bytes element, MutableBytes target);

}  // namespace codecfs
