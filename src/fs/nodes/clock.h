#pragma once
// The current time for file timestamps.

#include <ctime>

namespace codecfs::fs {

inline timespec now() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return time;
}

}  // namespace codecfs::fs
