#include "remote/parallel_requests.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/interruption.h"

namespace codecfs::remote {

void run_in_parallel(size_t count, size_t at_once, const std::function<void(size_t number)>& work) {
  std::atomic<size_t> next = 0;
  const auto serve = [&, check = Interruption::current()] {
    const Interruption::Scope scope(check);
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> threads;
  try {
    for (size_t i = 1; i < std::min(at_once, count); ++i) threads.emplace_back(serve);
  } catch (const std::system_error&) {
    // Those that there are do it.
  } catch (const std::bad_alloc&) {
  }
  serve();
}

}  // namespace codecfs::remote
