#pragma once
// Estimates the memory of metadata, so that caches of it can be bounded.

#include <cstdint>

#include "model/json_value.h"
#include "model/variable.h"

namespace codecfs {

/// Estimated bytes.
uint64_t memory_estimate(const Json& value);
uint64_t memory_estimate(const Variable& variable);

/// Bound of a cache of metadata, in bytes; the latest entry may exceed it.
inline constexpr uint64_t kMaxHeld = uint64_t{8} << 20;

}  // namespace codecfs
