#pragma once
// The ranks of locks, from those that are taken first to those that are taken last.

#include <cstdint>

namespace codecfs {

#define SECTION(title)
#define RANK(name, lock, guards, held) name,
enum class LockRank : uint8_t {
#include "base/lock_ranks.inc"
};
#undef RANK
#undef SECTION

}  // namespace codecfs
