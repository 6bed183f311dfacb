#pragma once
// What metadata takes in memory, roughly, so that what is kept of it can be bounded.

#include <cstdint>

#include "model/json_value.h"
#include "model/variable.h"

namespace codecfs {

/// Bytes.
uint64_t memory_estimate(const Json& value);
uint64_t memory_estimate(const Variable& variable);

/// A cache of metadata keeps no more than this, but for the latest.
inline constexpr uint64_t kMaxHeld = uint64_t{8} << 20;

}  // namespace codecfs
