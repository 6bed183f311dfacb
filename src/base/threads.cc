#include "base/threads.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "base/fail_points.h"
#include "base/log.h"

namespace codecfs {

Result<std::jthread> start_thread(std::function<void(const std::stop_token&)> run) try {
  if (FailPoints::fails(FailPoint::thread)) throw std::system_error(EAGAIN, std::generic_category());
  return std::jthread([run = std::move(run)](const std::stop_token& stop) {
    try {
      run(stop);
    } catch (const std::exception& exception) {
      log::error("internal error: a thread has ended: {}", exception.what());
    }
  });
} catch (const std::system_error& error) {
  return fail(EAGAIN,
              "cannot create a thread ({}): the limit of processes (ulimit -u) or of the control group (pids.max) is "
              "reached",
              error.code().message());
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "no memory for a thread");
}

size_t core_count() { return std::max(1U, std::thread::hardware_concurrency()); }

}  // namespace codecfs
