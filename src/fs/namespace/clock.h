#pragma once
// The time of day, as files have it.

#include <ctime>

namespace codecfs::fs {

inline timespec now() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return time;
}

}  // namespace codecfs::fs
