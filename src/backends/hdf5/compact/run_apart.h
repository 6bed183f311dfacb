#pragma once
// Runs work in a child process, because libhdf5 may crash on a damaged file: it reads out of bounds if the types or
// heaps of a file are invalid, and crashes at exit if it could not write a file.

#include <cstdint>
#include <functional>

#include "base/result.h"

namespace codecfs::hdf5 {

/// Runs `work` in a child process and returns its result. Its changes of memory are lost with the child. No thread of
/// this process, including the caller, may hold a lock that the work needs: no thread of the child would release it.
/// EIO: the child crashed or was killed. ECANCELED: `cancelled`, which is called repeatedly, returned true, and the
/// child was killed.
Result<> run_apart(const std::function<Result<>()>& work, const std::function<bool()>& cancelled = {});

}  // namespace codecfs::hdf5
