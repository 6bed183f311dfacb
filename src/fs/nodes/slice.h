#pragma once
#include <memory>

#include "base/buffer.h"

namespace codecfs::fs {

/// Bytes for a reader, and what keeps them alive.
struct Slice {
  Bytes bytes;
  std::shared_ptr<const void> owner;
};

}  // namespace codecfs::fs
