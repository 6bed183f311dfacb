#pragma once
// Makes a thread nice while only readers of the mount compete with it for cores. Other programs would starve a nice
// thread, and with it a reader that waits for its chunk: so it is measured how long its work takes. Of one thread.

#include <chrono>

#include "base/meters.h"

namespace codecfs::fs {

class Niceness {
 public:
  /// Makes the present thread nice: by 10, or by 3 if it may not return (ordinary users).
  explicit Niceness(Meters meters = Meters::real());
  ~Niceness() = default;
  Niceness(const Niceness&) = delete;
  Niceness& operator=(const Niceness&) = delete;

  /// Around each piece of work.
  void begin();
  void end();

 private:
  void set(int nice);

  const Meters meters_;
  const int own_;    // nice value of the thread before
  bool may_return_;  // to that value
  int nice_;         // now
  // Of Meters: at begin(), of the latest pieces of work, and when the thread is nice again.
  std::chrono::nanoseconds begun_{0};
  std::chrono::nanoseconds processor_{0};
  std::chrono::nanoseconds taken_{0};
  std::chrono::nanoseconds used_{0};
  std::chrono::nanoseconds nice_from_{0};
};

}  // namespace codecfs::fs
