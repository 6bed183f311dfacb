#pragma once
// What a variable is and how much of it is stored, for code that lists many variables.

#include <cstdint>
#include <optional>

#include "backends/api/object.h"
#include "base/result.h"
#include "model/variable.h"

namespace codecfs {

class Source;

struct VariableSummary {
  /// Variables with more chunks are left to the caller: it can count them in steps, and stop.
  static constexpr uint64_t kMaxChunks = 64;

  VariablePtr facts;           // as Source::facts(); null if there is an `error`
  std::optional<Error> error;  // why the facts cannot be read, or the chunks be looked up
  bool is_counted = false;     // what follows is set
  uint64_t stored_chunks = 0;
  uint64_t stored_bytes = 0;   // the sum of ChunkInfo::stored_size
  uint64_t masked_chunks = 0;  // those with a ChunkInfo::filter_mask
};

VariableSummary summarize(Source& source, ObjectId variable);

}  // namespace codecfs
