#pragma once
// A chunk of a variable, with everything that is needed to process it.

#include <cstdint>

#include "fs/nodes/chunk_key.h"
#include "fs/nodes/dataset.h"

namespace codecfs::fs {

struct ChunkPlace {
  ChunkKey key = 0;  // its inode number
  ObjectId object = 0;
  uint64_t number = 0;
  VariableViewPtr variable;
};

}  // namespace codecfs::fs
