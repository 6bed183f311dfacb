#pragma once
// What only the administrator of the machine may tune, done where we may.

#include <string>

namespace codecfs::fs {

/// The kernel reads ahead in requests of 128 KiB by default; root can let it use larger ones. Finds the mount in
/// /proc/self/mountinfo (a stat of our own mount would wait for ourselves) and raises its read_ahead_kb. Call after the
/// INIT request was answered; does nothing, quietly, where it is not allowed.
void raise_readahead(const std::string& mountpoint, unsigned bytes);

}  // namespace codecfs::fs
