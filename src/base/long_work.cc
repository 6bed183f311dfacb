#include "base/long_work.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/log.h"

namespace codecfs {
namespace {

std::atomic<int> terminal = -1;  // -1: none

void print(std::string_view text) {
  // A terminal that is gone does not matter to the work.
  [[maybe_unused]] const ssize_t count = ::write(terminal, text.data(), text.size());
}

}  // namespace

thread_local LongWork* LongWork::current_ = nullptr;

LongWork::LongWork(std::string what, const Pace& pace)
    : what_(std::move(what)),
      pace_(terminal >= 0 ? pace.terminal : pace.log),
      outer_(std::exchange(current_, this)),
      next_((Clock::now() + pace_).time_since_epoch().count()) {}

LongWork::~LongWork() {
  current_ = outer_;
  // A child process may have written the line (libhdf5 works in one), so it goes even where we wrote none.
  if (terminal >= 0)
    print("\r\x1b[K");
  else if (told_)
    log::info("{}: ended", what_);
}

void LongWork::at(uint64_t done, uint64_t total) {
  const Clock::rep now = Clock::now().time_since_epoch().count();
  Clock::rep next = next_.load(std::memory_order_relaxed);
  if (now < next || !next_.compare_exchange_strong(next, now + pace_.count())) return;
  tell(done, total);
}

void LongWork::tell(uint64_t done, uint64_t total) {
  told_ = true;
  const std::string how_far =
      total == 0 ? std::string("begun")
                 : fmt::format("{} %", static_cast<uint64_t>(100.0 * std::min(1.0, double(done) / double(total))));
  if (terminal < 0)
    log::info("{}: {}", what_, how_far);
  else
    print(fmt::format("\r\x1b[K{}: {}", what_, how_far));
}

void LongWork::add_to_current(uint64_t more) {
  if (current_ != nullptr) current_->add(more);
}

void LongWork::show_on_terminal(int fd) { terminal = fd; }

}  // namespace codecfs
