#pragma once
// Work in a process of its own, for what may go down with a damaged file: libhdf5 reads past its memory where the types
// or heaps of a file are wrong, and crashes at the end of a process in which it could not write.

#include <cstdint>
#include <functional>

#include "base/result.h"

namespace codecfs::hdf5 {

/// Runs `work` in a child process and gives its answer. Whatever it changes in memory is lost with the child. No thread
/// of this process may hold a lock meanwhile that the work needs, not even the caller: in the child nobody would ever
/// give it back. EIO: the child came to grief.
Result<> run_apart(const std::function<Result<>()>& work);

}  // namespace codecfs::hdf5
