#pragma once
// The processor time of this process: a bound on it does not depend on what else the machine does.

#include <time.h>

namespace codecfs {

inline double cpu_seconds() {
  struct timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace codecfs
