#pragma once
// How much memory that the system cannot reclaim a mount may hold.

#include <cstdint>
#include <string>

#include "base/result.h"

namespace codecfs::fs {

/// At least this much, in bytes, or none.
inline constexpr uint64_t kLeastBudget = uint64_t{64} << 20;

/// Bytes: an eighth of the machine's memory, but not more than a quarter of what the process's memory cgroups (v1 or
/// v2) have left, and at least kLeastBudget. ENOMEM if that would be more than a quarter of the machine's memory or
/// half of what is left. `root`: the directory that has proc and sys, for tests.
Result<uint64_t> memory_budget(const std::string& root = "");

/// Bytes that programs can still get: of the machine, or of the process's memory cgroups if that is less.
uint64_t available_memory(const std::string& root = "");

/// The directory of the process's cgroup of version 2, "" if there is none.
std::string cgroup_directory(const std::string& root = "");

}  // namespace codecfs::fs
