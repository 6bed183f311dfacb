#include "mount/wait_notice.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/interruptible_sleep.h"
#include "base/terminal_text.h"

namespace codecfs::mount {

void WaitNotice::print(const std::string& text) {
  // A ProgressLine may be on the present line of the terminal.
  std::fprintf(stderr, "%scodecfs: %s\n", isatty(STDERR_FILENO) != 0 ? "\r\x1b[K" : "", printable(text).c_str());
}

WaitNotice::WaitNotice(std::string text, std::chrono::seconds after)
    : thread_([text = std::move(text), after](const std::stop_token& stop) {
        if (sleep_unless_stopped(stop, after)) print(text);
      }) {}

}  // namespace codecfs::mount
