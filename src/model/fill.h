#pragma once
// Fills memory with copies of one element.

#include "base/buffer.h"

namespace codecfs {

/// Fills `target` with copies of `element`; with zeros if the element is empty or all zero bytes.
void repeat_element(Bytes element, MutableBytes target);

}  // namespace codecfs
