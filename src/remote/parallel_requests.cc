#include "remote/parallel_requests.h"

#include <algorithm>
#include <atomic>

#include "base/interruption.h"
#include "base/threads.h"

namespace codecfs::remote {

void run_in_parallel(size_t count, size_t at_once, const std::function<void(size_t number)>& work) {
  std::atomic<size_t> next = 0;
  const auto serve = [&, check = Interruption::current()] {
    const Interruption::Scope scope(check);
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  run_in_threads(std::min(at_once, count), serve);
}

}  // namespace codecfs::remote
